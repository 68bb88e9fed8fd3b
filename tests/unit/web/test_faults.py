"""Contract 01 section 9: what a failure looks like to the client and in the log."""

import logging
from typing import Any

import pytest
import webob
from sqlalchemy import exc

from placement import errors
from placement.web import faults, routes
from placement.web.request import Request
from tests.support.service import Service, running

VERSION = "1.23"


@pytest.fixture
def service() -> Any:
    with running() as made:
        yield made


def answer(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: Exception, **more: Any
) -> webob.Response:
    """Return the answer to a request whose handler raises."""

    def fail(_request: Request) -> Any:
        raise error

    monkeypatch.setitem(routes.ROUTES["/traits"], "GET", routes.shows(fail, "traits:list"))
    return service.request("GET", "/traits", version=VERSION, **more)


def test_unexpected_error_is_500_logged_and_without_version(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "placement.fault_wrap"):
        response = answer(service, monkeypatch, ValueError("pony"))
    [error] = response.json["errors"]
    assert response.status == "500 Internal Server Error"
    assert error["title"] == "Internal Server Error"
    assert error["code"] == "placement.undefined_code"
    assert error["request_id"] == response.headers["x-openstack-request-id"]
    assert "Traceback" not in response.text
    assert "openstack-api-version" not in response.headers
    [record] = caplog.records
    assert record.getMessage() == "Placement API unexpected error: pony"
    assert record.exc_info


def test_sql_stays_inside(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    error = exc.IntegrityError("INSERT INTO t VALUES (?)", {"secret": 1}, Exception("near t"))
    response = answer(service, monkeypatch, error)
    assert response.status_int == 500
    assert "INSERT" not in response.text
    assert "secret" not in response.text


def test_database_away_is_503(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    response = answer(service, monkeypatch, errors.DatabaseUnavailable())
    assert response.status == "503 Service Unavailable"
    assert "Nothing was changed" in response.json["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a\nb", "a b"),
        ("a\r\nb", "a b"),
        ("a <b>bold</b> c", "a bold c"),
        ("5 is < 6", "5 is < 6"),
        ("{braces} 'quotes' \"q\" ü/", "{braces} 'quotes' \"q\" ü/"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
    ],
)
def test_message_is_the_last_line(
    service: Service, monkeypatch: pytest.MonkeyPatch, message: str, line: str
) -> None:
    response = answer(service, monkeypatch, errors.BadRequest(detail=message))
    assert response.json["errors"][0]["detail"].split("\n")[-1].strip() == line


def test_raw_json_escapes_only_what_it_must(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = answer(service, monkeypatch, errors.BadRequest(detail='it\'s > "5" / ü'))
    assert 'it\'s > \\"5\\" / ü' in response.text
    assert response.headers["content-type"] == "application/json"


def test_html_is_escaped(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    error = errors.BadRequest(detail="a & b > <script>")
    response = answer(service, monkeypatch, error, accept="text/html, application/json")
    assert response.headers["content-type"] == "text/html; charset=UTF-8"
    assert "a &amp; b &gt; " in response.text
    assert "script" not in response.text


def test_every_declared_error_can_be_answered() -> None:
    """Each subclass has a status that HTTP knows and a code of ours."""
    todo, seen = [errors.PlacementError], 0
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        seen += 1
        assert kind.status in faults.SENTENCES or kind.status == 405, kind
        assert kind.code.startswith("placement."), kind
    assert seen > 20

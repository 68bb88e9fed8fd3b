"""Specification 01 section 9: what a failure looks like to the client and in the log."""

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any, get_type_hints

import pytest
import webob
from webob.exc import status_map

import placement
from placement import errors, routes
from placement.web.request import Request
from tests.support.service import Service, running

VERSION = "1.23"

NO_SERVICE = (
    "placement.tests", "placement.wsgi", "placement.client", "placement.db.migrations.env",
)  # fmt: skip
"""Modules that declare no errors of the service, and start something when they are imported."""


class Refused(errors.BadRequest):
    """What a handler of these tests answers."""

    text = "{detail}"
    detail: str


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
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
    response = answer(service, monkeypatch, Refused(detail=message))
    assert response.json["errors"][0]["detail"].split("\n")[-1].strip() == line


def test_raw_json_escapes_only_what_it_must(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = answer(service, monkeypatch, Refused(detail='it\'s > "5" / ü'))
    assert 'it\'s > \\"5\\" / ü' in response.text
    assert response.headers["content-type"] == "application/json"


def test_html_is_escaped(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    error = Refused(detail="a & b > <script>")
    response = answer(service, monkeypatch, error, accept="text/html, application/json")
    assert response.headers["content-type"] == "text/html; charset=UTF-8"
    assert "a &amp; b &gt; " in response.text
    assert "script" not in response.text


Declared = list[type[errors.PlacementError]]


def subclasses(kind: type[errors.PlacementError]) -> Iterator[type[errors.PlacementError]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


@pytest.fixture(scope="module")
def declared() -> Declared:
    """Every error that the service declares."""
    for module in pkgutil.walk_packages(placement.__path__, "placement."):
        if not module.name.startswith(NO_SERVICE):
            importlib.import_module(module.name)
    found = subclasses(errors.PlacementError)
    return [each for each in found if each.__module__.startswith("placement.")]


def test_every_declared_error_can_be_answered(declared: Declared) -> None:
    """Each has a status that HTTP knows, a code of ours and the fields of its text."""
    assert len(declared) > 60
    for kind in (errors.PlacementError, *declared):
        assert kind.status in status_map, kind
        assert kind.code.startswith("placement."), kind
        assert _named_in(kind.text) <= set(get_type_hints(kind)), kind


def test_field_that_the_text_needs_has_to_be_given() -> None:
    with pytest.raises(KeyError, match="detail"):
        Refused()


def _named_in(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def reasons_of_the_specification() -> dict[tuple[str, int], str]:
    """Return ``retry`` by reason and status, of the table in specification 01 section 9.6."""
    chapter = Path(__file__).parents[2] / "docs" / "specification" / "01-http-core.md"
    section = chapter.read_text().split("### 9.6 Reasons")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")] for line in section.splitlines()]
    return {
        (reason.strip(" `"), int(row[2])): row[3]
        for row in rows
        if len(row) > 3 and row[1].startswith("`")
        for reason in row[1].split(",")
    }


def test_reasons_are_those_of_the_specification(declared: Declared) -> None:
    """Each error that is raised has one, and how to retry follows from it."""
    raised = [each for each in declared if not each.__subclasses__()]

    for each in raised:
        # A field of this name would hide it.
        assert not {"reason", "retry", "code", "status"} & _named_in(each.text)
    of_rules = [
        (reason, each)
        for each in raised
        if issubclass(each, errors.Malformed)
        for reason in each.reasons.values()
    ]
    found_reasons = {
        (reason, each.status): str(each.retry)
        for reason, each in [*((each.reason, each) for each in raised), *of_rules]
    }

    assert found_reasons == reasons_of_the_specification()

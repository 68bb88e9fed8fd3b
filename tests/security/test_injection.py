"""Text from outside stays text: in SQL, in logs, in headers of answers."""

import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import webob

from tests.support import bodies
from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World

UUID = "0fa85f64-5717-4562-b3fc-2c963f66afa6"
VICTIM = "1fa85f64-5717-4562-b3fc-2c963f66afa6"
SQL = (
    "' OR '1'='1", "'; DROP TABLE allocations; --", "\\'; DROP TABLE allocations; -- ",
    '" OR ""="', "%", "_", "\\", "\\\\", "a\\", "'", "''", "`", ";", "--", "/*", "#", "%s", "%(x)s",
    ":name", ":1", "?", "$1", "{0}", "1; SELECT pg_sleep(9)", "' UNION SELECT name FROM users -- ",
    "\xbf'", "\u02bc OR 1=1", "\uff07 OR 1=1", "' AND SLEEP(9) #", "x' || (SELECT 1) || '", "\u2028",
)  # fmt: skip
LINES = '\r\nERROR forged line\r\nSet-Cookie: a=b\r\n\r\n<html>" status: 2 \x1b[0m\x85\xff'


@pytest.fixture(scope="module", params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with running(request.param) as made:
        World(made).provider("victim", key=VICTIM, inventory={"VCPU": 9})
        yield made


@pytest.mark.parametrize("text", SQL)
def test_a_name_is_stored_and_found_as_it_is(service: Service, text: str) -> None:
    """And finds itself alone, whatever it means to a database."""
    made = service.request(
        "POST", "/resource_providers", json={"uuid": UUID, "name": text}, version="1.39"
    )
    assert made.status_int == 200, made.text
    assert made.json["name"] == text
    listed = service.request("GET", f"/resource_providers?name={quote(text)}")
    assert [each["name"] for each in listed.json["resource_providers"]] == [text]
    assert service.request("DELETE", f"/resource_providers/{UUID}").status_int == 204
    assert service.request("GET", f"/resource_providers/{VICTIM}").status_int == 200


@pytest.mark.parametrize("text", SQL)
def test_owners_are_stored_and_found_as_they_are(service: Service, text: str) -> None:
    path = f"/allocations/{UUID}"
    consumer = bodies.entry({VICTIM: {"VCPU": 1}}, project_id=text, user_id=text)
    assert service.request("PUT", path, json=consumer, version="1.39").status_int == 204

    shown = service.request("GET", path, version="1.28").json
    usages = service.request("GET", f"/usages?project_id={quote(text)}", version="1.9").json

    assert (shown["project_id"], shown["user_id"]) == (text, text)
    assert usages == {"usages": {"VCPU": 1}}
    assert service.request("DELETE", path).status_int == 204


@pytest.mark.parametrize("text", SQL)
def test_no_path_or_query_is_part_of_a_statement(service: Service, text: str) -> None:
    """What names nothing is 400 or 404, and an empty list where a list is asked for."""
    word = quote(text, safe="")
    for path in (
        f"/resource_providers/{word}",
        f"/resource_providers/{word}/inventories/{word}",
        f"/resource_classes/{word}",
        f"/traits/{word}",
        f"/resource_providers?uuid={word}",
        f"/resource_providers?in_tree={word}",
        f"/resource_providers?member_of={word}",
        f"/resource_providers?required={word}",
        f"/resource_providers?resources={word}:1",
        f"/allocation_candidates?resources=VCPU:1&required={word}",
        f"/allocation_candidates?resources=VCPU:1&resources{word}={word}:1",
    ):
        answer = service.request("GET", path, version="1.39")
        assert answer.status_int in (400, 404), (path, answer.text)
    for path in (f"/allocations/{word}", f"/resource_providers/{word}", f"/traits/{word}"):
        answer = service.request("DELETE", path, version="1.39")
        assert answer.status_int == 404, (path, answer.text)
    traits = service.request("GET", f"/traits?name=startswith:{word}", version="1.39")
    assert traits.json["traits"] == []
    assert service.request("GET", f"/resource_providers/{VICTIM}").status_int == 200


def hostile_requests() -> Iterator[webob.Request]:
    """Yield requests that carry line breaks wherever a request can carry text."""
    quoted = quote(LINES, safe="")
    for path in (
        f"/{quoted}",
        f"/traits/{quoted}",
        f"/resource_providers/{quoted}/inventories/{quoted}",
        f"/resource_providers?name={quoted}&{quoted}={quoted}",
        f"/allocation_candidates?resources={quoted}:1&group_policy={quoted}",
    ):
        for method in ("GET", "PUT", "DELETE"):
            yield webob.Request.blank(path, method=method)
    for name in (
        "HTTP_ACCEPT", "HTTP_HOST", "HTTP_OPENSTACK_API_VERSION", "HTTP_USER_AGENT", "HTTP_X_ROLES",
        "HTTP_X_OPENSTACK_REQUEST_ID", "HTTP_X_FORWARDED_FOR", "HTTP_X_AUTH_TOKEN", "CONTENT_TYPE",
        "REQUEST_METHOD", "SCRIPT_NAME", "QUERY_STRING", "REMOTE_ADDR", "HTTP_ORIGIN",
        "HTTP_X_FORWARDED_PREFIX", "HTTP_X_FORWARDED_PROTO", "HTTP_FORWARDED",
    ):  # fmt: skip
        for path in ("/", "/resource_providers", "/resource_classes/CUSTOM_NEW"):
            sent = webob.Request.blank(path, method="PUT" if "NEW" in path else "GET")
            sent.environ[name] = f"x{LINES}"
            yield sent
    escaped = json.dumps(LINES)[1:-1]
    for text in (
        f'{{"name": "{quoted}"}}',
        f'{{"{quoted}": 1}}',
        f'{{"name": "a{escaped}", "uuid": "{escaped}"}}',
        f'{{"{escaped}": 1}}',
    ):
        sent = webob.Request.blank("/resource_providers", method="POST", body=text.encode())
        sent.content_type = "application/json"
        yield sent


@pytest.fixture
def plain() -> Iterator[Service]:
    with running("sqlite") as made:
        made.conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
        yield Service(made.conf, made.db)


def test_nothing_from_outside_begins_a_line_of_a_log_or_a_header(
    plain: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Log injection and response splitting, over every part of a request."""
    caplog.set_level(logging.DEBUG, logger="placement")
    for sent in hostile_requests():
        caplog.clear()
        sent.environ.setdefault("HTTP_X_AUTH_TOKEN", "admin")
        sent.environ.setdefault("HTTP_OPENSTACK_API_VERSION", "placement 1.39")
        response = sent.get_response(plain.application)

        shown = (sent.environ, response.status)
        assert response.status_int < 500, (shown, response.text)
        for name, value in response.headerlist:
            assert not {"\r", "\n", "\0"} & set(name + value), (shown, name, value)
        for record in caplog.records:
            # Another test may have left the log of SQL on.
            if not record.name.startswith("sqlalchemy"):
                said = record.getMessage()
                assert not {"\r", "\n", "\0"} & set(said), (shown, said)
            if record.name == "placement.requestlog":
                assert said.isprintable() and said.isascii() and said.count('"') == 2, (shown, said)


PREFIXES = (
    "", "//evil.example", "/\\evil.example", "https://evil.example", "evil.example", "javascript:x",
)  # fmt: skip


def test_a_location_keeps_to_the_host_that_was_asked(plain: Service) -> None:
    """A prefix that a client smuggled past a proxy makes no link to elsewhere of it."""
    for prefix in PREFIXES:
        location = plain.request(
            "PUT",
            "/resource_classes/CUSTOM_NEW",
            version="1.39",
            x_forwarded_prefix=prefix,
            host="service.example",
        ).location

        assert location is not None
        assert location.startswith("http://service.example/"), (prefix, location)

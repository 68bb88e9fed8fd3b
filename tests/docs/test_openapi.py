"""The OpenAPI document: current, complete, and kept by the running service."""

import contextlib
import itertools
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from routes import Mapper
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy import Connection

from docs._tools import api_examples, openapi
from placement.db.transport import Message
from placement.web.microversion import MAXIMUM
from tests.support import service
from tests.support.effort import LONG
from tests.support.processes import lacking, ran, require_program
from tests.support.recorder import Hook, observed
from tests.support.world import World

LINT = Path(__file__).parent
DOCUMENT = LINT.parents[1] / "docs" / "openapi.json"


def test_document_is_current() -> None:
    """What is shipped is what the routes and schemas say now."""
    run = "python -m docs._tools.openapi > docs/openapi.json"
    assert DOCUMENT.read_text() == openapi.text(), f"run: {run}"


def test_lint_finds_nothing() -> None:
    """All rules of spectral hold: no error, no warning, no hint."""
    if not (LINT / "node_modules").exists():
        lacking("the packages of tests/docs/package.json")
    require_program("node")
    spectral = [LINT / "node_modules/.bin/spectral", "lint", "--fail-severity=hint"]
    done = ran([*map(str, spectral), "--ruleset", "spectral.yaml", str(DOCUMENT)], cwd=LINT)
    assert done.returncode == 0, done.stdout + done.stderr


VERBS = "ask|confirm|create|delete|ensure|explain|get|list|make|replace|reshape|show|update"


def test_every_operation_is_named_by_a_verb_and_a_noun() -> None:
    """Generated clients have functions of these names, in one module or in several."""
    paths = json.loads(DOCUMENT.read_text())["paths"].values()
    names = [operation["operationId"] for item in paths for operation in item.values()]
    assert [name for name in names if not re.fullmatch(rf"({VERBS})_\w+", name)] == []
    assert len(set(names)) == len(names)


def test_every_body_and_route_is_described() -> None:
    """Each operation that takes a body shows its schema, and nothing is described that is not there."""
    document = openapi.document()
    taking = {
        (path, method)
        for path, methods in openapi.ALL_ROUTES.items()
        for method, actions in methods.items()
        if actions[-1].takes_json
    }
    assert set(openapi.BODIES) == taking
    described = {(path, m.upper()) for path, item in document["paths"].items() for m in item}
    routed = {
        (path, method) for path, methods in openapi.ALL_ROUTES.items() if path for method in methods
    }
    assert described == routed


def shown_in(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the example with its schema, if there is one."""
    for described in content.get("content", {}).values():
        if "example" in described:
            yield described["example"], described["schema"]


def test_every_example_is_one_of_its_operation() -> None:
    """What is sent and answered in examples keeps to the schemas beside it, and went to that route."""
    document, router = (
        json.loads(DOCUMENT.read_text()),
        Mapper(controller_scan=None, register=False),
    )
    for template in openapi.ALL_ROUTES:
        router.connect(template, template)
    router.create_regs()
    sent, answered = dict[tuple[str, str], list[Any]](), dict[tuple[str, str, str], list[Any]]()
    for exchange in itertools.chain(*api_examples.tell().exchanges.values()):
        call = exchange.call
        key = router.routematch(call.path.partition("?")[0])[1].name, call.method.lower()
        sent.setdefault(key, []).append(call.body)
        answered.setdefault((*key, str(call.status)), []).append(exchange.shown())

    seen = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            found = [
                (*each, sent.get((path, method)))
                for each in shown_in(operation.get("requestBody", {}))
            ] + [
                (*each, answered.get((path, method, status)))
                for status, answer in operation["responses"].items()
                for each in shown_in(answer)
            ]
            for example, schema, real in found:
                Draft202012Validator(schema | {"components": document["components"]}).validate(
                    example
                )
                assert example in (real or ()), (method, path, example)
                seen += 1
    assert seen > 30


@contextlib.contextmanager
def busy(place: service.Service) -> Iterator[None]:
    """No transaction that writes can begin: somebody else always has the lock."""

    def refuse(_connection: Connection, sent: Message) -> None:
        if sent.text == "BEGIN IMMEDIATE":
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    with observed(place.db, Hook(refuse)):
        yield


WRITES = (
    ("POST", "/resource_classes", {"name": "CUSTOM_A"}),
    ("PUT", "/resource_classes/CUSTOM_A", None),
    ("DELETE", "/resource_classes/CUSTOM_A", None),
    ("PUT", "/traits/CUSTOM_A", None),
    ("DELETE", "/traits/CUSTOM_A", None),
    ("POST", "/resource_providers", {"name": "a"}),
    ("DELETE", "/allocations/11111111-1111-4111-8111-111111111111", None),
)


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_write_that_keeps_losing_is_described(
    method: str, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """409 is what is left over after the last attempt, whatever is written."""
    with service.running() as place, busy(place):
        monkeypatch.setattr(place.db, "_attempts", lambda: 1)
        answer = place.request(method, path, version="1.39", json=body)

    assert answer.status_int == 409, answer.text
    template = re.sub("/CUSTOM_A$", "/{name}", re.sub("/1111.*", "/{consumer_uuid}", path))
    described = json.loads(DOCUMENT.read_text())["paths"][template][method.lower()]["responses"]
    assert "409" in described


HEADERS = {"OpenStack-API-Version": "placement latest"}
HOST = "11111111-1111-4111-8111-111111111111"


current: service.Service | None = None


def _serve(environ: dict[str, Any], start_response: Any) -> Any:
    """The document without any service, everything else from the one that is running."""
    if environ["PATH_INFO"] == "/openapi.json":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [DOCUMENT.read_bytes()]
    assert current is not None
    # Headers are generated too, and left out. These decide what the document does not describe: who
    # asks, that errors come as JSON, and what there is at another microversion.
    environ["HTTP_X_AUTH_TOKEN"] = "admin"
    environ["HTTP_ACCEPT"] = "application/json"
    environ["HTTP_OPENSTACK_API_VERSION"] = HEADERS["OpenStack-API-Version"]
    return current.application(environ, start_response)


described = schemathesis.openapi.from_wsgi("/openapi.json", _serve)
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, item in json.loads(DOCUMENT.read_text())["paths"].items()
    for method in item
]


# Queries that every service takes. Elsewhere they are made of the pattern, and the class may be unknown.
NAMES = st.sampled_from(["resources", "resources_A"])
QUERIES = st.builds("{}=VCPU:{}".format, NAMES, st.integers(1, 2**40))
schemathesis.openapi.format("placement-query", QUERIES)

asked = ""


@pytest.fixture(params=OPERATIONS)
def operation(request: pytest.FixtureRequest) -> Any:
    """The document, of which one operation is asked."""
    global asked
    asked = request.param
    return described


# The cases are made when it is tested: to make all of them takes longer than to collect the other tests.
one_operation = schemathesis.pytest.from_fixture("operation").include(
    lambda context: context.operation.label == asked
)


@pytest.fixture
def host() -> Iterator[None]:
    """The service, with one host that has inventory."""
    global current
    with service.running(oslo_policy__enforce_new_defaults=False, insight__enabled=True) as current:
        World(current).provider("host", key=HOST, inventory={"VCPU": 8})
        yield


EXISTS = "what exists is not in the document"
OPTION = "an option of the service sets the bound"
PARAMETERS = "OpenAPI has no words for one parameter that needs or forbids another"
TWO_PLACES = "JSON Schema has no words for values in two places that have to be different or ordered"

REFUSED = {
    ("unknown_provider", None): EXISTS,
    ("unknown_trait", None): EXISTS,
    ("unknown_trait", "trait"): EXISTS,
    ("unknown_trait", "required"): EXISTS,
    ("unknown_resource_class", None): EXISTS,
    ("unknown_resource_class", "class"): EXISTS,
    ("unknown_inventory", None): EXISTS,
    ("unknown_group", None): EXISTS,
    ("standard_name", "class"): EXISTS,
    ("standard_name", "trait"): EXISTS,
    ("invalid_parent", None): EXISTS,
    ("invalid_query", "H1"): PARAMETERS,  # resources, with a suffix or without
    ("invalid_query", "H2"): PARAMETERS,  # a group without resources needs same_subtree
    ("invalid_query", "H3"): PARAMETERS,  # suffixes that same_subtree names
    ("invalid_query", "K2"): PARAMETERS,  # several groups need group_policy
    ("invalid_query", "K1"): TWO_PLACES,  # a trait that is wanted and forbidden
    ("invalid_query", "B4"): TWO_PLACES,
    ("invalid_query", "groups"): OPTION,
    ("too_many_claims", "most"): OPTION,
    ("too_many_queries", "queries"): OPTION,
    ("invalid_amount", None): TWO_PLACES,  # reserved, of total
    ("invalid_goal", None): TWO_PLACES,  # more domains to empty than are named
    ("repeated_avoid", "avoid"): TWO_PLACES,  # under both of its names
    ("repeated_consumer", "twice"): TWO_PLACES,
    ("repeated_avoid", None): TWO_PLACES,  # avoid, and may.move.avoid
    ("unknown_parameter", "additionalProperties"): PARAMETERS,  # shape, or a query
}
"""Why the service refuses with 400 what the document allows, by reason and rule of the error."""


@schemathesis.check
def takes_what_is_described(
    _context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """Refuse with 400 only what breaks a rule that JSON Schema cannot say."""
    is_described = case.meta is None or case.meta.generation.mode.is_positive
    # The test client sends a semicolon as it is, at which the service splits a query string.
    if not is_described or response.status_code != 400 or ";" in str(case.query):
        return
    error = response.json()["errors"][0]
    assert (error["reason"], error.get("rule")) in REFUSED, error
    if error["reason"] == "unknown_parameter":
        assert case.operation.label == "GET /-/capacity", error


@pytest.mark.usefixtures("host")
@one_operation.parametrize()
@hypothesis.settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", 25 if LONG else 6)),
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_service_keeps_to_the_document(case: schemathesis.Case) -> None:
    """No 5xx, no status and no body that the document does not know."""
    case.call_and_validate(
        headers=HEADERS,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
            takes_what_is_described,
        ],
    )


def test_the_version_has_to_be_named() -> None:
    """A client that leaves the header out is answered in the shapes of 1.0."""
    header = json.loads(DOCUMENT.read_text())["components"]["parameters"]["Microversion"]
    assert (header["required"], header["schema"]["default"]) == (True, f"placement {MAXIMUM}")

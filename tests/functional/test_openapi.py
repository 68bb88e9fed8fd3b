"""The OpenAPI document: current, complete, and kept by the running service."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from docs import openapi
from placement.web.routes import ROUTES
from tests.support import service

DOCUMENT = Path(openapi.__file__).with_name("openapi.json")


def test_document_is_current() -> None:
    """What is shipped is what the routes and schemas say now."""
    assert DOCUMENT.read_text() == openapi.text(), "run: python -m docs.openapi > docs/openapi.json"


def test_every_body_and_route_is_described() -> None:
    """Each operation that takes a body shows its schema, and nothing is described that is not there."""
    document = openapi.document()
    taking = {
        (path, method)
        for path, methods in ROUTES.items()
        for method, actions in methods.items()
        if actions[-1].takes_json
    }
    assert set(openapi.BODIES) == taking
    described = {(path, m.upper()) for path, item in document["paths"].items() for m in item}
    routed = {(path, method) for path, methods in ROUTES.items() if path for method in methods}
    assert described == routed


HEADERS = {"OpenStack-API-Version": "placement latest"}
HOST = {"name": "host", "uuid": "11111111-1111-4111-8111-111111111111"}


current: service.Service | None = None


def _serve(environ: dict[str, Any], start_response: Any) -> Any:
    """The document without any service, everything else from the one that is running."""
    if environ["PATH_INFO"] == "/openapi.json":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [DOCUMENT.read_bytes()]
    assert current is not None
    # Headers are generated too, and these decide what the document does not describe: who asks, and
    # that errors come as JSON.
    environ["HTTP_X_AUTH_TOKEN"] = "admin"
    environ["HTTP_ACCEPT"] = "application/json"
    return current.application(environ, start_response)


described = schemathesis.openapi.from_wsgi("/openapi.json", _serve)


@pytest.fixture
def host() -> Iterator[None]:
    """The service, with one host that has inventory."""
    global current
    with service.running(oslo_policy__enforce_new_defaults=False) as current:
        current.request("POST", "/resource_providers", version="1.39", json=HOST)
        current.request(
            "PUT",
            f"/resource_providers/{HOST['uuid']}/inventories",
            version="1.39",
            json={"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}},
        )
        yield


@pytest.mark.usefixtures("host")
@described.parametrize()
@hypothesis.settings(
    max_examples=int(os.environ.get("PLACEMENT_EXAMPLES", "25")),
    deadline=None,
    derandomize=True,
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
        ],
    )

"""Every route under the validator and the server of the standard library, with which other projects test."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.validate import validator

import pytest

from docs._tools.url_page import EXPLORER, INSIGHT, ROUTES
from placement.routes import PROVIDER
from placement.web.dispatch import Actions
from tests.support import bodies
from tests.support.client import Answer, Client
from tests.support.processes import PATIENCE
from tests.support.service import running

TABLE: dict[str, dict[str, Actions]] = ROUTES | INSIGHT | EXPLORER
ANSWERED_S = 20 * PATIENCE
HOST, GPU = (f"5d000000-0000-4000-8000-00000000000{n}" for n in (1, 2))
CONSUMER = "ca000000-0000-4000-8000-000000000001"
INVENTORIES = PROVIDER + "/inventories"
INVENTORY = INVENTORIES + "/{resource_class}"
DISK = f"{HOST} DISK_GB"


def held(amount: int, **more: Any) -> dict[str, Any]:
    """Return what CONSUMER has of HOST, as microversion 1.39 writes it."""
    return bodies.entry({HOST: {"VCPU": amount}} if amount else {}, **more)


def stocked(generation: int, **totals: int) -> dict[str, Any]:
    """Return inventories as they are replaced."""
    return bodies.stock(generation, totals)


@dataclass(frozen=True)
class Asked:
    """One request: a route, what stands for its variables (two names, one blank), and the status."""

    method: str
    template: str
    status: int
    variables: str = HOST
    body: Any = None
    query: str = ""
    version: int = 39

    @property
    def target(self) -> str:
        """What the request line names: never empty, which no request line can be."""
        names = iter(self.variables.split())
        path = re.sub(r"\{[^}]*\}", lambda _: next(names), self.template)
        return path + self.query or "?"

    @property
    def action(self) -> tuple[str, str, int]:
        """The route, the method, and the place of what serves this microversion."""
        actions = TABLE[self.template][self.method]
        [place] = [n for n, action in enumerate(actions) if action.serves(self.version)]
        return self.template, self.method, place


QUERY = "?resources=VCPU:1"
STORY = [
    Asked("GET", "", 200),
    Asked("GET", "/", 200),
    Asked("GET", "/resource_classes", 200),
    Asked("POST", "/resource_classes", 201, body={"name": "CUSTOM_A"}),
    Asked("PUT", "/resource_classes/{name}", 200, "CUSTOM_A", {"name": "CUSTOM_B"}, version=6),
    Asked("PUT", "/resource_classes/{name}", 201, "CUSTOM_C"),
    Asked("PUT", "/resource_classes/{name}", 204, "CUSTOM_C"),
    Asked("GET", "/resource_classes/{name}", 200, "CUSTOM_C"),
    Asked("DELETE", "/resource_classes/{name}", 204, "CUSTOM_C"),
    Asked("POST", "/resource_providers", 200, body={"name": "host", "uuid": HOST}),
    Asked("POST", "/resource_providers", 201, body={"name": "gpu", "uuid": GPU}, version=19),
    Asked("GET", "/resource_providers", 200),
    Asked("GET", PROVIDER, 200),
    Asked("PUT", PROVIDER, 200, GPU, {"name": "gpu0"}, version=19),
    Asked("PUT", INVENTORIES, 200, body=stocked(0, VCPU=8)),
    Asked(
        "POST",
        INVENTORIES,
        201,
        body={"resource_provider_generation": 1, "resource_class": "DISK_GB", "total": 9},
    ),
    Asked("GET", INVENTORIES, 200),
    Asked("PUT", INVENTORY, 200, DISK, {"resource_provider_generation": 2, "total": 16}),
    Asked("GET", INVENTORY, 200, DISK),
    Asked("DELETE", INVENTORY, 204, DISK),
    Asked("GET", PROVIDER + "/usages", 200),
    Asked("GET", PROVIDER + "/aggregates", 200),
    Asked(
        "PUT",
        PROVIDER + "/aggregates",
        200,
        body={"resource_provider_generation": 4, "aggregates": [CONSUMER]},
    ),
    Asked("GET", "/traits", 200),
    Asked("PUT", "/traits/{name}", 201, "CUSTOM_T"),
    Asked("PUT", "/traits/{name}", 204, "CUSTOM_T"),
    Asked("GET", "/traits/{name}", 204, "CUSTOM_T"),
    Asked(
        "PUT",
        PROVIDER + "/traits",
        200,
        body={"resource_provider_generation": 5, "traits": ["CUSTOM_T"]},
    ),
    Asked("GET", PROVIDER + "/traits", 200),
    Asked("DELETE", PROVIDER + "/traits", 204),
    Asked("DELETE", "/traits/{name}", 204, "CUSTOM_T"),
    Asked("GET", "/allocation_candidates", 200, query=QUERY),
    Asked("PUT", "/allocations/{consumer_uuid}", 204, CONSUMER, held(1)),
    Asked("GET", "/allocations/{consumer_uuid}", 200, CONSUMER),
    Asked("GET", PROVIDER + "/allocations", 200),
    Asked("GET", "/usages", 200, query="?project_id=p"),
    Asked("POST", "/allocations", 204, body={CONSUMER: held(2, consumer_generation=1)}),
    Asked("DELETE", "/allocations/{consumer_uuid}", 204, CONSUMER),
    Asked("GET", "/-/capacity", 200, query=QUERY),
    Asked("GET", "/-/capacity/history", 404, query="?shape=none"),
    Asked("GET", "/-/changes", 200),
    Asked("GET", "/-/explain", 200, query=QUERY),
    Asked("GET", "/-/history", 404),
    Asked("GET", "/-/links", 200),
    Asked("GET", "/-/metrics", 200),
    Asked("POST", "/-/plans", 200, body={"goal": {"place": QUERY[1:]}}),
    Asked("GET", "/-/survival", 200),
    Asked("GET", "/-/trees", 200),
    Asked("GET", "/-/trees/{uuid}", 200),
    Asked("POST", "/-/what-if", 200, body={"changes": [{"drain": HOST}], "query": QUERY[1:]}),
    Asked("GET", "/-/explorer", 308),
    Asked("GET", "/-/explorer/", 200),
    Asked("GET", "/-/explorer/{path:.+}", 200, "main.js"),
    Asked("DELETE", INVENTORIES, 204, GPU),
    Asked("DELETE", PROVIDER, 204, GPU),
    Asked("POST", "/reshaper", 204, body={"inventories": {HOST: stocked(9)}, "allocations": {}}),
]
"""Each finds what those before it have left."""

REFUSED = [
    Asked("HEAD", "/", 405),
    Asked("OPTIONS", "/traits", 405),
    Asked("GET", "/traits", 406, version=99),
    Asked("GET", "/-/explorer/{path:.+}", 404, "none.js"),
    Asked("POST", "/nothing", 404, body={"name": "x" * 1000}),
    Asked("POST", "/traits", 405, body={"name": "x"}),
    Asked("PUT", "/traits/{name}", 400, "T", {"ignored": True}),
    Asked("POST", "/resource_providers", 400, body=["x"]),
]


class Quiet(WSGIRequestHandler):
    """Logs no requests. What the server or the validator complains of fails the test."""

    def log_message(self, *_: Any) -> None:
        pass


def as_validated(application: Any) -> Callable[..., Any]:
    """Return the application under the validator, which insists on a Content-Type.

    Of an answer without a body, other than 204 and 304, no type can be told: the 201 has none
    (specification 01 section 11), and is shown with one to the validator only.
    """

    def shown(environ: dict[str, Any], start_response: Any) -> Any:
        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if status.startswith("201 ") and ("Content-Length", "0") in headers:
                assert "content-type" not in {name.lower() for name, _ in headers}
                headers = [*headers, ("Content-Type", "text/plain")]
            return start_response(status, headers, exc_info)

        return application(environ, start)

    return validator(shown)


@contextmanager
def serving(application: Any) -> Iterator[int]:
    """Serve one request at a time; yield the port."""
    with make_server("127.0.0.1", 0, application, WSGIServer, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with (
        running(insight__enabled=True) as service,
        serving(as_validated(service.application)) as found,
    ):
        yield found


def answer(port: int, asked: Asked, **headers: None) -> Answer:
    """Send a request and return the answer."""
    client = Client(port, kept=False, timeout_s=ANSWERED_S)
    version = f"1.{asked.version}"
    return client.send(asked.method, asked.target, asked.body, version, **headers)


def test_every_route_is_driven() -> None:
    """A route that is new must be told of above."""
    wanted = {
        (template, method, place)
        for template, methods in TABLE.items()
        for method, actions in methods.items()
        for place in range(len(actions))
    }
    assert {asked.action for asked in STORY} == wanted


def test_every_route(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for asked in STORY:
        found = answer(port, asked)
        assert found.status == asked.status, (asked, found)
    # An answer that was not closed is complained of there.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: f"{asked.method} {asked.status}")
def test_refusals(port: int, asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    found = answer(port, asked)
    assert found.status == asked.status, found
    assert capfd.readouterr().err == ""


def test_without_a_token(port: int) -> None:
    for asked in STORY:
        if asked.target not in ("?", "/"):
            assert answer(port, asked, x_auth_token=None).status == 401, asked

"""A client class raises its own errors, whatever keeps an answer away (specification 05 section C1)."""

import contextlib
import importlib
import inspect
import json
import pkgutil
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from keystoneauth1 import adapter, session
from keystoneauth1.identity import v3

from placement import client
from placement.client import exceptions as exc
from placement.client.claims import ClaimFailed, ClaimsClient, NewClaim
from placement.client.comparison.side import Side
from placement.client.comparison.survey import FIRST
from placement.client.drivers.split import Node, VgpuDriver
from placement.client.history import HistoryClient, HistoryNotRead
from placement.client.migrate import migrate_compute_inventory
from placement.client.mirror import Mirror, MirrorFailed
from placement.client.nova import Nova
from placement.client.nova_moves import NovaMover
from placement.client.plans import CarryOutStopped, MadePlan, PlanFailed, PlansClient
from placement.client.provider_names import ProviderNames
from placement.client.report import ReportClient
from placement.client.tracker import ResourceTracker
from placement.client.tree_file import parse
from placement.client.tree_plan import apply_file
from tests.support.identity import identity_service
from tests.support.processes import free_port
from tests.support.world import new_uuid

HOST, CONSUMER = new_uuid(), new_uuid()
HALF = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    b'{"trees": [], "next": '
)
NO_JSON = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"
CATALOGUE_OF_NOTHING = json.dumps(
    {
        "token": {
            "methods": ["password"],
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "u", "domain": {"id": "d", "name": "d"}},
            "catalog": [],
        }
    }
).encode()


@contextlib.contextmanager
def answering(text: bytes | None) -> Iterator[str]:
    """Accept connections, read a request, send this and hang up; with None keep them and say nothing."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                kept.append(connection)
                if not connection.recv(65536):
                    return
                if text is not None:
                    connection.sendall(text)
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        address = listener.getsockname()
        try:
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            # A connection without a request ends the loop.
            socket.create_connection(address).close()
            thread.join()
            for connection in kept:
                connection.close()


def adapter_at(url: str, **more: Any) -> adapter.Adapter:
    return adapter.Adapter(session.Session(**more), service_type="placement", endpoint_override=url)


def with_password(auth_url: str, url: str | None) -> adapter.Adapter:
    auth = v3.Password(auth_url, username="u", password="p", unscoped=True, user_domain_id="d")
    return adapter.Adapter(session.Session(auth), service_type="placement", endpoint_override=url)


@contextlib.contextmanager
def nobody() -> Iterator[adapter.Adapter]:
    """No service listens."""
    yield adapter_at(f"http://127.0.0.1:{free_port()}")


@contextlib.contextmanager
def stops_before_it_answers() -> Iterator[adapter.Adapter]:
    with answering(b"") as url:
        yield adapter_at(url)


@contextlib.contextmanager
def stops_in_the_middle() -> Iterator[adapter.Adapter]:
    """The head of an answer comes, and half its body."""
    with answering(HALF) as url:
        yield adapter_at(url)


@contextlib.contextmanager
def says_nothing() -> Iterator[adapter.Adapter]:
    with answering(None) as url:
        yield adapter_at(url, timeout=0.05)


@contextlib.contextmanager
def no_certificates() -> Iterator[adapter.Adapter]:
    """The file of the authorities is missing, which requests says by a bare OSError."""
    yield adapter_at("https://127.0.0.1:1", verify="/nowhere/ca.pem")


@contextlib.contextmanager
def keystone_is_down() -> Iterator[adapter.Adapter]:
    yield with_password(f"http://127.0.0.1:{free_port()}/v3", "http://127.0.0.1:1")


@contextlib.contextmanager
def keystone_refuses() -> Iterator[adapter.Adapter]:
    with identity_service(401, b"{}") as auth_url:
        yield with_password(auth_url, "http://127.0.0.1:1")


@contextlib.contextmanager
def keystone_answers_nonsense() -> Iterator[adapter.Adapter]:
    with identity_service(201, b"<html>") as auth_url:
        yield with_password(auth_url, "http://127.0.0.1:1")


@contextlib.contextmanager
def no_endpoint() -> Iterator[adapter.Adapter]:
    """Keystone gives a token, and knows no such service."""
    with identity_service(201, CATALOGUE_OF_NOTHING) as auth_url:
        yield with_password(auth_url, None)


TROUBLES = (
    nobody,
    stops_before_it_answers,
    stops_in_the_middle,
    says_nothing,
    no_certificates,
    keystone_is_down,
    keystone_refuses,
    keystone_answers_nonsense,
    no_endpoint,
)

STEP = {
    "consumer_uuid": CONSUMER,
    "consumer_generation": 1,
    "project_id": "p",
    "user_id": "u",
    "allocations": {HOST: {"resources": {"VCPU": 1}}},
    "held_by": {"consumer_uuid": HOST, "consumer_generation": 1},
}
PLAN = MadePlan([STEP, STEP], 2, 2, True, True)
CLAIM = NewClaim(CONSUMER, "resources=VCPU:1", "p", "u")
DRIVER = VgpuDriver({"node": Node(HOST, {}, {"VCPU": {"total": 1}})})


def fill(service: Any) -> None:
    """Bring a tree to a service, whose picture is empty."""
    reporter = ReportClient(service)
    tree = reporter.cached_tree
    tree.new_root("host", HOST)
    reporter.update_from_provider_tree(None, tree)


def apply(service: Any) -> None:
    text = "placement_tree: 1\nproviders:\n- name: host\n  inventories: {VCPU: {total: 8}}\n"
    apply_file(ReportClient(service), None, parse(text, "file"))


def migrate(service: Any) -> None:
    """Raise what the result of the node is."""
    (result,) = migrate_compute_inventory(None, ReportClient(service), DRIVER).values()
    assert isinstance(result, Exception)
    raise result


def claims_of(service: Any) -> ClaimsClient:
    return ClaimsClient(service, lambda _s: None)


def plans_of(service: Any) -> PlansClient:
    return PlansClient(service, lambda _s: None)


CALLS: dict[str, tuple[Callable[[Any], object], type[Exception]]] = {
    "Mirror.update": (lambda it: Mirror(it).update(0), MirrorFailed),
    "HistoryClient.writes": (lambda it: next(HistoryClient(it).writes()), HistoryNotRead),
    "ClaimsClient.claim": (lambda it: claims_of(it).claim([CLAIM]), ClaimFailed),
    "ClaimsClient.confirm": (lambda it: claims_of(it).confirm({CONSUMER: 1}), ClaimFailed),
    "ClaimsClient.release": (lambda it: claims_of(it).release(CONSUMER), ClaimFailed),
    "ClaimsClient.group": (lambda it: claims_of(it).group("web"), ClaimFailed),
    "ClaimsClient.holds": (lambda it: next(claims_of(it).holds()), ClaimFailed),
    "PlansClient.make": (lambda it: plans_of(it).make({"keep": ["web"]}), PlanFailed),
    "PlansClient.release": (lambda it: plans_of(it).release([STEP]), PlanFailed),
    "ReportClient.get_provider_tree_and_ensure_root": (
        lambda it: ReportClient(it).get_provider_tree_and_ensure_root(None, HOST),
        exc.PlacementClientError,
    ),
    "ReportClient.get_allocs_for_consumer": (
        lambda it: ReportClient(it).get_allocs_for_consumer(None, CONSUMER),
        exc.PlacementClientError,
    ),
    "ReportClient.set_traits_for_provider": (
        lambda it: ReportClient(it).set_traits_for_provider(None, HOST, ["CUSTOM_A"]),
        exc.PlacementClientError,
    ),
    "ReportClient.update_from_provider_tree": (fill, exc.ResourceProviderSyncFailed),
    "ResourceTracker.update_node": (
        lambda it: ResourceTracker(ReportClient(it), DRIVER).update_node(None, "node"),
        exc.PlacementClientError,
    ),
    "migrate_compute_inventory": (migrate, exc.PlacementClientError),
    "apply_file": (apply, exc.PlacementClientError),
    "Nova.consumers": (lambda it: next(Nova(it).consumers()), exc.NotAnswered),
    "NovaMover.read_states": (lambda it: NovaMover(Nova(it), it).read_states(), exc.NotAnswered),
    "ProviderNames.name_of": (lambda it: ProviderNames(it).name_of(HOST), exc.NotAnswered),
    "ProviderNames.holds_something": (
        lambda it: ProviderNames(it).holds_something(CONSUMER),
        exc.NotAnswered,
    ),
}
"""Each call with the class of errors that its documentation names."""


@pytest.fixture(params=TROUBLES, ids=lambda trouble: trouble.__name__)
def trouble(request: pytest.FixtureRequest) -> Iterator[adapter.Adapter]:
    with request.param() as made:
        yield made
        made.session.session.close()


@contextlib.contextmanager
def session_at(url: str) -> Iterator[adapter.Adapter]:
    made = adapter_at(url)
    yield made
    made.session.session.close()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_without_an_answer_raises_the_error_of_its_class(
    trouble: adapter.Adapter, call: str
) -> None:
    ask, documented = CALLS[call]
    with pytest.raises(documented) as caught:
        ask(trouble)
    assert isinstance(caught.value, exc.PlacementClientError)
    assert caught.value.error


def test_a_plan_that_stops_knows_what_is_done_and_what_is_left(
    trouble: adapter.Adapter,
) -> None:
    """The first step was carried out; at the second the service is away."""
    done = requests.Response()
    done.status_code = 204
    answers = iter([done])

    class FirstAnswered:
        def __getattr__(self, method: str) -> Any:
            real = getattr(trouble, method)
            return lambda *given, **more: next(answers, None) or real(*given, **more)

    with pytest.raises(CarryOutStopped) as caught:
        plans_of(FirstAnswered()).carry_out(PLAN)
    assert (caught.value.done, caught.value.left) == ([STEP], [STEP])
    assert caught.value.held_by == [HOST]


def test_the_comparison_counts_it_as_trouble(trouble: adapter.Adapter) -> None:
    answer = Side("OLD", trouble).ask(FIRST[0][0])
    assert answer.status == 0
    assert answer.trouble


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_is_not_of_the_service_raises_the_error_of_the_class(call: str) -> None:
    """The page of a proxy, with the status of a success."""
    ask, documented = CALLS[call]
    with answering(NO_JSON) as url, session_at(url) as service, pytest.raises(documented):
        ask(service)


def test_the_list_has_every_class_that_is_given_an_adapter() -> None:
    found = set()
    for module in pkgutil.walk_packages(client.__path__, f"{client.__name__}."):
        for name, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            taken = inspect.signature(each.__init__).parameters
            if each.__module__ == module.name and "adapter" in taken:
                found.add(name)
    tried = {name.partition(".")[0] for name in CALLS}
    assert found == (tried & found) | {"PlacementAPI", "Side"}
    assert len(found) >= 8

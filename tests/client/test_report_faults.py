"""A server that answers 409 or 500, or drops the connection, at every single request.

A real proxy stands between the client and the service. Whatever breaks, the exceptions are those of
specification 05 part C, allocations are never lost or torn, and repeating the flow completes it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions

from placement.client import exceptions as exc
from placement.client.drivers.split import Node, NodePart, VgpuDriver
from placement.client.provider_tree import ProviderTree
from placement.client.report import ReportClient
from placement.client.tracker import ResourceTracker
from placement.client.tree_file import parse
from placement.client.tree_plan import apply_file
from tests.client.conftest import http_adapter
from tests.client.proxy import FaultyProxy
from tests.client.world import World
from tests.support.effort import LONG
from tests.support.processes import free_port
from tests.support.world import new_uuid


class HostDriver(VgpuDriver):
    """Also removes the provider ``gone``."""

    gone = ""

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: dict[str, Any] | None = None
    ) -> None:
        super().update_provider_tree(provider_tree, nodename, allocations)
        if provider_tree.exists(self.gone):
            provider_tree.remove(self.gone)


Host = tuple[HostDriver, str, str, str]
"""Driver, name, root, consumer."""

CONFLICT = (
    b'{"errors": [{"status": 409, "title": "Conflict", "detail": "elsewhere",'
    b' "code": "placement.concurrent_update"}]}'
)


@pytest.fixture
def world(http: adapter.Adapter) -> World:
    """Somebody else, whom the proxy does not disturb."""
    return World(http)


@pytest.fixture
def client(proxy: FaultyProxy) -> Iterator[ReportClient]:
    """A client behind the proxy."""
    adapter = http_adapter(proxy.url)
    yield ReportClient(adapter)
    adapter.session.session.close()


@pytest.mark.parametrize("fault", ["refuse", "lose"])
def test_a_deletion_that_failed_or_whose_answer_is_lost_is_made_up_for(
    client: ReportClient, proxy: FaultyProxy, world: World, fault: str
) -> None:
    """C11 9."""
    root = world.provider()
    child = world.provider(parent=root)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.remove(child)
    proxy.fail("DELETE", child, fault)
    with pytest.raises(exc.ResourceProviderSyncFailed) as caught:
        client.update_from_provider_tree(None, tree)
    assert isinstance(caught.value.__cause__, exc.NotAnswered)
    assert world.exists(child) is (fault == "refuse")
    client.update_from_provider_tree(None, tree)
    assert not world.exists(child)


def test_a_write_whose_answer_is_lost_is_noticed_the_next_time(
    client: ReportClient, proxy: FaultyProxy, world: World
) -> None:
    root = world.provider()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.update_inventory(root, {"VCPU": {"total": 4}})
    proxy.fail("PUT", "inventories", "lose")
    with pytest.raises(exc.ResourceProviderSyncFailed):
        client.update_from_provider_tree(None, tree)
    client.update_from_provider_tree(None, tree)
    assert world.totals(root) == {"VCPU": 4}


@pytest.mark.parametrize(
    ("part", "raised"),
    [
        ("in_tree", exc.ResourceProviderRetrievalFailed),
        ("inventories", exc.ResourceProviderRetrievalFailed),
        ("aggregates", exc.ResourceProviderAggregateRetrievalFailed),
        ("/traits$", exc.ResourceProviderTraitRetrievalFailed),
        ("member_of", exc.ResourceProviderRetrievalFailed),
    ],
)
@pytest.mark.parametrize(("status", "body"), [(500, b"<html>"), (200, b"no json"), (200, b"{}")])
def test_reads_that_fail(
    client: ReportClient,
    proxy: FaultyProxy,
    world: World,
    part: str,
    raised: type[Exception],
    status: int,
    body: bytes,
) -> None:
    root = world.provider(aggregates=[new_uuid()])
    proxy.fail("GET", part, "status", status=status, body=body)
    with pytest.raises(raised):
        client.get_provider_tree_and_ensure_root(None, root)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert tree.data(root).aggregates == world.aggregates(root)


@pytest.mark.parametrize(
    ("method", "part", "cause"),
    [
        ("POST", "/resource_providers", exc.ResourceProviderCreationFailed),
        ("DELETE", "/resource_providers", exc.ResourceProviderDeletionFailed),
        ("PUT", "/resource_classes", exc.InvalidResourceClass),
        ("PUT", "/inventories", exc.ResourceProviderUpdateFailed),
        ("PUT", "/aggregates", exc.ResourceProviderUpdateFailed),
        ("GET", r"/traits\?name", exc.TraitRetrievalFailed),
        ("PUT", "/traits/CUSTOM_X", exc.TraitCreationFailed),
        ("PUT", "/resource_providers/[^/]+/traits", exc.ResourceProviderUpdateFailed),
    ],
)
def test_writes_that_fail_are_sync_failures_and_repeatable(
    client: ReportClient,
    proxy: FaultyProxy,
    world: World,
    method: str,
    part: str,
    cause: type[Exception],
) -> None:
    root = world.provider()
    gone = world.provider(parent=root)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.remove(gone)
    new = tree.new_child(f"new-{root}", root)
    trait = f"CUSTOM_X{new_uuid().replace('-', '_').upper()}"
    tree.update_traits(new, [trait])
    tree.update_aggregates(new, [new_uuid()])
    tree.update_inventory(new, {"CUSTOM_Y": {"total": 1}})
    proxy.fail(method, part, "status", status=500)
    with pytest.raises(exc.ResourceProviderSyncFailed, match="500") as caught:
        client.update_from_provider_tree(None, tree)
    assert isinstance(caught.value.__cause__, cause)
    assert not client.cached_tree.exists(root)
    client.update_from_provider_tree(None, tree)
    assert (world.traits(new), world.totals(new)) == ({trait}, {"CUSTOM_Y": 1})
    assert not world.exists(gone)


@pytest.fixture
def host(world: World) -> Host:
    """A host with VGPU in use on the root, which its driver wants on a child."""
    return made_host(world)


def made_host(world: World) -> Host:
    """Make a host as :func:`host` says."""
    name, root = world.node(VCPU=8, VGPU=4)
    part = NodePart({"VGPU": {"total": 4}}, frozenset(["CUSTOM_GPU"]))
    consumer = world.claim({root: {"VCPU": 1, "VGPU": 2}})
    return HostDriver({name: Node(root, {"gpu0": part})}), name, root, consumer


@pytest.mark.parametrize("kind", ["refuse", "lose", "status"])
def test_a_reshape_that_breaks_is_a_failed_reshape(
    client: ReportClient, proxy: FaultyProxy, world: World, host: Host, kind: str
) -> None:
    driver, _, root, consumer = host
    proxy.fail("POST", "/reshaper", kind, status=500)
    with pytest.raises(exc.ReshapeFailed) as caught:
        ResourceTracker(client, driver).update_available_resource(None, startup=True)
    if kind != "status":
        assert isinstance(caught.value.__cause__, exc.NotAnswered)
    assert not client.cached_tree.exists(root)
    done = kind == "lose"
    assert world.totals(root) == ({"VCPU": 8} if done else {"VCPU": 8, "VGPU": 4})
    assert sum(place.get("VGPU", 0) for place in world.used(consumer).values()) == 2
    ResourceTracker(client, driver).update_available_resource(None, startup=True)
    assert world.totals(root) == {"VCPU": 8}


def test_a_409_without_a_code_is_no_conflict(
    client: ReportClient, proxy: FaultyProxy, world: World, host: Host
) -> None:
    driver, name, *_ = host
    proxy.fail("POST", "/reshaper", "status", status=409)
    with pytest.raises(exc.ReshapeFailed, match="gateway trouble"):
        ResourceTracker(client, driver).update_node(None, name, startup=True)


def broken_adapter(how: str, url: str, proxy: FaultyProxy) -> adapter.Adapter:
    """An adapter that does not get through, in one of the ways of an agent's first start."""
    if how == "a wrong token":
        return http_adapter(url, "nobody", roles="")
    if how == "a wrong URL":
        return http_adapter(f"{url}/placement/v1")
    if how == "a dead service":
        return http_adapter(f"http://127.0.0.1:{free_port()}")
    proxy.fail("GET", "in_tree|/trees", "refuse", times=9)
    return http_adapter(proxy.url)


@pytest.mark.parametrize(
    "how",
    ["a wrong token", "a wrong URL", "a dead service", "a connection lost before inventories"],
)
def test_an_agent_starts_while_the_service_is_away(
    url: str,
    http: adapter.Adapter,
    proxy: FaultyProxy,
    world: World,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    """Specification 05 C8: what fails before a node is written is logged, and a later period writes it."""
    name, root = world.node()
    connection = broken_adapter(how, url, proxy)
    driver = VgpuDriver({name: Node(root, {}, {"VCPU": {"total": 1}})})
    tracker = ResourceTracker(ReportClient(connection), driver)
    for startup in (True, False):
        caplog.clear()
        tracker.update_available_resource(None, startup=startup)
        assert "the next period tries again" in caplog.text
    assert world.totals(root) == {}
    connection.session.session.close()
    ResourceTracker(ReportClient(http), driver).update_available_resource(None)
    assert world.totals(root) == {"VCPU": 1}


class Acting:
    """Acts like an adapter, and raises an error of its own at the first write."""

    def __init__(self, connection: adapter.Adapter, error: Exception) -> None:
        self._connection = connection
        self._error = error

    def get(self, *arguments: Any, **options: Any) -> Any:
        return self._connection.get(*arguments, **options)

    def put(self, *_: Any, **__: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        keystone_exceptions.ConnectFailure("lost"),
        ConnectionResetError("lost"),
        TimeoutError("lost"),
        requests.exceptions.ReadTimeout("lost"),
        ZeroDivisionError("lost"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_goes_wrong_inside_the_flush_is_fatal_at_start_up_only(
    http: adapter.Adapter, world: World, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Seed 004: exceptions in update_from_provider_tree() are fatal on start-up only, of whatever kind."""
    name, root = world.node()
    driver = VgpuDriver({name: Node(root, {}, {"VCPU": {"total": 1}})})
    tracker = ResourceTracker(ReportClient(Acting(http, error)), driver)
    raised = ZeroDivisionError if isinstance(error, ZeroDivisionError) else exc.PlacementClientError
    with pytest.raises(raised, match="lost"):
        tracker.update_available_resource(None, startup=True)
    # The server of these tests logs too, when it is busy.
    assert not [each for each in caplog.records if each.name.startswith("placement.")]
    tracker.update_available_resource(None)
    assert "the next period tries again" in caplog.text


@pytest.mark.parametrize("kind", ["refuse", "status"])
def test_a_failure_after_the_reshape_says_that_it_is_done(
    client: ReportClient, proxy: FaultyProxy, world: World, host: Host, kind: str
) -> None:
    """Allocations have moved: to say that they are as they were would mislead."""
    driver, _, root, consumer = host
    proxy.fail("PUT", "/resource_providers/[^/]+/traits", kind, status=500)
    with pytest.raises(exc.ResourceProviderSyncFailed) as caught:
        ResourceTracker(client, driver).update_available_resource(None, startup=True)
    assert world.totals(root) == {"VCPU": 8}
    assert "The reshape is done" in str(caught.value)
    assert "as they were" not in str(caught.value)
    ResourceTracker(client, driver).update_available_resource(None, startup=True)
    assert "CUSTOM_GPU" in set().union(*map(world.traits, world.used(consumer)))


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, b"{}"), (409, b"{}"), (409, CONFLICT)],
    ids=["403", "409", "conflict"],
)
def test_a_refused_reshape_leaves_no_children(
    client: ReportClient, proxy: FaultyProxy, world: World, host: Host, status: int, body: bytes
) -> None:
    """What was made for it is deleted again by who made it, and the next start makes it anew."""
    driver, name, root, _ = host
    proxy.fail("POST", "/reshaper", "status", status=status, body=body, times=99)
    tracker = ResourceTracker(client, driver, reshape_timeout_s=0)
    with pytest.raises(exc.ReshapeFailed):
        tracker.update_available_resource(None, startup=True)
    assert [one["name"] for one in client.get_providers_in_tree(None, root)] == [name]
    proxy.faults.clear()
    tracker.update_available_resource(None, startup=True)
    assert len(client.get_providers_in_tree(None, root)) == 2


def test_a_conflict_leaves_no_children_to_who_does_not_repeat_it(
    client: ReportClient, proxy: FaultyProxy, world: World, host: Host
) -> None:
    _, name, root, _ = host
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.new_child(f"{name}_new", root)
    proxy.fail("POST", "/reshaper", "status", status=409, body=CONFLICT, times=99)
    with pytest.raises(exc.ReshapeConflict):
        client.update_from_provider_tree(None, tree, {})
    assert [one["name"] for one in client.get_providers_in_tree(None, root)] == [name]


@pytest.mark.parametrize("kind", ["refuse", "lose", "status"])
def test_a_file_whose_reshape_breaks_is_applied_by_the_next_run(
    client: ReportClient, proxy: FaultyProxy, world: World, host: Host, kind: str
) -> None:
    _, name, root, consumer = host
    file = parse(
        f"""placement_tree: 1
providers:
  - name: {name}
    inventories: {{VCPU: {{total: 8}}}}
    children:
      - name: {name}_a
        inventories: {{VGPU: {{total: 2}}}}
        takes_over: [{{from: {name}, class: VGPU}}]
      - name: {name}_b
        inventories: {{VGPU: {{total: 2}}}}
""",
        "tree.yaml",
    )
    proxy.fail("POST", "/reshaper", kind, status=500)
    with pytest.raises(exc.ReshapeFailed):
        apply_file(client, None, file, allow_reshape=True)
    names = {one["name"] for one in client.get_providers_in_tree(None, root)}
    made = {name, f"{name}_a", f"{name}_b"}
    assert names == ({name} if kind == "status" else made)
    assert world.totals(root) == ({"VCPU": 8} if kind == "lose" else {"VCPU": 8, "VGPU": 4})
    apply_file(client, None, file, allow_reshape=True)
    found = {one["name"]: one["uuid"] for one in client.get_providers_in_tree(None, root)}
    assert set(found) == made
    assert world.used(consumer) == {root: {"VCPU": 1}, found[f"{name}_a"]: {"VGPU": 2}}
    assert world.totals(found[f"{name}_b"]) == {"VGPU": 2}


REQUESTS = 40
BREAKS = ("refuse", "lose", "500", "409")
STRIDE = 1 if LONG else len(BREAKS)


@pytest.mark.parametrize("kind", BREAKS)
def test_whichever_request_breaks_the_next_start_completes_the_work(
    proxy: FaultyProxy, world: World, kind: str
) -> None:
    """Break the first request, then the second, and so on, until nothing broke.

    In the long mode; otherwise each kind breaks every fourth request: each request is broken by one kind.
    """

    for number in range(BREAKS.index(kind) % STRIDE, REQUESTS, STRIDE):
        driver, name, root, consumer = made_host(world)
        driver.gone = world.provider(parent=root)
        proxy.faults.clear()
        status = int(kind) if kind.isdigit() else 0
        how = "status" if status else kind
        fault = proxy.fail("", "", how, status=status, body=CONFLICT, after=number)
        adapter = http_adapter(proxy.url)
        tracker = ResourceTracker(ReportClient(adapter), driver)
        try:
            tracker.update_node(None, name, startup=True)
        except exc.PlacementClientError as error:
            assert str(error)
            used = world.used(consumer)
            assert sum(place.get("VGPU", 0) for place in used.values()) == 2
            assert world.totals(root) in ({"VCPU": 8}, {"VCPU": 8, "VGPU": 4})
            assert (root in used and "VGPU" in used[root]) == ("VGPU" in world.totals(root))
        for _ in range(2):  # the first may meet the conflict with a write whose answer was lost
            tracker.update_available_resource(None, startup=fault.times > 0)
            if "VGPU" in world.totals(root):
                tracker.update_node(None, name, startup=True)
        adapter.session.session.close()
        assert world.totals(root) == {"VCPU": 8}
        assert not world.exists(driver.gone)
        (gpu,) = set(world.used(consumer)) - {root}
        assert world.traits(gpu) == {"CUSTOM_GPU"}
        if fault.times:
            assert number >= 10
            return
    pytest.fail(f"the flow takes more than {REQUESTS} requests")

"""A tree is read in one request where the service shows whole trees (specification 05 section C4)."""

import pytest
from keystoneauth1 import adapter

from placement.client.report import ReportClient
from tests.client.world import Recorder, World
from tests.support.world import new_uuid

PROVIDERS = 8


@pytest.fixture
def connection(http: adapter.Adapter) -> adapter.Adapter:
    """An adapter of the service that shows whole trees."""
    return http


def tree_of(world: World) -> str:
    """Make a root with children, which have inventory and traits; return its UUID."""
    root = world.provider(None, None, {"VCPU": 4})
    for _ in range(PROVIDERS - 1):
        world.provider(parent=root, inventory={"VGPU": 1}, traits=["HW_NUMA_ROOT"])
    return root


def test_a_refresh_is_one_request_and_nothing_if_nothing_changed(
    recorder: Recorder, world: World
) -> None:
    """8 providers: 1 request instead of 25; what changed is noticed."""
    root, now = tree_of(world), [0.0]
    client = ReportClient(recorder, association_refresh=10, clock=lambda: now[0])
    client.get_provider_tree_and_ensure_root(None, root)
    recorder.clear()

    now[0] = 11
    before = client.get_provider_tree_and_ensure_root(None, root)
    assert recorder.requests == [("get", f"/-/trees/{root}")]
    assert recorder.statuses == [304]

    world.set_traits(root, ["HW_NUMA_ROOT"])
    now[0] = 22
    after = client.get_provider_tree_and_ensure_root(None, root)
    assert recorder.statuses[1:] == [200]
    assert before.data(root).traits == set()
    assert after.data(root).traits == {"HW_NUMA_ROOT"}
    assert len(after.get_provider_uuids()) == PROVIDERS


def test_elsewhere_it_is_read_in_parts(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    """A service that lacks the request is asked once whether it has it."""
    root = tree_of(world)
    recorder.hides = "/-/"
    client.get_provider_tree_and_ensure_root(None, root)
    client.clear_provider_cache()
    recorder.clear()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert len(recorder.requests) == 1 + 3 * PROVIDERS
    assert len(tree.get_provider_uuids()) == PROVIDERS


def test_consumers_come_with_the_tree(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    """Only who has allocations elsewhere, too, is asked for."""
    root, other = tree_of(world), world.provider(None, None, {"VCPU": 4})
    here = world.claim({root: {"VCPU": 1}})
    both = world.claim({root: {"VCPU": 1}, other: {"VCPU": 2}})
    client.get_provider_tree_and_ensure_root(None, root)
    recorder.clear()
    found = client.get_allocations_for_provider_tree(None, root)
    assert found.keys() == {here, both}
    assert found[both]["allocations"][other]["resources"] == {"VCPU": 2}
    assert found[here] == {
        "allocations": {root: {"generation": world.generation(root), "resources": {"VCPU": 1}}},
        "project_id": "red",
        "user_id": "ann",
        "consumer_generation": 1,
    }
    assert [url for _, url in recorder.requests] == [
        f"/-/trees/{root}?allocations=true",
        f"/allocations/{both}",
    ]
    world.claim({root: {"VCPU": 1}, other: {"VCPU": 1}}, both, 1)
    assert client.get_allocations_for_provider_tree(None, root)[both]["allocations"][other] == {
        "generation": world.generation(other),
        "resources": {"VCPU": 1},
    }


def test_an_unknown_tree_is_none(client: ReportClient, world: World) -> None:
    """Before and after it is known that the service shows whole trees."""
    assert client.get_provider_trees(None, [new_uuid()]).get_provider_uuids() == []
    root = tree_of(world)
    client.get_provider_tree_and_ensure_root(None, root)
    assert client.get_provider_trees(None, [new_uuid()]).get_provider_uuids() == []

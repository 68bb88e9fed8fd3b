"""Reading trees and writing them back without a reshape: specification 05 sections C4 to C6, C11 1 to 9."""

import copy
import types
from collections.abc import Callable
from typing import Any

import pytest
from keystoneauth1 import adapter
from requests import Response

from placement.client import exceptions as exc
from placement.client.provider_tree import ProviderTree, inventory_differs
from placement.client.report import ReportClient
from tests.client.world import EACH, Recorder, World
from tests.support.world import new_uuid

SHARING = "MISC_SHARES_VIA_AGGREGATE"


def assert_synchronised(client: ReportClient, tree: ProviderTree, world: World) -> None:
    """The cache and the service show what the tree wants."""
    cached = client.cached_tree
    wanted = tree.get_provider_uuids()
    assert set(wanted) <= set(cached.get_provider_uuids())
    for key in wanted:
        there, data = cached.data(key), tree.data(key)
        assert (there.name, there.traits, there.aggregates) == (
            data.name,
            data.traits,
            data.aggregates,
        )
        assert not inventory_differs(there.inventory, data.inventory)
        assert there.generation == world.generation(key)
        assert world.traits(key) == data.traits
        assert world.aggregates(key) == data.aggregates
        shown = world.get(f"/resource_providers/{key}/inventories")["inventories"]
        assert not inventory_differs(shown, data.inventory)


def test_nothing_wanted_and_nothing_known_sends_nothing(
    client: ReportClient, recorder: Recorder
) -> None:
    """C11 1."""
    client.update_from_provider_tree(None, ProviderTree())
    assert recorder.requests == []


def full_tree() -> tuple[ProviderTree, str, str, str, str]:
    """Two trees with something of everything: a with child and grandchild, and b."""
    tree = ProviderTree()
    a, b = new_uuid(), new_uuid()
    tree.new_root(f"a-{a}", a)
    tree.new_root(f"b-{b}", b)
    child = tree.new_child(f"child-{a}", a)
    grandchild = tree.new_child(f"grandchild-{a}", child)
    tree.update_aggregates(child, [new_uuid(), new_uuid()])
    tree.update_traits(grandchild, ["CUSTOM_FAST", "HW_CPU_X86_AVX"])
    tree.update_inventory(b, {"VCPU": {"total": 8}, "CUSTOM_THING": {"total": 3, "reserved": 1}})
    return tree, a, child, grandchild, b


def test_new_trees_are_created_and_not_written_again(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    """C11 2 and 3."""
    tree = ProviderTree()
    root = new_uuid()
    tree.new_root(f"root-{root}", root)
    client.update_from_provider_tree(None, tree)
    assert_synchronised(client, tree, world)

    client = ReportClient(recorder)
    tree, *_ = full_tree()
    client.update_from_provider_tree(None, tree)
    assert_synchronised(client, tree, world)
    recorder.clear()
    client.update_from_provider_tree(None, tree)
    assert recorder.requests == []


def test_every_request_is_at_1_30_and_asks_for_json(connection: adapter.Adapter) -> None:
    seen, urls = [], []

    class Watching:
        def __getattr__(self, method: str) -> Callable[..., Response]:
            def send(url: str, **arguments: Any) -> Response:
                urls.append(url)
                seen.append((arguments["microversion"], arguments["headers"]))
                assert arguments["global_request_id"] == "req-1"
                return getattr(connection, method)(url, **arguments)

            return send

    tree, *_ = full_tree()
    context = types.SimpleNamespace(global_id="req-1")
    ReportClient(Watching()).update_from_provider_tree(context, tree, {})
    assert {(version, headers["Accept"]) for version, headers in seen} == {
        ("1.30", "application/json")
    }
    assert len(seen) > 10
    assert "/traits?name=in:CUSTOM_FAST,HW_CPU_X86_AVX" in urls


def test_properties_swapped_cleared_and_set_are_flushed(client: ReportClient, world: World) -> None:
    """C11 4."""
    tree, a, child, grandchild, b = full_tree()
    client.update_from_provider_tree(None, tree)
    tree.update_inventory(a, tree.data(b).inventory)
    tree.update_inventory(b, None)
    tree.update_traits(child, tree.data(grandchild).traits)
    tree.update_traits(grandchild, [])
    tree.update_aggregates(child, [])
    client.update_from_provider_tree(None, tree)
    assert_synchronised(client, tree, world)
    assert world.totals(a) == {"VCPU": 8, "CUSTOM_THING": 3}
    assert world.totals(b) == {}


@pytest.mark.parametrize("fault", ["class", "trait"])
def test_what_the_service_does_not_know_fails_and_can_be_corrected(
    client: ReportClient, world: World, fault: str
) -> None:
    """C11 5 and 6."""
    tree, a, child, _, b = full_tree()
    client.update_from_provider_tree(None, tree)
    before = world.state(child)
    if fault == "class":
        tree.update_inventory(child, {"MOTSUC_BANANAS": {"total": 1}})
    else:
        tree.update_traits(child, ["HW_CPU_X86_BANANAS"])

    with pytest.raises(exc.ResourceProviderSyncFailed) as caught:
        client.update_from_provider_tree(None, tree)

    assert caught.value.uuid == child
    assert isinstance(caught.value.__cause__, exc.ResourceProviderUpdateFailed)
    assert "BANANAS" in str(caught.value)
    assert world.state(child) == before
    assert client.cached_tree.exists(b) and not client.cached_tree.exists(a)

    tree.update_inventory(child, {"CUSTOM_BANANAS": {"total": 1}} if fault == "class" else {})
    tree.update_traits(child, [] if fault == "class" else ["HW_CPU_X86_AVX2"])
    client.update_from_provider_tree(None, tree)
    assert_synchronised(client, tree, world)


@pytest.mark.parametrize("aspect", ["traits", "aggregates", "inventory"])
def test_a_second_writer_makes_a_conflict_and_the_next_call_wins(
    client: ReportClient, world: World, aspect: str
) -> None:
    """C11 7, for each thing that is written."""
    tree, a, child, *_ = full_tree()
    client.update_from_provider_tree(None, tree)
    if aspect == "traits":
        world.set_traits(child, ["HW_CPU_X86_SSE"])
        tree.add_traits(child, "HW_CPU_X86_MMX")
    elif aspect == "aggregates":
        world.replace(child, "aggregates", [new_uuid()])
        tree.add_aggregates(child, new_uuid())
    else:
        world.set_inventory(child, {"VCPU": 1})
        tree.update_inventory(child, {"VCPU": {"total": 2}})

    with pytest.raises(exc.ResourceProviderUpdateConflict) as caught:
        client.update_from_provider_tree(None, tree)
    assert caught.value.uuid == child
    assert not client.cached_tree.exists(a)

    client.update_from_provider_tree(None, tree)
    assert_synchronised(client, tree, world)


def test_removed_providers_are_deleted_from_below(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    """C11 8."""
    tree, a, child, grandchild, b = full_tree()
    client.update_from_provider_tree(None, tree)
    tree.remove(b)
    client.update_from_provider_tree(None, tree)
    assert not world.exists(b)
    extra = tree.new_child(f"extra-{a}", a)
    client.update_from_provider_tree(None, tree)
    tree.remove(child)
    recorder.clear()
    client.update_from_provider_tree(None, tree)
    assert [url.split("/")[-1] for _, url in recorder.writes()] == [grandchild, child]
    tree.remove(a)
    client.update_from_provider_tree(None, tree)
    assert not any(world.exists(key) for key in (a, child, grandchild, extra))
    assert client.cached_tree.roots == []


def test_removal_in_the_tree_of_a_node_deletes_only_there(
    client: ReportClient, world: World
) -> None:
    """Old is what was handed out, not everything that the client knows."""
    one, two = world.provider(), world.provider()
    child = world.provider(parent=one)
    other = client.get_provider_tree_and_ensure_root(None, two)
    tree = client.get_provider_tree_and_ensure_root(None, one)
    assert not tree.exists(two)
    edited = copy.deepcopy(tree)
    edited.remove(child)
    client.update_from_provider_tree(None, edited)
    assert world.exists(two) and world.exists(one) and not world.exists(child)
    client.update_from_provider_tree(None, other)
    assert world.exists(one)


def test_a_child_that_others_added_later_keeps_its_parent(
    client: ReportClient, world: World
) -> None:
    root = world.provider()
    child = world.provider(parent=root)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    foreign = world.provider(parent=child)
    tree.remove(child)
    with pytest.raises(exc.ResourceProviderSyncFailed) as caught:
        client.update_from_provider_tree(None, tree)
    assert isinstance(caught.value.__cause__, exc.ResourceProviderInUse)
    assert world.exists(foreign) and world.exists(child)


def test_a_provider_in_use_is_not_deleted(client: ReportClient, world: World) -> None:
    root = world.provider()
    child = world.provider(parent=root, inventory={"VCPU": 2})
    consumer = world.claim({child: {"VCPU": 1}})
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.remove(child)
    with pytest.raises(exc.ResourceProviderSyncFailed) as caught:
        client.update_from_provider_tree(None, tree)
    assert isinstance(caught.value.__cause__, exc.ResourceProviderInUse)
    assert caught.value.uuid == child
    assert "Move or delete its allocations" in str(caught.value)
    assert world.used(consumer) == {child: {"VCPU": 1}}
    assert not client.cached_tree.exists(root)


def test_inventory_in_use_is_not_removed(client: ReportClient, world: World) -> None:
    root = world.provider(inventory={"VCPU": 2, "DISK_GB": 1})
    world.claim({root: {"VCPU": 1}})
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.update_inventory(root, {"DISK_GB": {"total": 1}})
    with pytest.raises(exc.InventoryInUse) as caught:
        client.update_from_provider_tree(None, tree)
    assert caught.value.uuid == root
    assert world.totals(root) == {"VCPU": 2, "DISK_GB": 1}


def test_renaming_and_reparenting_write_nothing(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    root = world.provider()
    child = world.provider(parent=root)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    for parent, name in ((root, "new name"), (None, tree.data(child).name)):
        edited = copy.deepcopy(tree)
        edited.remove(child)
        if parent:
            edited.new_child(name, parent, child)
        else:
            edited.new_root(name, child)
        edited.update_traits(root, ["HW_CPU_X86_AVX"])
        recorder.clear()
        with pytest.raises(exc.ResourceProviderSyncFailed, match="renaming and re-parenting"):
            client.update_from_provider_tree(None, edited)
        assert recorder.requests == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tree, key: tree.add_traits(key, 5),
        lambda tree, key: tree.add_aggregates(key, None),
        lambda tree, key: tree.update_inventory(key, {"VCPU": "many"}),
        lambda tree, key: tree.update_inventory(key, {"VCPU": {"total": object()}}),
        lambda tree, key: tree.update_inventory(key, {"VCPU": {"total": float("nan")}}),
        lambda tree, key: tree.update_inventory(key, {7: {"total": 1}}),
        lambda tree, key: tree.new_child(3, key),
    ],
)
def test_nonsense_in_a_tree_is_refused_before_anything_is_sent(
    client: ReportClient, recorder: Recorder, world: World, spoil: Callable[..., object]
) -> None:
    root = world.provider()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.new_child("new", root)
    spoil(tree, root)
    recorder.clear()
    with pytest.raises(exc.ResourceProviderSyncFailed, match="names that are not text"):
        client.update_from_provider_tree(None, tree)
    assert recorder.requests == []


def test_nonsense_for_the_service_is_a_sync_failure(client: ReportClient, world: World) -> None:
    root = world.provider()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.update_inventory(root, {"VCPU": {"total": -1}})
    with pytest.raises(exc.ResourceProviderSyncFailed, match="400"):
        client.update_from_provider_tree(None, tree)
    tree.update_inventory(root, {})
    tree.new_child("x", root, "no/uuid")
    with pytest.raises(exc.ResourceProviderSyncFailed):
        client.update_from_provider_tree(None, tree)


def test_a_name_that_is_taken_ends_the_call(client: ReportClient, world: World) -> None:
    other = world.provider()
    root = world.provider()
    name = world.get(f"/resource_providers/{other}")["name"]
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.new_child(name, root)
    with pytest.raises(exc.ResourceProviderSyncFailed) as caught:
        client.update_from_provider_tree(None, tree)
    assert isinstance(caught.value.__cause__, exc.ResourceProviderCreationFailed)
    assert caught.value.__cause__.name == name


def test_a_provider_created_by_somebody_else_meanwhile_is_used(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    root, child = world.provider(), new_uuid()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.new_child(f"child-{child}", root, child)
    tree.update_traits(child, ["HW_CPU_X86_AVX"])
    recorder.before(
        "post",
        "/resource_providers",
        lambda: world.provider(f"child-{child}", root, {"VCPU": 3}, key=child),
    )
    client.update_from_provider_tree(None, tree)
    assert world.traits(child) == {"HW_CPU_X86_AVX"}
    assert world.totals(child) == {}


def test_a_provider_deleted_by_somebody_else_counts_as_deleted(
    client: ReportClient, world: World
) -> None:
    root = world.provider()
    child = world.provider(parent=root)
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.remove(child)
    world.call("DELETE", f"/resource_providers/{child}")
    client.update_from_provider_tree(None, tree)
    assert not client.cached_tree.exists(child)


def test_a_half_done_call_is_continued_by_the_next(client: ReportClient, world: World) -> None:
    """What the failed call created and the driver no longer wants is deleted."""
    root = world.provider()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    created = tree.new_child(f"child-{root}", root)
    tree.update_traits(root, ["NO_SUCH_TRAIT"])
    with pytest.raises(exc.ResourceProviderSyncFailed):
        client.update_from_provider_tree(None, tree)
    assert world.exists(created)
    tree.remove(created)
    tree.update_traits(root, [])
    client.update_from_provider_tree(None, tree)
    assert not world.exists(created)


# ---- reading


def test_a_missing_root_is_created(client: ReportClient, world: World) -> None:
    key, unnamed, child = new_uuid(), new_uuid(), new_uuid()
    tree = client.get_provider_tree_and_ensure_root(None, key, name=f"name-{key}")
    assert tree.data(key).name == f"name-{key}" and tree.data(key).generation == 0
    assert client.get_provider_tree_and_ensure_root(None, unnamed).data(unnamed).name == unnamed
    tree = ReportClient(world.adapter).get_provider_tree_and_ensure_root(
        None, child, name=f"child-{key}", parent_provider_uuid=key
    )
    assert tree.get_provider_uuids() == [key, child]
    with pytest.raises(exc.ResourceProviderCreationFailed):
        client.get_provider_tree_and_ensure_root(None, new_uuid(), parent_provider_uuid=new_uuid())


def test_what_is_fresh_is_not_read_again(recorder: Recorder, world: World) -> None:
    recorder.hides = "/-/"
    root = world.provider()
    child = world.provider(parent=root)
    now = [1000.0]
    client = ReportClient(recorder, association_refresh=10, clock=lambda: now[0])
    client.get_provider_tree_and_ensure_root(None, root)
    recorder.clear()
    now[0] += 9.9
    client.get_provider_tree_and_ensure_root(None, root)
    assert recorder.requests == []
    world.set_traits(child, ["HW_CPU_X86_AVX"])
    now[0] += 0.1
    assert client.get_provider_tree_and_ensure_root(None, root).has_traits(
        child, ["HW_CPU_X86_AVX"]
    )
    assert ("get", f"/resource_providers?in_tree={root}") in recorder.requests


def test_without_refresh_what_was_read_is_fresh_for_ever(recorder: Recorder, world: World) -> None:
    root = world.provider()
    now = [0.0]
    client = ReportClient(recorder, association_refresh=0, clock=lambda: now[0])
    client.get_provider_tree_and_ensure_root(None, root)
    recorder.clear()
    now[0] = 1e9
    client.get_provider_tree_and_ensure_root(None, root)
    assert recorder.requests == []
    client.invalidate_resource_provider(root)
    client.get_provider_tree_and_ensure_root(None, root)
    assert recorder.requests


def test_only_stale_descendants_of_a_fresh_provider_are_read(
    recorder: Recorder, world: World
) -> None:
    root = world.provider()
    old = world.provider(parent=root)
    now = [0.0]
    client = ReportClient(recorder, association_refresh=10, clock=lambda: now[0])
    tree = client.get_provider_tree_and_ensure_root(None, root)
    now[0] = 5
    added = tree.new_child(f"new-{root}", root)
    client.update_from_provider_tree(None, tree)
    now[0] = 12
    client.get_provider_tree_and_ensure_root(None, root)
    recorder.clear()
    now[0] = 16
    client.get_provider_tree_and_ensure_root(None, added)
    assert recorder.requests == []
    assert client.cached_tree.exists(old)


def test_sharing_providers_are_handed_out_as_lone_roots(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    aggregate, elsewhere = new_uuid(), new_uuid()
    owner = world.provider()
    sharing = world.provider(
        parent=owner, inventory={"DISK_GB": 10}, traits=[SHARING], aggregates=[aggregate]
    )
    world.provider(traits=[SHARING], aggregates=[elsewhere])
    plain = world.provider(aggregates=[aggregate])
    root = world.provider()
    child = world.provider(parent=root, aggregates=[aggregate])
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert set(tree.get_provider_uuids()) == {root, child, sharing}
    assert tree.data(sharing).parent_uuid is None
    assert tree.has_sharing_provider("DISK_GB")
    assert not any(f"in_tree={sharing}" in url for _, url in recorder.requests)
    asked = [url for _, url in recorder.requests if "member_of" in url]
    assert len(asked) == 1
    # A lone root is no picture of its own tree.
    assert client.get_provider_tree_and_ensure_root(None, sharing).exists(owner)
    again = client.get_provider_tree_and_ensure_root(None, root)
    assert again.data(sharing).parent_uuid is None
    again.update_traits(root, ["HW_CPU_X86_AVX"])
    client.update_from_provider_tree(None, again)
    assert world.exists(owner) and world.exists(plain)


def test_aggregates_are_asked_for_in_portions(recorder: Recorder, world: World) -> None:
    aggregates = [new_uuid() for _ in range(5)]
    root = world.provider(aggregates=aggregates)
    sharing = world.provider(traits=[SHARING], aggregates=aggregates[:1])
    client = ReportClient(recorder, max_uuids_per_request=2)
    assert client.get_provider_tree_and_ensure_root(None, root).exists(sharing)
    assert len([url for _, url in recorder.requests if "member_of" in url]) == 3


def test_parts_of_different_generations_are_read_again(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    root = world.provider(inventory={"VCPU": 1})
    recorder.hides = "/-/"
    recorder.before("get", "/traits", lambda: world.set_inventory(root, {"VCPU": 2}))
    tree = client.get_provider_tree_and_ensure_root(None, root)
    assert tree.data(root).inventory["VCPU"]["total"] == 2
    assert tree.data(root).generation == world.generation(root)


def test_a_provider_that_never_holds_still_is_kept_under_the_lowest_generation(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    recorder.hides = "/-/"
    root = world.provider(inventory={"VCPU": 1})
    totals = iter(range(2, 99))
    recorder.before(
        "get", "/traits", lambda: world.set_inventory(root, {"VCPU": next(totals)}), times=EACH
    )
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.update_inventory(root, {"DISK_GB": {"total": 1}})
    with pytest.raises(exc.ResourceProviderUpdateConflict):
        client.update_from_provider_tree(None, tree)


def test_handed_out_trees_are_copies(client: ReportClient, world: World) -> None:
    root = world.provider()
    tree = client.get_provider_tree_and_ensure_root(None, root)
    tree.update_traits(root, ["X"])
    assert client.cached_tree.data(root).traits == set()


def test_single_aspects_are_written_if_they_differ(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    root = world.provider()
    client.set_traits_for_provider(None, root, ["CUSTOM_X"])
    client.set_inventory_for_provider(None, root, {"CUSTOM_Y": {"total": 2}})
    client.set_aggregates_for_provider(None, root, [root])
    assert (world.traits(root), world.totals(root)) == ({"CUSTOM_X"}, {"CUSTOM_Y": 2})
    assert client.get_provider_traits(None, root) == ({"CUSTOM_X"}, world.generation(root))
    assert client.get_provider_aggregates(None, root) == ({root}, world.generation(root))
    recorder.clear()
    client.set_aggregates_for_provider(None, root, [root])
    client.set_inventory_for_provider(None, root, {"CUSTOM_Y": {"total": 2}})
    assert recorder.requests == []
    world.set_traits(root, [])
    with pytest.raises(exc.ResourceProviderUpdateConflict) as caught:
        client.set_traits_for_provider(None, root, [])
    assert caught.value.generation == world.generation(root) - 1
    client.set_traits_for_provider(None, root, [])
    with pytest.raises(exc.ResourceProviderUpdateFailed):
        client.set_traits_for_provider(None, new_uuid(), [])


@pytest.mark.parametrize(
    ("read", "raised"),
    [
        ("get_provider_traits", exc.ResourceProviderTraitRetrievalFailed),
        ("get_provider_aggregates", exc.ResourceProviderAggregateRetrievalFailed),
        (
            "get_allocations_for_resource_provider",
            exc.ResourceProviderAllocationRetrievalFailed,
        ),
    ],
)
def test_reads_of_unknown_providers_name_them(
    client: ReportClient, read: str, raised: type[exc.ResourceProviderTraitRetrievalFailed]
) -> None:
    key = new_uuid()
    with pytest.raises(raised) as caught:
        getattr(client, read)(None, key)
    assert caught.value.uuid == key
    assert str(caught.value.request_id).startswith("req-")
    assert client.get_providers_in_tree(None, key) == []

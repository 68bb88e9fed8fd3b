"""Reshapes through the client: specification 05 sections C5, C6, C11 10 to 19."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from placement.client import exceptions as exc
from placement.client.provider_tree import ProviderTree
from placement.client.report import ReportClient
from tests.client.world import Recorder, World
from tests.support import bodies
from tests.support.world import new_uuid

SHARING = "MISC_SHARES_VIA_AGGREGATE"


@dataclass(frozen=True)
class Host:
    """UUIDs of providers, and of the consumers on them."""

    root: str
    one: str
    two: str
    sharing: str
    other: str
    small: str
    large: str
    neighbour: str

    @property
    def all(self) -> tuple[str, ...]:
        """Return the UUIDs of the providers."""
        return (self.root, self.one, self.two, self.sharing, self.other)


def read(client: ReportClient, root: str) -> tuple[ProviderTree, dict[str, Any]]:
    """The tree and the allocations as a driver gets them."""
    tree = client.get_provider_tree_and_ensure_root(None, root)
    return tree, client.get_allocations_for_provider_tree(None, root)


def move(allocations: dict[str, Any], consumer: str, source: str, target: str) -> None:
    """Put all that a consumer has on one provider on another."""
    places = allocations[consumer]["allocations"]
    resources = places.pop(source)["resources"]
    there = places.setdefault(target, {"resources": {}})["resources"]
    for name, amount in resources.items():
        there[name] = there.get(name, 0) + amount


@pytest.fixture
def host(world: World) -> Host:
    """A host with two children in use, and a sharing provider that others use, too."""
    aggregate = new_uuid()

    root = world.provider(inventory={"DISK_GB": 100}, aggregates=[aggregate])
    one = world.provider(parent=root, inventory={"VCPU": 8})
    two = world.provider(parent=root, inventory={"CUSTOM_A": {"total": 4, "max_unit": 2}})
    sharing = world.provider(
        inventory={"CUSTOM_SHARED": 100}, traits=[SHARING], aggregates=[aggregate]
    )
    other = world.provider(inventory={"VCPU": 8}, aggregates=[aggregate])
    return Host(
        root,
        one,
        two,
        sharing,
        other,
        small=world.claim({one: {"VCPU": 2}, sharing: {"CUSTOM_SHARED": 10}}),
        large=world.claim({root: {"DISK_GB": 5}, one: {"VCPU": 3}, two: {"CUSTOM_A": 2}}),
        neighbour=world.claim({other: {"VCPU": 1}, sharing: {"CUSTOM_SHARED": 7}}),
    )


def collapse(tree: ProviderTree, host: Host) -> None:
    """Put everything on the root."""
    inventory = {}
    for key in (host.root, host.one, host.two):
        inventory.update(tree.data(key).inventory)
    tree.update_inventory(host.root, inventory)
    tree.remove(host.one)
    tree.remove(host.two)


def collapsed(client: ReportClient, host: Host) -> tuple[ProviderTree, dict[str, Any]]:
    """Read the tree, put everything on the root, and what consumers hold too."""
    tree, allocations = read(client, host.root)
    collapse(tree, host)
    for consumer, record in allocations.items():
        for key in {host.one, host.two} & record["allocations"].keys():
            move(allocations, consumer, key, host.root)
    return tree, allocations


def test_allocations_of_a_node_are_found_with_all_their_places(
    client: ReportClient, world: World, host: Host
) -> None:
    """C11 10."""
    empty = world.provider()
    client.get_provider_tree_and_ensure_root(None, empty)
    assert client.get_allocations_for_provider_tree(None, empty) == {}
    _, allocations = read(client, host.root)
    assert set(allocations) == {host.small, host.large}
    for consumer in (host.small, host.large):
        assert allocations[consumer] == client.get_allocs_for_consumer(None, consumer)
        held = allocations[consumer]["allocations"]
        assert {key: place["resources"] for key, place in held.items()} == world.used(consumer)
    assert host.sharing in allocations[host.small]["allocations"]
    name = world.get(f"/resource_providers/{host.one}")["name"]
    below = client.get_allocations_for_provider_tree(None, name)
    assert set(below) == {host.small, host.large}


def test_allocations_of_an_unknown_node_are_a_value_error(
    client: ReportClient, recorder: Recorder
) -> None:
    """C11 11."""
    with pytest.raises(ValueError, match="nowhere"):
        client.get_allocations_for_provider_tree(None, "nowhere")
    assert recorder.requests == []


@pytest.mark.parametrize("with_allocations", [False, True])
def test_a_reshape_that_changes_nothing(
    client: ReportClient, recorder: Recorder, world: World, host: Host, with_allocations: bool
) -> None:
    """C11 12."""
    tree, allocations = read(client, host.root)
    before = world.state(*host.all)
    recorder.clear()
    client.update_from_provider_tree(None, tree, allocations if with_allocations else {})
    assert ("post", "/reshaper") in recorder.writes()
    assert len([one for one in recorder.writes() if "resource_classes" not in one[1]]) == 1
    assert _without_generations(world.state(*host.all)) == _without_generations(before)


def _without_generations(shown: Any) -> Any:
    """Drop what every write moves: generations of providers and consumers."""
    if isinstance(shown, dict):
        return {k: _without_generations(v) for k, v in shown.items() if "generation" not in k}
    return [_without_generations(one) for one in shown] if isinstance(shown, list) else shown


def test_a_class_is_added_everywhere_with_allocations_of_it(
    client: ReportClient, recorder: Recorder, world: World, host: Host
) -> None:
    """C11 13."""
    tree, allocations = read(client, host.root)
    for key in (host.root, host.one, host.two):
        inventory = tree.data(key).inventory
        tree.update_inventory(key, {**inventory, "CUSTOM_NEW": {"total": 5}})
    for record in allocations.values():
        record["allocations"][host.one]["resources"]["CUSTOM_NEW"] = 1
    recorder.clear()
    client.update_from_provider_tree(None, tree, allocations)
    assert recorder.writes().count(("post", "/reshaper")) == 1
    assert not any("inventories" in url for _, url in recorder.writes())
    assert world.totals(host.two) == {"CUSTOM_A": 4, "CUSTOM_NEW": 5}
    assert world.used(host.small)[host.one] == {"VCPU": 2, "CUSTOM_NEW": 1}


def test_collapsing_without_the_allocations_changes_nothing(
    client: ReportClient, world: World, host: Host
) -> None:
    """C11 14."""
    tree, allocations = read(client, host.root)
    before = world.state(*host.all)
    collapse(tree, host)
    with pytest.raises(exc.ReshapeFailed, match=r"placement\.inventory\.inuse") as caught:
        client.update_from_provider_tree(None, tree, allocations)
    assert str(caught.value.request_id).startswith("req-")
    assert world.state(*host.all) == before
    assert not client.cached_tree.exists(host.root)


def test_there_and_back_again(client: ReportClient, world: World, host: Host) -> None:
    """C11 15 and 16."""
    tree, allocations = read(client, host.root)
    original, held = copy.deepcopy(tree), {c: world.used(c) for c in allocations}
    tree, allocations = collapsed(client, host)
    client.update_from_provider_tree(None, tree, allocations)
    assert not world.exists(host.one) and not world.exists(host.two)
    assert world.totals(host.root) == {"DISK_GB": 100, "VCPU": 8, "CUSTOM_A": 4}
    assert world.used(host.large) == {host.root: {"DISK_GB": 5, "VCPU": 3, "CUSTOM_A": 2}}
    assert world.used(host.small) == {host.root: {"VCPU": 2}, host.sharing: {"CUSTOM_SHARED": 10}}

    tree, allocations = read(client, host.root)
    for key in (host.one, host.two):
        data = original.data(key)
        tree.new_child(data.name, host.root, key)
        tree.update_inventory(key, data.inventory)
    tree.update_inventory(host.root, original.data(host.root).inventory)
    for consumer, places in held.items():
        allocations[consumer]["allocations"] = {
            key: {"resources": dict(resources)} for key, resources in places.items()
        }
    client.update_from_provider_tree(None, tree, allocations)
    assert {consumer: world.used(consumer) for consumer in held} == held
    for key in (host.root, host.one, host.two):
        assert world.totals(key) == {
            name: record["total"] for name, record in original.data(key).inventory.items()
        }
    assert world.used(host.neighbour) == {
        host.other: {"VCPU": 1},
        host.sharing: {"CUSTOM_SHARED": 7},
    }


@pytest.mark.parametrize("writer", ["new consumer", "changed consumer", "vanished consumer"])
def test_allocations_written_meanwhile_are_a_conflict(
    client: ReportClient, recorder: Recorder, world: World, host: Host, writer: str
) -> None:
    """C11 17."""
    tree, allocations = collapsed(client, host)

    def write() -> None:
        if writer == "new consumer":
            world.claim({host.one: {"VCPU": 1}})
        elif writer == "changed consumer":
            world.claim({host.other: {"VCPU": 1}}, host.small, generation=1)
        else:
            world.release(host.large)

    recorder.before("post", "/reshaper", write)
    with pytest.raises(exc.ReshapeConflict):
        client.update_from_provider_tree(None, tree, allocations)
    assert client.cached_tree.roots == []
    assert world.exists(host.one) and world.totals(host.one) == {"VCPU": 8}

    tree, allocations = collapsed(client, host)
    client.update_from_provider_tree(None, tree, allocations)
    assert not world.exists(host.one)


def test_a_consumer_deleted_between_the_two_reads_is_left_out(
    client: ReportClient, recorder: Recorder, world: World, host: Host
) -> None:
    """C11 18."""
    client.get_provider_tree_and_ensure_root(None, host.root)
    recorder.before("get", f"/allocations/{host.small}", lambda: world.release(host.small))
    allocations = client.get_allocations_for_provider_tree(None, host.root)
    assert set(allocations) == {host.large}


def test_the_type_of_a_consumer_survives(client: ReportClient, world: World, host: Host) -> None:
    """C11 19."""
    consumer = world.claim({host.one: {"VCPU": 1}}, version="1.38", consumer_type="INSTANCE_OF_X")
    tree, allocations = read(client, host.root)
    client.update_from_provider_tree(None, tree, allocations)
    shown = world.get(f"/allocations/{consumer}", version="1.38")
    assert shown["consumer_type"] == "INSTANCE_OF_X"
    assert shown["consumer_generation"] == 2


def test_records_of_later_versions_are_reduced_to_1_30(
    client: ReportClient, world: World, host: Host
) -> None:
    tree, allocations = read(client, host.root)
    record = allocations[host.large]
    record["consumer_type"], record["mappings"] = "X", {"": [host.one]}
    record["allocations"][host.two]["resources"] = {}
    client.update_from_provider_tree(None, tree, allocations)
    assert host.two not in world.used(host.large)


def test_a_record_that_became_empty_deletes_the_consumer(
    client: ReportClient, world: World, host: Host
) -> None:
    tree, allocations = read(client, host.root)
    allocations[host.large]["allocations"] = {}
    client.update_from_provider_tree(None, tree, allocations)
    assert world.used(host.large) == {}


def test_removed_providers_take_part_so_that_nobody_gets_in(
    client: ReportClient, recorder: Recorder, world: World, host: Host
) -> None:
    tree, allocations = collapsed(client, host)
    refused = []

    def claim_late() -> None:
        body = bodies.entry({host.one: {"VCPU": 1}})
        path = f"/allocations/{new_uuid()}"
        refused.append(world.call("PUT", path, body, "1.38", expect=(409,)))

    recorder.before("delete", host.one, claim_late)
    client.update_from_provider_tree(None, tree, allocations)
    assert refused and not world.exists(host.one)


def test_a_busy_sharing_provider_is_no_conflict(
    client: ReportClient, recorder: Recorder, world: World, host: Host
) -> None:
    """The claim that came meanwhile stands beside the reshape."""
    tree, allocations = collapsed(client, host)
    late = {host.sharing: {"CUSTOM_SHARED": 1}, host.other: {"VCPU": 1}}
    claimed: list[str] = []
    recorder.before("post", "/reshaper", lambda: claimed.append(world.claim(late)))

    client.update_from_provider_tree(None, tree, allocations)

    assert world.used(claimed[0]) == late
    assert world.used(host.small) == {host.root: {"VCPU": 2}, host.sharing: {"CUSTOM_SHARED": 10}}
    assert not world.exists(host.one)
    assert world.totals(host.sharing) == {"CUSTOM_SHARED": 100}


NONSENSE: list[Callable[..., object]] = [
    lambda records, key: records.update({key: None}),
    lambda records, key: records.update({key: {}}),
    lambda records, key: records[key].update(allocations=[1]),
    lambda records, key: records[key].update(allocations={"x": {"resources": {"VCPU": "y"}}}),
    lambda records, key: records[key].update(allocations={1: {"resources": {"VCPU": object()}}}),
    lambda records, key: records[key].update(project_id=7),
    lambda records, key: records.update({"not a uuid": records[key]}),
    lambda records, key: next(iter(records[key]["allocations"].values())).update(
        resources={"VCPU": -1}
    ),
]


def test_nonsense_in_the_allocations_fails_the_reshape(
    client: ReportClient, world: World, host: Host
) -> None:
    before = world.state(*host.all)
    for number, spoil in enumerate(NONSENSE):
        tree, allocations = read(client, host.root)
        spoil(allocations, host.small)
        with pytest.raises(exc.ReshapeFailed):
            client.update_from_provider_tree(None, tree, allocations)
        assert world.state(*host.all) == before, number


def test_an_unknown_class_fails_the_reshape(client: ReportClient, world: World, host: Host) -> None:
    tree, allocations = read(client, host.root)
    tree.update_inventory(host.root, {**tree.data(host.root).inventory, "BANANAS": {"total": 1}})
    with pytest.raises(exc.ReshapeFailed, match="No such resource class BANANAS"):
        client.update_from_provider_tree(None, tree, allocations)
    tree.update_inventory(host.root, {"CUSTOM_bad": {"total": 1}})
    with pytest.raises(exc.ReshapeFailed) as caught:
        client.update_from_provider_tree(None, tree, allocations)
    assert isinstance(caught.value.__cause__, exc.InvalidResourceClass)


def test_fields_the_driver_does_not_mention_survive_a_reshape(
    client: ReportClient, world: World, host: Host
) -> None:
    """A driver that builds its records from scratch leaves units and ratios alone."""
    tree = client.get_provider_tree_and_ensure_root(None, host.two)
    tree.update_inventory(host.two, {})
    tree.update_inventory(host.two, {"CUSTOM_A": {"total": 4}})
    client.update_from_provider_tree(None, tree, {})
    shown = world.get(f"/resource_providers/{host.two}/inventories")["inventories"]
    assert shown["CUSTOM_A"]["max_unit"] == 2

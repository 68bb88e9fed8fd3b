"""Reshapes through the client: specification 05 sections C5, C6, C11 10 to 19."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from placement.client import exceptions as exc
from placement.client.provider_tree import ProviderTree
from placement.client.report import ReportClient
from tests.client.world import Recorder, World
from tests.support import bodies
from tests.support.world import new_uuid

SHARING = "MISC_SHARES_VIA_AGGREGATE"


class Host:
    """A host with two children in use, and a sharing provider that others use, too.

    ``root``, ``one`` and ``two``, ``sharing`` and ``other`` are UUIDs of providers, ``small``, ``large`` and
    ``neighbour`` those of consumers. The client reshapes it.
    """

    def __init__(self, client: ReportClient, recorder: Recorder, world: World) -> None:
        self.client, self.recorder, self.world = client, recorder, world
        shared = [new_uuid()]
        self.root = world.provider(inventory={"DISK_GB": 100}, aggregates=shared)
        self.one = world.provider(parent=self.root, inventory={"VCPU": 8})
        limited = {"CUSTOM_A": {"total": 4, "max_unit": 2}}
        self.two = world.provider(parent=self.root, inventory=limited)
        stock = {"CUSTOM_SHARED": 100}
        self.sharing = world.provider(inventory=stock, traits=[SHARING], aggregates=shared)
        self.other = world.provider(inventory={"VCPU": 8}, aggregates=shared)
        self.all = (self.root, self.one, self.two, self.sharing, self.other)
        self.small = world.claim({self.one: {"VCPU": 2}, self.sharing: {"CUSTOM_SHARED": 10}})
        everywhere = {self.root: {"DISK_GB": 5}, self.one: {"VCPU": 3}, self.two: {"CUSTOM_A": 2}}
        self.large = world.claim(everywhere)
        self.neighbour = world.claim({self.other: {"VCPU": 1}, self.sharing: {"CUSTOM_SHARED": 7}})

    def read(self) -> tuple[ProviderTree, dict[str, Any]]:
        """Return the tree and the allocations as a driver gets them."""
        tree = self.client.get_provider_tree_and_ensure_root(None, self.root)
        return tree, self.client.get_allocations_for_provider_tree(None, self.root)

    def flush(self, tree: ProviderTree, allocations: dict[str, Any]) -> None:
        """Write both back."""
        self.client.update_from_provider_tree(None, tree, allocations)

    def collapse(self, tree: ProviderTree) -> None:
        """Put everything on the root."""
        inventory = {}
        for key in (self.root, self.one, self.two):
            inventory.update(tree.data(key).inventory)
        tree.update_inventory(self.root, inventory)
        tree.remove(self.one)
        tree.remove(self.two)

    def collapsed(self) -> tuple[ProviderTree, dict[str, Any]]:
        """Read the tree, put everything on the root, and what consumers hold too."""
        tree, allocations = self.read()
        self.collapse(tree)
        for consumer, record in allocations.items():
            for key in {self.one, self.two} & record["allocations"].keys():
                move(allocations, consumer, key, self.root)
        return tree, allocations


def move(allocations: dict[str, Any], consumer: str, source: str, target: str) -> None:
    """Put all that a consumer has on one provider on another."""
    places = allocations[consumer]["allocations"]
    resources = places.pop(source)["resources"]
    there = places.setdefault(target, {"resources": {}})["resources"]
    for name, amount in resources.items():
        there[name] = there.get(name, 0) + amount


@pytest.fixture
def host(client: ReportClient, recorder: Recorder, world: World) -> Host:
    return Host(client, recorder, world)


def test_allocations_of_a_node_are_found_with_all_their_places(host: Host) -> None:
    """C11 10."""
    empty = host.world.provider()
    host.client.get_provider_tree_and_ensure_root(None, empty)
    assert host.client.get_allocations_for_provider_tree(None, empty) == {}
    _, allocations = host.read()
    assert set(allocations) == {host.small, host.large}
    for consumer in (host.small, host.large):
        assert allocations[consumer] == host.client.get_allocs_for_consumer(None, consumer)
        held = allocations[consumer]["allocations"]
        assert {key: place["resources"] for key, place in held.items()} == host.world.used(consumer)
    assert host.sharing in allocations[host.small]["allocations"]
    name = host.world.get(f"/resource_providers/{host.one}")["name"]
    below = host.client.get_allocations_for_provider_tree(None, name)
    assert set(below) == {host.small, host.large}


def test_allocations_of_an_unknown_node_are_a_value_error(
    client: ReportClient, recorder: Recorder
) -> None:
    """C11 11."""
    with pytest.raises(ValueError, match="nowhere"):
        client.get_allocations_for_provider_tree(None, "nowhere")
    assert recorder.requests == []


@pytest.mark.parametrize("with_allocations", [False, True])
def test_a_reshape_that_changes_nothing(host: Host, with_allocations: bool) -> None:
    """C11 12."""
    tree, allocations = host.read()
    before = host.world.state(*host.all)
    host.recorder.clear()
    host.flush(tree, allocations if with_allocations else {})
    assert ("post", "/reshaper") in host.recorder.writes()
    assert len([one for one in host.recorder.writes() if "resource_classes" not in one[1]]) == 1
    assert _without_generations(host.world.state(*host.all)) == _without_generations(before)


def _without_generations(shown: Any) -> Any:
    """Drop what every write moves: generations of providers and consumers."""
    if isinstance(shown, dict):
        return {k: _without_generations(v) for k, v in shown.items() if "generation" not in k}
    return [_without_generations(one) for one in shown] if isinstance(shown, list) else shown


def test_a_class_is_added_everywhere_with_allocations_of_it(host: Host) -> None:
    """C11 13."""
    tree, allocations = host.read()
    for key in (host.root, host.one, host.two):
        inventory = tree.data(key).inventory
        tree.update_inventory(key, {**inventory, "CUSTOM_NEW": {"total": 5}})
    for record in allocations.values():
        record["allocations"][host.one]["resources"]["CUSTOM_NEW"] = 1
    host.recorder.clear()
    host.flush(tree, allocations)
    assert host.recorder.writes().count(("post", "/reshaper")) == 1
    assert not any("inventories" in url for _, url in host.recorder.writes())
    assert host.world.totals(host.two) == {"CUSTOM_A": 4, "CUSTOM_NEW": 5}
    assert host.world.used(host.small)[host.one] == {"VCPU": 2, "CUSTOM_NEW": 1}


def test_collapsing_without_the_allocations_changes_nothing(host: Host) -> None:
    """C11 14."""
    tree, allocations = host.read()
    before = host.world.state(*host.all)
    host.collapse(tree)
    with pytest.raises(exc.ReshapeFailed, match=r"placement\.inventory\.inuse") as caught:
        host.flush(tree, allocations)
    assert str(caught.value.request_id).startswith("req-")
    assert host.world.state(*host.all) == before
    assert not host.client.cached_tree.exists(host.root)


def test_there_and_back_again(host: Host) -> None:
    """C11 15 and 16."""
    tree, allocations = host.read()
    original, held = copy.deepcopy(tree), {c: host.world.used(c) for c in allocations}
    tree, allocations = host.collapsed()
    host.flush(tree, allocations)
    assert not host.world.exists(host.one) and not host.world.exists(host.two)
    assert host.world.totals(host.root) == {"DISK_GB": 100, "VCPU": 8, "CUSTOM_A": 4}
    assert host.world.used(host.large) == {host.root: {"DISK_GB": 5, "VCPU": 3, "CUSTOM_A": 2}}
    assert host.world.used(host.small) == {
        host.root: {"VCPU": 2},
        host.sharing: {"CUSTOM_SHARED": 10},
    }

    tree, allocations = host.read()
    for key in (host.one, host.two):
        data = original.data(key)
        tree.new_child(data.name, host.root, key)
        tree.update_inventory(key, data.inventory)
    tree.update_inventory(host.root, original.data(host.root).inventory)
    for consumer, places in held.items():
        allocations[consumer]["allocations"] = {
            key: {"resources": dict(resources)} for key, resources in places.items()
        }
    host.flush(tree, allocations)
    assert {consumer: host.world.used(consumer) for consumer in held} == held
    for key in (host.root, host.one, host.two):
        assert host.world.totals(key) == {
            name: record["total"] for name, record in original.data(key).inventory.items()
        }
    assert host.world.used(host.neighbour) == {
        host.other: {"VCPU": 1},
        host.sharing: {"CUSTOM_SHARED": 7},
    }


@pytest.mark.parametrize("writer", ["new consumer", "changed consumer", "vanished consumer"])
def test_allocations_written_meanwhile_are_a_conflict(host: Host, writer: str) -> None:
    """C11 17."""
    tree, allocations = host.collapsed()

    def write() -> None:
        if writer == "new consumer":
            host.world.claim({host.one: {"VCPU": 1}})
        elif writer == "changed consumer":
            host.world.claim({host.other: {"VCPU": 1}}, host.small, generation=1)
        else:
            host.world.release(host.large)

    host.recorder.before("post", "/reshaper", write)
    with pytest.raises(exc.ReshapeConflict):
        host.flush(tree, allocations)
    assert host.client.cached_tree.roots == []
    assert host.world.exists(host.one) and host.world.totals(host.one) == {"VCPU": 8}

    tree, allocations = host.collapsed()
    host.flush(tree, allocations)
    assert not host.world.exists(host.one)


def test_a_consumer_deleted_between_the_two_reads_is_left_out(host: Host) -> None:
    """C11 18."""
    host.client.get_provider_tree_and_ensure_root(None, host.root)
    host.recorder.before(
        "get", f"/allocations/{host.small}", lambda: host.world.release(host.small)
    )
    allocations = host.client.get_allocations_for_provider_tree(None, host.root)
    assert set(allocations) == {host.large}


def test_the_type_of_a_consumer_survives(host: Host) -> None:
    """C11 19."""
    consumer = host.world.claim(
        {host.one: {"VCPU": 1}}, version="1.38", consumer_type="INSTANCE_OF_X"
    )
    tree, allocations = host.read()
    host.flush(tree, allocations)
    shown = host.world.get(f"/allocations/{consumer}", version="1.38")
    assert shown["consumer_type"] == "INSTANCE_OF_X"
    assert shown["consumer_generation"] == 2


def test_records_of_later_versions_are_reduced_to_1_30(host: Host) -> None:
    tree, allocations = host.read()
    record = allocations[host.large]
    record["consumer_type"], record["mappings"] = "X", {"": [host.one]}
    record["allocations"][host.two]["resources"] = {}
    host.flush(tree, allocations)
    assert host.two not in host.world.used(host.large)


def test_a_record_that_became_empty_deletes_the_consumer(host: Host) -> None:
    tree, allocations = host.read()
    allocations[host.large]["allocations"] = {}
    host.flush(tree, allocations)
    assert host.world.used(host.large) == {}


def test_removed_providers_take_part_so_that_nobody_gets_in(host: Host) -> None:
    tree, allocations = host.collapsed()
    refused = []

    def claim_late() -> None:
        body = bodies.entry({host.one: {"VCPU": 1}})
        path = f"/allocations/{new_uuid()}"
        refused.append(host.world.call("PUT", path, body, "1.38", expect=(409,)))

    host.recorder.before("delete", host.one, claim_late)
    host.flush(tree, allocations)
    assert refused and not host.world.exists(host.one)


def test_a_busy_sharing_provider_is_no_conflict(host: Host) -> None:
    """The claim that came meanwhile stands beside the reshape."""
    tree, allocations = host.collapsed()
    late = {host.sharing: {"CUSTOM_SHARED": 1}, host.other: {"VCPU": 1}}
    claimed: list[str] = []
    host.recorder.before("post", "/reshaper", lambda: claimed.append(host.world.claim(late)))

    host.flush(tree, allocations)

    assert host.world.used(claimed[0]) == late
    assert host.world.used(host.small) == {
        host.root: {"VCPU": 2},
        host.sharing: {"CUSTOM_SHARED": 10},
    }
    assert not host.world.exists(host.one)
    assert host.world.totals(host.sharing) == {"CUSTOM_SHARED": 100}


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


def test_nonsense_in_the_allocations_fails_the_reshape(host: Host) -> None:
    before = host.world.state(*host.all)
    for number, spoil in enumerate(NONSENSE):
        tree, allocations = host.read()
        spoil(allocations, host.small)
        with pytest.raises(exc.ReshapeFailed):
            host.flush(tree, allocations)
        assert host.world.state(*host.all) == before, number


def test_an_unknown_class_fails_the_reshape(host: Host) -> None:
    tree, allocations = host.read()
    tree.update_inventory(host.root, {**tree.data(host.root).inventory, "BANANAS": {"total": 1}})
    with pytest.raises(exc.ReshapeFailed, match="No such resource class BANANAS"):
        host.flush(tree, allocations)
    tree.update_inventory(host.root, {"CUSTOM_bad": {"total": 1}})
    with pytest.raises(exc.ReshapeFailed) as caught:
        host.flush(tree, allocations)
    assert isinstance(caught.value.__cause__, exc.InvalidResourceClass)


def test_fields_the_driver_does_not_mention_survive_a_reshape(host: Host) -> None:
    """A driver that builds its records from scratch leaves units and ratios alone."""
    tree = host.client.get_provider_tree_and_ensure_root(None, host.two)
    tree.update_inventory(host.two, {})
    tree.update_inventory(host.two, {"CUSTOM_A": {"total": 4}})
    host.flush(tree, {})
    shown = host.world.get(f"/resource_providers/{host.two}/inventories")["inventories"]
    assert shown["CUSTOM_A"]["max_unit"] == 2

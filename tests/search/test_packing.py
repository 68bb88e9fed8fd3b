"""How often a request fits equals claiming until nothing fits (specification 07 section 3)."""

from __future__ import annotations

import dataclasses

import pytest

from placement.inventory_record import InventoryRecord
from placement.placing.packing import pack
from placement.search.records import UsedInventory
from placement.search.search import search
from placement.search.work import Work
from tests.search.builders import World, ask, group, load
from tests.search.worlds import SHARES, device_hosts, question, seeds


def claimed(records, request):
    """Claim the first candidate of each tree until it is refused, then the first of those left.

    A search of all trees may begin a tree that shares providers with an earlier one with another candidate:
    it leaves out those that the earlier one has given. Where several groups ask, the first candidate may
    also become another one while it still fits: groups with fewer choices are combined first.
    """
    cloud, number = load(records), 0
    for root in [cloud.uuids[root] for root in cloud.forest.roots]:
        asked = dataclasses.replace(request, limit=1, maximum=-1, seed=None, anchor=root)
        while candidate := next(iter(search(cloud, asked)), None):
            by_id = {int(cloud.ids[p]): amounts for p, amounts in candidate.allocations.items()}
            while granted(records, by_id):
                records = [used(record, by_id.get(record.provider_id, {})) for record in records]
                number += 1
            cloud = load(records)
    return number


def granted(records, by_id):
    """Tell whether there is room for these amounts."""
    return all(
        record.inventories[name].used + amount <= record.inventories[name].capacity
        for record in records
        for name, amount in by_id.get(record.provider_id, {}).items()
    )


def used(record, amounts):
    held = {
        name: inventory._replace(used=inventory.used + amounts.get(name, 0))
        for name, inventory in record.inventories.items()
    }
    return dataclasses.replace(record, inventories=held)


def check(records, request):
    """Compare, and return whether there is anything to place."""
    if not any(g.amounts for g in request.groups):
        return False
    cloud = load(records)
    rooms = {name: column.room.tolist() for name, column in cloud.classes.items()}

    packing = pack(cloud, request, None, 200)

    assert packing.complete
    assert packing.count == claimed(records, request)
    assert sum(packing.limits.values()) == len(cloud.forest.roots)
    assert {name: column.room.tolist() for name, column in cloud.classes.items()} == rooms
    return packing.count > 0


def often(examples, share, one, *fixed):
    """Run a test, which tells whether its condition held, on many seeds, and see that it did often."""
    held = []

    @seeds(examples, *fixed)
    def each(random):
        held.append(bool(one(random)))

    each()
    assert sum(held) > share * len(held), f"{sum(held)} of {len(held)}"


def test_capacity_equals_claiming():
    often(300, 0.1, lambda random: check(*question(random, options=False)), 8392588903601815567)


def test_capacity_equals_claiming_where_combining_is_hard():
    often(150, 0.03, lambda random: check(*device_hosts(random)))


def test_an_exact_number_cannot_be_beaten():
    """Whichever candidate is claimed each time, an exact number is reached and not exceeded."""
    often(60, 0.2, cannot_be_beaten)


def cannot_be_beaten(random):
    """Claim at random until nothing fits, and return whether there was an exact number to reach."""
    for _ in range(10):
        records, request = question(random, options=False)
        if any(g.amounts for g in request.groups):
            packing = pack(load(records), request, None, 200)
            if packing.exact and packing.count:
                break
    else:
        return False
    cloud = load(records)
    number = 0
    while True:
        candidates = list(search(cloud, dataclasses.replace(request, limit=50)))
        if not candidates:
            break
        for provider, amounts in random.choice(candidates).allocations.items():
            cloud.use(provider, amounts)
        number += 1
    assert number == packing.count
    return True


def test_what_stops_the_next_and_what_is_stranded():
    world = World().host("a", VCPU=8, DISK_GB=100).host("b", VCPU=3, DISK_GB=100)
    world = world.host("c", traits=["T1"], VCPU=9, DISK_GB=5)
    cloud = load(world.records.values())

    plain = pack(cloud, ask(group(VCPU=2, DISK_GB=10)), None, 200)
    wanted = pack(cloud, ask(group(VCPU=2, required=["T1"])), None, 200)

    assert (plain.count, plain.exact) == (5, True)
    assert plain.limits == {"VCPU": 2, "DISK_GB": 1}
    assert plain.largest == {"VCPU": 9, "DISK_GB": 100}
    assert plain.stranded == {"VCPU": 9, "DISK_GB": 60 + 90}
    assert (wanted.count, wanted.limits) == (4, {"required T1": 2, "VCPU": 1})


def test_a_group_without_resources_may_name_another_tree():
    """Its ``in_tree`` narrows nothing (specification 04 section 5.4), but the tree must exist."""
    world = World().host("a", traits=["T1"], VCPU=4).device("n", "a", VCPU=2).host("b", VCPU=1)
    other = world.records["b"].uuid
    asked = ask(group("_A", VCPU=2), group("_B", required=["T1"], in_tree=other))
    check(list(world.records.values()), asked)
    assert pack(load(world.records.values()), asked, None, 200).count == 3


def test_a_request_without_resources_is_refused():
    """It would fit without end; the API lets no such request through."""
    world = World()
    world.host("h", VCPU=8)

    with pytest.raises(ValueError, match="without resources"):
        pack(world.cloud(), ask(group("_A", required=["HW_CPU_X86_VMX"])), None, 200)


def test_a_bound_that_is_reached_says_so():
    """One search of a cloud of so few providers is as much work as ten of one tree."""
    world = World().host("a")
    for number in range(12):
        world = world.device(f"n{number:02}", "a", VCPU=30)
    packing = pack(load(world.records.values()), ask(group(VCPU=1)), None, 1)
    assert not packing.complete
    assert packing.count == 300


def test_a_candidate_is_searched_for_once_and_taken_until_it_is_full():
    """Two nodes with shared disk: four searches for 2,500 placements, the last one of which finds nothing."""
    world = World().host("a", aggregates=["rack"])
    world = world.device("n0", "a", VCPU=1000).device("n1", "a", VCPU=2000)
    world = world.host("pool", traits=[SHARES], aggregates=["rack"], DISK_GB=2500)
    work = Work()
    packing = pack(load(world.records.values()), ask(group(VCPU=1, DISK_GB=1)), None, 200, work)
    assert (packing.count, packing.exact, packing.complete) == (2500, False, True)
    assert work.done < 50


@pytest.mark.parametrize("in_tree", [False, True])
def test_more_than_numbers_can_count_is_a_large_number_and_not_exact(in_tree):
    """Totals and ratios go up to 2**31 and 3.4e38: the product has 158 bits, an answer 63."""
    world = World()
    for name, ratio in (("a", 1e30), ("b", 3.4e38), ("c", 3.4e38)):
        stock = UsedInventory(InventoryRecord(2**31 - 1, 0, 1, 2**31 - 1, 1, ratio))
        world = world.host(name, aggregates=["rack"], VCPU=stock)
        if in_tree:
            world = world.device(f"{name}d", name, DISK_GB=stock)
    asked = group(VCPU=1, DISK_GB=7) if in_tree else group(VCPU=1)

    packing = pack(world.cloud(), ask(asked), None, 200)

    assert 2**60 <= packing.count < 2**63
    assert not packing.exact
    assert packing.counts.min() >= 0
    assert all(0 <= amount < 2**63 for amount in packing.stranded.values())

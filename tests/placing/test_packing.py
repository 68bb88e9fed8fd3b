"""How often a request fits equals claiming until nothing fits (specification 07 section 3)."""

from __future__ import annotations

import dataclasses

import pytest

from placement.inventory_record import InventoryRecord
from placement.placing.packing import join, pack, pack_in_turn
from placement.search.records import UsedInventory
from placement.search.search import search
from placement.search.work import Work
from tests.search.builders import World, ask, group, load
from tests.search.oracle import Oracle
from tests.search.worlds import SHARES, cloud, device_hosts, question, request, seeds
from tests.support.effort import LONG


def claimed(records, request):
    """Claim the first candidate of each tree until it is refused, then the first of those left.

    A search of all trees may begin a tree that shares providers with an earlier one with another candidate:
    it leaves out those that the earlier one has given. Where several groups ask, the first candidate may
    also become another one while it still fits: groups with fewer choices are combined first.
    """
    return claimed_in_turn(records, [request])[0]


def claimed_in_turn(records, requests):
    """Claim the first request so, what is left by the next, and so on; return how often each of them."""
    numbers = []
    for each in requests:
        number, records = fill(records, each)
        numbers.append(number)
    return numbers


def fill(records, request):
    """Return how often a request was claimed, and what the providers have then."""
    cloud, number = load(records), 0
    for root in [cloud.uuids[root] for root in cloud.forest.roots]:
        asked = dataclasses.replace(request, limit=1, maximum=-1, seed=None, anchor=root)
        while candidate := next(iter(search(cloud, asked)), None):
            by_id = {int(cloud.ids[p]): amounts for p, amounts in candidate.allocations.items()}
            while granted(records, by_id):
                records = [used(record, by_id.get(record.provider_id, {})) for record in records]
                number += 1
            cloud = load(records)
    return number, records


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


# -- this or that ----------------------------------------------------------------------------------


def alternatives(random, most):
    """Return a small cloud and two or three requests for it, of which none asks for nothing."""
    records = cloud(random, most)
    asked = [request(random, records, options=False) for _ in range(random.randint(2, 3))]
    return records, [each for each in asked if each.amounts] or [ask(group(VCPU=1))]


def test_capacity_of_this_or_that_equals_claiming_one_after_the_other():
    often(600 if LONG else 90, 0.2, equals_claiming_in_turn)


def equals_claiming_in_turn(random):
    """Compare, and return whether more than one of the requests was claimed."""
    records, requests = alternatives(random, 10)

    packings = pack_in_turn(load(records), requests, None, 600)

    assert all(each.complete for each in packings)
    assert [each.count for each in packings] == claimed_in_turn(records, requests)
    assert join(packings).count == sum(each.count for each in packings)
    return sum(each.count > 0 for each in packings) > 1


def test_whichever_candidates_are_taken_an_exact_number_of_this_or_that_is_reached():
    """By brute force: each claim takes the first request that has a candidate, and any of its candidates."""
    often(600 if LONG else 150, 0.05, brute_force_agrees)


MOST_STATES = 300


def brute_force_agrees(random):
    """Compare with all ways, and return whether they were few, and more than one request was claimed."""
    records, requests = alternatives(random, 4)
    packings = pack_in_turn(load(records), requests, None, 600)
    try:
        ways = all_ways(records, requests, {})
    except TooMany:
        return False

    told = tuple(each.count for each in packings)
    assert told in ways
    if join(packings).exact:
        assert ways == {told}
    # What is not exact is reached by some way, and no more than the best one.
    assert join(packings).count <= max(map(sum, ways))
    return sum(map(bool, told)) > 1


class TooMany(Exception):
    """There are more states than a test looks at."""


def all_ways(records, requests, known):
    """Return how often each request may have been claimed when nothing fits any more; ``known``: by usage."""
    state = tuple(each.used for r in records for _, each in sorted(r.inventories.items()))
    if state in known:
        return known[state]
    if len(known) > MOST_STATES:
        raise TooMany
    oracle = Oracle(records)
    ways = {(0,) * len(requests)}
    for position, asked in enumerate(requests):
        if candidates := {allocations for allocations, _ in oracle.candidates(asked)}:
            ways = set()
            for allocations in candidates:
                by_id = {}
                for provider_id, name, amount in allocations:
                    by_id.setdefault(provider_id, {})[name] = amount
                left = [used(record, by_id.get(record.provider_id, {})) for record in records]
                ways |= {
                    tuple(n + (place == position) for place, n in enumerate(each))
                    for each in all_ways(left, requests, known)
                }
            break
    known[state] = ways
    return ways


def test_this_or_that_is_no_sum():
    """Each alone fits four times; together they share the room, and the first takes it from the second."""
    world = World().host("a", traits=["T1"], VCPU=8, DISK_GB=3).host("b", VCPU=5, DISK_GB=100)
    cloud = load(world.records.values())
    asked = [ask(group(VCPU=2, required=["T1"])), ask(group(VCPU=1, DISK_GB=1))]

    packings = pack_in_turn(cloud, asked, None, 200)
    whole = join(packings)

    assert [pack(cloud, each, None, 200).count for each in asked] == [4, 8]
    assert [each.count for each in packings] == [4, 5]
    assert (whole.count, whole.exact, whole.complete) == (9, True, True)
    assert packings[0].limits == {"required T1": 1, "VCPU": 1}
    assert packings[1].limits == {"VCPU": 2}
    # Seen when the last of them has filled the cloud.
    assert packings[1].stranded == {"VCPU": 0, "DISK_GB": 3 + 95}
    assert packings[0].largest == {"VCPU": 8}


def test_what_one_provider_serves_alone_is_used_where_the_next_needs_a_tree():
    """The host alone serves the first; the second takes a device too, and finds what is left of the host."""
    world = World().host("a", VCPU=7).device("gpu", "a", VF=8)
    asked = [ask(group(VCPU=2)), ask(group(VCPU=1), group("_A", VF=1))]

    packings = pack_in_turn(load(world.records.values()), asked, None, 200)

    assert [each.count for each in packings] == [3, 1]


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

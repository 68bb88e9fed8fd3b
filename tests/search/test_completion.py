"""Packing that is tight: the exact check against brute force, and how much it costs.

PLACEMENT_TEST_LONG=1 tries 20,000 random packings of each kind.
"""

from __future__ import annotations

import os
from functools import cache
from random import Random
from unittest.mock import patch

import pytest

from placement.search import assignment
from placement.search.combine import Solutions
from placement.search.records import ProviderRecord
from placement.search.request import Group
from placement.search.search import search
from placement.search.work import Work
from tests.search.builders import World, ask, group
from tests.search.test_search_scale import all_solutions, brute_force, random_problem
from tests.search.worlds import seeds

PACKINGS = 20_000 if os.environ.get("PLACEMENT_TEST_LONG") else 150
TRAITS = ("T1", "T2", "T3", "T4")


def condition(random: Random) -> dict[str, list[str] | list[set[str]]]:
    """Return what a group wants of its device beside room, often nothing."""
    one, other = random.sample(TRAITS, 2)
    return random.choice(
        [{}, {}, {}, {"required": [one]}, {"forbidden": [one]}, {"required": [{one, other}]}]
    )


def packing(random: Random) -> tuple[World, list[Group], bool]:
    """6 to 14 groups over 2 to 8 devices of a host, whose room is nearly used up, or a little too small.

    One of three times there is a second host with other devices.
    """
    isolate = random.random() < 0.1
    groups = [
        group(
            f"_{n}",
            **condition(random),
            **{"VF": random.randint(1, 5)},
            **({"VGPU": random.randint(1, 2)} if random.random() < 0.4 else {}),
        )
        for n in range(random.randint(6, 14))
    ]
    asked = sum(each.amounts["VF"] for each in groups)
    world = World()
    for host in random.choice([["h"], ["h"], ["h", "i"]]):
        world.host(host, VCPU=8)
        devices = random.randint(2, 8)
        for number in range(devices):
            room = max(round(asked / devices * random.uniform(0.9, 1.3)), 1)
            traits = [trait for trait in TRAITS if random.random() < 0.5]
            world.device(f"{host}{number}", host, traits, VF=room, VGPU=random.randint(1, 5))
    return world, groups, isolate


def can_be_packed(world: World, groups: list[Group], isolate: bool) -> bool:
    """Tell whether the devices of some host take all groups."""
    devices: dict[int, list[ProviderRecord]] = {}
    for record in world.records.values():
        if record.parent_id is not None:
            devices.setdefault(record.parent_id, []).append(record)
    return any(can_take(each, groups, isolate) for each in devices.values())


def can_take(devices: list[ProviderRecord], groups: list[Group], isolate: bool) -> bool:
    """Try everything, the largest groups first, as long as what is left has room for the sum of the rest.

    A device has no room if the smallest group that is left does not fit there, or if its only seat is taken.
    """

    def may(asked: Group, number: int) -> bool:
        traits = devices[number].traits
        return all(wanted & traits for wanted in asked.required) and not asked.forbidden & traits

    groups = sorted(groups, key=lambda each: each.amounts["VF"], reverse=True)
    sums = [
        [sum(each.amounts.get(name, 0) for each in groups[position:]) for name in ("VF", "VGPU")]
        for position in range(len(groups))
    ]
    smallest = groups[-1].amounts["VF"]

    @cache
    def rest(position: int, rooms: tuple[tuple[int, int, int], ...]) -> bool:
        if position == len(groups):
            return True
        useful = [room for room in rooms if room[0] >= smallest and room[2]]
        if any(sum(room[kind] for room in useful) < sums[position][kind] for kind in (0, 1)):
            return False
        asked = groups[position]
        vf, vgpu = asked.amounts["VF"], asked.amounts.get("VGPU", 0)
        for number, (a, b, seats) in enumerate(rooms):
            if a >= vf and b >= vgpu and seats and may(asked, number):
                left = (a - vf, b - vgpu, seats - isolate)
                if rest(position + 1, (*rooms[:number], left, *rooms[number + 1 :])):
                    return True
        return False

    rooms = tuple(
        (each.inventories["VF"].capacity, each.inventories["VGPU"].capacity, 1) for each in devices
    )
    return rest(0, rooms)


def check(random: Random) -> bool:
    world, groups, isolate = packing(random)
    expected = can_be_packed(world, groups, isolate)
    result = search(world.cloud(), ask(*groups, isolate=isolate, limit=1))
    assert result.complete
    assert bool(len(result)) == expected
    return expected


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("exact_after", [0, 20])
def test_what_can_be_packed_is_what_brute_force_packs(exact_after: int) -> None:
    with patch.object(assignment, "EXACT_AFTER", exact_after):
        seeds(PACKINGS)(check)()


def test_the_random_packings_are_worth_trying() -> None:
    """Neither nearly all can be packed nor nearly none."""
    packed = [check(Random(seed)) for seed in range(60)]
    assert 15 <= sum(packed) <= 45


@seeds(500)
def test_no_combination_is_lost_to_the_exact_check(random: Random) -> None:
    problem = random_problem(random)
    with patch.object(assignment, "EXACT_AFTER", 0):
        found = all_solutions(Solutions(problem))
    assert len(found) == len(set(found))
    assert set(found) == brute_force(problem)


def hard(random: Random) -> list[Group]:
    """26 groups, nine of them with traits, as the devices of ``hosts`` can just not take, or just can."""
    groups = []
    for number in range(26):
        amounts = {"VF": random.randint(2, 5)}
        if random.random() < 0.5:
            amounts["VGPU"] = random.randint(1, 2)
        wanted = {}
        while number < 9 and not wanted:
            wanted = condition(random)
        groups.append(group(f"_{number}", **wanted, **amounts))
    return groups


def hosts(number: int, random: Random) -> World:
    """Hosts of 12 devices of 8 VF and 4 VGPU, each with other traits."""
    world = World()
    for host in range(number):
        world.host(f"h{host}", VCPU=64)
        for device in range(12):
            traits = [trait for trait in TRAITS if random.random() < 0.4]
            world.device(f"h{host}d{device}", f"h{host}", traits, VF=8, VGPU=4)
    return world


@pytest.mark.parametrize("seed", [0, 3, 4, 11])
def test_twenty_six_groups_are_placed_or_proven_impossible(seed: int) -> None:
    """Work is counted in steps, so that the machine does not matter: 5,000 take less than two seconds."""
    random = Random(seed)
    cloud = hosts(30, random).cloud()
    found = search(cloud, ask(*hard(random), limit=1), work=Work(limit=100_000))
    assert found.complete
    assert found.work < 5000

"""A search ends where its work ends, and says so (specification 04 section 6.6)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from math import inf

import pytest

from placement.placing.packing import pack
from placement.placing.remedies import Budget
from placement.search.request import NameSets
from placement.search.search import search
from placement.search.work import Work
from tests.search.builders import World, ask, group


def ends_after(looks: int) -> Callable[[], float]:
    """Return a clock whose time is over after so many looks at it."""
    number = count(1)
    return lambda: 1.0 if next(number) <= looks else 0.0


def hosts(number: int) -> World:
    """Hosts of which no two look alike, so that each is a problem of its own."""
    world = World()
    for host in range(number):
        world.host(f"h{host}", VCPU=8)
        for device in range(4):
            world.device(f"h{host}d{device}", f"h{host}", VF=5 + host + device)
    return world


TWO = ask(group("_A", VF=3), group("_B", VF=4), limit=100)


def test_a_deadline_leaves_what_was_found() -> None:
    cloud = hosts(8).cloud()
    whole = search(cloud, TWO)
    assert whole.complete
    sizes = set()
    for looks in range(20):
        work = Work(remaining_s=ends_after(looks))
        found = search(cloud, TWO, work=work)
        sizes.add(len(found))
        assert found.complete == (len(found) == len(whole)) == (not work.timed_out)
        assert found.complete or found.tally.stopped is None or not len(found)
    assert 0 in sizes
    assert len(sizes - {0, len(whole)}) > 1


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_a_flat_cloud_knows_the_deadline_too(looks: int) -> None:
    cloud = World().host("h", VCPU=8).cloud()
    found = search(
        cloud, ask(group(VCPU=1), group("_A", VCPU=1)), work=Work(remaining_s=ends_after(looks))
    )
    assert (len(found), found.complete) == ((0, False) if looks < 2 else (1, True))


def test_the_groups_on_which_it_was_stuck_are_named() -> None:
    world = World().host("h", VCPU=8)
    for number in range(9):
        world.device(f"d{number}", "h", VF=4 + number % 2, MBPS=7 + number % 3)
    groups = [group(f"_{n}", VF=2 + n % 2, MBPS=2 + (n * n) % 3) for n in range(14)]
    found = search(world.cloud(), ask(*groups, limit=1), work=Work(limit=12))
    assert (len(found), found.complete) == (0, False)
    assert set(found.stuck) <= {each.suffix for each in groups}
    assert 1 <= len(found.stuck) <= 3


def test_the_three_hardest_groups_are_named_at_most() -> None:
    world = World().host("h", VCPU=8)
    for number in range(5):
        world.device(f"d{number}", "h", VF=7, MBPS=7)
    groups = [group(f"_{n}", VF=3 + n % 3, MBPS=5 - n % 3) for n in range(6)]
    work = Work()
    found = search(world.cloud(), ask(*groups, limit=1), work=work)
    assert len(found) == 0
    hardest = sorted(work.stuck, key=work.stuck.__getitem__, reverse=True)
    assert len(hardest) > 3
    assert found.stuck == tuple(f"_{n}" for n in hardest[:3])


def test_parts_count_to_the_whole() -> None:
    whole = Work(limit=1000)
    with whole.part(4) as quarter:
        assert quarter.limit == 250
        assert not quarter.spend(300)
    assert whole.done == 300
    assert quarter.cut_short
    assert not whole.cut_short
    with whole.part(2) as half:
        assert half.limit == 350
    with whole.part(2, 10) as few:
        assert few.limit == 10


def test_a_part_has_its_part_of_the_time() -> None:
    left_s = 8.0
    whole = Work(remaining_s=lambda: left_s)
    with whole.part(4) as quarter:
        left_s = 6.5
        assert quarter.check_time()
        left_s = 6.0
        assert not quarter.check_time()
    assert whole.check_time()
    left_s = 0.0
    assert not whole.check_time()
    with Work().part(4) as endless:
        assert endless.remaining_s() == inf
        assert endless.check_time()


def test_questions_of_operators_end_too() -> None:
    """What insight makes of searches is not complete when the time was over."""
    cloud, nothing = hosts(3).cloud(), NameSets()
    for looks in range(3):
        packing = pack(cloud, TWO, None, 200, Work(remaining_s=ends_after(looks)))
        assert not packing.complete
        assert not packing.exact
    late = Budget(nothing, 100, Work(remaining_s=ends_after(0)))
    assert not late.count_if_any_is_left(cloud, TWO).complete
    assert not late.count_if_any_is_left(cloud, TWO).complete
    assert not late.complete

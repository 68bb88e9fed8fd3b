"""Gangs that fit, but not where each claim by itself would go (specification 09 section 3)."""

import itertools
from random import Random

import pytest

from placement.placing.wishes import NoPlace
from placement.search.group_rules import GroupRule
from placement.search.work import Work
from tests.placing.test_choose import RACKS, Asked, Case, Host, chosen, require_sound

BOTH, FIRST, SECOND = frozenset(RACKS), frozenset(RACKS[:1]), frozenset(RACKS[1:])


def detour(most: int) -> Case:
    """A host in both racks, which is in the way of each, and as many claims as the two others take."""
    hosts = [Host(2 * most, (2 * most,), racks) for racks in (BOTH, FIRST, SECOND)]
    return Case(hosts, [Asked(1, 1, ("g",))] * 2 * most, {"g": GroupRule("apart", most, RACKS)}, {"g": []})


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_gang_goes_where_each_of_its_members_would_not(seed: int, most: int) -> None:
    """No order helps, but all ways: equal claims share hosts then, and what is taken back counts no more."""
    case = detour(most)

    found = chosen(case, Random(seed))

    assert not isinstance(found, NoPlace)
    require_sound(case, found)


def test_orders_that_ended_for_want_of_time_are_no_lack_of_room() -> None:
    """Although there was time for the ways that came after them."""
    looks = itertools.chain([10, 10, 10, 10], itertools.repeat(1))

    found = chosen(detour(2), Random(1), Work(remaining_s=lambda: next(looks)), ways=0)

    assert isinstance(found, NoPlace)
    assert (found.exact, found.timed_out) == (False, True)


@pytest.mark.parametrize("limit", range(25, 50))
def test_what_a_search_has_set_aside_may_be_the_place(limit: int) -> None:
    """Wherever the work ends, also with the last placement that it had: the claims fit, on two hosts."""
    hosts = [Host(1, (1,), FIRST), Host(3, (1,), BOTH), Host(3, (3,), SECOND)]
    asked = [Asked(1, 1, ("g",)), Asked(2, 1, ("g",))]
    case = Case(hosts, asked, {"g": GroupRule("apart", 1, RACKS)}, {"g": []})

    for seed in range(2):
        found = chosen(case, Random(seed), Work(limit=limit))

        assert not (isinstance(found, NoPlace) and found.exact)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_hardest_to_place_comes_first(seed: int) -> None:
    """Else the small claim may take the one host that has room for the large one; no second try is needed."""
    hosts = [Host(1, (1,), BOTH), Host(2, (2,), BOTH)]
    case = Case(hosts, [Asked(1, 1, ()), Asked(2, 2, ())], {}, {})

    found = chosen(case, Random(seed), in_one_order=True)

    assert not isinstance(found, NoPlace)

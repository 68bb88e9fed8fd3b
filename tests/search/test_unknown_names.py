"""Section 5.8: when an unknown name is an error, when it is an empty answer."""

from __future__ import annotations

import pytest

from placement.search import UnknownClass, UnknownTrait, search
from tests.search.builders import World, ask, group

WORLD = (
    World()
    .host("a", VCPU=4, traits=["T1"], aggregates=["agg"])
    .host("b", VCPU=4, DISK_GB=10, traits=["T2"])
)


def no(name):
    return False


def answer(*groups, **rules):
    return search(WORLD.cloud(), ask(*groups, **rules), trait_exists=no, class_exists=no)


@pytest.mark.parametrize(
    "groups",
    [
        [group(VCPU=999999), group("1", NOSUCH=1)],
        [group(VCPU=1, member_of=["no-aggregate"]), group("1", NOSUCH=1)],
        [group(VCPU=1, in_tree="nobody"), group("1", NOSUCH=1)],
        [group(VCPU=1, member_of=["no-aggregate"], required=["NOSUCH"])],
        [group(DISK_GB=1, in_tree="uuid-of-a"), group("1", NOSUCH=1)],
        [group(VCPU=1, DISK_GB=1, required=["T1"]), group("1", NOSUCH=1)],
        [group("1", VCPU=1, required=["T1"], forbidden=["T1"]), group("2", NOSUCH=1)],
    ],
)
def test_a_group_without_choice_hides_unknown_names_behind_it(groups):
    assert len(answer(*groups)) == 0


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ([group("1", NOSUCH=1), group(VCPU=999999)], UnknownClass),
        ([group(VCPU=1, required=["NOSUCH"])], UnknownTrait),
        ([group(VCPU=1, forbidden=["NOSUCH"])], UnknownTrait),
        ([group(VCPU=1, in_tree="nobody", required=["NOSUCH"])], UnknownTrait),
        ([group(VCPU=999999, required=["NOSUCH"])], UnknownTrait),
        ([group(NOSUCH=1, required=["NOSUCH_EITHER"])], UnknownClass),
        ([group(VCPU=1, DISK_GB=1, required=["T2"]), group("1", NOSUCH=1)], UnknownClass),
    ],
)
def test_an_unknown_name_that_is_reached_is_an_error(groups, error):
    with pytest.raises(error) as raised:
        answer(*groups)
    assert raised.value.name == "NOSUCH"


def test_only_the_combination_tells_that_the_unsuffixed_group_has_no_choice():
    """Each trait can be had at the host, but not with two providers for two classes."""
    world = World().host("h")
    world.device("c0", "h", VCPU=1, traits=["T1"]).device("c1", "h", VCPU=1, traits=["T2"])
    world.device("d0", "h", DISK_GB=1, traits=["T3"])
    both = group(VCPU=1, DISK_GB=1, required=["T1", "T2"])
    rest = group("1", NOSUCH=1)
    assert len(search(world.cloud(), ask(both, rest), class_exists=no)) == 0
    either = group(VCPU=1, DISK_GB=1, required=["T1", "T3"])
    with pytest.raises(UnknownClass):
        search(world.cloud(), ask(either, rest), class_exists=no)


def test_unknown_traits_of_the_root_come_first():
    with pytest.raises(UnknownTrait):
        answer(group(NOSUCH=1), root_required=frozenset(["NOSUCH_TRAIT"]))
    with pytest.raises(UnknownTrait):
        answer(group(VCPU=1), root_forbidden=frozenset(["NOSUCH_TRAIT"]))
    assert len(answer(group(NOSUCH=1), root_required=frozenset(["T1", "T2"]))) == 0


def test_known_names_that_nobody_has_find_nothing():
    cloud = WORLD.cloud()
    assert len(search(cloud, ask(group(PGPU=1)))) == 0
    assert len(search(cloud, ask(group(VCPU=1, required=["T9"])))) == 0
    assert len(search(cloud, ask(group(VCPU=1, forbidden=["T9"])))) == 2


def test_amounts_beyond_64_bits_find_nothing():
    cloud = WORLD.cloud()
    for amount in (2**31, 2**63, 2**64, 10**40):
        assert len(search(cloud, ask(group(VCPU=amount)))) == 0
        assert len(search(cloud, ask(group("1", VCPU=amount), group("2", VCPU=amount)))) == 0


def test_an_empty_answer_says_why():
    result = search(WORLD.cloud(), ask(group(VCPU=1, required=["T1"]), group("1", DISK_GB=1)))
    assert result.tally.stop == "no tree has a choice for every group"
    told = str(result.tally)
    assert "group '': required traits for VCPU: 1 removed, 1 left" in told
    assert "group '1': capacity of DISK_GB: 1 removed, 1 left" in told
    assert "group '1': no choice (trees): 1 removed, 0 left" in told

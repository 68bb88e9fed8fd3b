"""Section 5.8: when an unknown name is an error, when it is an empty answer."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from placement.search.candidate import SearchResult
from placement.search.request import (
    Group,
    NameSets,
    UnknownClassName,
    UnknownName,
    UnknownTraitName,
)
from placement.search.search import search
from placement.search.tally import Reason, Stop, Stopped
from tests.search.builders import World, ask, group

WORLD = (
    World()
    .host("a", VCPU=4, traits=["T1"], aggregates=["agg"])
    .host("b", VCPU=4, DISK_GB=10, traits=["T2"])
)


def answer(*groups: Group, **rules: Any) -> SearchResult:
    """Search a world in which no further name is known."""
    return search(WORLD.cloud(), ask(*groups, **rules), known=NameSets())


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
def test_a_group_without_choice_hides_unknown_names_behind_it(groups: list[Group]) -> None:
    assert len(answer(*groups)) == 0


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ([group("1", NOSUCH=1), group(VCPU=999999)], UnknownClassName),
        ([group(VCPU=1, required=["NOSUCH"])], UnknownTraitName),
        ([group(VCPU=1, forbidden=["NOSUCH"])], UnknownTraitName),
        ([group(VCPU=1, in_tree="nobody", required=["NOSUCH"])], UnknownTraitName),
        ([group(VCPU=999999, required=["NOSUCH"])], UnknownTraitName),
        ([group(NOSUCH=1, required=["NOSUCH_EITHER"])], UnknownClassName),
        ([group(VCPU=1, DISK_GB=1, required=["T2"]), group("1", NOSUCH=1)], UnknownClassName),
    ],
)
def test_an_unknown_name_that_is_reached_is_an_error(
    groups: list[Group], error: type[UnknownName]
) -> None:
    with pytest.raises(error) as raised:
        answer(*groups)
    assert raised.value.name == "NOSUCH"


def test_only_the_combination_tells_that_the_unsuffixed_group_has_no_choice() -> None:
    """Each trait can be had at the host, but not with two providers for two classes."""
    world = World().host("h")
    world.device("c0", "h", VCPU=1, traits=["T1"]).device("c1", "h", VCPU=1, traits=["T2"])
    world.device("d0", "h", DISK_GB=1, traits=["T3"])
    both = group(VCPU=1, DISK_GB=1, required=["T1", "T2"])
    rest = group("1", NOSUCH=1)
    assert len(search(world.cloud(), ask(both, rest), known=NameSets())) == 0
    either = group(VCPU=1, DISK_GB=1, required=["T1", "T3"])
    with pytest.raises(UnknownClassName):
        search(world.cloud(), ask(either, rest), known=NameSets())


@pytest.mark.parametrize("rules", [{"root_required": ["T8"]}, {"root_forbidden": ["T9"]}])
def test_the_roots_that_count_tell_that_the_unsuffixed_group_has_no_choice(
    rules: dict[str, list[str]],
) -> None:
    """The other host could serve it, and its root is not wanted."""
    world = World().host("h", traits=["T8"]).host("g", traits=["T9", "T2"], VCPU=1)
    world.device("c0", "h", VCPU=1, traits=["T1"]).device("c1", "h", VCPU=1, traits=["T2"])
    world.device("d0", "h", DISK_GB=1).device("d1", "g", DISK_GB=1, traits=["T1"])
    asked = (group(VCPU=1, DISK_GB=1, required=["T1", "T2"]), group("1", NOSUCH=1))
    only = {name: frozenset(traits) for name, traits in rules.items()}

    with pytest.raises(UnknownClassName):
        search(world.cloud(), ask(*asked), known=NameSets())
    assert len(search(world.cloud(), ask(*asked, **only), known=NameSets())) == 0


def test_unknown_traits_of_the_root_come_first() -> None:
    with pytest.raises(UnknownTraitName):
        answer(group(NOSUCH=1), root_required=frozenset(["NOSUCH_TRAIT"]))
    with pytest.raises(UnknownTraitName):
        answer(group(VCPU=1), root_forbidden=frozenset(["NOSUCH_TRAIT"]))
    assert len(answer(group(NOSUCH=1), root_required=frozenset(["T1", "T2"]))) == 0


def test_known_names_that_nobody_has_find_nothing() -> None:
    cloud = WORLD.cloud()
    assert len(search(cloud, ask(group(PGPU=1)))) == 0
    assert len(search(cloud, ask(group(VCPU=1, required=["T9"])))) == 0
    assert len(search(cloud, ask(group(VCPU=1, forbidden=["T9"])))) == 2


def test_amounts_beyond_64_bits_find_nothing() -> None:
    cloud = WORLD.cloud()
    for amount in (2**31, 2**63, 2**64, 10**40):
        assert len(search(cloud, ask(group(VCPU=amount)))) == 0
        assert len(search(cloud, ask(group("1", VCPU=amount), group("2", VCPU=amount)))) == 0


def test_an_empty_answer_says_why() -> None:
    result = search(WORLD.cloud(), ask(group(VCPU=1, required=["T1"]), group("1", DISK_GB=1)))
    assert result.tally.stopped == Stopped(Stop.NO_COMMON_TREE)
    told = str(result.tally)
    assert "group '': REQUIRED_TRAITS T1: 1 removed, 1 left" in told
    assert "group '1': CAPACITY DISK_GB: 1 removed, 1 left" in told
    assert "group '1': NO_CHOICE (trees): 1 removed, 1 left" in told
    assert "group '1': OTHER_GROUPS (trees): 1 removed, 0 left" in told
    assert told.endswith("stopped: request: NO_COMMON_TREE")


@pytest.mark.parametrize("nested", [False, True])
def test_an_empty_answer_says_why_whatever_the_shape_of_the_cloud(nested: bool) -> None:
    """The trees of a nested cloud are looked at one by one first, which tells no reason."""
    world = World().host("a", VCPU=4).host("b", DISK_GB=4)
    if nested:
        world = world.device("n", "a", VCPU=4)
    asked = ask(group("1", VCPU=1), group("2", DISK_GB=1))

    result = search(world.cloud(), dataclasses.replace(asked, limit=1))

    assert len(result) == 0
    assert result.tally.stopped == Stopped(Stop.NO_COMMON_TREE)
    assert "group '2': OTHER_GROUPS (trees): 1 removed, 0 left" in str(result.tally)


def test_an_explained_search_names_whom_each_test_removed() -> None:
    """The masks of a group's steps are disjoint, and count what the step says."""
    cloud = WORLD.cloud()
    wanted = ask(group(VCPU=1, required=["T1"]), group("1", DISK_GB=1, forbidden=["T2"]))
    assert all(step.removed is None for step in search(cloud, wanted).tally.steps)
    steps = search(cloud, wanted, explain=True).tally.steps
    for step in steps:
        assert step.removed is not None
        assert np.count_nonzero(step.removed) == step.before - step.left
    (traits,) = [step for step in steps if step.test is Reason.REQUIRED_TRAITS]
    assert traits.removed is not None
    (index,) = np.flatnonzero(traits.removed)
    assert "T1" not in cloud.traits[index]
    assert "VCPU" in {name for name, *_ in cloud.inventories[index]}


def test_an_explained_search_that_finds_something_says_what_it_removed_too() -> None:
    """Also where trees could be looked at one by one until enough is found."""
    world = World().host("a", VCPU=4).host("b", VCPU=1).device("n", "a", DISK_GB=4)

    result = search(world.cloud(), ask(group(VCPU=2)), explain=True)

    assert len(result) == 1
    room = result.tally.steps[0]
    assert (room.test, room.before, room.left) == (Reason.CAPACITY, 3, 1)
    assert room.removed is not None
    assert np.count_nonzero(room.removed) == 2

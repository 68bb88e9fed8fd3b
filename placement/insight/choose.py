"""Choosing places for many claims on a copy of the picture (specification 09 section 3). Pure.

Claims are placed one after another, those with the fewest trees first. When one does not fit, it is placed
first, or the group that it must be together with elsewhere. If no such order helps, all ways are tried, as
long as the work lasts; when none is left, it is certain that the claims do not fit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.insight.packing import free_columns, pack, total
from placement.insight.turns import Ranking, Strategy, Turns
from placement.search.candidate import Candidate, Combination
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import Domains, GroupRule, Occupancy
from placement.search.index_set import Indexes, Mask
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import Turn, prospect, search
from placement.search.work import Work, WorkEnded

_Kind = tuple[int, tuple[str, ...], tuple[int, ...]]
"""The number of the first wish with the same request, groups, and roots of further trees."""

MOST_IN_TREE = 500
"""Candidates of one tree that are tried; where there are more, a refusal is not certain."""

RESTARTS = 1000
"""Orders of the claims, and domains of groups that are together, that are tried before all ways are."""

WAYS = 20_000
"""Places that are tried when all ways are."""

COUNTING_SEARCHES = 200
"""What counting how often equal claims fit may cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """A claim that is to be placed. Equal requests are one object.

    ``stays``: the roots of further trees that it is in for the rules of its groups, wherever it is placed.
    """

    request: CandidateRequest
    groups: tuple[str, ...] = ()
    stays: tuple[int, ...] = ()


class Place(NamedTuple):
    """Where a wish goes, by provider indexes: the root of its tree, amounts by class, providers by group.

    ``trees``: the roots that count for groups (:func:`placement.objects.groups.domains_by_member`).
    """

    root: int
    trees: tuple[int, ...]
    allocations: Mapping[int, Mapping[str, int]]
    mappings: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as it was read, with the domains of its members.

    ``aggregates``: by uuid of the root, those of the rule that the tree is in.
    """

    rule: GroupRule
    members: Sequence[Domains] = ()
    aggregates: Mapping[str, Domains] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The wish that could not be placed, on a cloud with those that were placed before it.

    ``exact``: it is certain that not all can be placed. ``kept_out``: the groups whose rules excluded trees.
    ``timed_out``: with more time more would have been tried, and any other wish may be the one.
    """

    number: int
    cloud: Cloud
    exact: bool
    kept_out: tuple[str, ...] = ()
    timed_out: bool = False


@dataclass(slots=True)
class _Pool:
    """The trees for equal requests before anything is placed, best first.

    ``alone``: the provider that serves everything by itself, as in ``pattern``; -1 where a search must say.
    """

    request: CandidateRequest
    roots: Indexes
    alone: Indexes
    pattern: Combination | None


def choose(
    cloud: Cloud,
    known: NameSets | None,
    wishes: Sequence[Wish],
    groups: Mapping[str, GroupState],
    strategy: Strategy,
    work: Work,
    draw: random.Random | None,
    ways: int = WAYS,
    *,
    in_one_order: bool = False,
) -> Sequence[Place] | Refusal:
    """Return a place for each wish, which together fit and keep the rules. The cloud stays as it is.

    :param draw: draws among equal trees; None: the first of them.
    :param ways: the places that are tried when no order helps.
    :param in_one_order: no other order of the claims is tried, and a refusal is not certain.
    :raises UnknownTraitName, UnknownClassName: as the search does.
    """
    chooser = _Chooser(cloud, known, wishes, groups, strategy, work, draw, ways)
    try:
        if strategy == "any" and not groups and (apart := chooser.choose_apart()) is not None:
            return apart
        return chooser.choose_in_one_order() if in_one_order else chooser.choose()
    except WorkEnded:
        return replace(chooser.refusal or Refusal(0, cloud, exact=False), timed_out=True)


@dataclass(eq=False)
class _Chooser:
    """What :func:`choose` is given, and how far it is."""

    _start: Cloud
    _known: NameSets | None
    _wishes: Sequence[Wish]
    _states: Mapping[str, GroupState]
    _strategy: Strategy
    _work: Work
    _draw: random.Random | None
    _most_ways: int
    refusal: Refusal | None = None

    def __post_init__(self) -> None:
        self._kept_out: set[str] = set()
        self._all_seen = True
        self._timed_out = False
        self._shares = self._start.has_trait(SHARING_TRAIT)
        firsts: dict[int, int] = {}
        self._first_alike = [
            firsts.setdefault(id(wish.request), number) for number, wish in enumerate(self._wishes)
        ]
        self._pools: dict[int, _Pool] = {}
        self._banned: dict[str, set[Domains]] = {name: set() for name in self._states}

    def _begin(self) -> None:
        """Take back everything that was placed."""
        self._cloud = self._start
        self._ranking.begin()
        self._occupied = {
            name: Occupancy.of(state.rule, state.members) for name, state in self._states.items()
        }

    # -- the attempts --

    def choose_apart(self) -> Sequence[Place] | None:
        """Return the first candidates of a search, if they are enough and share no provider.

        Then they fit together, and nothing is tried on a copy: 0.10 ms for one wish and 0.19 for four, not
        0.36 and 1.34 (10,000 hosts, processor time). The order must be any, and no wish in a group.
        """
        if self._shares:
            return None
        places: dict[int, Place] = {}
        taken: set[int] = set()
        for numbers in self._alike().values():
            request = replace(self._drawn(self._wishes[numbers[0]].request), limit=len(numbers))
            found = search(self._start, request, self._known, self._work)
            if len(found) < len(numbers):
                return None
            for number, candidate in zip(numbers, found, strict=True):
                root = int(self._start.roots[candidate.members[0]])
                place = places[number] = self._place(root, candidate)
                if not taken.isdisjoint(place.allocations):
                    return None
                taken.update(place.allocations)
        return [places[number] for number in range(len(places))]

    def choose_in_one_order(self) -> Sequence[Place] | Refusal:
        if (hopeless := self._hopeless()) is not None:
            return hopeless
        order = self._hardest_first()
        places, failed = self._attempt(order)
        if failed is not None:
            return Refusal(failed, self._cloud, exact=False, timed_out=self._work.timed_out)
        return [places[number] for number in range(len(order))]

    def choose(self) -> Sequence[Place] | Refusal:
        if (hopeless := self._hopeless()) is not None:
            return hopeless
        with self._work.part(2) as part:
            places = self._in_some_order(part)
        if places is not None:
            return places
        assert self.refusal is not None
        if self.refusal.exact:
            return self.refusal
        places, complete = self._in_all_ways()
        self._timed_out |= part.timed_out or self._work.timed_out
        timed_out = self._timed_out and not complete
        return places or replace(self.refusal, exact=complete, timed_out=timed_out)

    def _hopeless(self) -> Refusal | None:
        """Find the trees for each wish; return a refusal if one has none, or a group is broken."""
        self._begin()
        # The trees of all wishes are found first: an unknown name is an error even if there is no room.
        for first in self._alike():
            self._pools[first] = self._pool(self._wishes[first].request)
        for number, wish in enumerate(self._wishes):
            broken = tuple(name for name in wish.groups if not self._occupied[name].kept)
            if broken or not len(self._pool_of(number).roots):
                return Refusal(number, self._start, not self._work.cut_short, broken)
        return None

    def _alike(self) -> dict[int, list[int]]:
        """Return the numbers of the wishes that ask the same, by the first of them."""
        numbers: dict[int, list[int]] = {}
        for number, first in enumerate(self._first_alike):
            numbers.setdefault(first, []).append(number)
        return numbers

    def _drawn(self, request: CandidateRequest) -> CandidateRequest:
        """Return a request that begins somewhere in the order of the trees, if something is drawn."""
        start = None if self._draw is None else self._draw.getrandbits(63)
        return replace(request, limit=None, maximum=-1, seed=None, start=start)

    def _pool_of(self, number: int) -> _Pool:
        return self._pools[self._first_alike[number]]

    def _kind(self, number: int) -> _Kind:
        """Return what is the same for wishes that are interchangeable."""
        wish = self._wishes[number]
        return self._first_alike[number], wish.groups, wish.stays

    def _hardest_first(self) -> list[int]:
        """Return the numbers of the wishes in the order of placing; equal ones one after another.

        Those with the fewest trees come first, of these those that ask for the largest part of a class.
        """
        room = {name: int(self._start.room(name).sum()) for name in self._asked}
        part = {
            first: max(amount / room[name] for name, amount in pool.request.amounts.items())
            for first, pool in self._pools.items()
        }
        return sorted(
            range(len(self._wishes)),
            key=lambda number: (
                len(self._pool_of(number).roots),
                -part[self._first_alike[number]],
                self._kind(number),
            ),
        )

    def _in_some_order(self, work: Work) -> list[Place] | None:
        order, moved = self._hardest_first(), set[_Kind]()
        for _ in range(RESTARTS):
            places, failed = self._attempt(order)
            if failed is None:
                return [places[number] for number in range(len(order))]
            if self.refusal is None:
                kept_out = tuple(sorted(self._kept_out))
                self.refusal = Refusal(failed, self._cloud, exact=False, kept_out=kept_out)
                with self._work.part(4) as counting:
                    self.refusal = replace(self.refusal, exact=self._are_too_many(counting))
                self._timed_out = counting.timed_out
            if self.refusal.exact or not work.look():
                return None
            if self._ban_domain(failed):
                continue
            if self._kind(failed) in moved:
                return None
            moved.add(self._kind(failed))
            for banned in self._banned.values():
                banned.clear()
            order = [failed, *(number for number in order if number != failed)]
        return None

    def _ban_domain(self, failed: int) -> bool:
        """Let a new group be together elsewhere; tell whether the failed wish is in one."""
        for name in self._wishes[failed].groups:
            state, members = self._states[name], self._occupied[name].members
            if state.rule.rule == "together" and members and not state.members:
                self._banned[name].add(members[0])
                return True
        return False

    def _attempt(self, order: Sequence[int]) -> tuple[dict[int, Place], int | None]:
        """Place the wishes in this order; return their places, and the first that found none."""
        self._begin()
        places: dict[int, Place] = {}
        kind, turns = None, None
        for number in order:
            self._work.go_on()
            if turns is None or kind != self._kind(number):
                kind, pool = self._kind(number), self._pool_of(number)
                turns = Turns.of(self._keys(pool, np.arange(len(pool.roots))))
            place = self._best(number, turns)
            if place is None:
                return places, number
            places[number] = place
            if len(places) < len(order):
                self._put(number, place)
                self._put_back(turns, self._pool_of(number), place)
        return places, None

    def _best(self, number: int, turns: Turns) -> Place | None:
        """Return the place of a wish in the best tree that has one.

        A tree that is full, or that a rule excludes, has no further turn: an attempt gives nothing back.
        """
        pool = self._pool_of(number)
        self._kept_out = turns.kept_out
        while (position := turns.next()) is not None:
            if not self._admits(number, int(pool.roots[position])):
                continue
            found = next(self._candidates(pool, position, 1), None)
            if found is None:
                if pool.alone[position] < 0 and turns.has_room is None:
                    turns.has_room = self._has_room_in(pool)
            elif self._admits(number, *found.trees):
                return found
        return None

    def _has_room_in(self, pool: _Pool) -> Mask:
        """Mark the trees of a pool that may have room now, at the price of searching a few of them."""
        has_room = np.zeros(self._start.size, np.bool_)
        found = prospect(self._cloud, pool.request, self._known, self._work)
        if found is not None:
            has_room[found.turns.anchor] = True
        return has_room[pool.roots]

    def _put_back(self, turns: Turns, pool: _Pool, place: Place) -> None:
        """Let the tree of a place have a further turn, and those of which it uses something."""
        touched = {place.root, *self._start.roots[list(place.allocations)].tolist()}
        for root in touched:
            positions = np.flatnonzero(pool.roots == root)
            turns.put_back(self._keys(pool, positions), positions)

    # -- all ways --

    def _are_too_many(self, work: Work) -> bool:
        """Tell whether all claims, or equal ones whatever the others are, are certainly more than fit."""
        free = free_columns(self._start, self._asked)
        if any(amount > total(np.maximum(free[n], 0)) for n, amount in self._asked.items()):
            return True
        for first, equal in self._alike().items():
            pool = self._pools[first]
            if not self._wishes[first].groups and len(equal) <= np.count_nonzero(pool.alone >= 0):
                continue
            if not work.look():
                return False
            found = pack(self._start, pool.request, self._known, COUNTING_SEARCHES, work)
            if found.exact and self._most(found.counts, equal) < len(equal):
                return True
        return False

    def _most(self, counts: NDArray[np.int64], equal: Sequence[int]) -> int:
        """Return how many of equal wishes fit, by how often they fit in each tree, at the most."""
        most = int(np.minimum(counts, len(equal)).sum())
        groups = self._wishes[equal[0]].groups
        alike = all(self._wishes[number].groups == groups for number in equal)
        if self._shares or not alike or any(self._wishes[number].stays for number in equal):
            return most
        for name in groups:
            state, room = self._states[name], Counter[str]()
            for root in np.flatnonzero(counts).tolist():
                room.update(dict.fromkeys(self._domains(name, (root,)), int(counts[root])))
            taken = Counter(domain for domains in state.members for domain in domains)
            if state.rule.rule == "apart":
                left = (min(room[each], max(state.rule.at_most - taken[each], 0)) for each in room)
                most = min(most, sum(left))
            else:
                common = (room[each] for each in room if taken[each] == len(state.members))
                most = min(most, max(common, default=0))
        return most

    def _in_all_ways(self) -> tuple[list[Place] | None, bool]:
        """Try every assignment; return places, and whether all were tried. Equal wishes are not permuted."""
        self._begin()
        for banned in self._banned.values():
            banned.clear()
        order, self._all_seen = self._hardest_first(), True
        placed: list[Place] = []
        ways: list[Iterator[tuple[int, Place]]] = [self._ways(order[0], 0)]
        positions: list[int] = []
        for _ in range(self._most_ways):
            option = next(ways[-1], None)
            if option is None:
                ways.pop()
                if not ways:
                    return None, self._all_seen and not self._work.cut_short
                positions.pop()
                self._put(order[len(positions)], placed.pop(), times=-1)
                continue
            number = order[len(placed)]
            position, place = option
            placed.append(place)
            positions.append(position)
            self._put(number, place)
            if len(placed) == len(order):
                return [place for _, place in sorted(zip(order, placed, strict=True))], True
            following = order[len(placed)]
            equal = self._kind(number) == self._kind(following)
            ways.append(self._ways(following, position if equal else 0))
            if not self._work.look():
                break
        return None, False

    def _ways(self, number: int, first: int) -> Iterator[tuple[int, Place]]:
        """Yield the places of a wish in the trees from this position on, as the cloud is at each moment."""
        pool = self._pool_of(number)
        for position in range(first, len(pool.roots)):
            # What sharing providers serve may be nothing of this tree.
            if self._shares or self._admits(number, int(pool.roots[position])):
                places = list(self._candidates(pool, position, MOST_IN_TREE))
                self._all_seen &= len(places) < MOST_IN_TREE
                for place in places:
                    if self._admits(number, *place.trees):
                        yield position, place

    # -- trees --

    @cached_property
    def _asked(self) -> Counter[str]:
        """What all wishes together ask for, by class."""
        return sum((wish.request.amounts for wish in self._wishes), Counter())

    @cached_property
    def _ranking(self) -> Ranking:
        return Ranking(self._strategy, self._start, self._asked)

    def _pool(self, request: CandidateRequest) -> _Pool:
        """Return the trees that can take a request, in the order of the strategy."""
        request = self._drawn(request)
        found = prospect(self._start, request, self._known, self._work)
        if found is None:
            none: Indexes = np.zeros(0, np.int32)
            return _Pool(request, none, none, None)
        turns: Turn = found.turns
        alone = np.where(turns.single, turns.provider, -1)
        pool = _Pool(request, turns.anchor, alone, found.alone)
        if self._strategy == "any":
            return pool
        ties = np.arange(len(alone))
        if self._draw is not None:
            ties = np.random.default_rng(self._draw.getrandbits(63)).permutation(ties)
        order = ties[np.argsort(self._keys(pool, ties), kind="stable")]
        return replace(pool, roots=turns.anchor[order], alone=alone[order])

    def _keys(self, pool: _Pool, positions: Indexes) -> NDArray[np.float64]:
        return self._ranking.keys(pool.roots, positions, pool.request.amounts)

    def _candidates(self, pool: _Pool, position: int, most: int) -> Iterator[Place]:
        """Yield places in one tree as the cloud is now."""
        root, alone = int(pool.roots[position]), int(pool.alone[position])
        if alone >= 0 and pool.pattern is not None:
            # Room alone changes here: what else the provider must have, the search has seen.
            if self._has_room(candidate := Candidate(pool.pattern, (alone,))):
                yield self._place(root, candidate)
            return
        here = replace(pool.request, anchor=str(self._start.uuids[root]), limit=most)
        found = search(self._cloud, here, self._known, self._work)
        # What a search has set aside may be a place, although the work is not cut short.
        self._all_seen &= found.complete
        for candidate in found:
            yield self._place(root, candidate)

    def _has_room(self, candidate: Candidate) -> bool:
        return all(
            self._cloud.room(name)[index] >= amount
            for index, amounts in candidate.allocations.items()
            for name, amount in amounts.items()
        )

    def _place(self, root: int, candidate: Candidate) -> Place:
        cloud, allocations = self._start, candidate.allocations
        own = {int(cloud.roots[i]) for i in allocations if SHARING_TRAIT not in cloud.traits[i]}
        trees = own or {int(cloud.roots[index]) for index in allocations}
        return Place(root, tuple(trees), allocations, candidate.mappings)

    def _domains(self, name: str, roots: Iterable[int]) -> Domains:
        """Return the domains of these trees.

        A tree may be in a thousand of them, and all trees be asked for: it looks at the time.
        """
        self._work.go_on()
        state = self._states[name]
        return state.rule.domains(
            [str(self._start.uuids[root]) for root in roots], state.aggregates
        )

    def _admits(self, number: int, *roots: int) -> bool:
        """Tell whether the rules of its groups let a wish go into these trees."""
        for name in self._wishes[number].groups:
            domains = self._domains(name, {*roots, *self._wishes[number].stays})
            occupied = self._occupied[name]
            banned = not occupied.members and domains in self._banned[name]
            if banned or not occupied.admits(domains):
                self._kept_out.add(name)
                return False
        return True

    def _put(self, number: int, place: Place, times: int = 1) -> None:
        """Let a wish take its place, or with -1 the last one give it back."""
        if self._cloud is self._start:
            self._cloud = self._start.snapshot()
        for index, amounts in place.allocations.items():
            self._cloud.use(index, {name: times * amount for name, amount in amounts.items()})
            self._ranking.use(int(self._start.roots[index]), amounts, times)
        wish = self._wishes[number]
        for name in wish.groups:
            if times > 0:
                self._occupied[name].add(self._domains(name, {*place.trees, *wish.stays}))
            else:
                self._occupied[name].remove_last()

"""Choosing places for many claims on a copy of the picture (specification 09 section 3). Pure.

Claims are placed one after another, those with the fewest trees first. When one does not fit, it is placed
first, or the group that it must be together with elsewhere. If no such order helps, all ways are tried, as
long as the work lasts; when none is left, it is certain that the claims do not fit.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.insight.packing import pack
from placement.search.candidate import Candidate, Combination
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import Domains, GroupRule, Occupancy
from placement.search.index_set import Indexes
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import Turn, prospect, search
from placement.search.work import Work, WorkEnded

_Kind = tuple[int, tuple[str, ...], tuple[int, ...]]

Strategy = Literal["any", "spread", "pack"]

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
    """

    number: int
    cloud: Cloud
    exact: bool
    kept_out: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pool:
    """The trees for equal requests before anything is placed, best first.

    ``alone``: the provider that serves everything by itself, -1 where a search must say.
    """

    request: CandidateRequest
    roots: Indexes
    keys: NDArray[np.float64]
    alone: Indexes
    pattern: Combination | None = None


@dataclass(slots=True)
class _Turns:
    """The trees of a pool in one attempt: the best is next, and a full one is not put back.

    ``kept_out``: the groups whose rules excluded trees.
    """

    keys: NDArray[np.float64]
    cursor: int = 0
    again: list[tuple[float, int]] = field(default_factory=list)
    kept_out: set[str] = field(default_factory=set)

    def next(self) -> tuple[float, int] | None:
        """Take out the best tree: what it is ordered by, and its position in the pool."""
        if self.cursor < len(self.keys):
            fresh = float(self.keys[self.cursor]), self.cursor
            if not self.again or fresh < self.again[0]:
                self.cursor += 1
                return fresh
        return heapq.heappop(self.again) if self.again else None

    def put_back(self, key: float, position: int) -> None:
        """Let a tree have a further turn."""
        heapq.heappush(self.again, (key, position))


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
        return chooser.refusal or Refusal(0, cloud, exact=False)


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
        self._shares = self._start.has_trait(SHARING_TRAIT)
        self._pools: dict[int, _Pool] = {}
        self._banned: dict[str, set[Domains]] = {name: set() for name in self._states}
        self._begin()

    def _begin(self) -> None:
        """Take back everything that was placed."""
        self._cloud = self._start
        self._touched: Counter[int] = Counter()
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
        for numbers in self._alike().values():
            request = replace(self._drawn(self._wishes[numbers[0]].request), limit=len(numbers))
            for number, candidate in zip(
                numbers, search(self._start, request, self._known, self._work), strict=False
            ):
                root = int(self._start.roots[candidate.members[0]])
                places[number] = self._place(root, candidate)
        taken = Counter(index for place in places.values() for index in place.allocations)
        if len(places) < len(self._wishes) or max(taken.values()) > 1:
            return None
        return [places[number] for number in range(len(places))]

    def choose_in_one_order(self) -> Sequence[Place] | Refusal:
        if (hopeless := self._hopeless()) is not None:
            return hopeless
        order = self._hardest_first()
        places, failed = self._attempt(order)
        if failed is not None:
            return Refusal(failed, self._cloud, exact=False)
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
        return places or replace(self.refusal, exact=complete)

    def _hopeless(self) -> Refusal | None:
        """Find the trees for each wish; return a refusal if one has none, or a group is broken."""
        # The trees of all wishes are found first: an unknown name is an error even if there is no room.
        for wish in self._wishes:
            if id(wish.request) not in self._pools:
                self._pools[id(wish.request)] = self._pool(wish.request)
        for number, wish in enumerate(self._wishes):
            broken = tuple(name for name in wish.groups if not self._occupied[name].kept)
            if broken or not len(self._pool_of(number).roots):
                return Refusal(number, self._start, not self._work.cut_short, broken)
        return None

    def _alike(self) -> dict[int, list[int]]:
        """Return the numbers of the wishes that ask the same."""
        numbers: dict[int, list[int]] = {}
        for number, wish in enumerate(self._wishes):
            numbers.setdefault(id(wish.request), []).append(number)
        return numbers

    def _drawn(self, request: CandidateRequest) -> CandidateRequest:
        """Return a request that begins somewhere in the order of the trees, if something is drawn."""
        start = None if self._draw is None else self._draw.getrandbits(63)
        return replace(request, limit=None, maximum=-1, seed=None, start=start)

    def _pool_of(self, number: int) -> _Pool:
        return self._pools[id(self._wishes[number].request)]

    def _kind(self, number: int) -> _Kind:
        """Return what is the same for wishes that are interchangeable."""
        wish = self._wishes[number]
        return id(wish.request), wish.groups, wish.stays

    def _hardest_first(self) -> list[int]:
        """Return the numbers of the wishes in the order of placing; equal ones one after another."""
        return sorted(
            range(len(self._wishes)),
            key=lambda number: (
                len(self._pool_of(number).roots),
                -sum(sum(g.amounts.values()) for g in self._wishes[number].request.groups),
                self._kind(number),
            ),
        )

    def _in_some_order(self, work: Work) -> list[Place] | None:
        order, moved = self._hardest_first(), set[_Kind]()
        for _ in range(RESTARTS):
            places, failed = self._attempt(order)
            if failed is None:
                return [places[number] for number in range(len(order))]
            kept_out = tuple(sorted(self._kept_out))
            if self.refusal is None:
                self.refusal = Refusal(failed, self._cloud, self._are_too_many(), kept_out)
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
        turns: dict[_Kind, _Turns] = {}
        places: dict[int, Place] = {}
        for number in order:
            kind = self._kind(number)
            if kind not in turns:
                turns[kind] = _Turns(self._pool_of(number).keys)
            place = self._best(number, turns[kind])
            if place is None:
                return places, number
            places[number] = place
            if len(places) < len(order):
                self._put(number, place)
        return places, None

    def _best(self, number: int, turns: _Turns) -> Place | None:
        """Return the place of a wish in the best tree that has one.

        A tree that is full, or that a rule excludes, has no further turn: an attempt gives nothing back.
        """
        pool = self._pool_of(number)
        self._kept_out = turns.kept_out
        while turn := turns.next():
            key, position = turn
            root = int(pool.roots[position])
            if root in self._touched and (fresh := self._key(pool, position)) > key:
                turns.put_back(fresh, position)
            elif (
                self._admits(number, root)
                and (found := next(self._candidates(pool, position, 1), None))
                and self._admits(number, *found.trees)
            ):
                turns.put_back(key, position)
                return found
        return None

    # -- all ways --

    def _are_too_many(self) -> bool:
        """Tell whether equal claims are certainly more than fit, whatever the others are."""
        for equal in self._alike().values():
            request = self._wishes[equal[0]].request
            found = pack(self._start, request, self._known, COUNTING_SEARCHES, self._work)
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

    def _pool(self, request: CandidateRequest) -> _Pool:
        """Return the trees that can take a request, in the order of the strategy."""
        request = self._drawn(request)
        found = prospect(self._start, request, self._known, self._work)
        if found is None:
            none: Indexes = np.zeros(0, np.int32)
            return _Pool(request, none, none.astype(np.float64), none)
        turns: Turn = found.turns
        alone = np.where(turns.single, turns.provider, -1)
        if self._strategy == "any":
            return _Pool(request, turns.anchor, np.arange(len(alone), dtype=np.float64), alone)
        parts = [self._used_parts[name][turns.anchor] for name in sorted(request.names.classes)]
        keys = np.maximum.reduce(parts) * (-1 if self._strategy == "pack" else 1)
        ties = np.zeros(len(keys))
        if self._draw is not None:
            ties = np.random.default_rng(self._draw.getrandbits(63)).random(len(keys))
        order = np.lexsort((ties, keys))
        return _Pool(request, turns.anchor[order], keys[order], alone[order])

    @cached_property
    def _used_parts(self) -> Mapping[str, NDArray[np.float64]]:
        """By class that is asked for, the used part of each tree by its root, before anything is placed."""
        names = {name for wish in self._wishes for name in wish.request.names.classes}
        # Lists, which NumPy sums up at once.
        held: dict[str, tuple[list[int], list[int], list[int]]] = {n: ([], [], []) for n in names}
        for root, inventories in zip(
            self._start.roots.tolist(), self._start.inventories, strict=False
        ):
            for name, capacity, used, _ in inventories:
                if name in held:
                    roots, used_of, all_of = held[name]
                    roots.append(root)
                    used_of.append(used)
                    all_of.append(capacity)
        parts = {}
        for name, (roots, *amounts) in held.items():
            at = np.array(roots, np.intp)
            used_sum, all_sum = (np.bincount(at, each, self._start.size) for each in amounts)
            parts[name] = np.divide(
                used_sum, all_sum, out=np.zeros(len(used_sum)), where=all_sum > 0
            )
        return parts

    def _key(self, pool: _Pool, position: int) -> float:
        """Return what orders a tree now: the smallest is the best."""
        root = int(pool.roots[position])
        if self._strategy == "any":
            return position + len(pool.roots) * self._touched[root]
        return self._fullness(pool.request, root)

    def _fullness(self, request: CandidateRequest, root: int) -> float:
        """Return the used part of the fullest class that is asked for; negative for packing."""
        amounts = {name: [0, 0] for name in request.names.classes}
        for index in self._cloud.forest.tree(root).tolist():
            for name, capacity, used, _ in self._cloud.inventories[index]:
                if name in amounts:
                    amounts[name][0] += used
                    amounts[name][1] += capacity
        fullest = max((used / all_ for used, all_ in amounts.values() if all_), default=0.0)
        return -fullest if self._strategy == "pack" else fullest

    def _candidates(self, pool: _Pool, position: int, most: int) -> Iterator[Place]:
        """Yield places in one tree as the cloud is now."""
        root, alone = int(pool.roots[position]), int(pool.alone[position])
        if alone >= 0 and root not in self._touched and pool.pattern is not None:
            yield self._place(root, Candidate(pool.pattern, (alone,)))
            return
        here = replace(pool.request, anchor=str(self._start.uuids[root]), limit=most)
        for candidate in search(self._cloud, here, self._known, self._work):
            if alone >= 0 and len(candidate.members) == 1:
                pool.pattern = candidate.combination
            yield self._place(root, candidate)

    def _place(self, root: int, candidate: Candidate) -> Place:
        cloud, allocations = self._start, candidate.allocations
        own = {int(cloud.roots[i]) for i in allocations if SHARING_TRAIT not in cloud.traits[i]}
        trees = own or {int(cloud.roots[index]) for index in allocations}
        return Place(root, tuple(trees), allocations, candidate.mappings)

    def _domains(self, name: str, roots: Iterable[int]) -> Domains:
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
            self._touched[int(self._cloud.roots[index])] += times
        wish = self._wishes[number]
        for name in wish.groups:
            if times > 0:
                self._occupied[name].add(self._domains(name, {*place.trees, *wish.stays}))
            else:
                self._occupied[name].remove_last()

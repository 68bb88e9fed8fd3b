"""Anchors turned into problems; anchors that look alike share one (see ``combine``).

For each anchor the providers that may serve some slot become rows of features: the slots they may
serve, their room per contested class, the demands they meet. Rows are put into an order that
depends on the features first, so that equal hosts give equal bytes, and equal bytes one problem.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from placement.search.candidate import Candidate, Combination, Shape
from placement.search.cloud import LARGEST_AMOUNT, Cloud
from placement.search.combine import Solutions
from placement.search.feasible import Feasible
from placement.search.index_set import Indexes, Mask
from placement.search.problem import Place, Problem, Rules, Solution, Work

WORD = 62
"""Bits of a feature word: fits a signed 64-bit column."""

_MIX = np.uint64(0x9E3779B97F4A7C15)

Table = NDArray[np.int64]


class Wording:
    """Puts the solutions of one request into words; equal shapes become one object."""

    def __init__(
        self, amounts: Sequence[Mapping[str, int]], groups: Sequence[tuple[str, tuple[int, ...]]]
    ) -> None:
        self._amounts = amounts
        self._groups = groups
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._plain = None
        if len(groups) == len(amounts) and all(amounts):
            self._plain = Shape(tuple(amounts), tuple((suffix, 1) for suffix, _ in groups))

    def combination(self, solution: Solution) -> Combination:
        """Return the combination of a solution."""
        if self._plain is not None and len(set(solution)) == len(solution):
            return Combination(self._plain, solution, solution)
        slots_at: dict[int, list[int]] = {}
        for slot, place in enumerate(solution):
            if self._amounts[slot]:
                slots_at.setdefault(place, []).append(slot)
        serving = [dict.fromkeys([solution[slot] for slot in slots]) for _, slots in self._groups]
        shape = self._shape(tuple(map(tuple, slots_at.values())), tuple(map(len, serving)))
        return Combination(shape, tuple(slots_at), tuple(chain.from_iterable(serving)))

    def _shape(self, taken: tuple[tuple[int, ...], ...], counts: tuple[int, ...]) -> Shape:
        shape = self._shapes.get((taken, counts))
        if shape is None:
            suffixes = [suffix for suffix, _ in self._groups]
            shape = self._shapes[taken, counts] = Shape(
                tuple(map(self._sum, taken)), tuple(zip(suffixes, counts, strict=True))
            )
        return shape

    def _sum(self, slots: tuple[int, ...]) -> Mapping[str, int]:
        """Return N(p, .) for a provider that serves these slots."""
        sums: dict[str, int] = {}
        for slot in slots:
            for name, amount in self._amounts[slot].items():
                sums[name] = sums.get(name, 0) + amount
        return sums


class Kind:
    """A problem, and its solutions put into words once."""

    __slots__ = ("_combinations", "_wording", "places", "sharers_may_serve_all", "solutions")

    def __init__(self, problem: Problem, wording: Wording) -> None:
        self.places = problem.places
        self.solutions = Solutions(problem)
        self.sharers_may_serve_all = problem.sharers_may_serve_all
        self._wording = wording
        self._combinations: list[Combination] = []

    def combination(self, number: int) -> Combination | None:
        """Return the combination of that number, counted from 0, None if there are not as many."""
        combinations = self._combinations
        while len(combinations) <= number:
            solution = self.solutions.get(len(combinations))
            if solution is None:
                return None
            combinations.append(self._wording.combination(solution))
        return combinations[number]


@dataclass(slots=True)
class Stream:
    """The candidates of one anchor, one at a time.

    ``seen`` holds the candidates of sharing providers alone that any anchor has given: the same
    one may come from several anchors and counts once (section 5.7). Its key is the provider of
    each slot: equal (allocations, mappings) mean equal choices, since the mappings give the
    granular ones, and what then remains of the allocations tells who serves each class of the
    unsuffixed group.
    """

    kind: Kind
    members: Sequence[int]
    seen: set[tuple[int, ...]] | None
    number: int = 0

    def next(self) -> Candidate | None:
        """Return the next candidate that no anchor has given before, or None."""
        while True:
            combination = self.kind.combination(self.number)
            if combination is None:
                return None
            self.number += 1
            if self.seen is None or self._is_new(self.number - 1, self.seen):
                return Candidate(combination, self.members)

    def _is_new(self, number: int, seen: set[tuple[int, ...]]) -> bool:
        places = self.kind.places
        solution = self.kind.solutions.get(number)
        assert solution is not None
        if not all(places[place].shared for place in solution):
            return True
        key = tuple(self.members[place] for place in solution)
        if key in seen:
            return False
        seen.add(key)
        return True


@dataclass(frozen=True, slots=True)
class Guests:
    """The sharing providers that an anchor reaches beyond its tree, as far as they are eligible."""

    everyone: tuple[int, ...]
    members: tuple[int, ...]
    places: tuple[Place, ...]


class StreamMaker:
    """Builds the streams of many anchors at once; holds what they share."""

    def __init__(
        self, cloud: Cloud, found: Feasible, rules: Rules, work: Work, seed: int | None
    ) -> None:
        self._cloud, self._found, self._rules, self._work = cloud, found, rules, work
        self._wording = Wording(rules.amounts, self._group_slots())
        self._kinds: dict[tuple[bytes, int, bool], Kind] = {}
        self._welcomed: set[int] = set()
        self._guests: dict[int, Guests] = {}
        self._seen: set[tuple[int, ...]] = set()
        self._contested = rules.contested
        self._shuffler = None if seed is None else random.Random(seed)  # noqa: S311
        self._scatter = None if seed is None else np.random.default_rng(seed)
        away = [slot.away for slot in found.slots if slot.away is not None]
        self._away: Mask | None = np.logical_or.reduce(away) if away else None

    def build(self, anchors: Indexes) -> list[Stream]:
        """Return the streams of these anchors, in their order; those without solution too."""
        rows, ordinal = self._rows(anchors)
        columns = self._columns(rows)
        if self._rules.subtrees:
            rows, features = self._by_structure(rows, ordinal, columns)
        else:
            rows, features = _by_features(rows, ordinal, columns)
        ends = np.cumsum(np.bincount(ordinal, minlength=len(anchors))).tolist()
        members, width = rows.tolist(), features.shape[1] * features.itemsize
        signature = features.tobytes()
        streams, start = [], 0
        for anchor, end in zip(anchors.tolist(), ends, strict=True):
            guests = self._guests_of(anchor)
            known = guests is not None and id(guests) in self._welcomed
            key = signature[start * width : end * width], id(guests), known
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = self._kind(features[start:end].tolist(), guests, known)
            self._welcomed.add(id(guests))
            mine = members[start:end]
            if guests is not None:
                mine += guests.members
            seen = self._seen if kind.sharers_may_serve_all else None
            streams.append(Stream(kind, mine, seen))
            start = end
        return streams

    def _rows(self, anchors: Indexes) -> tuple[Indexes, NDArray[np.int64]]:
        """Return the providers that may serve some slot, tree by tree, and their anchor's rank."""
        providers, counts = self._cloud.forest.trees(anchors)
        useful = self._found.local_among(providers)
        rows = providers[useful]
        ordinal = np.repeat(np.arange(len(anchors)), counts)[useful]
        if self._scatter is not None:
            rows = rows[np.lexsort((self._scatter.random(len(rows)), ordinal))]
        return rows, ordinal

    def _columns(self, rows: Indexes) -> list[Table]:
        """Return bit words (slots, sharing, demands), then the rooms."""
        masks = [slot.local for slot in self._found.slots]
        masks += [self._cloud.sharing.mask, *self._found.demands]
        columns = []
        for low in range(0, len(masks), WORD):
            word = np.zeros(len(rows), np.int64)
            for bit, mask in enumerate(masks[low : low + WORD]):
                word |= mask[rows].astype(np.int64) << bit
            columns.append(word)
        for name, total in self._contested.items():
            room = self._cloud.room(name)[rows]
            columns.append(np.minimum(room, min(total, LARGEST_AMOUNT)).astype(np.int64))
        return columns

    def _by_structure(
        self, rows: Indexes, ordinal: NDArray[np.int64], columns: list[Table]
    ) -> tuple[Indexes, Table]:
        """Order rows so that alike trees look alike, ancestors first; add the parent column.

        A row's code hashes its features and, bottom-up, the multiset of its children's codes; then,
        top-down, rows are ordered by (level, place of the parent, code). A collision of codes may
        only make alike trees look different, which costs time and nothing else.
        """
        above = self._nearest(rows)
        levels = _levels(above)
        code = _hash(columns)
        for level in range(int(levels.max(initial=0)), 0, -1):
            mine = np.flatnonzero(levels == level)
            weight = np.zeros(len(rows), np.uint64)
            np.add.at(weight, above[mine], code[mine] * _MIX ^ code[mine] >> np.uint64(29))
            code = (code + weight) * _MIX
        rank = np.zeros(len(rows), np.int64)
        for level in range(int(levels.max(initial=0)) + 1):
            mine = np.flatnonzero(levels == level)
            under = ordinal[mine] if level == 0 else rank[above[mine]]
            rank[mine[np.lexsort((code[mine], under))]] = np.arange(len(mine))
        order = np.lexsort((rank, levels, ordinal))
        new_place = np.empty(len(rows), np.int64)
        new_place[order] = np.arange(len(rows))
        first = np.searchsorted(ordinal, ordinal)
        parent = np.where(above >= 0, new_place[above] - first, -1)
        features = np.stack([*columns, parent], axis=1)[order]
        return rows[order], np.ascontiguousarray(features)

    def _nearest(self, rows: Indexes) -> NDArray[np.int64]:
        """Return for each row the row of its nearest ancestor among the rows, or -1."""
        row_of = np.full(self._cloud.size + 1, -1, np.int64)
        row_of[rows] = np.arange(len(rows))
        parents = np.append(self._cloud.parents, -1)
        above = parents[rows]
        while True:
            lost = (above >= 0) & (row_of[above] < 0)
            if not lost.any():
                return row_of[above]
            above = np.where(lost, parents[above], above)

    def _kind(self, features: list[list[int]], guests: Guests | None, known: bool) -> Kind:
        """Build the problem of a signature.

        ``known``: an earlier anchor has the same guests, and gives what they can do alone.
        """
        places = [self._place(row) for row in features]
        for place in guests.places if guests is not None else ():
            parent = place.parent + len(features) if place.parent >= 0 else -1
            places.append(
                Place(place.slots, place.rooms, place.meets, place.shared, place.tree, parent)
            )
        own = (1 << len(features)) - 1 if known else 0
        possible = places if own or not known else []
        problem = Problem(self._rules, possible, self._work, self._shuffler, own)
        return Kind(problem, self._wording)

    def _place(self, row: list[int]) -> Place:
        count = len(self._found.slots)
        words = -(-(count + 1 + len(self._found.demands)) // WORD)
        flags = sum(word << WORD * number for number, word in enumerate(row[:words]))
        rooms = tuple(row[words : words + len(self._contested)])
        parent = row[-1] if self._rules.subtrees else -1
        return Place(
            slots=flags & ((1 << count) - 1),
            rooms=rooms,
            meets=flags >> count + 1,
            shared=bool(flags >> count & 1),
            parent=parent,
        )

    def _guests_of(self, anchor: int) -> Guests | None:
        """Return the eligible part of reach(anchor) beyond its own tree, None if empty."""
        if self._away is None:
            return None
        everyone = self._cloud.sharing.away(anchor)
        guests = self._guests.get(id(everyone))
        if guests is None:
            guests = self._guests[id(everyone)] = self._invite(everyone)
        return guests if guests.members else None

    def _invite(self, everyone: tuple[int, ...]) -> Guests:
        assert self._away is not None
        members = [provider for provider in everyone if self._away[provider]]
        depth = {provider: len(self._ancestors(provider)) for provider in members}
        members.sort(key=depth.__getitem__)
        place_of = {provider: place for place, provider in enumerate(members)}
        places = []
        for provider in members:
            line = (place_of.get(ancestor, -1) for ancestor in self._ancestors(provider))
            places.append(self._guest_place(provider, next((p for p in line if p >= 0), -1)))
        return Guests(everyone, tuple(members), tuple(places))

    def _ancestors(self, provider: int) -> list[int]:
        line, above = [], int(self._cloud.parents[provider])
        while above >= 0:
            line.append(above)
            above = int(self._cloud.parents[above])
        return line

    def _guest_place(self, provider: int, parent: int) -> Place:
        slots = meets = 0
        for number, slot in enumerate(self._found.slots):
            if slot.away is not None and slot.away[provider]:
                slots |= 1 << number
        for number, demand in enumerate(self._found.demands):
            meets |= int(demand[provider]) << number
        rooms = tuple(
            min(int(self._cloud.room(name)[provider]), total)
            for name, total in self._contested.items()
        )
        tree = 1 + int(self._cloud.roots[provider])
        return Place(slots, rooms, meets, True, tree, parent)

    def _group_slots(self) -> list[tuple[str, tuple[int, ...]]]:
        groups: dict[str, list[int]] = {}
        for number, slot in enumerate(self._found.slots):
            groups.setdefault(slot.suffix, []).append(number)
        return [(suffix, tuple(numbers)) for suffix, numbers in groups.items()]


def _by_features(
    rows: Indexes, ordinal: NDArray[np.int64], columns: list[Table]
) -> tuple[Indexes, Table]:
    """Within each anchor put rows with equal features side by side, in one order everywhere."""
    features = np.stack(columns, axis=1)
    if len(rows) and (features == features[0]).all():
        return rows, features
    order = np.lexsort((_hash(columns), ordinal))
    return rows[order], np.ascontiguousarray(features[order])


def _hash(columns: list[Table]) -> NDArray[np.uint64]:
    code = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        code = (code ^ column.astype(np.uint64)) * _MIX
        code ^= code >> np.uint64(31)
    return code


def _levels(above: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of ancestors of each row among the rows."""
    levels = np.zeros(len(above), np.int64)
    line = above
    while True:
        deeper = line >= 0
        if not deeper.any():
            return levels
        levels += deeper
        line = np.where(deeper, above[line], -1)

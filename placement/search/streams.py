"""The streams of candidates: anchors become problems, and similar anchors share one (see ``combine``).

For each anchor the providers that may serve some slot become rows of features: the slots they may serve,
their room per contested class, the demands they meet. Rows are sorted by features first, so that equal hosts
give equal bytes. Equal bytes share one problem.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from placement.search.candidate import Candidate, CandidateShape, Combination
from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.combine import Solutions
from placement.search.feasible import Feasible, Slot
from placement.search.index_set import Indexes, Mask
from placement.search.problem import AssignmentProblem, ReachableProvider, Rules, Solution
from placement.search.structure import MIX, hash_rows
from placement.search.work import Work

WORD = 62
"""The bits of a feature word, which fit into a signed 64-bit column."""

IntArray = NDArray[np.int64]


class CombinationMaker:
    """A factory of combinations from the solutions of one request; equal ones, and equal shapes, are one
    object.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = len(slots)
        self._amounts = [slot.amounts for slot in slots]
        self._groups: dict[str, list[int]] = {}
        for number, slot in enumerate(slots):
            self._groups.setdefault(slot.suffix, []).append(number)
        self._combinations: dict[Solution, Combination] = {}
        self._shapes: dict[tuple[object, ...], CandidateShape] = {}
        self._plain = None
        if len(self._groups) == len(slots) and all(self._amounts):
            self._plain = CandidateShape(
                tuple(self._amounts), tuple((suffix, 1) for suffix in self._groups)
            )

    def combination(self, solution: Solution) -> Combination:
        """Return the combination of a solution."""
        made = self._combinations.get(solution)
        if made is not None:
            return made
        # Most candidates use a separate place for each group, so nothing has to be summed.
        if self._plain is not None and len(set(solution)) == len(solution):
            made = self._combinations[solution] = Combination(self._plain, solution, solution)
            return made
        slots_at: dict[int, list[int]] = {}
        for slot, place in enumerate(solution):
            if self._amounts[slot]:
                slots_at.setdefault(place, []).append(slot)
        serving = [dict.fromkeys([solution[s] for s in slots]) for slots in self._groups.values()]
        taken, counts = tuple(map(tuple, slots_at.values())), tuple(map(len, serving))
        # Equal shapes are one object: the renderer makes a template for each, and a large answer has few.
        shape = self._shapes.get((taken, counts))
        if shape is None:
            shape = self._shapes[taken, counts] = CandidateShape(
                tuple(map(self._sum, taken)), tuple(zip(self._groups, counts, strict=True))
            )
        made = Combination(shape, tuple(slots_at), tuple(chain.from_iterable(serving)))
        self._combinations[solution] = made
        return made

    def _sum(self, slots: tuple[int, ...]) -> Mapping[str, int]:
        """Return N(p, .) for a provider that serves these slots."""
        sums: dict[str, int] = {}
        for slot in slots:
            for name, amount in self._amounts[slot].items():
                sums[name] = sums.get(name, 0) + amount
        return sums


@dataclass(slots=True)
class Stream(Iterator[Candidate]):
    """The candidates of one anchor, without candidates that an earlier anchor has given.

    ``seen`` has the candidates on sharing providers alone that any anchor has given: several anchors can give
    the same one, which counts once (section 5.7). The key is the provider of each slot: equal (allocations,
    mappings) mean equal choices, since the mappings give the granular ones, and the rest of the allocations
    shows which provider serves each class of the unsuffixed group.
    """

    solutions: Solutions
    maker: CombinationMaker
    members: Sequence[int]
    seen: set[tuple[int, ...]] | None
    number: int = 0

    def __next__(self) -> Candidate:
        while True:
            solution = self.solutions.get(self.number)
            if solution is None:
                raise StopIteration
            self.number += 1
            places = self.solutions.problem.places
            # A provider that does not share serves only at its own root, so no other anchor repeats it.
            if self.seen is not None and all(places[place].shared for place in solution):
                key = tuple(self.members[place] for place in solution)
                if key in self.seen:
                    continue
                self.seen.add(key)
            return Candidate(self.maker.combination(solution), self.members)


def in_turns(streams: Iterable[Iterator[Candidate]]) -> Iterator[Candidate]:
    """Yield round-robin: the first candidate of every stream, then the second of each, and so on."""
    while streams:
        left: list[Iterator[Candidate]] = []
        for stream in streams:
            candidate = next(stream, None)
            if candidate is not None:
                left.append(stream)
                yield candidate
        streams = left


def shares(streams: Iterable[Stream], bound: int) -> Iterator[Iterator[Candidate]]:
    """Yield how many candidates of each stream remain if they are counted one by one up to the bound.

    If candidates can repeat between anchors, counting means generating, which the bound limits.
    """
    left = bound
    for stream in streams:
        if left <= 0:
            return
        if stream.seen is None:
            share = stream.solutions.count_up_to(left)
            yield islice(stream, share)
        else:
            found = list(islice(stream, left))
            share = len(found)
            yield iter(found)
        left -= share


@dataclass(frozen=True, slots=True)
class SharingReach:
    """The eligible sharing providers that an anchor reaches beyond its tree.

    ``everyone``: the tuple whose id is the key; it is kept, so that no other object gets that id.
    """

    everyone: tuple[int, ...]
    members: tuple[int, ...]
    places: tuple[ReachableProvider, ...]


class StreamMaker:
    """A factory of the streams of many anchors, with their shared data."""

    def __init__(
        self,
        cloud: Cloud,
        found: Feasible,
        rules: Rules,
        work: Work,
        seed: int | None,
        maker: CombinationMaker,
    ) -> None:
        self._cloud, self._found, self._rules, self._work = cloud, found, rules, work
        self._maker = maker
        self._solutions_by_key: dict[tuple[bytes, int, bool], Solutions] = {}
        self._reached_before: set[int] = set()
        self._reaches: dict[int, SharingReach] = {}
        self._seen: set[tuple[int, ...]] = set()
        self._contested = rules.contested
        self._dead: set[object] = set()
        self._hard: list[Stream] = []
        self._shuffler = None if seed is None else random.Random(seed)  # noqa: S311
        self._scatter = None if seed is None else np.random.default_rng(seed)
        self._away = found.away

    def streams_at(self, parts: Iterable[Indexes]) -> Iterator[Stream]:
        """Yield the streams of these anchors, in their order, including streams without a solution."""
        return chain.from_iterable(map(self._of_part, parts))

    def take_up_set_aside(self) -> Iterator[Stream]:
        """Yield the streams again whose problem was set aside before it had a solution."""
        for solutions in self._solutions_by_key.values():
            if solutions.take_up():
                yield from (stream for stream in self._hard if stream.solutions is solutions)

    def _of_part(self, anchors: Indexes) -> Iterator[Stream]:
        rows, ordinal = self._found.helpers(self._cloud, anchors)
        if self._scatter is not None:
            # Alike trees share one problem with its shuffled choices: without this, all would begin with the
            # device at the same position.
            rows = rows[np.lexsort((self._scatter.random(len(rows)), ordinal))]
        columns = self._columns(rows, [slot.local for slot in self._found.slots])
        if self._rules.subtrees:
            rows, features = self._by_structure(rows, ordinal, columns)
        else:
            rows, features = _by_features(rows, ordinal, columns)
        # The features of a tree are read as bytes, without a Python object for each provider.
        ends = np.cumsum(np.bincount(ordinal, minlength=len(anchors))).tolist()
        members, width = rows.tolist(), features.shape[1] * features.itemsize
        signature = features.tobytes()
        start = 0
        for anchor, end in zip(anchors.tolist(), ends, strict=True):
            reach = self._reach_beyond(anchor)
            known = reach is not None and id(reach) in self._reached_before
            key = signature[start * width : end * width], id(reach), known
            solutions = self._solutions_by_key.get(key)
            if solutions is None:
                # A cloud without similar hosts has as many problems as hosts: building them does not count
                # placements, but takes time.
                if not self._work.check_time():
                    return
                solutions = self._solutions_by_key[key] = self._solutions_of(
                    features[start:end].tolist(), reach, known
                )
            self._reached_before.add(id(reach))
            mine = members[start:end]
            if reach is not None:
                mine += reach.members
            seen = self._seen if solutions.sharers_may_serve_all else None
            stream = Stream(solutions, self._maker, mine, seen)
            yield stream
            # This is only known now: its first candidate was searched before the next stream was requested.
            if solutions.problem.given_up:
                self._hard.append(stream)
            start = end

    def _columns(self, rows: Indexes, slots: list[Mask]) -> list[IntArray]:
        """Return the columns: bit words (slots, sharing, demands), then the rooms."""
        masks = [*slots, self._cloud.sharing.mask, *self._found.demands]
        columns = []
        for low in range(0, len(masks), WORD):
            word = np.zeros(len(rows), np.int64)
            for bit, mask in enumerate(masks[low : low + WORD]):
                word |= mask[rows].astype(np.int64) << bit
            columns.append(word)
        for name, total in self._contested.items():
            # Room beyond the request is cut off, so that hosts look alike that differ only in their free
            # room: most of a thousand hosts share one problem.
            room = self._cloud.room(name)[rows]
            columns.append(np.minimum(room, min(total, LARGEST_AMOUNT)).astype(np.int64))
        return columns

    def _by_structure(
        self, rows: Indexes, ordinal: Indexes, columns: list[IntArray]
    ) -> tuple[Indexes, IntArray]:
        """Order rows so that alike trees look alike, ancestors first; add the parent column.

        A row's code hashes its features and, bottom-up, the multiset of its children's codes; then, top-down,
        rows are ordered by (level, place of the parent, code). A collision of codes can only make alike trees
        look different, which only costs time.
        """
        # The nearest ancestors count too: by features alone, a tree with two cells of a device each could
        # look like one with both devices in one cell, which ``same_subtree`` distinguishes.
        above = self._find_nearest(rows)
        levels = _levels(above, above)
        code = hash_rows(columns)
        for level in range(int(levels.max(initial=0)), 0, -1):
            mine = np.flatnonzero(levels == level)
            # The codes are summed, so the order of children does not matter. Each code is mixed first, since
            # otherwise two pairs with equal sums would look alike.
            weight = np.zeros(len(rows), np.uint64)
            np.add.at(weight, above[mine], code[mine] * MIX ^ code[mine] >> np.uint64(29))
            code = (code + weight) * MIX
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

    def _find_nearest(self, rows: Indexes) -> NDArray[np.int64]:
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

    def _solutions_of(
        self, features: list[list[int]], reach: SharingReach | None, known: bool
    ) -> Solutions:
        """Build the problem of a signature.

        ``known``: an earlier anchor reaches the same sharing providers, and gives their own combinations.
        """
        places = [self._place(row, 0) for row in features]
        for place in reach.places if reach is not None else ():
            parent = place.parent + len(features) if place.parent >= 0 else -1
            places.append(replace(place, parent=parent))
        own = (1 << len(features)) - 1 if known else 0
        # An earlier anchor gives all combinations of sharing providers alone: without an own provider nothing
        # is left.
        possible = places if own or not known else []
        problem = AssignmentProblem(
            self._rules, possible, self._work, self._shuffler, own, self._dead
        )
        return Solutions(problem)

    def _place(self, row: list[int], tree: int) -> ReachableProvider:
        count = len(self._found.slots)
        words = -(-(count + 1 + len(self._found.demands)) // WORD)
        flags = sum(word << WORD * number for number, word in enumerate(row[:words]))
        rooms = tuple(row[words : words + len(self._contested)])
        parent = row[-1] if self._rules.subtrees else -1
        return ReachableProvider(
            slots=flags & ((1 << count) - 1),
            rooms=rooms,
            meets=flags >> count + 1,
            shared=bool(flags >> count & 1),
            tree=tree,
            parent=parent,
        )

    def _reach_beyond(self, anchor: int) -> SharingReach | None:
        """Return the eligible part of reach(anchor) beyond its own tree, None if empty."""
        if self._away is None:
            return None
        # The tuples are compared by identity: trees of equal aggregates share one tuple, and comparing long
        # tuples is slow.
        everyone = self._cloud.sharing.away(anchor)
        reach = self._reaches.get(id(everyone))
        if reach is None:
            eligible: Indexes = np.array([p for p in everyone if self._away[p]], np.int32)
            # Ancestors come first (``ReachableProvider.parent``); a level is in the order of ``everyone``.
            parents = self._cloud.parents
            members = eligible[np.argsort(_levels(parents, parents[eligible]), kind="stable")]
            nowhere = np.zeros(self._cloud.size, np.bool_)
            slots = [nowhere if slot.away is None else slot.away for slot in self._found.slots]
            columns = [*self._columns(members, slots), self._find_nearest(members)]
            rows = zip(*(column.tolist() for column in columns), strict=True)
            # The anchor's own tree has the number 0.
            trees = (1 + self._cloud.roots[members]).tolist()
            places = tuple(self._place([*row], tree) for row, tree in zip(rows, trees, strict=True))
            reach = SharingReach(everyone, tuple(members.tolist()), places)
            self._reaches[id(everyone)] = reach
        return reach if reach.members else None


def _by_features(
    rows: Indexes, ordinal: Indexes, columns: list[IntArray]
) -> tuple[Indexes, IntArray]:
    """Sort the rows of each anchor so that equal features are adjacent, in the same order everywhere."""
    features = np.stack(columns, axis=1)
    # All rows are alike, such as the devices of one kind of host, so there is nothing to sort.
    if len(rows) and (features == features[0]).all():
        return rows, features
    # Equal rows must be adjacent, in any order that depends on the features: a hash is one number to sort by,
    # instead of several features. The sort is stable, so equal providers keep the order of trees.
    order = np.lexsort((hash_rows(columns), ordinal))
    return rows[order], np.ascontiguousarray(features[order])


def _levels(above: Indexes, line: Indexes) -> NDArray[np.int64]:
    """Return the number of ancestors of some rows; ``line`` has the parents, -1 means none."""
    levels = np.zeros(len(line), np.int64)
    while (deeper := line >= 0).any():
        levels += deeper
        line = np.where(deeper, above[line], -1)
    return levels

"""The exact test whether the remaining slots fit into the remaining room.

Sums and matchings can only say "maybe". Packing is hard if the room is tight.

Four ideas make it fast: places are filled one after another, and as full as possible (``fillings``); slots
with equal amounts, and equal places, are interchangeable; a bound on what must stay empty ends most branches
early; dead ends are remembered, even from one tree to the next. 26 groups on hosts of 12 devices with almost
no spare room are placed or proven impossible in milliseconds per host; trying one slot after the other took
minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placement.search.problem import BitSet, bit_set, members

PerClass = tuple[int, ...]
"""The amounts of the contested classes, by class; under isolate also a seat, of which each place has one."""

Counts = tuple[int, ...]
"""The number of slots, by kind."""

MOST_DEAD_ENDS = 50_000
"""The most states remembered over all hosts of a search: without a bound, memory would grow as long as the
work lasts.
"""

FINE = 512
"""The number of units of a class up to which all reachable sums are computed. The sums are the bits of one
number: for a terabyte of memory counted in MB it would have a million bits.
"""


class OpenPlace(NamedTuple):
    """A place that is not filled yet: its room, the kinds that may use it, and its position."""

    room: PerClass
    kinds: BitSet
    position: int


class _Fork(NamedTuple):
    """A state with the remaining ways to continue; ``filled``: the place and filling that led here."""

    key: object
    ways: Iterator[tuple[OpenPlace, Counts]]
    counts: Counts
    places: list[OpenPlace]
    filled: tuple[int, Counts] | None


class Undecided(Exception):
    """The budget is spent, and it is not known whether the slots fit."""


class Completion:
    """A search that places slots, each with its amounts, on places, each with its room.

    :param amounts: the amounts by slot; each placed slot has at least one that is not 0.
    :param spend: counts a step; returns False if no more steps are allowed.
    :param dead: states that cannot be completed, kept from tree to tree.
    """

    def __init__(
        self,
        amounts: Sequence[PerClass],
        spend: Callable[[], bool],
        dead: set[object],
    ) -> None:
        self._amounts = amounts
        self._spend = spend
        self._dead = dead
        self._kinds: list[PerClass] = []
        self._fits_alone: dict[object, bool] = {}

    def place(
        self, domains: Mapping[int, BitSet], rooms: Mapping[int, PerClass]
    ) -> dict[int, int] | None:
        """Return a position for each slot of ``domains``, None if that is impossible.

        :param rooms: the room by each position in a domain.
        :raises Undecided: the budget is spent
        """
        slots_of: dict[tuple[PerClass, BitSet], list[int]] = {}
        for slot, domain in domains.items():
            slots_of.setdefault((self._amounts[slot], domain), []).append(slot)
        # The largest slots come first: small ones fit into the gaps.
        kinds = sorted(slots_of, key=lambda kind: (-sum(kind[0]), kind))
        self._kinds = [amounts for amounts, _ in kinds]
        by_position: dict[int, BitSet] = {}
        for number, (_, domain) in enumerate(kinds):
            for position in members(domain):
                by_position[position] = by_position.get(position, 0) | 1 << number
        places = [OpenPlace(rooms[p], kinds_there, p) for p, kinds_there in by_position.items()]
        counts = tuple(len(slots_of[kind]) for kind in kinds)
        filled = self._fill(counts, places)
        if filled is None:
            return None
        found: dict[int, int] = {}
        left = [list(slots_of[kind]) for kind in kinds]
        # Slots of a kind are interchangeable, so any of them takes the seat.
        for position, filling in filled:
            for number, count in enumerate(filling):
                for _ in range(count):
                    found[left[number].pop()] = position
        return found

    def _fill(self, counts: Counts, places: list[OpenPlace]) -> list[tuple[int, Counts]] | None:
        """Return places with fillings that take all counted slots.

        Proof that no solution is lost: in any solution a slot of the first kind is on some place. Whatever
        that place could still hold can be moved there from other places, which keeps all rules, since no rule
        demands that a place be used. So one of the fullest fillings of one of the places extends to a
        solution if any does.
        """
        # A stack is used instead of recursion: the depth is the number of places, and a tree can have
        # thousands.
        forks: list[_Fork] = []
        filled: tuple[int, Counts] | None = None
        while any(counts):
            fork = self._fork(counts, places, filled)
            if fork is not None:
                forks.append(fork)
            while True:
                if not forks:
                    return None
                fork = forks[-1]
                way = next(fork.ways, None)
                if way is not None:
                    break
                # All ways have failed, and each was tried to its end, which is a proof. (``Undecided`` skips
                # this line, so a state cut short by the deadline is never called dead.)
                forks.pop()
                if len(self._dead) < MOST_DEAD_ENDS:
                    self._dead.add(fork.key)
            place, filling = way
            counts = tuple(n - m for n, m in zip(fork.counts, filling, strict=True))
            places = [other for other in fork.places if other is not place]
            filled = place.position, filling
        last = [] if filled is None else [filled]
        return [fork.filled for fork in forks if fork.filled is not None] + last

    def _fork(
        self, counts: Counts, places: list[OpenPlace], filled: tuple[int, Counts] | None
    ) -> _Fork | None:
        """Return the ways to continue, None if a quick test shows that none succeeds."""
        # Every state counts as work: otherwise one placement could hide a search of minutes.
        if not self._spend():
            raise Undecided
        wanted = bit_set(kind for kind, count in enumerate(counts) if count)
        places = self._trim(counts, places, wanted)
        # The cheap tests come first; the last one can be a search of its own.
        slack = self._slack(counts, places)
        if slack is None:
            return None
        kind = self._scarcest(counts, places)
        if kind is None:
            return None
        key = self._key(counts, places)
        if key in self._dead:
            return None
        if not all(self._fits_in_one(d, counts, places) for d in range(len(slack))):
            return None
        return _Fork(key, self._ways(kind, counts, places, slack), counts, places, filled)

    def _trim(self, counts: Counts, places: list[OpenPlace], wanted: BitSet) -> list[OpenPlace]:
        """Return the places that can still take a slot, with room cut to what they can use."""
        # Room that no slot can use is cut off. This makes the slack smaller, which ends most branches, and
        # makes places look equal that differ in nothing else.
        known: dict[tuple[PerClass, BitSet], tuple[PerClass, BitSet]] = {}
        useful = []
        for room, kinds, position in places:
            at = room, kinds & wanted
            cut = known.get(at)
            if cut is None:
                there = [
                    kind
                    for kind in members(kinds & wanted)
                    if all(n <= have for n, have in zip(self._kinds[kind], room, strict=True))
                ]
                usable = tuple(
                    self._reachable(have, [(self._kinds[kind][d], counts[kind]) for kind in there])
                    for d, have in enumerate(room)
                )
                cut = known[at] = usable, bit_set(there)
            if cut[1]:
                useful.append(OpenPlace(*cut, position))
        return useful

    def _reachable(self, have: int, amounts: list[tuple[int, int]]) -> int:
        """Return the largest sum of these (amount, times) up to what a place has of one class."""
        total = sum(amount * count for amount, count in amounts)
        if total <= have or have > FINE:
            return min(total, have)
        # Bit n of ``sums`` means that n can be reached. Adding an amount shifts all sums by it at once.
        sums, within = 1, (1 << have + 1) - 1
        for amount, count in amounts:
            if amount:
                for _ in range(min(count, have // amount)):
                    sums |= sums << amount & within
        return sums.bit_length() - 1

    def _slack(self, counts: Counts, places: list[OpenPlace]) -> PerClass | None:
        """Return what may stay empty of each class; None if there is less room than requested."""
        sums = [sum(column) for column in zip(*(place.room for place in places), strict=True)]
        if not sums:
            return None
        for amounts, count in zip(self._kinds, counts, strict=True):
            if count:
                for d, amount in enumerate(amounts):
                    sums[d] -= amount * count
        return tuple(sums) if min(sums, default=0) >= 0 else None

    def _fits_in_one(self, d: int, counts: Counts, places: list[OpenPlace]) -> bool:
        """Return whether the slots would fit if they requested only one class, on any place.

        Many more slots are alike then, so this test is quick, and refuses most impossible states.
        """
        asked: Counter[int] = Counter()
        for amounts, count in zip(self._kinds, counts, strict=True):
            if count and amounts[d]:
                asked[amounts[d]] += count
        rooms = sorted(place.room[d] for place in places)
        # ``_scarcest`` counts equal amounts exactly. With one class and a different amount for each kind,
        # this would be the same question, and repeat without end.
        amounts_of_kinds = {amounts[d] for amounts in self._kinds}
        is_simpler = len(self._kinds[0]) > 1 or len(amounts_of_kinds) < len(self._kinds)
        if len(asked) < 2 or not is_simpler:
            return True
        key = tuple(sorted(asked.items())), tuple(rooms)
        known = self._fits_alone.get(key)
        if known is None:
            # The new search shares the dead ends: they contain amounts and rooms, so states of other kinds
            # are not confused.
            alone = Completion([], self._spend, self._dead)
            alone._kinds = [(amount,) for amount in sorted(asked, reverse=True)]
            everything = (1 << len(asked)) - 1
            bare = [OpenPlace((room,), everything, n) for n, room in enumerate(rooms)]
            filled = alone._fill(tuple(asked[amount] for (amount,) in alone._kinds), bare)
            known = self._fits_alone[key] = filled is not None
        return known

    def _scarcest(self, counts: Counts, places: list[OpenPlace]) -> int | None:
        """Return the kind with the fewest seats to spare; None if a kind has too few."""
        # The scarcest kind has the fewest ways, and shows first that there is none. Equal places are counted
        # together, so a host of 64 devices takes no longer than one of four.
        scarcest, least = None, 0
        alike: dict[tuple[PerClass, BitSet], int] = {}
        for room, kinds, _ in places:
            alike[room, kinds] = alike.get((room, kinds), 0) + 1
        for kind, count in enumerate(counts):
            if not count:
                continue
            amounts, seats = self._kinds[kind], 0
            for (room, kinds), number in alike.items():
                if kinds >> kind & 1:
                    fit = min(have // n for have, n in zip(room, amounts, strict=True) if n)
                    seats += number * min(fit, count)
            if seats < count:
                return None
            if scarcest is None or seats - count < least:
                scarcest, least = kind, seats - count
        return scarcest

    def _key(self, counts: Counts, places: list[OpenPlace]) -> object:
        """Return a key that decides whether the rest fits, equal for all orders of equal places and slots."""
        # The key contains neither positions nor numbers of slots, so a failure on one host is known on the
        # next.
        asked = [(self._kinds[kind], count) for kind, count in enumerate(counts) if count]
        order = {kind: n for n, kind in enumerate(k for k, count in enumerate(counts) if count)}
        have = sorted(
            (room, sum(1 << order[kind] for kind in members(kinds))) for room, kinds, _ in places
        )
        return tuple(asked), tuple(have)

    def _ways(
        self, kind: int, counts: Counts, places: list[OpenPlace], slack: PerClass
    ) -> Iterator[tuple[OpenPlace, Counts]]:
        """Yield each fullest filling with this kind of each place that can take it; equal places once.

        The fullest places come first: they lose the least.
        """
        # Equal places are tried once: if one of them with this filling fails, all do.
        tried = set()
        for place in sorted(places, key=lambda place: (sum(place.room), place)):
            if place.kinds >> kind & 1 and (place.room, place.kinds) not in tried:
                tried.add((place.room, place.kinds))
                # One place may leave at most as much empty as all places together may.
                least = tuple(max(r - s, 0) for r, s in zip(place.room, slack, strict=True))
                for filling in self._fillings(place, kind, counts, least):
                    yield place, filling

    def _fillings(
        self, place: OpenPlace, first: int, counts: Counts, least: PerClass
    ) -> Iterator[Counts]:
        """Yield the fullest fillings of a place, with at least one slot of the first kind.

        :param least: the amount of each class that must be taken.
        """
        order = [first, *(kind for kind in members(place.kinds) if kind != first)]
        after = self._after(order, counts)
        chosen = [0] * len(order)
        rooms = [place.room]
        # At least one slot of the first kind is placed: some place has to take it, and each possible place is
        # tried.
        most = self._fit(order[0], counts, place.room)
        walks = [iter(range(most, 0, -1))]
        while walks:
            depth = len(walks) - 1
            number = next(walks[-1], None)
            if number is None:
                walks.pop()
                rooms.pop()
                continue
            chosen[depth] = number
            kind = order[depth]
            room = tuple(
                have - number * n for have, n in zip(rooms[-1], self._kinds[kind], strict=True)
            )
            # Even with all following kinds, too much would stay empty.
            if any(
                whole - have + more < wanted
                for whole, have, more, wanted in zip(
                    place.room, room, after[depth], least, strict=True
                )
            ):
                continue
            if depth + 1 < len(order):
                rooms.append(room)
                walks.append(iter(range(self._fit(order[depth + 1], counts, room), -1, -1)))
                continue
            # The place is not as full as it can be: another filling contains this one and loses nothing
            # (``_fill``).
            if any(
                chosen[n] < counts[kind] and self._fit(kind, counts, room)
                for n, kind in enumerate(order)
            ):
                continue
            filling = [0] * len(counts)
            for n, kind in enumerate(order):
                filling[kind] = chosen[n]
            if not self._spend():
                raise Undecided
            yield tuple(filling)

    def _after(self, order: list[int], counts: Counts) -> list[list[int]]:
        """Return for each kind in order the total of all later kinds."""
        sums = [0] * len(self._kinds[0])
        after = []
        for kind in reversed(order):
            after.append(list(sums))
            sums = [
                have + counts[kind] * n for have, n in zip(sums, self._kinds[kind], strict=True)
            ]
        return after[::-1]

    def _fit(self, kind: int, counts: Counts, room: PerClass) -> int:
        """Return how many of a kind fit into a room, at most all of them."""
        return min(
            counts[kind],
            *(have // n for have, n in zip(room, self._kinds[kind], strict=True) if n),
        )

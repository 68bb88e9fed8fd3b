"""The combinations within fixed domains, depth-first, and what drops a partial one early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement.search.bit_set import BitSet, members
from placement.search.matching import Matching
from placement.search.problem import Domains, Problem, Solution

Demand = tuple[tuple[int, int], ...]
"""What a slot takes of the contested classes: (column of ``Place.rooms``, amount)."""

MOST_THRESHOLDS = 4
MOST_DEAD_ENDS = 50_000


class Assignment:
    """Depth-first assignment of positions to slots within fixed domains.

    Slots with the fewest positions come first. A placement is not even tried if it breaks isolate,
    the capacity of its place (max included, through room) or the rule before 1.29; it is dropped
    if a ``Matching`` shows that the other slots cannot follow. What still ends dead is remembered.
    """

    def __init__(self, problem: Problem, domains: Domains) -> None:
        self._problem = problem
        self._domains = domains
        rules = problem.rules
        self._alone = rules.granular if rules.isolate else frozenset()
        self._columns = {name: column for column, name in enumerate(rules.contested)}
        # Slots alone on their places add up nowhere: a class that only they ask for needs no sums.
        others = [amounts for s, amounts in enumerate(rules.amounts) if s not in self._alone]
        summed = {
            name: column
            for name, column in self._columns.items()
            if any(name in amounts for amounts in others)
        }
        weight = [sum(amounts.values()) for amounts in rules.amounts]
        self._order = sorted(
            range(len(domains)), key=lambda s: (domains[s].bit_count(), -weight[s], s)
        )
        self._demand: list[Demand] = [
            tuple((summed[name], n) for name, n in amounts.items() if name in summed)
            for amounts in rules.amounts
        ]
        self._left = [list(place.rooms) for place in problem.places]
        self._full: dict[Demand, BitSet] = dict.fromkeys(self._demand, 0)
        """By demand the positions that have become too full for it."""
        self._taken: BitSet = 0
        self._placed = [-1] * len(domains)
        self._users: dict[int, list[int]] = {}
        """By tree the positions that take something, before 1.29."""
        self._dead: set[tuple[object, ...]] = set()
        self._matchings = list(self._build_matchings())
        self._repaired = [self._to_repair(slot) for slot in range(len(domains))]
        self.possible = all(matching.possible for _, matching in self._matchings)
        """No matching says that there is no solution."""

    def solutions(self) -> Iterator[Solution]:
        """Yield every assignment that keeps all rules."""
        if not self.possible:
            return
        order, placed, problem = self._order, self._placed, self._problem
        last = len(order) - 1
        walks = [iter(self._options(order[0]))]
        found, found_before = 0, [0]
        while walks:
            depth = len(walks) - 1
            slot = order[depth]
            if depth == last:
                for placed[slot] in walks[depth]:
                    if not problem.spend():
                        return
                    found += 1
                    yield tuple(placed)
                placed[slot] = -1
            else:
                if placed[slot] >= 0:
                    self._withdraw(slot)
                if self._advance(slot, walks[depth]):
                    if not self._dead or self._state(depth + 1) not in self._dead:
                        walks.append(iter(self._options(order[depth + 1])))
                        found_before.append(found)
                    continue
            if problem.given_up:
                return
            walks.pop()
            if found == found_before.pop():
                self._bury(depth)

    def _options(self, slot: int) -> list[int]:
        """Return the positions that the slot may take as things stand.

        At the last slot this is all: every rule has been kept, none is left to look ahead for.
        """
        open_places = self._domains[slot] & ~self._full[self._demand[slot]]
        if slot in self._alone:
            open_places &= ~self._taken
        options = self._problem.in_some_order(open_places)
        if self._problem.rules.one_provider_per_tree and self._problem.rules.amounts[slot]:
            return [position for position in options if self._has_tree_to_itself(position)]
        return options

    def _has_tree_to_itself(self, position: int) -> bool:
        users = self._users.get(self._problem.places[position].tree)
        return not users or users[0] == position

    def _advance(self, slot: int, walk: Iterator[int]) -> bool:
        """Place the slot on its next position from which the other slots can follow."""
        for position in walk:
            if not self._problem.spend():
                return False
            if self._fix(slot, position):
                self._place(slot, position)
                return True
        return False

    def _fix(self, slot: int, position: int) -> bool:
        matchings = self._repaired[slot]
        for number, matching in enumerate(matchings):
            if not matching.fix(slot, position):
                for earlier in matchings[:number]:
                    earlier.release(slot)
                return False
        return True

    def _place(self, slot: int, position: int) -> None:
        self._placed[slot] = position
        if slot in self._alone:
            self._taken |= 1 << position
        if self._demand[slot]:
            self._take(slot, position, 1)
        if self._problem.rules.one_provider_per_tree and self._problem.rules.amounts[slot]:
            self._users.setdefault(self._problem.places[position].tree, []).append(position)

    def _withdraw(self, slot: int) -> None:
        position = self._placed[slot]
        self._placed[slot] = -1
        if slot in self._alone:
            self._taken &= ~(1 << position)
        if self._demand[slot]:
            self._take(slot, position, -1)
        for matching in self._repaired[slot]:
            matching.release(slot)
        if self._problem.rules.one_provider_per_tree and self._problem.rules.amounts[slot]:
            self._users[self._problem.places[position].tree].pop()

    def _take(self, slot: int, position: int, sign: int) -> None:
        left, bit = self._left[position], 1 << position
        for column, amount in self._demand[slot]:
            left[column] -= sign * amount
        for demand in self._full:
            for column, amount in demand:
                if left[column] < amount:
                    self._full[demand] |= bit
                    break
            else:
                self._full[demand] &= ~bit

    def _bury(self, depth: int) -> None:
        if len(self._dead) < MOST_DEAD_ENDS:
            self._dead.add(self._state(depth))

    def _state(self, depth: int) -> tuple[object, ...]:
        """Return what decides whether the slots from this depth on can be assigned.

        Proof: the remaining rules read nothing but, for each position that a remaining slot may
        take, its room left, whether isolate has taken it, and who uses its tree. Positions with
        the same remaining slots and the same such values are interchangeable, so sorting them
        away keeps the answer; before 1.29 trees tell positions apart, and they are not sorted.
        """
        problem = self._problem
        remaining = self._order[depth:]
        per_tree = problem.rules.one_provider_per_tree
        positions: dict[int, BitSet] = {}
        for slot in remaining:
            for position in members(self._domains[slot]):
                positions[position] = positions.get(position, 0) | 1 << slot
        facts: list[tuple[object, ...]] = []
        for position, slots in positions.items():
            fact = (slots, *self._left[position], self._taken >> position & 1)
            if per_tree:
                users = self._users.get(problem.places[position].tree) or [-1]
                facts.append((position, users[0], *fact))
            else:
                facts.append(fact)
        return (depth, *sorted(facts))

    def _build_matchings(self) -> Iterator[tuple[frozenset[int], Matching]]:
        """Yield the matchings that can bind.

        Isolate: granular slots, one to a place. A contested class, for a threshold t: the slots
        that ask for at least t, at most room // t to a place (each takes t or more of the room).
        Slots that ask for the very same amounts of several classes: the least of room // amount.
        """
        rules, rooms = self._problem.rules, [place.rooms for place in self._problem.places]
        alone = self._alone
        if len(alone) > 1:
            yield self._matching(alone, [1] * len(rooms))
        alike: dict[Demand, set[int]] = {}
        for slot, demand in enumerate(self._demand):
            if len(demand) > 1:
                alike.setdefault(tuple(sorted(demand)), set()).add(slot)
        for wanted, twins in alike.items():
            if len(twins) > 1 and not twins <= alone:
                places = [min(room[column] // n for column, n in wanted) for room in rooms]
                yield self._matching(frozenset(twins), places)
        for name, column in self._columns.items():
            asked = {s: amounts[name] for s, amounts in enumerate(rules.amounts) if name in amounts}
            for threshold in sorted(set(asked.values()))[:MOST_THRESHOLDS]:
                slots = frozenset(s for s, amount in asked.items() if amount >= threshold)
                places = [room[column] // threshold for room in rooms]
                if len(slots) > 1 and not slots <= alone and self._binds(slots, places):
                    yield self._matching(slots, places)

    def _binds(self, slots: frozenset[int], places: Sequence[int]) -> bool:
        return any(places[p] < len(slots) for slot in slots for p in members(self._domains[slot]))

    def _matching(
        self, slots: frozenset[int], places: Sequence[int]
    ) -> tuple[frozenset[int], Matching]:
        in_order = [slot for slot in self._order if slot in slots]
        return slots, Matching(in_order, self._domains, places)

    def _to_repair(self, slot: int) -> list[Matching]:
        """Return the matchings to look at when the slot is placed.

        One whose slots all have the same domain needs no second look: if it is possible at all,
        then as long as no place is overfilled as many seats are open as slots are left, and each
        of them will do.
        """
        return [
            matching
            for slots, matching in self._matchings
            if slot in slots and len({self._domains[other] for other in slots}) > 1
        ]

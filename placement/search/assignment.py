"""The combinations within fixed domains, depth-first, and the tests that drop a partial one early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement.search.completion import Completion, Undecided
from placement.search.problem import (
    AssignmentProblem,
    BitSet,
    SlotDomains,
    Solution,
    bit_set,
    members,
)

ContestedAmounts = tuple[tuple[int, int], ...]
"""The amounts that a slot takes of the contested classes: (column of ``ReachableProvider.rooms``, amount)."""

MOST_THRESHOLDS = 4
"""Matchings of one class: each costs a repair per placement, and the exact check sees what they miss."""

EXACT_AFTER = 100
"""The number of placements without a solution after which each further one is checked exactly, which costs
more but avoids dead ends.
"""


class Assignment:
    """Depth-first assignment of positions to slots within fixed domains.

    Slots with the fewest positions come first. A placement is not even tried if it breaks isolate, the
    capacity of its place (max included, through room) or the rule before 1.29; it is dropped if a
    ``Matching`` shows that the other slots cannot follow. After too many dead ends, a ``Completion`` decides
    for each placement exactly whether they can.
    """

    def __init__(self, problem: AssignmentProblem, domains: SlotDomains) -> None:
        self._problem = problem
        self._domains = domains
        rules = problem.rules
        self._alone = rules.granular if rules.isolate else frozenset()
        self._seated = self._alone if len(self._alone) > 1 else frozenset()
        """Sets of slots of which a place takes one: for the exact check a place has one seat for them."""
        self._columns = {name: column for column, name in enumerate(rules.contested)}
        # Isolated slots never share a place, so a class that only they request needs no sums.
        others = [amounts for s, amounts in enumerate(rules.amounts) if s not in self._alone]
        summed = {
            name: column
            for name, column in self._columns.items()
            if any(name in amounts for amounts in others)
        }
        weight = [sum(amounts.values()) for amounts in rules.amounts]
        # Slots with the fewest positions come first: their mistakes show before many slots depend on them.
        # The order decides which candidates come first, so it depends on the problem alone, ties included.
        self._order = sorted(
            range(len(domains)), key=lambda s: (domains[s].bit_count(), -weight[s], s)
        )
        self._demand: list[ContestedAmounts] = [
            tuple((summed[name], n) for name, n in amounts.items() if name in summed)
            for amounts in rules.amounts
        ]
        self._left = [list(place.rooms) for place in problem.places]
        self._full: dict[ContestedAmounts, BitSet] = dict.fromkeys(self._demand, 0)
        """The overfull positions by demand, updated by each placement, so that the options of a slot are
        one operation on bits.
        """
        self._taken: BitSet = 0
        self._placed = [-1] * len(domains)
        self._users: dict[int, list[int]] = {}
        """The positions that take a slot, by tree, before 1.29."""
        self._classes = sorted(summed.values())
        self._tried, self._trusting = 0, EXACT_AFTER
        """The placements since the last solution, and the number after which each is checked exactly."""
        self._exact: Completion | None = None
        self._witness: dict[int, int] = {}
        """Positions for all slots that keep all rules, as last found by the exact check."""
        self._matchings = list(self._build_matchings())
        self._repaired = [self._to_repair(slot) for slot in range(len(domains))]
        self.possible = all(matching.possible for _, matching in self._matchings)
        """Whether a solution is possible, according to the matchings, and later to the exact check."""

    def solutions(self) -> Iterator[Solution]:
        """Yield every assignment that keeps all rules."""
        if not self._may_begin():
            return
        order, placed, problem = self._order, self._placed, self._problem
        last = len(order) - 1
        walks = [iter(self._options(order[0]))]
        found, found_before = 0, [0]
        while walks:
            depth = len(walks) - 1
            slot = order[depth]
            if depth == last:
                # Nothing that follows can fail, so a position counts as taken only in a yielded solution.
                for placed[slot] in walks[depth]:
                    if not problem.spend():
                        return
                    found += 1
                    yield tuple(placed)
                placed[slot] = -1
                if found > found_before[depth]:
                    # The checks stop here: if solutions are close together, checking each placement costs
                    # more than the dead ends between them.
                    self._tried, self._trusting = 0, EXACT_AFTER
            else:
                if placed[slot] >= 0:
                    self._withdraw(slot)
                if self._advance(slot, walks[depth]):
                    walks.append(iter(self._options(order[depth + 1])))
                    found_before.append(found)
                    continue
            if problem.given_up or not self.possible:
                problem.work.was_stuck(slot)
                return
            walks.pop()
            # A slot whose positions are used up after solutions was not the obstacle.
            if found == found_before.pop():
                problem.work.was_stuck(slot)

    def _may_begin(self) -> bool:
        """Return whether a solution is possible, by an exact check if other kinds of tree were hard."""
        # Hosts of one cloud are similar: without this each of a thousand hard ones would try its hundred
        # placements before using what the first has learnt (all share ``dead``).
        if self.possible and self._problem.dead:
            self._trusting = 0
            return self._rest_fits()
        return self.possible

    def _options(self, slot: int) -> list[int]:
        """Return the positions that the slot may take in the present state.

        At the last slot this is sufficient: every rule is kept, and no later slot has to be considered.
        """
        open_places = self._domains[slot] & ~self._full[self._demand[slot]]
        if slot in self._alone:
            open_places &= ~self._taken
        options = self._problem.in_some_order(open_places)
        # Along the witness no further check is necessary until the next solution.
        if self._witness and self._witness[slot] in options:
            options.remove(self._witness[slot])
            options.insert(0, self._witness[slot])
        if self._problem.rules.one_provider_per_tree and self._problem.rules.amounts[slot]:
            return [position for position in options if self._has_tree_to_itself(position)]
        return options

    def _has_tree_to_itself(self, position: int) -> bool:
        users = self._users.get(self._problem.places[position].tree)
        # All users of a tree are on one position, or the later ones would have been refused.
        return not users or users[0] == position

    def _advance(self, slot: int, walk: Iterator[int]) -> bool:
        """Place the slot on its next position from which the other slots can follow."""
        for position in walk:
            # The placement is counted before it is tried: a refusal by a matching is work too, and must end.
            if not self._problem.spend():
                return False
            if self._fix(slot, position):
                self._place(slot, position)
                self._tried += 1
                if self._tried <= self._trusting or self._rest_fits():
                    return True
                self._withdraw(slot)
        return False

    def _rest_fits(self) -> bool:
        """Return whether the remaining slots can follow."""
        if self._exact is None:
            amounts = []
            for slot, demand in enumerate(self._demand):
                wanted = dict(demand)
                seat = int(slot in self._seated)
                amounts.append((*(wanted.get(c, 0) for c in self._classes), seat))
            self._exact = Completion(amounts, self._problem.spend, self._problem.dead)
            # The first check ignores the placed slots: if nothing fits at all, no placement needs to be
            # undone.
            self.possible = self._find_witness(frozenset())
        if not self.possible:
            return False
        if all(p in (-1, self._witness[slot]) for slot, p in enumerate(self._placed)):
            return True
        return self._find_witness(
            frozenset(slot for slot, position in enumerate(self._placed) if position >= 0)
        )

    def _find_witness(self, placed: frozenset[int]) -> bool:
        """Search positions for all slots not yet placed; return whether there are any.

        The rule before 1.29 only counts as far as it excludes positions already, so a yes can be wrong.
        """
        assert self._exact is not None
        rest: dict[int, int] = {slot: self._placed[slot] for slot in placed}
        tight: dict[int, BitSet] = {}
        everywhere = 0
        for slot, domain in enumerate(self._domains):
            if slot in placed:
                continue
            options = self._open_to(slot) if placed else domain
            if not options:
                return False
            # The other slots do not compete: any place that is open to them stays open.
            if self._demand[slot] or slot in self._seated:
                tight[slot] = options
                everywhere |= options
            else:
                rest[slot] = next(members(options))
        rooms: dict[int, tuple[int, ...]] = {}
        for p in members(everywhere):
            room = self._left[p] if placed else self._problem.places[p].rooms
            # Under isolate a place has one seat, as if that were a class with one unit.
            seats = 1 - (self._taken >> p & 1 if placed else 0)
            rooms[p] = (*(room[column] for column in self._classes), seats)
        try:
            found = self._exact.place(tight, rooms) if tight else {}
        except Undecided:
            # ``spend`` has given up the problem, and ``solutions`` ends for that reason.
            return False
        if found is None:
            return False
        self._witness = rest | found
        return True

    def _open_to(self, slot: int) -> BitSet:
        options = self._domains[slot] & ~self._full[self._demand[slot]]
        if self._problem.rules.one_provider_per_tree and self._problem.rules.amounts[slot]:
            return bit_set(p for p in members(options) if self._has_tree_to_itself(p))
        return options

    def _fix(self, slot: int, position: int) -> bool:
        """Pin the slot in its matchings; return False, changing nothing, if the others cannot follow."""
        # The exact check would find that out too, but only after EXACT_AFTER dead ends, and each of its
        # checks reads all slots. For 150 problems with 30 to 60 slots of two to four places each, the first
        # solution took 0.14 s in all with this repair, and 20 s without. In half of them it was another
        # solution.
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
            # Slots are withdrawn in the reverse of the order in which they were placed.
            self._users[self._problem.places[position].tree].pop()

    def _take(self, slot: int, position: int, sign: int) -> None:
        left, bit = self._left[position], 1 << position
        for column, amount in self._demand[slot]:
            left[column] -= sign * amount
        # The loop is over demands, not slots: equal groups share a demand, and 40 of them would cost 40
        # comparisons each time.
        for demand in self._full:
            for column, amount in demand:
                if left[column] < amount:
                    self._full[demand] |= bit
                    break
            else:
                self._full[demand] &= ~bit

    def _build_matchings(self) -> Iterator[tuple[frozenset[int], Matching]]:
        """Yield the matchings that can bind.

        For isolate: granular slots, one per place. For a contested class and a threshold t: the slots with at
        least t, at most room // t per place (each takes t or more of the room). For slots with equal amounts
        of several classes: the least of room // amount.
        """
        rules, rooms = self._problem.rules, [place.rooms for place in self._problem.places]
        alone = self._alone
        if len(alone) > 1:
            yield self._matching(alone, [1] * len(rooms))
        alike: dict[ContestedAmounts, set[int]] = {}
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
                if len(slots) < 2 or slots <= alone:
                    continue
                # If each place could take all slots, the matching would never refuse any.
                domains = [self._domains[slot] for slot in slots]
                if any(places[p] < len(slots) for domain in domains for p in members(domain)):
                    yield self._matching(slots, places)

    def _matching(
        self, slots: frozenset[int], places: Sequence[int]
    ) -> tuple[frozenset[int], Matching]:
        in_order = [slot for slot in self._order if slot in slots]
        return slots, Matching(in_order, self._domains, places)

    def _to_repair(self, slot: int) -> list[Matching]:
        """Return the matchings to look at when the slot is placed.

        A matching whose slots all have the same domain needs no repair: if it is possible at all and no place
        is overfilled, there are at least as many open seats as remaining slots, and any of them suffices.
        """
        return [
            matching
            for slots, matching in self._matchings
            if slot in slots and len({self._domains[other] for other in slots}) > 1
        ]


# -- can every slot still get a place? ------------------------------------------------------------


class Matching:
    """Slots matched to positions of limited capacity: a witness that all slots fit at once.

    Proof of the prune: every combination is such a matching (each slot on a position of its domain, no
    position over its capacity), so if no matching agrees with the slots fixed so far, no combination does.
    Fixing a slot repairs the witness along one augmenting path; by Berge's theorem a matching exists if and
    only if such a path does. Releasing a slot needs no repair: the witness still agrees with fewer fixed
    slots.
    """

    def __init__(self, slots: Sequence[int], domains: Sequence[BitSet], capacity: Sequence[int]):
        self._domain = {slot: domains[slot] for slot in slots}
        self._capacity = capacity
        self._at: list[list[int]] = [[] for _ in capacity]
        self._match: dict[int, int] = {}
        self._fixed: set[int] = set()
        self._spare = bit_set(place for place, room in enumerate(capacity) if room > 0)
        self.possible = all(self._enter(slot) for slot in slots)

    def fix(self, slot: int, place: int) -> bool:
        """Pin the slot to the place; return False, and change nothing, if the others then fail."""
        old = self._match[slot]
        if old != place:
            self._leave(slot, old)
            full = not self._spare >> place & 1
            if full and self._augment([place], 1 << place) is None:
                self._sit(slot, old)
                return False
            self._sit(slot, place)
        self._fixed.add(slot)
        return True

    def release(self, slot: int) -> None:
        """Let the slot move again."""
        self._fixed.discard(slot)

    def _enter(self, slot: int) -> bool:
        domain = self._domain[slot]
        open_places = domain & self._spare
        if not open_places:
            freed = self._augment(list(members(domain)), domain)
            if freed is None:
                return False
            self._sit(slot, freed)
            return True
        self._sit(slot, (open_places & -open_places).bit_length() - 1)
        return True

    def _augment(self, queue: list[int], seen: BitSet) -> int | None:
        """Move slots along a shortest path so that one place of the queue gets room."""
        # The loop extends ``queue``. Places are marked as seen when they join it: a place that joined twice
        # could be its own predecessor, and ``_shift`` would loop for ever.
        came_from: dict[int, tuple[int, int]] = {}
        for place in queue:
            for slot in self._at[place]:
                if slot in self._fixed:
                    continue
                options = self._domain[slot] & ~seen
                open_places = options & self._spare
                if open_places:
                    goal = (open_places & -open_places).bit_length() - 1
                    return self._shift(slot, place, goal, came_from)
                seen |= options
                for option in members(options):
                    came_from[option] = (place, slot)
                    queue.append(option)
        return None

    def _shift(
        self, slot: int, place: int, goal: int, came_from: dict[int, tuple[int, int]]
    ) -> int:
        while True:
            self._leave(slot, place)
            self._sit(slot, goal)
            if place not in came_from:
                return place
            goal = place
            place, slot = came_from[place]

    def _sit(self, slot: int, place: int) -> None:
        self._match[slot] = place
        at = self._at[place]
        at.append(slot)
        if len(at) >= self._capacity[place]:
            self._spare &= ~(1 << place)

    def _leave(self, slot: int, place: int) -> None:
        self._at[place].remove(slot)
        self._spare |= 1 << place

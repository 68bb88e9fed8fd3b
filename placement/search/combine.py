"""The combinations of one anchor (contract 04, section 5.6), lazily and without dead weight.

A ``Problem`` is one anchor's question with everything stripped that does not matter: positions
instead of providers, rooms cut to what is asked. Anchors that look alike share one ``Problem``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import perm, prod

from placement.search.matching import Matching, bits

Domains = tuple[int, ...]
Solution = tuple[int, ...]

MOST_THRESHOLDS = 4
MOST_DEAD_ENDS = 50_000
COST_OF_SPLIT = 50
"""Placements that take as long as checking one part of a split."""


@dataclass(slots=True)
class Work:
    """Counts the tried placements of one request, over all its problems.

    ``limit`` bounds them all, ``patience`` those in one problem since its last solution: a tree
    that resists is given up before it eats what the others need. ``cut_short`` once either did so.
    """

    limit: int
    patience: int
    done: int = 0
    cut_short: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What is the same at every anchor of a request.

    ``amounts[s]`` maps a class to the amount that slot s takes. ``granular``: the slots that are
    suffixed groups; the others are the classes of the unsuffixed group. ``subtrees``: sets of
    slots. ``demands``: bit set of the trait demands that the unsuffixed slots meet together.
    """

    amounts: tuple[Mapping[str, int], ...]
    granular: frozenset[int]
    isolate: bool = False
    subtrees: tuple[tuple[int, ...], ...] = ()
    demands: int = 0
    one_provider_per_tree: bool = False

    @property
    def contested(self) -> dict[str, int]:
        """Classes that two or more slots ask for, with the total; others need no sums."""
        totals: dict[str, list[int]] = {}
        for amounts in self.amounts:
            for name, amount in amounts.items():
                totals.setdefault(name, []).append(amount)
        return {name: sum(parts) for name, parts in totals.items() if len(parts) > 1}


@dataclass(frozen=True, slots=True)
class Place:
    """One provider as seen from an anchor.

    ``slots``: bit set of the slots that it may serve, each of which fits by itself. ``rooms``: room
    per contested class, cut to the total asked. ``meets``: bit set of the trait demands.
    ``shared``: a sharing provider. ``tree``: equal for places of one tree. ``parent``: position of
    the nearest ancestor among the places, which comes before this one, or -1.
    """

    slots: int
    rooms: tuple[int, ...] = ()
    meets: int = 0
    shared: bool = False
    tree: int = 0
    parent: int = -1


@dataclass(slots=True)
class Problem:
    """The combinations of one kind of anchor; those found are kept for the next such anchor.

    Each solution gives the position of every slot; solutions are distinct. What is kept is
    bounded by what one anchor had to deliver. ``own``: bit set of the places in the anchor's own
    tree if at least one slot must be there, else 0.
    """

    rules: Rules
    places: Sequence[Place]
    work: Work
    shuffler: random.Random | None = None
    own: int = 0
    domains: Domains = field(init=False)
    given_up: bool = field(init=False, default=False)
    _idle: int = field(init=False, default=0)
    _found: list[Solution] = field(init=False, default_factory=list)
    _more: Iterator[Solution] | None = field(init=False)

    def __post_init__(self) -> None:
        self.domains = tuple(
            sum(1 << p for p, place in enumerate(self.places) if place.slots >> slot & 1)
            for slot in range(len(self.rules.amounts))
        )
        self._more = combinations(self)

    def solution(self, number: int) -> Solution | None:
        """Return the solution of that number, counted from 0, or None if there are not as many."""
        while len(self._found) <= number:
            following = next(self._more, None) if self._more is not None else None
            if following is None:
                self._more = None
                return None
            self._found.append(following)
            self._idle = 0
        return self._found[number]

    def spend(self, cost: int = 1) -> bool:
        """Count placements; return False if the problem is to be given up instead."""
        self.work.done += cost
        self._idle += cost
        if self._idle > self.work.patience or self.work.done > self.work.limit:
            self.work.cut_short = self.given_up = True
        return not self.given_up

    @property
    def sharers_may_serve_all(self) -> bool:
        """Tell whether sharing providers alone can serve every slot.

        Only such a candidate can be found from two anchors: any other provider ties it to its
        own root (section 5.2).
        """
        shared = sum(1 << p for p, place in enumerate(self.places) if place.shared)
        if self.own and not self.own & shared:
            return False
        return all(domain & shared for domain in self.domains)

    @property
    def exact_count(self) -> int | None:
        """The number of combinations where a formula has it, None where only counting tells.

        Without rules that tie slots together it is the product of the choices; granular groups
        under isolate that share one domain of m places give m!/(m-g)! instead of m**g.
        """
        rules = self.rules
        if self.own or rules.subtrees or rules.demands or rules.one_provider_per_tree:
            return None
        alone = rules.granular if rules.isolate and len(rules.granular) > 1 else frozenset()
        if len({self.domains[slot] for slot in alone}) > 1 or not self._rooms_suffice(alone):
            return None
        free = prod(d.bit_count() for s, d in enumerate(self.domains) if s not in alone)
        if not alone:
            return free
        return free * perm(self.domains[min(alone)].bit_count(), len(alone))

    def _rooms_suffice(self, alone: frozenset[int]) -> bool:
        """Tell whether no place can be overfilled; slots of ``alone`` never meet each other."""
        for column, (name, total) in enumerate(self.rules.contested.items()):
            slots = {s for s, amounts in enumerate(self.rules.amounts) if name in amounts}
            if slots <= alone:
                continue
            places = {p for slot in slots for p in bits(self.domains[slot])}
            if any(self.places[p].rooms[column] < total for p in places):
                return False
        return True

    def count_up_to(self, most: int) -> int:
        """Return the number of combinations, or ``most`` if there are more."""
        exact = self.exact_count
        if exact is not None:
            return min(exact, most)
        self.solution(most - 1)
        return min(len(self._found), most)


def combinations(problem: Problem) -> Iterator[Solution]:
    """Yield every combination once; rules that tie slots together first become narrower domains."""
    if not (all(problem.domains) and enough_in_all(problem) and enough_places(problem)):
        return
    for with_own in narrow_to_own(problem):
        for under_tops in narrow_to_subtrees(problem, with_own, problem.rules.subtrees):
            for domains in narrow_to_demands(problem, under_tops):
                if problem.given_up or not problem.spend():
                    return
                yield from Assignment(problem, domains).solutions()


def enough_in_all(problem: Problem) -> bool:
    """Compare the total demand of each contested class with what its providers can give.

    Proof: the amounts of a class that a combination puts on a place sum up to at most its room
    (holds, 5.1), so all amounts together are at most the sum of the rooms of all places in some
    domain of the class. Rooms are cut to the total, which keeps the comparison's outcome.
    """
    amounts = problem.rules.amounts
    for column, (name, total) in enumerate(problem.rules.contested.items()):
        union = 0
        for slot, wanted in enumerate(amounts):
            if name in wanted:
                union |= problem.domains[slot]
        if sum(problem.places[p].rooms[column] for p in bits(union)) < total:
            return False
    return True


def enough_places(problem: Problem) -> bool:
    """With isolate, compare the number of granular groups with that of their places.

    Proof: isolate maps granular groups to places one to one (pigeonhole).
    """
    if not problem.rules.isolate:
        return True
    union = 0
    for slot in problem.rules.granular:
        union |= problem.domains[slot]
    return union.bit_count() >= len(problem.rules.granular)


def narrow_to_own(problem: Problem) -> Iterator[Domains]:
    """Split the combinations that use the anchor's own tree by the first slot that does.

    Sharing providers alone give the same combinations at every anchor that reaches the same ones,
    so the first such anchor gives them and the others leave them out. Proof of the split: a
    combination has at most one first slot on an own place, and none has it not to be left out.
    """
    if not problem.own:
        yield problem.domains
        return
    for first, domain in enumerate(problem.domains):
        before = tuple(earlier & ~problem.own for earlier in problem.domains[:first])
        if all(before) and domain & problem.own:
            yield (*before, domain & problem.own, *problem.domains[first + 1 :])


def narrow_to_subtrees(
    problem: Problem, domains: Domains, sets: tuple[tuple[int, ...], ...]
) -> Iterator[Domains]:
    """Split the combinations by the common ancestor of each same_subtree set, and its first slot.

    The set with the fewest ancestors left is split first, so that sets which share slots narrow
    each other; a part in which the matchings already fail is dropped with all its subdivisions.
    """
    if not sets:
        yield domains
        return
    below = descendants(problem.places)
    splits = [split_by_top(problem, domains, slots, below) for slots in sets]
    number = min(range(len(sets)), key=lambda n: len(splits[n]))
    others = sets[:number] + sets[number + 1 :]
    for part in splits[number]:
        if not problem.spend(COST_OF_SPLIT):
            return
        if Assignment(problem, part).possible:
            yield from narrow_to_subtrees(problem, part, others)


def split_by_top(
    problem: Problem, domains: Domains, slots: tuple[int, ...], below: Sequence[int]
) -> list[Domains]:
    """Return disjoint domains whose combinations are those that satisfy one same_subtree set.

    Proof: in a combination that satisfies the set there is exactly one position of the set that is
    above all others (two would be above each other), and exactly one first slot on it. Fixing both
    splits the combinations into disjoint parts; within one, each slot of the set is below the
    ancestor and the slots before the first are not on it. So the parts together are all, no
    combination comes twice, and the rule is spent: any choice from these domains satisfies it.
    """
    parts = []
    tops = 0
    for slot in slots:
        tops |= domains[slot]
    for top in in_some_order(problem, tops):
        inside = [domains[slot] & below[top] for slot in slots]
        if not all(inside):
            continue
        for rank, slot in enumerate(slots):
            if inside[rank] >> top & 1:
                part = list(domains)
                for number, other in enumerate(slots):
                    part[other] = inside[number] & ~(1 << top) if number < rank else inside[number]
                part[slot] = 1 << top
                if all(part):
                    parts.append(tuple(part))
    return parts


def descendants(places: Sequence[Place]) -> list[int]:
    """Return for each position the bit set of the positions whose anc contains it, itself too."""
    below = [1 << position for position in range(len(places))]
    for position in range(len(places) - 1, -1, -1):
        parent = places[position].parent
        if parent >= 0:
            below[parent] |= below[position]
    return below


def narrow_to_demands(problem: Problem, domains: Domains) -> Iterator[Domains]:
    """Split the combinations by which trait demands each unsuffixed slot meets.

    Proof: a place meets exactly one set of demands, so the parts are disjoint and complete; those
    whose sets do not unite to all demands break rule 5 of section 5.5 and are dropped, all others
    satisfy it whatever is chosen within the part.
    """
    needed = problem.rules.demands
    slots = [s for s in range(len(domains)) if s not in problem.rules.granular] if needed else []
    kinds: list[dict[int, int]] = []
    for slot in slots:
        by_kind: dict[int, int] = {}
        for position in bits(domains[slot]):
            meets = problem.places[position].meets
            by_kind[meets] = by_kind.get(meets, 0) | 1 << position
        kinds.append(by_kind)
    reachable = [0] * (len(slots) + 1)
    for rank in range(len(slots) - 1, -1, -1):
        reachable[rank] = reachable[rank + 1]
        for meets in kinds[rank]:
            reachable[rank] |= meets

    hopeless: set[tuple[int, int]] = set()

    def choose(rank: int, met: int, chosen: list[int]) -> Iterator[Domains]:
        if (met | reachable[rank]) & needed != needed or (rank, met) in hopeless:
            return
        if rank == len(slots):
            part = list(domains)
            for slot, domain in zip(slots, chosen, strict=True):
                part[slot] = domain
            yield tuple(part)
            return
        kind = list(kinds[rank].items())
        if problem.shuffler is not None:
            problem.shuffler.shuffle(kind)
        fruitful = False
        for meets, domain in kind:
            if not problem.spend():
                return
            for part_found in choose(rank + 1, met | meets, [*chosen, domain]):
                fruitful = True
                yield part_found
        if not fruitful:
            hopeless.add((rank, met))

    yield from choose(0, 0, [])


def in_some_order(problem: Problem, mask: int) -> list[int]:
    """Return the positions of a bit set: ascending, or shuffled if the request has a seed."""
    positions = list(bits(mask))
    if problem.shuffler is not None:
        problem.shuffler.shuffle(positions)
    return positions


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
        self._demand = [
            tuple((summed[name], n) for name, n in amounts.items() if name in summed)
            for amounts in rules.amounts
        ]
        self._left = [list(place.rooms) for place in problem.places]
        self._full = dict.fromkeys(self._demand, 0)
        """By demand the positions that have become too full for it."""
        self._taken = 0
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
        options = in_some_order(self._problem, open_places)
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
        positions: dict[int, int] = {}
        for slot in remaining:
            for position in bits(self._domains[slot]):
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
        alike: dict[tuple[tuple[int, int], ...], set[int]] = {}
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
        return any(places[p] < len(slots) for slot in slots for p in bits(self._domains[slot]))

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

"""The combinations of one anchor (specification 04 section 5.6), found one at a time.

``problem`` has the question. This module turns rules that tie slots together into narrower domains and stores
the solutions; ``assignment`` tries the combinations within such domains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement.search.assignment import Assignment
from placement.search.problem import (
    AssignmentProblem,
    BitSet,
    ReachableProvider,
    SlotDomains,
    Solution,
    members,
)

COST_OF_SPLIT = 50
"""The number of placements that take as long as checking one part of a split."""


class Solutions:
    """The combinations of one problem, numbered and distinct; found ones are kept for the next such anchor.

    Their number is bounded by what one anchor had to deliver.
    """

    def __init__(self, problem: AssignmentProblem) -> None:
        self.problem = problem
        self.sharers_may_serve_all = problem.sharers_may_serve_all
        self._found: list[Solution] = []
        self._more: Iterator[Solution] | None = solve(problem)

    def get(self, number: int) -> Solution | None:
        """Return the solution of that number, counted from 0, or None if there are not as many."""
        while len(self._found) <= number:
            following = next(self._more, None) if self._more is not None else None
            if following is None:
                self._more = None
                return None
            self._found.append(following)
            # A kind of tree that has given a solution is worth more patience than one that has not.
            problem = self.problem
            problem.idle, problem.patience = 0, problem.later_patience
        return self._found[number]

    def take_up(self) -> bool:
        """Begin again if the problem was set aside without a solution; return whether that was so."""
        # A tree with solutions has already been in the common rounds, and would yield the same again.
        if self._found or not self.problem.take_up():
            return False
        self._more = solve(self.problem)
        return True

    def count_up_to(self, most: int) -> int:
        """Return the number of combinations, or ``most`` if there are more."""
        exact = self.problem.exact_count
        if exact is not None:
            return min(exact, most)
        self.get(most - 1)
        return min(len(self._found), most)


def solve(problem: AssignmentProblem) -> Iterator[Solution]:
    """Yield every combination once; rules that tie slots together first become narrower domains."""
    if not (all(problem.domains) and enough_in_all(problem) and enough_places(problem)):
        return
    for with_own in narrow_to_own(problem):
        for under_tops in narrow_to_subtrees(problem, with_own, problem.rules.subtrees):
            for domains in narrow_to_demands(problem, under_tops):
                if problem.given_up or not problem.spend():
                    return
                yield from Assignment(problem, domains).solutions()


def enough_in_all(problem: AssignmentProblem) -> bool:
    """Compare the total demand of each contested class with what its providers can give.

    Proof: the amounts of a class that a combination puts on a place sum up to at most its room
    (holds, 5.1), so all amounts together are at most the sum of the rooms of all places in some
    domain of the class. Rooms are cut to the total, which keeps the comparison's outcome.
    """
    amounts = problem.rules.amounts
    for column, (name, total) in enumerate(problem.rules.contested.items()):
        union: BitSet = 0
        for slot, wanted in enumerate(amounts):
            if name in wanted:
                union |= problem.domains[slot]
        if sum(problem.places[p].rooms[column] for p in members(union)) < total:
            return False
    return True


def enough_places(problem: AssignmentProblem) -> bool:
    """Return whether the places suffice for the granular groups under isolate.

    Proof: isolate maps granular groups to places one to one (pigeonhole).
    """
    if not problem.rules.isolate:
        return True
    union: BitSet = 0
    for slot in problem.rules.granular:
        union |= problem.domains[slot]
    return union.bit_count() >= len(problem.rules.granular)


# -- rules that tie slots together -----------------------------------------------------------------
#
# Each rule splits the combinations into disjoint parts, given by their domains, such that within a part
# any choice keeps the rule.


def narrow_to_own(problem: AssignmentProblem) -> Iterator[SlotDomains]:
    """Split the combinations that use the anchor's own tree by the first slot that does.

    Sharing providers alone give the same combinations at every anchor that reaches the same ones,
    so the first such anchor gives them and the others leave them out. Proof of the split: a
    combination that stays has exactly one first slot on an own place; one that is left out has none.
    """
    if not problem.own:
        yield problem.domains
        return
    for first, domain in enumerate(problem.domains):
        before = tuple(earlier & ~problem.own for earlier in problem.domains[:first])
        if all(before) and domain & problem.own:
            yield (*before, domain & problem.own, *problem.domains[first + 1 :])


def narrow_to_subtrees(
    problem: AssignmentProblem, domains: SlotDomains, sets: tuple[tuple[int, ...], ...]
) -> Iterator[SlotDomains]:
    """Split the combinations by the common ancestor of each same_subtree set, and its first slot.

    The set with the fewest ancestors left is split first, so that sets which share slots narrow
    each other; a part in which the matchings already fail is dropped with all its subdivisions.
    """
    if not sets:
        yield domains
        return
    below = descendants(problem.places)
    splits = [split_by_top(problem, domains, slots, below) for slots in sets]
    # The other sets are split again within each part, where their ancestors may be fewer.
    number = min(range(len(sets)), key=lambda n: len(splits[n]))
    others = sets[:number] + sets[number + 1 :]
    for part in splits[number]:
        # Building the matchings is the main work here, although nothing is placed: 200 ancestors of three
        # sets are eight million parts.
        if not problem.spend(COST_OF_SPLIT):
            return
        if Assignment(problem, part).possible:
            yield from narrow_to_subtrees(problem, part, others)


def split_by_top(
    problem: AssignmentProblem,
    domains: SlotDomains,
    slots: tuple[int, ...],
    below: Sequence[BitSet],
) -> list[SlotDomains]:
    """Return disjoint domains whose combinations are those that satisfy one same_subtree set.

    Proof: in a combination that satisfies the set there is exactly one position of the set that is
    above all others (two would be above each other), and exactly one first slot on it. Fixing both
    splits the combinations into disjoint parts; within one, each slot of the set is below the
    ancestor and the slots before the first are not on it. So the parts together are all, no
    combination comes twice, and the rule is spent: any choice from these domains satisfies it.
    """
    parts = []
    tops: BitSet = 0
    for slot in slots:
        tops |= domains[slot]
    for top in problem.in_some_order(tops):
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


def descendants(places: Sequence[ReachableProvider]) -> list[BitSet]:
    """Return for each position the bit set of its descendants, including itself."""
    below = [1 << position for position in range(len(places))]
    for position in range(len(places) - 1, -1, -1):
        parent = places[position].parent
        if parent >= 0:
            below[parent] |= below[position]
    return below


def narrow_to_demands(problem: AssignmentProblem, domains: SlotDomains) -> Iterator[SlotDomains]:
    """Split the combinations by which trait demands each unsuffixed slot meets.

    Proof: a place meets exactly one set of demands, so the parts are disjoint and complete; those
    whose sets do not unite to all demands break rule 5 of section 5.5 and are dropped, all others
    satisfy it whatever is chosen within the part.
    """
    needed = problem.rules.demands
    slots = [s for s in range(len(domains)) if s not in problem.rules.granular] if needed else []
    kinds: list[dict[BitSet, BitSet]] = []
    for slot in slots:
        by_kind: dict[BitSet, BitSet] = {}
        for position in members(domains[slot]):
            meets = problem.places[position].meets
            by_kind[meets] = by_kind.get(meets, 0) | 1 << position
        kinds.append(by_kind)
    reachable = [0] * (len(slots) + 1)
    for rank in range(len(slots) - 1, -1, -1):
        reachable[rank] = reachable[rank + 1]
        for meets in kinds[rank]:
            reachable[rank] |= meets

    # Only the state of the earlier slots matters for the later ones: without this, ten slots that meet
    # nothing would be tried in all their combinations before the last one turns out to be missing.
    hopeless: set[tuple[int, BitSet]] = set()

    def choose(rank: int, met: BitSet, chosen: list[int]) -> Iterator[SlotDomains]:
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

"""The combinations of one anchor (specification 04 section 5.6), lazily and without dead weight.

Four rooms: ``problem`` says what is asked, ``splits`` spends the rules that tie slots together,
``assignment`` tries what is left, and this one puts them in a row and keeps what was found.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.search.assignment import Assignment
from placement.search.bit_set import BitSet, members
from placement.search.problem import Problem, Solution
from placement.search.splits import narrow_to_demands, narrow_to_own, narrow_to_subtrees


class Solutions:
    """The combinations of one problem, numbered; those found are kept for the next such anchor.

    They are distinct. What is kept is bounded by what one anchor had to deliver.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._found: list[Solution] = []
        self._more: Iterator[Solution] | None = combinations(problem)

    def get(self, number: int) -> Solution | None:
        """Return the solution of that number, counted from 0, or None if there are not as many."""
        while len(self._found) <= number:
            following = next(self._more, None) if self._more is not None else None
            if following is None:
                self._more = None
                return None
            self._found.append(following)
            self._problem.idle = 0
        return self._found[number]

    def count_up_to(self, most: int) -> int:
        """Return the number of combinations, or ``most`` if there are more."""
        exact = self._problem.exact_count
        if exact is not None:
            return min(exact, most)
        self.get(most - 1)
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
        union: BitSet = 0
        for slot, wanted in enumerate(amounts):
            if name in wanted:
                union |= problem.domains[slot]
        if sum(problem.places[p].rooms[column] for p in members(union)) < total:
            return False
    return True


def enough_places(problem: Problem) -> bool:
    """With isolate, compare the number of granular groups with that of their places.

    Proof: isolate maps granular groups to places one to one (pigeonhole).
    """
    if not problem.rules.isolate:
        return True
    union: BitSet = 0
    for slot in problem.rules.granular:
        union |= problem.domains[slot]
    return union.bit_count() >= len(problem.rules.granular)

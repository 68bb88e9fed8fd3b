"""Why there is no candidate: what would have to give, found by asking again (specification 07 2).

No rule of the search is written here a second time: a demand is dropped by searching for the query
without it, a smaller amount is tried by searching for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from placement.search.budget import Budget, Count, Spent
from placement.search.cloud import LARGEST_AMOUNT, Cloud
from placement.search.request import CandidateRequest, UnknownName


@dataclass(frozen=True, slots=True)
class Demand:
    """One part of a query that can be left out: the name of its parameter, and how it stands there."""

    parameter: str
    value: str


@dataclass(frozen=True, slots=True)
class Question:
    """A request, its demands, and what it is without some of them.

    ``without``: takes the numbers of demands; None if the API refuses what is left.
    """

    request: CandidateRequest
    demands: Sequence[Demand]
    without: Callable[[tuple[int, ...]], CandidateRequest | None]


@dataclass(frozen=True, slots=True)
class Relaxation:
    """What dropping one demand, or two, gives."""

    drop: tuple[Demand, ...]
    candidates: Count


@dataclass(frozen=True, slots=True)
class LargestAmount:
    """The largest smaller amount with which there is a candidate; None if there is none."""

    group: str
    resource_class: str
    asked: int
    would_do: int | None


@dataclass(frozen=True, slots=True)
class Remedies:
    """What would help: relaxations, helpful ones first, and amounts.

    ``pairs``: no demand alone helped, and pairs were tried. ``complete`` is False if the budget ended
    before everything was tried.
    """

    relaxations: list[Relaxation]
    largest: list[LargestAmount]
    pairs: bool
    complete: bool


def remedies(
    cloud: Cloud, question: Question, budget: Budget, anchor: str | None = None
) -> Remedies:
    """Return what would help a request that has no candidate.

    :param anchor: the only root to look at; None for all.
    """
    numbers = range(len(question.demands))
    found = list(_dropped(cloud, question, budget, [(number,) for number in numbers], anchor))
    smaller = largest(cloud, replace(question.request, anchor=anchor), budget)
    pairs = not any(relaxation.candidates.count for relaxation in found)
    if pairs:
        found += _dropped(cloud, question, budget, combinations(numbers, 2), anchor)
    return Remedies(_helpful_first(found), smaller, pairs, budget.complete)


def _helpful_first(found: list[Relaxation]) -> list[Relaxation]:
    return sorted(found, key=lambda each: (each.candidates.count == 0, len(each.drop)))


def _dropped(
    cloud: Cloud,
    question: Question,
    budget: Budget,
    choices: Iterable[tuple[int, ...]],
    anchor: str | None,
) -> Iterator[Relaxation]:
    for numbers in choices:
        relaxed = question.without(numbers)
        if relaxed is None:
            continue
        try:
            count = budget.count(cloud, replace(relaxed, anchor=anchor))
        except UnknownName:
            continue
        except Spent:
            return
        yield Relaxation(tuple(question.demands[number] for number in numbers), count)


# -- the largest amount that would do ------------------------------------------------------------


def largest(cloud: Cloud, request: CandidateRequest, budget: Budget) -> list[LargestAmount]:
    """Return for each amount the largest smaller one with which there is a candidate.

    What the budget does not reach is left out.
    """
    found: list[LargestAmount] = []
    for group in request.groups:
        for name, asked in group.amounts.items():
            search = _Amounts(cloud, request, budget, group.suffix, name)
            try:
                would_do = search.largest_below(asked)
            except Spent:
                return found
            found.append(LargestAmount(group.suffix, name, asked, would_do))
    return found


@dataclass(frozen=True, slots=True)
class _Amounts:
    """One amount of a request, to be varied with all else equal."""

    cloud: Cloud
    request: CandidateRequest
    budget: Budget
    suffix: str
    name: str

    def largest_below(self, asked: int) -> int | None:
        """Return the largest amount below ``asked`` with which there is a candidate.

        Whether there is one does not fall with the amount: units (``min_unit``, ``step_size``) leave gaps. On
        a copy without the units of this class it does; so a bound from above is found there by
        halving, and from it downwards only amounts that some provider's units admit are tried.
        """
        column = self.cloud.classes.get(self.name)
        if column is None:
            return None
        most = min(asked - 1, LARGEST_AMOUNT, int(column.room[: self.cloud.size].max(initial=0)))
        free = self.cloud
        if column.units:
            free = self.cloud.snapshot()
            free.ignore_units(self.name)
        bound = self._halve(free, most)
        if not column.units:
            return bound or None
        units = {(1, 1), *column.units.values()}
        while bound > 0:
            admitted = ((bound // step * step, low) for low, step in units)
            bound = max((amount for amount, low in admitted if amount >= low), default=0)
            if bound and self._has_candidate(self.cloud, bound):
                return bound
            bound -= 1
        return None

    def _halve(self, cloud: Cloud, most: int) -> int:
        """Return the largest amount up to ``most`` with a candidate, 0 if even 1 has none."""
        if most < 1 or not self._has_candidate(cloud, 1):
            return 0
        low, high = 1, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._has_candidate(cloud, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _has_candidate(self, cloud: Cloud, amount: int) -> bool:
        groups = tuple(
            replace(group, amounts={**group.amounts, self.name: amount})
            if group.suffix == self.suffix
            else group
            for group in self.request.groups
        )
        try:
            return self.budget.has_candidate(cloud, replace(self.request, groups=groups))
        except UnknownName:
            # With so little the search comes to a name that does not exist, and refuses the request.
            return False

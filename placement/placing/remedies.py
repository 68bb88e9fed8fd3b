"""The remedies for a request without candidates, found by searching again (specification 07 section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.request import CandidateRequest, NameSets, UnknownName
from placement.search.search import search
from placement.search.work import Work

COUNTED = 1000
"""The most candidates that are counted for a query without a limit (specification 07 section 2)."""

LARGEST_SHARE = 4
"""The divisor of the remaining work for each search after the first: a fourth."""


class BudgetSpent(Exception):
    """The budget has no search left; the answer is what was found so far."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of candidates; ``complete`` is False if there may be more."""

    count: int
    complete: bool


@dataclass(slots=True)
class Budget:
    """The remaining searches of one question, and their work budget.

    A search without budget raises :class:`BudgetSpent`. ``known``: names that exist although no provider has
    them.
    """

    known: NameSets
    searches: int
    work: Work = field(default_factory=Work)
    complete: bool = True

    def search(self, cloud: Cloud, request: CandidateRequest) -> SearchResult:
        """Return the result of one search."""
        if self.searches <= 0 or self.work.is_over:
            self.complete = False
            raise BudgetSpent
        self.searches -= 1
        with self.work.part(LARGEST_SHARE) as part:
            return search(cloud, request, self.known, work=part)

    def count(self, cloud: Cloud, request: CandidateRequest) -> Count:
        """Return the number of allocation requests that the compatible API answers to this request."""
        limit = request.limit or COUNTED
        return self.count_result(cloud, request, self.search(cloud, raise_limit_by_one(request)), limit)

    def count_if_any_is_left(self, cloud: Cloud, request: CandidateRequest) -> Count:
        """Return the same count, or an incomplete 0 if the budget has no search left."""
        try:
            return self.count(cloud, request)
        except BudgetSpent:
            return Count(0, complete=False)

    def count_result(
        self, cloud: Cloud, request: CandidateRequest, result: SearchResult, limit: int
    ) -> Count:
        """Return the number of candidates in a result of a search with a limit raised by one."""
        count = min(len(result), limit)
        complete = result.complete and len(result) <= limit
        if complete and request.bound is not None:
            # Candidates beyond the configured maximum do not count, but they make the count incomplete.
            unbounded = replace(request, maximum=-1, limit=count + 1)
            found = self.search(cloud, unbounded)
            complete = found.complete and len(found) <= count
        return Count(count, complete)

    def has_candidate(self, cloud: Cloud, request: CandidateRequest) -> bool:
        """Return whether there is any candidate."""
        result = self.search(cloud, replace(request, limit=1))
        # The found candidates exist even if the search ended early.
        self.complete &= result.complete or len(result) > 0
        return len(result) > 0


def raise_limit_by_one(request: CandidateRequest) -> CandidateRequest:
    """Return the request with a limit raised by one, to see whether there are more candidates."""
    return replace(request, limit=(request.limit or COUNTED) + 1)


# -- what would help -----------------------------------------------------------------------------


class Piece(NamedTuple):
    """A part of one value of a parameter. Parts with the same ``number`` are from the same value."""

    parameter: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class RelaxableRequest:
    """A request, the demands of its query, and the request without some of them.

    ``without``: a function of the numbers of demands; None if the API refuses the rest.
    """

    request: CandidateRequest
    demands: Sequence[Piece]
    without: Callable[[tuple[int, ...]], CandidateRequest | None]


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The candidates without one demand, or without two."""

    drop: tuple[Piece, ...]
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
    """The remedies: relaxations, helpful ones first, and smaller amounts.

    ``pairs``: whether pairs of demands were tried, since dropping one did not help. ``complete``: whether the
    budget sufficed.
    """

    relaxations: list[Relaxation]
    largest: list[LargestAmount]
    pairs: bool
    complete: bool


def remedies(
    cloud: Cloud, asked: RelaxableRequest, budget: Budget, anchor: str | None = None
) -> Remedies:
    """Return the remedies for a request without a candidate; ``anchor`` as in :class:`CandidateRequest`."""
    numbers = range(len(asked.demands))
    found = list(_drop_each(cloud, asked, budget, [(number,) for number in numbers], anchor))
    smaller = largest(cloud, replace(asked.request, anchor=anchor), budget)
    # Pairs come last: twenty demands have 190 pairs, and the amounts would get no budget.
    pairs = not any(relaxation.candidates.count for relaxation in found)
    if pairs:
        found += _drop_each(cloud, asked, budget, combinations(numbers, 2), anchor)
    found.sort(key=lambda each: (each.candidates.count == 0, len(each.drop)))
    return Remedies(found, smaller, pairs, budget.complete)


def _drop_each(
    cloud: Cloud,
    asked: RelaxableRequest,
    budget: Budget,
    choices: Iterable[tuple[int, ...]],
    anchor: str | None,
) -> Iterator[Relaxation]:
    for numbers in choices:
        relaxed = asked.without(numbers)
        if relaxed is None:
            continue
        try:
            count = budget.count(cloud, replace(relaxed, anchor=anchor))
        except UnknownName:
            # Without this demand the search reaches another demand with an unknown name.
            continue
        except BudgetSpent:
            return
        yield Relaxation(tuple(asked.demands[number] for number in numbers), count)


# -- the largest amount that would do ------------------------------------------------------------


def largest(cloud: Cloud, request: CandidateRequest, budget: Budget) -> list[LargestAmount]:
    """Return for each amount the largest smaller one that would fit, as far as the budget allows."""
    found: list[LargestAmount] = []
    for group in request.groups:
        for name, asked in group.amounts.items():
            amount = _VariedAmount(cloud, request, budget, group.suffix, name)
            try:
                would_do = amount.largest_below(asked)
            except BudgetSpent:
                return found
            found.append(LargestAmount(group.suffix, name, asked, would_do))
    return found


@dataclass(frozen=True, slots=True)
class _VariedAmount:
    """One amount of a request; the search varies it and keeps the rest."""

    cloud: Cloud
    request: CandidateRequest
    budget: Budget
    suffix: str
    name: str

    def largest_below(self, asked: int) -> int | None:
        """Return the largest amount below ``asked`` with which there is a candidate.

        Units (``min_unit``, ``step_size``) leave gaps. So an upper bound is found by halving on a copy
        without units; from there downwards, only amounts are tried that a provider's units admit.
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
            # With a smaller amount the search reaches an unknown name.
            return False

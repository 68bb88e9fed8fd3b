"""How much a question about the cloud may cost, in searches and in placements tried."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, Names
from placement.search.search import WORK_LIMIT, search

COUNTED = 1000
"""Candidates counted where the query has no limit (specification 07 section 2)."""

LARGEST_SHARE = 4
"""No search but the first may try more than this part of the placements that are left."""


class Spent(Exception):
    """No search is left; what is known by now is the answer."""


@dataclass(frozen=True, slots=True)
class Count:
    """So many candidates; ``complete`` is False if there may be more."""

    count: int
    complete: bool


@dataclass(slots=True)
class Budget:
    """What is left to one question: searches, and placements that these try.

    ``known``: the names that exist although no provider has them.
    """

    known: Names
    searches: int
    work: int = field(default=WORK_LIMIT)
    complete: bool = True

    def search(self, cloud: Cloud, request: CandidateRequest) -> SearchResult:
        """Return the result of one search.

        :raises Spent:
        """
        if self.searches <= 0 or self.work <= 0:
            self.complete = False
            raise Spent
        self.searches -= 1
        share = max(self.work // LARGEST_SHARE, 1)
        result = search(cloud, request, self.known, work_limit=share)
        self.work -= result.work
        return result

    def count(self, cloud: Cloud, request: CandidateRequest) -> Count:
        """Return how many allocation requests the compatible API gives to this one.

        :raises Spent:
        """
        limit = request.limit or COUNTED
        return self.counted(cloud, request, self.search(cloud, one_more(request)), limit)

    def counted(
        self, cloud: Cloud, request: CandidateRequest, result: SearchResult, limit: int
    ) -> Count:
        """Return how many a result has, of a search with a limit higher by one."""
        count = min(len(result), limit)
        complete = result.complete and len(result) <= limit
        if complete and request.bound is not None:
            # What the configured maximum cut off does not count, but it is there.
            unbounded = replace(request, maximum=-1, limit=count + 1)
            complete = len(self.search(cloud, unbounded)) <= count
        return Count(count, complete)

    def has_candidate(self, cloud: Cloud, request: CandidateRequest) -> bool:
        """Tell whether there is any candidate.

        :raises Spent:
        """
        result = self.search(cloud, replace(request, limit=1))
        self.complete &= result.complete or len(result) > 0
        return len(result) > 0


def one_more(request: CandidateRequest) -> CandidateRequest:
    """Return the request with one candidate more than are counted: it shows whether there are."""
    return replace(request, limit=(request.limit or COUNTED) + 1)

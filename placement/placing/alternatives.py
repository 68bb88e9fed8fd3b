"""The choice of the first query that can be granted, for one claim or a gang (09 section 3). Pure.

Claims with queries in an order of preference are granted by *positions*: for each claim the number of its
chosen query, from 0. The chosen positions are the first in lexical order that fit: the first claim decides,
and the next ones choose among the rest.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement.placing.wishes import ChosenPlace, NoPlace
from placement.search.cloud import Cloud
from placement.search.feasible import check_classes, check_traits, in_reach
from placement.search.filters import ROOT_FILTERS, conditions, list_group_conditions
from placement.search.index_set import Indexes, Mask
from placement.search.request import CandidateRequest, NameSets
from placement.search.work import Work

TRIES = 1000
"""The most positions of all claims that are tried, which is the bound if there is no deadline."""

SHARE = 3
"""The divisor of the remaining work for each try: a third; the last try gets all of it."""

Positions = Sequence[int]
Placer = Callable[[Positions, Work], Sequence[ChosenPlace] | NoPlace]
"""A function that places the first claims, one for each position."""


class Preferred(NamedTuple):
    """Places of all claims, their queries, and whether it is certain that no earlier positions fit."""

    places: Sequence[ChosenPlace]
    positions: Positions
    exact: bool


def choose_first(
    place: Placer, numbers: Sequence[int], twins: Sequence[int | None], work: Work
) -> Preferred | NoPlace:
    """Return the places at the first positions at which all claims fit.

    Positions that do not fit are cut to the shortest beginning that does not fit: all positions with this
    beginning are excluded, since claims that fit together still fit if some are left out.

    :param numbers: the number of queries of each claim.
    :param twins: for each claim the index of the last earlier claim with the same queries, or None.
    :raises WorkEnded: the time has ended before it was known whether any positions fit.
    """
    begin: list[int] | None = []
    exact, timed_out, longest, refusal = True, False, 0, None
    for _ in range(TRIES):
        assert begin is not None
        tried = _complete(begin, twins)
        with work.part(SHARE if _next(tried, numbers) else 1) as part:
            answer = place(tried, part)
        if not isinstance(answer, NoPlace):
            return Preferred(answer, tried, exact)
        with work.part(SHARE) as part:
            refused, answer = _shorten(place, tried, answer, part)
        exact &= answer.exact
        timed_out |= answer.timed_out and not answer.exact
        # The refusal at the latest claim is reported: all claims before that one have a place.
        if len(refused) > longest:
            longest, refusal = len(refused), answer
        begin = _next(refused, numbers)
        if begin is None:
            break
        work.go_on()
    assert refusal is not None
    return replace(refusal, exact=exact and begin is None, timed_out=timed_out)


def _complete(begin: Sequence[int], twins: Sequence[int | None]) -> list[int]:
    """Return the first positions of all claims with this beginning.

    Of two claims with the same queries the later one never has an earlier position: exchanged, the two would
    fit as well and come first.
    """
    positions = [*begin]
    for twin in twins[len(begin) :]:
        positions.append(0 if twin is None else positions[twin])
    return positions


def _shorten(
    place: Placer, tried: Positions, refusal: NoPlace, work: Work
) -> tuple[Positions, NoPlace]:
    """Return the shortest beginning that does not fit, with its refusal."""
    fits, refused = 0, len(tried)
    while refused - fits > 1 and not work.is_over:
        middle = (fits + refused) // 2
        answer = place(tried[:middle], work)
        # An uncertain refusal must not replace a certain one.
        if isinstance(answer, NoPlace) and answer.exact >= refusal.exact:
            refused, refusal = middle, answer
        else:
            fits = middle
    return tried[:refused], refusal


def _next(positions: Positions, numbers: Sequence[int]) -> list[int] | None:
    """Return the beginning of the first positions after all with this beginning; None if there are none."""
    after = [*positions]
    while after:
        after[-1] += 1
        if after[-1] < numbers[len(after) - 1]:
            return after
        after.pop()
    return None


def require_names(cloud: Cloud, known: NameSets, requests: Iterable[CandidateRequest]) -> None:
    """Refuse unknown names in any query, so that the error does not depend on which queries are tried.

    :raises UnknownTraitName, UnknownClassName: a name is unknown
    """
    for request in requests:
        check_classes(cloud, known, sorted(request.names.classes))
        check_traits(cloud, known, request.names.traits)


def list_serving(cloud: Cloud, requests: Iterable[CandidateRequest]) -> Indexes:
    """Return a superset of the ids of providers that could serve one of the requests if they had room.

    Changes of any other provider's room cannot give the requests a candidate.
    """
    alive: Mask = cloud.ids >= 0
    serving: Mask = np.zeros(cloud.size, np.bool_)
    for request in requests:
        serving |= _trees_of(cloud, request)[cloud.roots]
    # Sharing providers can serve in any of the trees: leaving out some would gain little.
    if len(cloud.sharing.sharers):
        serving |= cloud.sharing.mask
    return cloud.ids[serving & alive]


def _trees_of(cloud: Cloud, request: CandidateRequest) -> Mask:
    """Mark the roots of the trees that may meet all conditions of a request except room."""
    # Each condition is tested by the search's own test, on any provider in reach, which is weaker than the
    # search.
    alive: Mask = cloud.ids >= 0
    trees = cloud.forest.is_root.copy()
    for of_root, names in conditions(ROOT_FILTERS, request):
        trees &= of_root.test(cloud, names)
    for group in request.groups:
        for each, names in list_group_conditions(group):
            trees &= in_reach(cloud, each.test(cloud, names) & alive)
    return trees

"""The first of several queries that can be granted, of one claim or of a gang (09 section 3). Pure.

Claims with queries in an order of preference are granted by *positions*: for each claim the number of the
query that it gets, from 0. Of all positions that fit, those are chosen that come first as a word comes in a
dictionary: the first claim decides, and the next ones among what it leaves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement.placing.wishes import ChosenPlace, NoPlace
from placement.search.cloud import Cloud
from placement.search.feasible import check_classes, check_traits, in_reach
from placement.search.filters import FILTERS, ROOT_FILTERS, conditions
from placement.search.index_set import Indexes, Mask
from placement.search.request import CandidateRequest, NameSets
from placement.search.work import Work

TRIES = 1000
"""Positions of all claims that are tried at most: where there is no deadline, this is the bound."""

SHARE = 3
"""The share of the work left that each try may take: a third, and the last one all of it."""

Positions = Sequence[int]
Placer = Callable[[Positions, Work], Sequence[ChosenPlace] | NoPlace]
"""Places as many of the claims, from the first on, as there are positions."""


class Preferred(NamedTuple):
    """Places of all claims, by which queries, and whether it is certain that no positions before them fit."""

    places: Sequence[ChosenPlace]
    positions: Positions
    exact: bool


def choose_first(
    place: Placer, numbers: Sequence[int], twins: Sequence[int | None], work: Work
) -> Preferred | NoPlace:
    """Return the places at the first positions at which all claims fit.

    What does not fit is cut to the fewest claims that do not: all positions that begin with these are out,
    for claims that fit together still do if some are left away.

    :param numbers: of the queries of each claim.
    :param twins: of each claim the last one before it that asks for the same, as an index; None for none.
    :raises WorkEnded: the time is over, and whether something fits is not known.
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
        # The refusal that came farthest is reported: all claims before this one have a place.
        if len(refused) > longest:
            longest, refusal = len(refused), answer
        begin = _next(refused, numbers)
        if begin is None:
            break
        work.go_on()
    assert refusal is not None
    return replace(refusal, exact=exact and begin is None, timed_out=timed_out)


def _complete(begin: Sequence[int], twins: Sequence[int | None]) -> list[int]:
    """Return the first positions of all claims that begin so.

    Of two claims that ask for the same the later one has no earlier position: exchanged, they would fit as
    well, and come before.
    """
    positions = [*begin]
    for twin in twins[len(begin) :]:
        positions.append(0 if twin is None else positions[twin])
    return positions


def _shorten(
    place: Placer, tried: Positions, refusal: NoPlace, work: Work
) -> tuple[Positions, NoPlace]:
    """Return the shortest beginning that does not fit either, with its refusal."""
    fits, refused = 0, len(tried)
    while refused - fits > 1 and not work.is_over:
        middle = (fits + refused) // 2
        answer = place(tried[:middle], work)
        # An uncertain refusal is not exchanged for a certain one.
        if isinstance(answer, NoPlace) and answer.exact >= refusal.exact:
            refused, refusal = middle, answer
        else:
            fits = middle
    return tried[:refused], refusal


def _next(positions: Positions, numbers: Sequence[int]) -> list[int] | None:
    """Return the beginning of the first positions after all that begin so; None if there are none."""
    after = [*positions]
    while after:
        after[-1] += 1
        if after[-1] < numbers[len(after) - 1]:
            return after
        after.pop()
    return None


def require_names(cloud: Cloud, known: NameSets, requests: Iterable[CandidateRequest]) -> None:
    """Refuse names that do not exist in any query: whether one of them is looked for must not be chance.

    :raises UnknownTraitName, UnknownClassName:
    """
    for request in requests:
        check_classes(cloud, known, sorted(request.names.classes))
        check_traits(cloud, known, request.names.traits)


def list_serving(cloud: Cloud, requests: Iterable[CandidateRequest]) -> Indexes:
    """Return the ids of all providers that could serve one of the requests if they had room, and of more.

    What happens to the room of any other provider gives none of them a candidate.
    """
    alive: Mask = cloud.ids >= 0
    serving: Mask = np.zeros(cloud.size, np.bool_)
    for request in requests:
        serving |= _trees_of(cloud, request)[cloud.roots]
    # Sharing providers may serve in any of the trees: leaving out some would buy little.
    if len(cloud.sharing.sharers):
        serving |= cloud.sharing.mask
    return cloud.ids[serving & alive]


def _trees_of(cloud: Cloud, request: CandidateRequest) -> Mask:
    """Mark the roots of the trees in which all but the room of a request may be."""
    # Each condition is tested by the search's own test, of any provider in reach: less than the search asks.
    alive: Mask = cloud.ids >= 0
    trees = cloud.forest.is_root.copy()
    for of_root, names in conditions(ROOT_FILTERS, request):
        trees &= of_root.test(cloud, names)
    for group in request.groups:
        for each, names in conditions(FILTERS, group):
            trees &= in_reach(cloud, each.test(cloud, names) & alive)
    return trees

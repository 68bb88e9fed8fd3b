"""What operators ask about a request: why nothing, how many more (specification 07 sections 2 and 3).

A question is answered on a snapshot of the picture, outside its lock: other searches of the worker wait
for one search and no longer.
"""

from dataclasses import dataclass, replace

import numpy as np

from placement import errors
from placement.objects.allocation_candidate import unknown_names_refused
from placement.objects.picture import Picture
from placement.search import obstacles
from placement.search.budget import COUNTED, Budget, Count, one_more
from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.explanation import Question, Remedies, remedies
from placement.search.packing import Packing, pack
from placement.search.request import CandidateRequest, Names
from placement.search.search import search


class UnknownHost(errors.NotFound):
    """``about`` names no provider."""

    text = "No resource provider with uuid or name {given} found"
    given: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How many candidates, what would help if there are none, and for one host a verdict."""

    candidates: Count
    remedies: Remedies | None
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a request meets: the search with its tally on ``cloud``, and the answers."""

    cloud: Cloud
    result: SearchResult
    everywhere: Answer
    about: Answer | None


def explain(
    picture: Picture, question: Question, about: str | None, work_factor: int
) -> Explanation:
    """Explain what the search finds for a request, everywhere and at the tree of one host.

    :param about: uuid or name of a provider.
    :param work_factor: the most searches that this may cost, at least one for each answer.
    :raises UnknownHost:
    :raises NoSuchTrait:
    :raises NoSuchClass:
    """
    request = question.request
    opened = open_on(picture, one_more(request))
    cloud, shares = opened.cloud, 1 if about is None else 2
    host = None if about is None else provider_named(cloud, about)
    budget = Budget(opened.known, max(work_factor // shares - 1, 0))
    count = budget.counted(cloud, request, opened.result, request.limit or COUNTED)
    everywhere = Answer(count, None if count.count else remedies(cloud, question, budget))
    local = None
    if host is not None:
        local = _about(cloud, question, host, Budget(opened.known, max(work_factor // 2, 1)))
    return Explanation(cloud, opened.result, everywhere, local)


def _about(cloud: Cloud, question: Question, host: int, budget: Budget) -> Answer:
    root = cloud.uuids[int(cloud.roots[host])]
    here = replace(question.request, anchor=root)
    count = budget.count(cloud, here)
    verdict = obstacles.verdict(cloud, here, host, bool(count.count))
    if count.count:
        return Answer(count, None, verdict)
    return Answer(count, remedies(cloud, question, budget, root), verdict)


# -- the picture, to be asked at leisure -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot of the picture, the names that exist beside it, and what a first search found."""

    cloud: Cloud
    known: Names
    result: SearchResult


def open_on(picture: Picture, request: CandidateRequest) -> Opened:
    """Search once, as the compatible API would, and keep the picture as it was for that.

    :raises NoSuchTrait:
    :raises NoSuchClass: where the search comes upon the name (specification 04 section 5.8).
    """

    def work(cloud: Cloud, known: Names) -> Opened:
        result = search(cloud, request, known, explain=True)
        return Opened(cloud.snapshot(), known, result)

    with unknown_names_refused():
        return picture.read_knowing(request.names, work)


def provider_named(cloud: Cloud, given: str) -> int:
    """Return the index of the provider with this uuid, or this name.

    :raises UnknownHost:
    """
    index = cloud.index_of_uuid.get(given)
    if index is not None:
        return index
    if given and given in cloud.names:
        return cloud.names.index(given)
    raise UnknownHost(given=given)


@dataclass(frozen=True, slots=True)
class Place:
    """So many placements at one tree, or at the trees of one aggregate; an aggregate has no name."""

    uuid: str
    name: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """How often a request fits, and where."""

    packing: Packing
    places: list[Place]


def capacity(
    picture: Picture, request: CandidateRequest, *, by_aggregate: bool, top: int, work_factor: int
) -> Capacity:
    """Return how often a request fits, one placement after the other, and the ``top`` places.

    :raises NoSuchTrait:
    :raises NoSuchClass:
    """
    opened = open_on(picture, replace(request, limit=1))
    packing = pack(opened.cloud, request, opened.known, work_factor)
    places = _by_aggregate if by_aggregate else _by_tree
    ranked = sorted(
        places(opened.cloud, packing), key=lambda place: (-place.count, place.name or place.uuid)
    )
    return Capacity(packing, ranked[:top])


def _by_tree(cloud: Cloud, packing: Packing) -> list[Place]:
    return [
        Place(str(cloud.uuids[root]), cloud.names[root], int(packing.counts[root]))
        for root in np.flatnonzero(packing.counts).tolist()
    ]


def _by_aggregate(cloud: Cloud, packing: Packing) -> list[Place]:
    """Count a tree in every aggregate of which one of its providers is a member."""
    trees: dict[str, set[int]] = {}
    for index, uuids in enumerate(cloud.aggregates):
        root = int(cloud.roots[index])
        if uuids and packing.counts[root]:
            for uuid in uuids:
                trees.setdefault(uuid, set()).add(root)
    return [
        Place(uuid, None, sum(int(packing.counts[root]) for root in roots))
        for uuid, roots in trees.items()
    ]

"""What operators ask about a request: why nothing, how many more (specification 07 sections 2 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placement import errors
from placement.insight import obstacles
from placement.insight.packing import Packing, pack, roots_by_aggregate, total
from placement.insight.remedies import (
    COUNTED,
    Budget,
    Count,
    RelaxableRequest,
    Remedies,
    one_more,
    remedies,
)
from placement.objects.allocation_candidate import unknown_names_refused
from placement.objects.picture import Picture
from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import search
from placement.search.work import Work


class ShapeNotFound(errors.NotFound):
    """No shape in the file of shapes has the name."""

    text = "No shape {name} found in [insight]/shapes_file"
    name: str


class UnknownHost(errors.NotFound):
    """No provider has the uuid or name in ``about``."""

    text = "No resource provider with uuid or name {given} found"
    given: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The number of candidates, what would help if there are none, and for one host a verdict."""

    candidates: Count
    remedies: Remedies | None
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of the search on ``cloud`` with its tally, for all hosts and for one."""

    cloud: Cloud
    result: SearchResult
    everywhere: Diagnosis
    about: Diagnosis | None


def explain(
    picture: Picture, asked: RelaxableRequest, about: str | None, work_factor: int, work: Work
) -> Explanation:
    """Explain what the search finds for a request, everywhere and in the tree of one host.

    :param about: uuid or name of a provider.
    :param work_factor: the most searches that this may cost; each answer costs at least one.
    :param work: what they may cost together.
    """
    opened = open_on(picture, one_more(asked.request), work)
    return _explained(opened, asked, about, work_factor, work)


def explain_on(
    cloud: Cloud, known: NameSets, asked: RelaxableRequest, work_factor: int, work: Work
) -> Explanation:
    """Explain what the search finds on this cloud, which stays as it is."""
    opened = _searched(cloud, known, one_more(asked.request), work)
    return _explained(opened, asked, None, work_factor, work)


def _explained(
    opened: "Opened", asked: RelaxableRequest, about: str | None, work_factor: int, work: Work
) -> Explanation:
    request = asked.request
    cloud, shares = opened.cloud, 1 if about is None else 2
    host = None if about is None else provider_named(cloud, about)
    with work.part(shares) as part:
        budget = Budget(opened.known, max(work_factor // shares - 1, 0), part)
        count = budget.counted(cloud, request, opened.result, request.limit or COUNTED)
        everywhere = Diagnosis(count, None if count.count else remedies(cloud, asked, budget))
    local = None
    if host is not None:
        local = _about(cloud, asked, host, Budget(opened.known, max(work_factor // 2, 1), work))
    return Explanation(cloud, opened.result, everywhere, local)


def _about(cloud: Cloud, asked: RelaxableRequest, host: int, budget: Budget) -> Diagnosis:
    root = cloud.uuids[int(cloud.roots[host])]
    here = replace(asked.request, anchor=root)
    count = budget.count_if_any_is_left(cloud, here)
    known = bool(count.count) if count.count or count.complete else None
    verdict = obstacles.verdict(cloud, here, host, known)
    if count.count:
        return Diagnosis(count, None, verdict)
    return Diagnosis(count, remedies(cloud, asked, budget, root), verdict)


# -- a snapshot of the picture ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot of the picture, the names that exist in the database alone, and a first result."""

    cloud: Cloud
    known: NameSets
    result: SearchResult


def open_on(picture: Picture, request: CandidateRequest, work: Work) -> Opened:
    """Search once, as the compatible API would, and return a snapshot of the picture that it saw.

    :param work: half of it is for this search.
    :raises UnknownNameInQuery: in the order of the search (specification 04 section 5.8).
    """

    with unknown_names_refused():
        return picture.read_knowing(
            request.names, lambda cloud, known: _searched(cloud, known, request, work)
        )


def _searched(cloud: Cloud, known: NameSets, request: CandidateRequest, work: Work) -> Opened:
    with work.part(2) as part:
        result = search(cloud, request, known, part, explain=True)
    return Opened(cloud.snapshot(), known, result)


def provider_named(cloud: Cloud, given: str) -> int:
    """Return the index of the provider with this uuid or name, or raise :class:`UnknownHost`."""
    index = cloud.index_of_uuid.get(given)
    if index is not None:
        return index
    if given and given in cloud.names:
        return cloud.names.index(given)
    raise UnknownHost(given=given)


class PlaceCount(NamedTuple):
    """The number of placements in one tree, or in the trees of one aggregate, which has no name."""

    uuid: str
    name: str | None
    placements: int


def capacity(
    picture: Picture,
    request: CandidateRequest,
    *,
    by_aggregate: bool,
    top: int,
    work_factor: int,
    work: Work,
) -> tuple[Packing, list[PlaceCount]]:
    """Return how often a request fits, one placement after the other, and the ``top`` places for it."""
    opened = open_on(picture, replace(request, limit=1), work)
    packing = pack(opened.cloud, request, opened.known, work_factor, work)
    places = (_by_aggregate if by_aggregate else _by_tree)(opened.cloud, packing)
    return packing, best(places, top)


class CapacityOfShape(NamedTuple):
    """How often a shape fits, and the places for it."""

    packing: Packing
    places: list[PlaceCount]


def capacity_of_shapes(
    picture: Picture,
    shapes: Mapping[str, CandidateRequest],
    *,
    by_aggregate: bool,
    work_factor: int,
    work: Work,
) -> dict[str, CapacityOfShape]:
    """Return for each shape how often it fits, and in which places; nothing has a name that does not exist.

    :param work: what they may cost together: each an equal part of what those before it have left.
    """
    cloud = picture.read(Cloud.snapshot)
    found = {}
    for left, (name, request) in zip(range(len(shapes), 0, -1), shapes.items(), strict=True):
        with work.part(left) as part:
            packing = pack(cloud, request, None, work_factor, part)
        places = (_by_aggregate if by_aggregate else _by_tree)(cloud, packing)
        found[name] = CapacityOfShape(packing, places)
    return found


def best(places: list[PlaceCount], top: int) -> list[PlaceCount]:
    """Return the places where something fits most often, most first."""
    fitting = [place for place in places if place.placements]
    return sorted(fitting, key=lambda each: (-each.placements, each.name or each.uuid))[:top]


def _by_tree(cloud: Cloud, packing: Packing) -> list[PlaceCount]:
    return [
        PlaceCount(str(cloud.uuids[root]), cloud.names[root], int(packing.counts[root]))
        for root in np.flatnonzero(packing.counts).tolist()
    ]


def _by_aggregate(cloud: Cloud, packing: Packing) -> list[PlaceCount]:
    """Count a tree in each aggregate that has one of its providers."""
    return [
        PlaceCount(uuid, None, total(packing.counts[sorted(roots)]))
        for uuid, roots in roots_by_aggregate(cloud).items()
    ]

"""What operators ask about a request: why nothing, how many more (specification 07 sections 2 and 3)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement import errors
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.picture import Picture
from placement.placing.explain import Explanation, Opened, explain_opened, open_cloud
from placement.placing.packing import Packing, pack, roots_by_aggregate, total
from placement.placing.remedies import RelaxableRequest, one_more
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest
from placement.search.work import Work


class ShapeNotFound(errors.NotFound):
    """No shape in the file of shapes has the name."""

    text = "No shape {name} found in [insight]/shapes_file"
    name: str


def explain(
    picture: Picture, asked: RelaxableRequest, about: str | None, work_factor: int, work: Work
) -> Explanation:
    """Explain what the search finds for a request, as :func:`explain_opened` does."""
    opened = _open_picture(picture, one_more(asked.request), work)
    return explain_opened(opened, asked, about, work_factor, work)


def _open_picture(picture: Picture, request: CandidateRequest, work: Work) -> Opened:
    """Search once, and return a copy of the picture that the search saw.

    :raises UnknownNameInQuery: in the order of the search (specification 04 section 5.8).
    """
    with refuse_unknown_names(), picture.look(request.names) as look:
        return open_cloud(look.cloud, look.known, request, work)


class PlaceCount(NamedTuple):
    """The number of placements in one tree, or in the trees of one aggregate, which has no name."""

    uuid: str
    name: str | None
    placements: int


def count_capacity(
    picture: Picture,
    request: CandidateRequest,
    *,
    by_aggregate: bool,
    top: int,
    work_factor: int,
    work: Work,
) -> tuple[Packing, list[PlaceCount]]:
    """Return how often a request fits, one placement after the other, and the ``top`` places for it."""
    opened = _open_picture(picture, replace(request, limit=1), work)
    packing = pack(opened.cloud, request, opened.known, work_factor, work)
    places = (_count_by_aggregate if by_aggregate else _count_by_tree)(opened.cloud, packing)
    return packing, pick_best(places, top)


class CapacityOfShape(NamedTuple):
    """How often a shape fits, and the places for it."""

    packing: Packing
    places: list[PlaceCount]


def count_shapes(
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
    cloud = picture.copy_cloud()
    found = {}
    for left, (name, request) in zip(range(len(shapes), 0, -1), shapes.items(), strict=True):
        with work.part(left) as part:
            packing = pack(cloud, request, None, work_factor, part)
        places = (_count_by_aggregate if by_aggregate else _count_by_tree)(cloud, packing)
        found[name] = CapacityOfShape(packing, places)
    return found


def pick_best(places: list[PlaceCount], top: int) -> list[PlaceCount]:
    """Return the places where something fits most often, most first."""
    fitting = [place for place in places if place.placements]
    return sorted(fitting, key=lambda each: (-each.placements, each.name or each.uuid))[:top]


def _count_by_tree(cloud: Cloud, packing: Packing) -> list[PlaceCount]:
    return [
        PlaceCount(str(cloud.uuids[root]), cloud.names[root], int(packing.counts[root]))
        for root in np.flatnonzero(packing.counts).tolist()
    ]


def _count_by_aggregate(cloud: Cloud, packing: Packing) -> list[PlaceCount]:
    """Count a tree in each aggregate that has one of its providers."""
    return [
        PlaceCount(uuid, None, total(packing.counts[sorted(roots)]))
        for uuid, roots in roots_by_aggregate(cloud).items()
    ]

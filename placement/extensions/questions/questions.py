"""The questions of operators about a request: why nothing fits, how many more fit (07 sections 2 and 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from placement import errors
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.picture import Picture
from placement.placing.alternatives import require_names
from placement.placing.explain import Explanation, Opened, explain_on, explain_opened, open_cloud
from placement.placing.packing import Packing, join, pack, pack_in_turn, roots_by_aggregate, total
from placement.placing.remedies import RelaxableRequest, raise_limit_by_one
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.request import CandidateRequest, NameSets
from placement.search.work import Work


class ShapeNotFound(errors.NotFound):
    """The file of shapes has no shape with the name."""

    text = "No shape {name} found in [insight]/shapes_file"
    name: str


def explain(
    picture: Picture,
    options: Sequence[RelaxableRequest],
    about: str | None,
    work_factor: int,
    work: Work,
) -> list[Explanation]:
    """Explain the search's result for each of some requests, on one cloud, like :func:`explain_opened`.

    :param work_factor: the budget of all of them, in searches.
    :raises UnknownNameInQuery: any of the requests has an unknown name.
    """
    searches, (first, *others) = work_factor // len(options), options
    with work.part(len(options)) as part:
        requests = [raise_limit_by_one(first.request), *(asked.request for asked in others)]
        opened = _open_picture(picture, requests, part)
        found = [explain_opened(opened, first, about, searches, part)]
    for left, asked in zip(range(len(others), 0, -1), others, strict=True):
        with work.part(left) as part:
            found.append(explain_on(opened.cloud, opened.known, asked, searches, part, about=about))
    return found


class AvoidedPart(NamedTuple):
    """The number of avoided trees, and how much of an answer to the unchanged query is from these trees."""

    trees: int
    number: int


def count_avoided(
    found: Explanation, request: CandidateRequest, avoid: frozenset[str]
) -> AvoidedPart:
    """Return how many of the counted candidates are in trees that the request would avoid.

    A candidate counts if its root, or a provider with its allocations, is in such a tree.

    :param avoid: traits; a tree whose root has one is avoided, unless the request requires that trait.
    """
    avoid = request.avoiding(avoid).avoid
    avoided = found.cloud.mark_avoided(avoid)
    if avoided is None:
        return AvoidedPart(0, 0)
    counted = islice(found.result, found.everywhere.candidates.count)
    number = sum(avoided[[each.members[0], *each.allocations]].any() for each in counted)
    return AvoidedPart(len(found.cloud.list_avoided(avoid)), int(number))


class Choice(NamedTuple):
    """The position of the request that would be granted, or None, and whether that is certain."""

    chosen: int | None
    exact: bool


def find_choice(found: Sequence[Explanation]) -> Choice:
    """Return which explained request a claim with these queries would get (09 section 3.1)."""
    counts = [each.everywhere.candidates for each in found]
    chosen = next((position for position, each in enumerate(counts) if each.count), None)
    return Choice(chosen, all(each.complete for each in counts[:chosen]))


def _open_picture(picture: Picture, requests: Sequence[CandidateRequest], work: Work) -> Opened:
    """Search once, for the first request, and return a copy of the picture that the search saw.

    :raises UnknownNameInQuery: a name is unknown; for one request in the order of the search (specification
        04 section 5.8).
    """
    with refuse_unknown_names(), picture.look(NameSets.in_requests(requests)) as look:
        if len(requests) > 1:
            require_names(look.cloud, look.known, requests)
        return open_cloud(look.cloud, look.known, requests[0], work)


class PlaceCount(NamedTuple):
    """The number of placements in one tree, or in the trees of one aggregate, which is unnamed."""

    uuid: str
    name: str | None
    placements: int


class Capacity(NamedTuple):
    """How often a request fits, and the places for it."""

    packing: Packing
    places: list[PlaceCount]
    avoided: AvoidedPart


def count_capacity(
    picture: Picture,
    requests: Sequence[CandidateRequest],
    *,
    by_aggregate: bool,
    top: int,
    avoid: frozenset[str],
    work_factor: int,
    work: Work,
) -> tuple[Capacity, list[Capacity]]:
    """Return how often any of some requests fits, and how often each of them: see :func:`pack_in_turn`.

    :param top: the most places of each, best first.
    :param avoid: traits; the result includes how much would not fit if each request avoided them.
    :raises UnknownNameInQuery: a name is unknown, as in :func:`explain`.
    """
    first = replace(requests[0], limit=1)
    opened = _open_picture(picture, [first, *requests[1:]], work)
    packings = pack_in_turn(opened.cloud, requests, opened.known, work_factor, work)
    count = _count_by_aggregate if by_aggregate else _count_by_tree
    avoiding = [request.avoiding(avoid) for request in requests]
    roots = [opened.cloud.list_avoided(request.avoid) for request in avoiding]
    lost = [total(packing.counts[mine]) for packing, mine in zip(packings, roots, strict=True)]
    if any(_shares(opened.cloud, mine) for mine in roots):
        # A host in another tree can use resources of an avoided tree, so only a second packing shows how much
        # fits.
        others = pack_in_turn(opened.cloud, avoiding, opened.known, work_factor, work)
        lost = [max(a.count - b.count, 0) for a, b in zip(packings, others, strict=True)]
    whole, *each = (
        Capacity(
            packing, pick_best(count(opened.cloud, packing), top), AvoidedPart(len(mine), number)
        )
        for packing, mine, number in zip(
            (join(packings), *packings),
            (set().union(*roots), *roots),
            (sum(lost), *lost),
            strict=True,
        )
    )
    return whole, each


def _shares(cloud: Cloud, roots: Sequence[int]) -> bool:
    """Return whether a provider of these trees is a sharing provider."""
    shared = {int(cloud.roots[index]) for index in np.flatnonzero(cloud.with_trait(SHARING_TRAIT))}
    return not shared.isdisjoint(roots)


def count_shapes(
    picture: Picture,
    shapes: Mapping[str, CandidateRequest],
    *,
    by_aggregate: bool,
    avoid: frozenset[str],
    work_factor: int,
    work: Work,
) -> dict[str, Capacity]:
    """Return for each shape how often it fits, and in which places; a shape with unknown names fits nowhere.

    :param avoid: traits; a shape that does not require such a trait fits into no tree whose root has it.
    :param work: the budget of all shapes: each gets an equal part of the rest.
    """
    cloud = picture.copy_cloud()
    found = {}
    for left, (name, request) in zip(range(len(shapes), 0, -1), shapes.items(), strict=True):
        asked = request.avoiding(avoid)
        with work.part(left) as part:
            packing = pack(cloud, asked, None, work_factor, part)
        places = (_count_by_aggregate if by_aggregate else _count_by_tree)(cloud, packing)
        found[name] = Capacity(
            packing, places, AvoidedPart(len(cloud.list_avoided(asked.avoid)), 0)
        )
    return found


def pick_best(places: list[PlaceCount], top: int) -> list[PlaceCount]:
    """Return the places where the request fits most often, in that order."""
    fitting = [place for place in places if place.placements]
    return sorted(fitting, key=lambda each: (-each.placements, each.name or each.uuid))[:top]


def _count_by_tree(cloud: Cloud, packing: Packing) -> list[PlaceCount]:
    return [
        PlaceCount(str(cloud.uuids[root]), cloud.names[root], int(packing.counts[root]))
        for root in np.flatnonzero(packing.counts).tolist()
    ]


def _count_by_aggregate(cloud: Cloud, packing: Packing) -> list[PlaceCount]:
    """Count a tree in each aggregate with one of its providers."""
    return [
        PlaceCount(uuid, None, total(packing.counts[sorted(roots)]))
        for uuid, roots in roots_by_aggregate(cloud).items()
    ]

"""GET /-/capacity (specification 07 section 3)."""

from typing import Any

from webob import Response

from placement.handlers import candidate_question
from placement.handlers.explain import search_query
from placement.objects import insight
from placement.schemas import insight as schemas
from placement.search.packing import Packing
from placement.web.request import Request
from placement.web.response import json_response

DEFAULT_TOP = 20


def capacity(request: Request) -> Response:
    """Say how often the request could be placed, one after the other, if nobody else asked."""
    given = candidate_question.checked(request, schemas.CAPACITY.at(request.version.minor))
    query = search_query(given, schemas.CAPACITY_OWN)
    found = insight.capacity(
        request.picture,
        candidate_question.parsed(query, request.version, request.conf.placement),
        by_aggregate=given.get("by") == "aggregates",
        top=int(given.get("top", DEFAULT_TOP)),
        work_factor=request.conf.insight.work_factor,
    )
    places = [
        {"uuid": place.uuid, "name": place.name, "count": place.count} for place in found.places
    ]
    return json_response(
        request, {**number(found.packing), "places": places, **_rest(found.packing)}
    )


def number(packing: Packing) -> dict[str, Any]:
    """Return how many, and what kind of number that is."""
    return {"count": packing.count, "exact": packing.exact, "complete": packing.complete}


def _rest(packing: Packing) -> dict[str, Any]:
    return {
        "limits": packing.limits,
        "stranded": packing.stranded,
        "largest": packing.largest,
    }

"""/resource_providers/{uuid}/aggregates (specification 02 section 5)."""

from collections.abc import Sequence

from webob import Response

from placement.objects import resource_provider
from placement.schemas import resource_provider as schemas
from placement.web.request import Request
from placement.web.response import json_response, now

GENERATIONS_SINCE = (1, 19)
GENERATION = "resource_provider_generation"


def list_aggregates(request: Request) -> Response:
    """GET /resource_providers/{uuid}/aggregates"""
    found = resource_provider.aggregates(request.db, request.path_args["uuid"])
    return _shown(request, found.uuids, found.generation)


def replace_aggregates(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/aggregates"""
    body = request.read_provider_body(schemas.PUT_AGGREGATES.at(request.version.minor))
    uuids, known = body, None
    if request.version >= GENERATIONS_SINCE:
        uuids, known = body["aggregates"], int(body[GENERATION])
    generation = resource_provider.replace_aggregates(
        request.db, request.path_args["uuid"], uuids, generation=known
    )
    return _shown(request, uuids, generation)


def _shown(request: Request, uuids: Sequence[str], generation: int) -> Response:
    body: dict[str, object] = {"aggregates": uuids}
    if request.version >= GENERATIONS_SINCE:
        body[GENERATION] = generation
    return json_response(request, body, last_modified=now())

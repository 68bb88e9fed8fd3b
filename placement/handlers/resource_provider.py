"""/resource_providers and /resource_providers/{uuid} (specification 02 section 3)."""

import uuid

from webob import Response
from webob.multidict import MultiDict

from placement.handlers import provider_answer, query_syntax
from placement.handlers.provider_body import read_body
from placement.objects import provider_search, resource_provider
from placement.objects.provider_search import ProviderQuery
from placement.objects.resource_provider import UNCHANGED, ProviderRow
from placement.schemas import resource_provider as schemas
from placement.web.microversion import Version
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link, newest
from placement.web.validation import normalized_uuid

CREATED_SHOWN_SINCE = (1, 20)
MOVES_SINCE = (1, 37)


def list_providers(request: Request) -> Response:
    """GET /resource_providers"""
    given = request.read_query(schemas.GET_QUERY.at(request.version.minor))
    query = provider_query(given, request.version)
    form = provider_answer.form(request)
    if query.is_look_up:
        providers = provider_search.look_up(request.db, query)
        body = provider_answer.listed([provider_answer.document(each, form) for each in providers])
        moments = [each.modified_at for each in providers]
        return json_response(request, body, last_modified=newest(moments))
    body, modified_at = provider_search.search(
        request.picture, query, lambda cloud, found: provider_answer.found_in(cloud, found, form)
    )
    return json_response(request, body, last_modified=newest([modified_at]))


def provider_query(query: MultiDict, version: Version) -> ProviderQuery:
    """Parse the filters in the order in which their mistakes are reported (section 3.4.1)."""
    aggregates = query_syntax.AggregateFilter()
    if "member_of" in query:
        aggregates = query_syntax.member_of(query.getall("member_of"), version)
    traits = query_syntax.TraitFilter()
    if "required" in query:
        traits = query_syntax.required(query.getall("required"), version)
    resources = query_syntax.resources(query["resources"]) if "resources" in query else {}
    return ProviderQuery(
        name=query.get("name"),
        uuid=query.get("uuid"),
        in_tree=query.get("in_tree"),
        required=traits.required,
        forbidden=traits.forbidden,
        member_of=aggregates.member_of,
        not_member_of=aggregates.forbidden,
        resources=resources,
    )


def create_provider(request: Request) -> Response:
    """POST /resource_providers"""
    body = request.read_json(schemas.POST.at(request.version.minor))
    provider = resource_provider.create(
        request.db,
        uuid=normalized_uuid(body["uuid"]) if "uuid" in body else str(uuid.uuid4()),
        name=body["name"],
        parent_uuid=body.get("parent_provider_uuid"),
    )
    location = link(request, f"/resource_providers/{provider.uuid}")
    if request.version < CREATED_SHOWN_SINCE:
        return empty_response(request, status=201, location=location)
    return _shown(request, provider, location)


def show_provider(request: Request) -> Response:
    """GET /resource_providers/{uuid}"""
    return _shown(request, resource_provider.show(request.db, request.path_args["uuid"]))


def update_provider(request: Request) -> Response:
    """PUT /resource_providers/{uuid}"""
    body = read_body(request, schemas.PUT.at(request.version.minor))
    provider = resource_provider.save(
        request.db,
        uuid=request.path_args["uuid"],
        name=body["name"],
        parent_uuid=body.get("parent_provider_uuid", UNCHANGED),
        may_move=request.version >= MOVES_SINCE,
    )
    return _shown(request, provider)


def delete_provider(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}"""
    resource_provider.delete(request.db, request.path_args["uuid"])
    return empty_response(request)


def _shown(request: Request, provider: ProviderRow, location: str | None = None) -> Response:
    document = provider_answer.document(provider, provider_answer.form(request))
    modified_at = newest([provider.modified_at])
    return json_response(request, document, last_modified=modified_at, location=location)

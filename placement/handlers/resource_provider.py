"""/resource_providers and /resource_providers/{uuid} (contract 02 section 3)."""

import uuid
from collections.abc import Iterable

import orjson
from webob import Response
from webob.multidict import MultiDict

from placement.db.provider_rows import ProviderRow
from placement.handlers import query_syntax
from placement.handlers.provider_body import read_body
from placement.objects import resource_provider
from placement.objects.resource_provider import UNCHANGED, ProviderQuery
from placement.schemas import resource_provider as schemas
from placement.schemas.windows import Windows
from placement.web.microversion import Version
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link, newest
from placement.web.validation import normalized_uuid

TREES_SHOWN_SINCE = (1, 14)
CREATED_SHOWN_SINCE = (1, 20)
MOVES_SINCE = (1, 37)

UUID_HERE = "<uuid>"

RELATIONS = Windows(
    {
        0: ("inventories", "usages"),
        1: ("inventories", "usages", "aggregates"),
        6: ("inventories", "usages", "aggregates", "traits"),
        11: ("inventories", "usages", "aggregates", "traits", "allocations"),
    }
)


def list_providers(request: Request) -> Response:
    """GET /resource_providers"""
    query = request.read_query(schemas.GET_QUERY.at(request.version.minor))
    providers = resource_provider.find(request.db, _provider_query(query, request.version))
    modified_at = newest(provider.modified_at for provider in providers)
    body = f'{{"resource_providers":[{",".join(_documents(request, providers))}]}}'
    return json_response(request, body.encode(), last_modified=modified_at)


def _provider_query(query: MultiDict, version: Version) -> ProviderQuery:
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
    (document,) = _documents(request, [provider])
    modified_at = newest([provider.modified_at])
    return json_response(request, document.encode(), last_modified=modified_at, location=location)


def _documents(request: Request, providers: Iterable[ProviderRow]) -> list[str]:
    """Return the providers as the version shows them, in JSON (contract 02 section 3.1).

    Ten thousand providers have seventy thousand links: these are one text with the uuid put in, not
    as many objects. A uuid needs no escaping, a name does.
    """
    links = _links(request)
    trees = request.version >= TREES_SHOWN_SINCE
    documents = []
    for _, provider_uuid, name, generation, parent_uuid, root_uuid, _ in providers:
        place = ""
        if trees:
            parent = "null" if parent_uuid is None else f'"{parent_uuid}"'
            place = f'"parent_provider_uuid":{parent},"root_provider_uuid":"{root_uuid}",'
        documents.append(
            f'{{"uuid":"{provider_uuid}","name":{orjson.dumps(name).decode()},'
            f'"generation":{generation},{place}"links":{links.replace(UUID_HERE, provider_uuid)}}}'
        )
    return documents


def _links(request: Request) -> str:
    """Return the list of links of a provider, with ``UUID_HERE`` for its uuid."""
    href = link(request, f"/resource_providers/{UUID_HERE}")
    relations = RELATIONS.at(request.version.minor)
    links = [{"rel": "self", "href": href}]
    links += [{"rel": relation, "href": f"{href}/{relation}"} for relation in relations]
    return orjson.dumps(links).decode()

"""/resource_providers, /resource_providers/{uuid} and …/aggregates (specification 02 sections 3 and 5).

The links of a provider are one text with the uuid inserted. The results of a search are shown from texts that
are kept between answers until the provider changes. A uuid does not need escaping, a name does.
"""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import orjson
from webob import Response
from webob.multidict import MultiDict

from placement.handlers import query_syntax
from placement.handlers.kept_texts import KeptTexts
from placement.objects import provider_search, resource_provider
from placement.objects.provider_search import ProviderQuery
from placement.objects.resource_provider import UNCHANGED, ProviderRow
from placement.schemas import resource_provider as schemas
from placement.schemas.windows import Windows
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes
from placement.web.microversion import Version
from placement.web.request import Request
from placement.web.response import (
    empty_response,
    json_response,
    link,
    newest,
    now,
    shown_response,
)
from placement.web.validation import normalized_uuid

TREES_SHOWN_SINCE = (1, 14)
CREATED_SHOWN_SINCE = (1, 20)
MOVES_SINCE = (1, 37)
GENERATION_SINCE = (1, 19)

BEGIN, END = b'{"resource_providers":[', b"]}"
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
    given = request.read_query(schemas.GET_QUERY.at(request.version.minor))
    query = parse_filters(given, request.version)
    form = _find_form(request)
    if query.is_look_up:
        providers = provider_search.look_up(request.db, query)
        body = _join_documents([write_provider(each, form) for each in providers])
        moments = [each.modified_at for each in providers]
        return shown_response(request, body, last_modified=newest(moments))
    body, modified_at = provider_search.search(
        request.picture, query, lambda cloud, found: _write_found(cloud, found, form)
    )
    return shown_response(request, body, last_modified=newest([modified_at]))


def parse_filters(query: MultiDict, version: Version) -> ProviderQuery:
    """Parse the filters in the order in which their mistakes are reported (section 3.4.1)."""
    aggregates = query_syntax.SetFilter()
    if "member_of" in query:
        aggregates = query_syntax.parse_member_of(query.getall("member_of"), version)
    traits = query_syntax.SetFilter()
    if "required" in query:
        traits = query_syntax.parse_required(query.getall("required"), version)
    resources = query_syntax.parse_resources(query["resources"]) if "resources" in query else {}
    return ProviderQuery(
        name=query.get("name"),
        **{name: normalized_uuid(query[name]) for name in ("uuid", "in_tree") if name in query},
        required=traits.wanted,
        forbidden=traits.forbidden,
        member_of=aggregates.wanted,
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
    return _answer_provider(request, provider, location)


def show_provider(request: Request) -> Response:
    """GET /resource_providers/{uuid}"""
    provider = resource_provider.show(request.db, request.path_args["uuid"])
    body = write_provider(provider, _find_form(request))
    return shown_response(request, body, last_modified=newest([provider.modified_at]))


def update_provider(request: Request) -> Response:
    """PUT /resource_providers/{uuid}"""
    body = request.read_provider_body(schemas.PUT.at(request.version.minor))
    provider = resource_provider.save(
        request.db,
        uuid=request.path_args["uuid"],
        name=body["name"],
        parent_uuid=body.get("parent_provider_uuid", UNCHANGED),
        may_move=request.version >= MOVES_SINCE,
    )
    return _answer_provider(request, provider)


def delete_provider(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}"""
    resource_provider.delete(request.db, request.path_args["uuid"])
    return empty_response(request)


def _answer_provider(
    request: Request, provider: ProviderRow, location: str | None = None
) -> Response:
    body = write_provider(provider, _find_form(request))
    modified_at = newest([provider.modified_at])
    return json_response(request, body, last_modified=modified_at, location=location)


# -- their aggregates (section 5) ----------------------------------------------------------------


def list_aggregates(request: Request) -> Response:
    """GET /resource_providers/{uuid}/aggregates"""
    found = resource_provider.aggregates(request.db, request.path_args["uuid"])
    body = _make_aggregates(request, found.uuids, found.generation)
    return shown_response(request, body, last_modified=now())


def replace_aggregates(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/aggregates"""
    body = request.read_provider_body(schemas.PUT_AGGREGATES.at(request.version.minor))
    uuids, known = body, None
    if request.version >= GENERATION_SINCE:
        uuids, known = body["aggregates"], int(body[schemas.GENERATION])
    generation = resource_provider.replace_aggregates(
        request.db, request.path_args["uuid"], uuids, generation=known
    )
    return json_response(request, _make_aggregates(request, uuids, generation), last_modified=now())


def _make_aggregates(request: Request, uuids: Sequence[str], generation: int) -> dict[str, object]:
    body: dict[str, object] = {"aggregates": uuids}
    if request.version >= GENERATION_SINCE:
        body[schemas.GENERATION] = generation
    return body


# -- providers in JSON (section 3.1) -------------------------------------------------------------


class ProviderForm(NamedTuple):
    """The form in which a request gets providers. ``links``: their links in JSON, cut at the uuid."""

    trees: bool
    links: tuple[str, ...]


def _find_form(request: Request) -> ProviderForm:
    """Return the form of the request's version and mount point."""
    href = link(request, f"/resource_providers/{UUID_HERE}")
    relations = RELATIONS.at(request.version.minor)
    links = [{"rel": "self", "href": href}]
    links += [{"rel": relation, "href": f"{href}/{relation}"} for relation in relations]
    pieces = tuple(orjson.dumps(links).decode().split(UUID_HERE))
    return ProviderForm(request.version >= TREES_SHOWN_SINCE, pieces)


def write_provider(provider: ProviderRow, form: ProviderForm) -> bytes:
    """Return one provider."""
    _, uuid, name, generation, parent_uuid, root_uuid, _ = provider
    place = ""
    if form.trees:
        parent = "null" if parent_uuid is None else f'"{parent_uuid}"'
        place = f'"parent_provider_uuid":{parent},"root_provider_uuid":"{root_uuid}",'
    return (
        f'{{"uuid":"{uuid}","name":{orjson.dumps(name).decode()},"generation":{generation},'
        f'{place}"links":{uuid.join(form.links)}}}'
    ).encode()


def _join_documents(documents: list[bytes]) -> bytes:
    """Return the body of a list of providers. Megabytes are copied once."""
    if not documents:
        return BEGIN + END
    parts = documents.copy()
    parts[0] = BEGIN + parts[0]
    parts[-1] += END
    return b",".join(parts)


def _write_found(cloud: Cloud, found: Indexes, form: ProviderForm) -> tuple[bytes, datetime | None]:
    """Return the body of a list of providers, and when the last of them was modified, if known."""
    kept = KeptTexts.on(cloud, "providers", form)
    stamps = cloud.stamps[found]
    documents = kept.read_or_write(
        found, stamps, lambda index: write_provider(_get_row(cloud, index), form)
    )
    return _join_documents(documents), _to_moment(cloud.modified[found].max(initial=0))


def _get_row(cloud: Cloud, index: int) -> ProviderRow:
    root = cloud.roots[index]
    return ProviderRow(
        id=int(cloud.ids[index]),
        uuid=str(cloud.uuids[index]),
        name=cloud.names[index],
        generation=int(cloud.generations[index]),
        parent_uuid=cloud.stored_parent(index),
        root_uuid=str(cloud.uuids[root]),
        modified_at=_to_moment(cloud.modified[index]),
    )


def _to_moment(seconds: np.int64) -> datetime | None:
    return datetime.fromtimestamp(int(seconds), UTC) if seconds else None

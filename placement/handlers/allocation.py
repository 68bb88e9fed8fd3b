"""The ledger over HTTP: /allocations and the listings of consumers and providers."""

from collections.abc import Iterable, Mapping
from typing import Any

from webob import Response

from placement import errors
from placement.handlers.allocation_body import consumer_change, consumer_changes
from placement.objects import allocation
from placement.objects.allocation import (
    AllocationChange,
    ConsumerAllocation,
    ProviderAllocation,
)
from placement.schemas import allocation as schemas
from placement.web.request import Request
from placement.web.response import empty_response, json_response, newest
from placement.web.validation import is_uuid_like, normalized_uuid

OBJECT_FORM_SINCE = (1, 12)
OWNERS_SHOWN_SINCE = (1, 12)
GENERATIONS_SINCE = (1, 28)
TYPES_SINCE = (1, 38)
NO_TYPE = "unknown"


class MalformedConsumer(errors.BadRequest):
    """The path of a PUT names a consumer by something that is no UUID."""

    text = "Malformed consumer_uuid: {given}"
    given: str


def show_consumer_allocations(request: Request) -> Response:
    """GET /allocations/{consumer_uuid}"""
    rows = allocation.consumer_allocations(request.db, request.path_args["consumer_uuid"])
    modified_at = newest(row.modified_at for row in rows)
    return json_response(request, _consumer_document(request, rows), last_modified=modified_at)


def _consumer_document(request: Request, rows: list[ConsumerAllocation]) -> dict[str, Any]:
    by_provider: dict[str, Any] = {}
    for row in rows:
        entry = by_provider.setdefault(
            row.provider_uuid, {"generation": row.provider_generation, "resources": {}}
        )
        entry["resources"][row.class_name] = row.used
    document: dict[str, Any] = {"allocations": by_provider}
    if rows and request.version >= OWNERS_SHOWN_SINCE:
        document |= {"project_id": rows[0].project, "user_id": rows[0].user}
    if rows and request.version >= GENERATIONS_SINCE:
        document["consumer_generation"] = rows[0].generation
    if rows and request.version >= TYPES_SINCE:
        document["consumer_type"] = rows[0].type or NO_TYPE
    return document


def show_provider_allocations(request: Request) -> Response:
    """GET /resource_providers/{uuid}/allocations"""
    generation, rows = allocation.provider_allocations(request.db, request.path_args["uuid"])
    document = {
        "resource_provider_generation": generation,
        "allocations": _by_consumer(request, rows),
    }
    modified_at = newest(row.modified_at for row in rows)
    return json_response(request, document, last_modified=modified_at)


def _by_consumer(request: Request, rows: Iterable[ProviderAllocation]) -> dict[str, Any]:
    by_consumer: dict[str, Any] = {}
    for row in rows:
        assert row.consumer_uuid is not None and row.class_name is not None
        entry = by_consumer.setdefault(row.consumer_uuid, {"resources": {}})
        entry["resources"][row.class_name] = row.used
        if request.version >= GENERATIONS_SINCE:
            entry["consumer_generation"] = row.consumer_generation
    return by_consumer


def replace_consumer_allocations(request: Request) -> Response:
    """PUT /allocations/{consumer_uuid}"""
    given = request.path_args["consumer_uuid"]
    if not is_uuid_like(given):
        raise MalformedConsumer(given=given)
    body = request.read_json(schemas.PUT.at(request.version.minor))
    if request.version < OBJECT_FORM_SINCE:
        body = _object_form(request, body)
    change = AllocationChange.of_one(consumer_change(normalized_uuid(given), body))
    allocation.replace_allocations(request.db, change)
    return empty_response(request)


def _object_form(request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
    """Lift the list form; below 1.8 the configured owners stand in for those not sent."""
    options = request.conf.placement
    return {
        "project_id": body.get("project_id", options.incomplete_consumer_project_id),
        "user_id": body.get("user_id", options.incomplete_consumer_user_id),
        # Of several items for one provider the last one counts.
        "allocations": {item["resource_provider"]["uuid"]: item for item in body["allocations"]},
    }


def replace_many_allocations(request: Request) -> Response:
    """POST /allocations"""
    body = request.read_json(schemas.POST.at(request.version.minor))
    allocation.replace_allocations(request.db, AllocationChange(consumer_changes(body)))
    return empty_response(request)


def delete_consumer_allocations(request: Request) -> Response:
    """DELETE /allocations/{consumer_uuid}"""
    allocation.delete_allocations(request.db, request.path_args["consumer_uuid"])
    return empty_response(request)

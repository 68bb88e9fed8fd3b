"""/resource_providers/{uuid}/inventories and …/inventories/{class} (specification 02 section 4)."""

from typing import Any

from webob import Response

from placement.inventory_record import InventoryRecord
from placement.objects import inventory
from placement.schemas import resource_provider as schemas
from placement.schemas.resource_provider import GENERATION
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link, newest, now, shown_response

MAY_BE_FULL_SINCE = (1, 26)


def list_inventories(request: Request) -> Response:
    """GET /resource_providers/{uuid}/inventories"""
    found = inventory.of_provider(request.db, request.path_args["uuid"])
    records = {shown.class_name: shown.record._asdict() for shown in found.records}
    return shown_response(
        request,
        {GENERATION: found.generation, "inventories": records},
        last_modified=newest(shown.modified_at for shown in found.records) if records else None,
    )


def create_inventory(request: Request) -> Response:
    """POST /resource_providers/{uuid}/inventories"""
    body = request.read_provider_body(schemas.POST_INVENTORY)
    record, class_name = inventory.record_from(body), body["resource_class"]
    provider_uuid = request.path_args["uuid"]
    generation = inventory.add(
        request.db, provider_uuid, class_name, record, may_be_full=_may_be_full(request)
    )
    location = link(request, f"/resource_providers/{provider_uuid}/inventories/{class_name}")
    return json_response(
        request,
        _make_document(generation, record),
        status=201,
        last_modified=now(),
        location=location,
    )


def replace_inventories(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/inventories"""
    body = request.read_provider_body(schemas.PUT_INVENTORIES)
    records = inventory.records_from(body["inventories"])
    generation = inventory.replace_all(
        request.db,
        request.path_args["uuid"],
        records,
        generation=int(body[GENERATION]),
        may_be_full=_may_be_full(request),
    )
    shown = {name: record._asdict() for name, record in records.items()}
    return json_response(
        request,
        {GENERATION: generation, "inventories": shown},
        last_modified=now() if records else None,
    )


def delete_inventories(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/inventories"""
    inventory.delete_all(request.db, request.path_args["uuid"])
    return empty_response(request)


def show_inventory(request: Request) -> Response:
    """GET /resource_providers/{uuid}/inventories/{resource_class}"""
    generation, shown = inventory.show(
        request.db, request.path_args["uuid"], request.path_args["resource_class"]
    )
    body = _make_document(generation, shown.record)
    return shown_response(request, body, last_modified=newest([shown.modified_at]))


def update_inventory(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/inventories/{resource_class}"""
    body = request.read_provider_body(schemas.PUT_INVENTORY)
    record = inventory.record_from(body)
    generation = inventory.replace(
        request.db,
        request.path_args["uuid"],
        request.path_args["resource_class"],
        record,
        generation=int(body[GENERATION]),
        may_be_full=_may_be_full(request),
    )
    return json_response(request, _make_document(generation, record), last_modified=now())


def delete_inventory(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/inventories/{resource_class}"""
    inventory.delete(request.db, request.path_args["uuid"], request.path_args["resource_class"])
    return empty_response(request)


def _may_be_full(request: Request) -> bool:
    return request.version >= MAY_BE_FULL_SINCE


def _make_document(generation: int, record: InventoryRecord) -> dict[str, Any]:
    return {GENERATION: generation, **record._asdict()}

"""The ledger over HTTP: /allocations, /usages, /reshaper and the listings of consumers and providers."""

from collections.abc import Mapping
from typing import Any

from webob import Response

from placement.errors import MalformedRequest
from placement.inventory_record import MAX_RATIO
from placement.objects import allocation, inventory, reshaper, usage
from placement.objects.allocation import AllocationChange
from placement.objects.replacement import ANY_GENERATION, ConsumerChange
from placement.objects.reshaper import InventoryChange, Reshape
from placement.schemas import allocation as schemas
from placement.web.request import Request
from placement.web.response import empty_response, json_response, newest, now
from placement.web.validation import is_uuid_like, normalized_uuid

OBJECT_FORM_SINCE = (1, 12)
OWNERS_SHOWN_SINCE = (1, 12)
GENERATIONS_SINCE = (1, 28)
TYPES_SINCE = (1, 38)
USAGES_BY_TYPE_SINCE = (1, 38)
NO_TYPE = "unknown"

SEEN_INVENTORIES = "Placement-Seen-Inventories"


def show_consumer_allocations(request: Request) -> Response:
    """GET /allocations/{consumer_uuid}"""
    rows = allocation.consumer_allocations(request.db, request.path_args["consumer_uuid"])
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
    modified_at = newest(row.modified_at for row in rows)
    return json_response(request, document, last_modified=modified_at)


def show_provider_allocations(request: Request) -> Response:
    """GET /resource_providers/{uuid}/allocations"""
    generation, rows = allocation.provider_allocations(request.db, request.path_args["uuid"])
    by_consumer: dict[str, Any] = {}
    for row in rows:
        assert row.consumer_uuid is not None and row.class_name is not None
        entry = by_consumer.setdefault(row.consumer_uuid, {"resources": {}})
        entry["resources"][row.class_name] = row.used
        if request.version >= GENERATIONS_SINCE:
            entry["consumer_generation"] = row.consumer_generation
    document = {"resource_provider_generation": generation, "allocations": by_consumer}
    modified_at = newest(row.modified_at for row in rows)
    return json_response(request, document, last_modified=modified_at)


def replace_consumer_allocations(request: Request) -> Response:
    """PUT /allocations/{consumer_uuid}"""
    given = request.path_args["consumer_uuid"]
    if not is_uuid_like(given):
        raise MalformedRequest.for_rule("consumer", given=given)
    body = request.read_json(schemas.PUT.at(request.version.minor))
    if request.version < OBJECT_FORM_SINCE:
        # Older forms are converted to the newest; below 1.8 the configured owners replace missing ones.
        options = request.conf.placement
        body = {
            "project_id": body.get("project_id", options.incomplete_consumer_project_id),
            "user_id": body.get("user_id", options.incomplete_consumer_user_id),
            # The last of several items for one provider counts.
            "allocations": {
                item["resource_provider"]["uuid"]: item for item in body["allocations"]
            },
        }
    change = AllocationChange.of_one(_read_consumer(normalized_uuid(given), body))
    allocation.replace_allocations(request.db, change)
    return empty_response(request)


def replace_many_allocations(request: Request) -> Response:
    """POST /allocations"""
    body = request.read_json(schemas.POST.at(request.version.minor))
    allocation.replace_allocations(request.db, AllocationChange(_read_consumers(body)))
    return empty_response(request)


def _read_consumers(body: Mapping[str, Any]) -> list[ConsumerChange]:
    return [_read_consumer(uuid, entry) for uuid, entry in body.items()]


def _read_consumer(uuid: str, entry: Mapping[str, Any]) -> ConsumerChange:
    generation = entry.get("consumer_generation", ANY_GENERATION)
    return ConsumerChange(
        uuid,
        {
            provider_uuid: {name: int(amount) for name, amount in held["resources"].items()}
            for provider_uuid, held in entry["allocations"].items()
        },
        project=entry["project_id"],
        user=entry["user_id"],
        # In a JSON schema 1.0 is an integer; None and ANY_GENERATION stay unchanged.
        generation=int(generation) if isinstance(generation, float) else generation,
        type=entry.get("consumer_type"),
    )


def delete_consumer_allocations(request: Request) -> Response:
    """DELETE /allocations/{consumer_uuid}"""
    allocation.delete_allocations(request.db, request.path_args["consumer_uuid"])
    return empty_response(request)


def reshape_trees(request: Request) -> Response:
    """POST /reshaper"""
    body = request.read_json(schemas.RESHAPE.at(request.version.minor))
    inventories = [_read_inventory(*item) for item in body["inventories"].items()]
    change = Reshape(
        inventories, _read_consumers(body["allocations"]), request.headers.get(SEEN_INVENTORIES)
    )
    reshaper.reshape(request.db, change)
    return empty_response(request)


def _read_inventory(provider_uuid: str, entry: Mapping[str, Any]) -> InventoryChange:
    records = {
        # The schema has only an upper bound for the ratio; below this value the columns of MySQL end.
        name: record._replace(allocation_ratio=max(record.allocation_ratio, -MAX_RATIO))
        for name, record in inventory.records_from(entry["inventories"]).items()
    }
    return InventoryChange(provider_uuid, int(entry["resource_provider_generation"]), records)


# -- usages (specification 02 section 9) ------------------------------------------------------------


def show_provider_usages(request: Request) -> Response:
    """GET /resource_providers/{uuid}/usages"""
    found = inventory.of_provider(request.db, request.path_args["uuid"])
    used = {record.class_name: record.used for record in found.records}
    body = {"resource_provider_generation": found.generation, "usages": used}
    return json_response(request, body, last_modified=now())


def policy_target(request: Request) -> Mapping[str, Any]:
    """Return the target of the policy of GET /usages: the project as sent, if it was sent."""
    project = request.query_value("project_id")
    return {} if project is None else {"project_id": project}


def show_usages(request: Request) -> Response:
    """GET /usages"""
    query = request.read_query(schemas.USAGES_QUERY.at(request.version.minor))
    project, user = query["project_id"], query.get("user_id")
    shown: Mapping[str, Any]
    if request.version < USAGES_BY_TYPE_SINCE:
        everything = usage.by_group(request.db, project, user, usage.ALL).get(usage.ALL)
        shown = everything.used_by_class if everything else {}
    else:
        groups = usage.by_group(request.db, project, user, query.get("consumer_type"))
        shown = {
            name: {"consumer_count": group.consumer_count, **group.used_by_class}
            for name, group in groups.items()
        }
    return json_response(request, {"usages": shown}, last_modified=now())

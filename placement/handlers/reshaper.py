"""POST /reshaper (specification 05 part A)."""

from collections.abc import Mapping
from typing import Any

from webob import Response

from placement.handlers.allocation_body import consumer_changes
from placement.limits import MAX_RATIO
from placement.objects import reshaper
from placement.objects.inventory import records_from
from placement.objects.reshaper import InventoryChange, Reshape
from placement.schemas import reshaper as schemas
from placement.web.request import Request
from placement.web.response import empty_response

SEEN_INVENTORIES = "Placement-Seen-Inventories"


def reshape(request: Request) -> Response:
    """POST /reshaper"""
    body = request.read_json(schemas.POST.at(request.version.minor))
    inventories = [_inventory_change(*item) for item in body["inventories"].items()]
    change = Reshape(
        inventories, consumer_changes(body["allocations"]), request.headers.get(SEEN_INVENTORIES)
    )
    reshaper.reshape(request.db, change)
    return empty_response(request)


def _inventory_change(provider_uuid: str, entry: Mapping[str, Any]) -> InventoryChange:
    records = {
        # The schema bounds the ratio above only; below this the columns of MySQL end.
        name: record._replace(allocation_ratio=max(record.allocation_ratio, -MAX_RATIO))
        for name, record in records_from(entry["inventories"]).items()
    }
    return InventoryChange(provider_uuid, int(entry["resource_provider_generation"]), records)

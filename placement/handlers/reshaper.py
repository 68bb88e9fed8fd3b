"""POST /reshaper (contract 05 part A)."""

import re
from collections.abc import Mapping
from typing import Any

from webob import Response

from placement.db.inventory_rows import Record
from placement.handlers.allocation_body import consumer_changes
from placement.objects import reshaper
from placement.objects.inventory import record_from
from placement.objects.reshaper import InventoryChange, Reshape
from placement.schemas import reshaper as schemas
from placement.web.request import Request
from placement.web.response import empty_response

# The schema bounds it above only; below this the columns of MySQL end.
LOWEST_RATIO = -3.40282e38
CLASS_KEY = re.compile(r"[A-Z0-9_]+\Z")
NO_RECORD = Record(1, 0, 1, 1, 1, 1.0)


def reshape(request: Request) -> Response:
    """POST /reshaper"""
    body = request.read_json(schemas.POST.at(request.version.minor))
    inventories = [_inventory_change(*item) for item in body["inventories"].items()]
    change = Reshape(inventories, consumer_changes(body["allocations"]))
    reshaper.reshape(request.db, change)
    return empty_response(request)


def _inventory_change(provider_uuid: str, entry: Mapping[str, Any]) -> InventoryChange:
    return InventoryChange(
        provider_uuid,
        int(entry["resource_provider_generation"]),
        {name: _record(name, given) for name, given in entry["inventories"].items()},
    )


def _record(name: str, given: Any) -> Record:
    if not CLASS_KEY.match(name):
        # The schema has not looked at the value. No class has such a name: the request is refused.
        return NO_RECORD
    record = record_from(given)
    return record._replace(allocation_ratio=max(record.allocation_ratio, LOWEST_RATIO))

"""The one that makes hosts where a test has a database and no service: through the objects."""

import uuid

from placement.db.database import Database
from placement.inventory_record import InventoryRecord
from placement.objects import inventory, resource_provider
from placement.objects.inventory import record_from


def add_host(
    db: Database, key: str | None = None, parent: str | None = None, **stock: int | InventoryRecord
) -> str:
    """Make a provider with the total or the record of each class; return its uuid."""
    made = key or str(uuid.uuid4())
    resource_provider.create(db, uuid=made, name=made, parent_uuid=parent)
    for name, given in stock.items():
        record = record_from({"total": given}) if isinstance(given, int) else given
        inventory.add(db, made, name, record, may_be_full=True)
    return made

"""Whether the allocations of a request fit (specification 03 section 8). Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement import errors
from placement.db.inventory_rows import InventoryRow

InventoryKey = tuple[int, int]
"""(provider id, resource class id)."""


class DoesNotFit(errors.Conflict):
    """The request is understood, and there is no room for it."""


class NoInventory(DoesNotFit):
    """A provider has no inventory of what is asked of it."""

    reason = "no_inventory"
    retry = errors.Retry.AFTER_READING
    text = (
        "Unable to allocate inventory: Inventory for '{classes}' on resource provider "
        "'{providers}' invalid."
    )
    classes: str
    providers: str


class UnitsViolated(DoesNotFit):
    """An amount is outside the units in which the inventory is given out."""

    reason = "unit_violation"
    text = (
        "Unable to allocate inventory: Unable to create allocation for '{class_name}' on resource "
        "provider '{provider}'. The requested amount would violate inventory constraints."
    )
    class_name: str
    provider: str


class CapacityExceeded(DoesNotFit):
    """There is not as much left as is asked for."""

    reason = "capacity_exceeded"
    retry = errors.Retry.AFTER_READING
    text = (
        "Unable to allocate inventory: Unable to create allocation for '{class_name}' on resource "
        "provider '{provider}'. The requested amount would exceed the capacity."
    )
    class_name: str
    provider: str


@dataclass(frozen=True, slots=True)
class Demand:
    """One allocation of a request, in ids for the check and names for the error."""

    consumer_uuid: str
    key: InventoryKey
    provider_uuid: str
    class_name: str
    amount: int


def require_room(
    demands: Sequence[Demand],
    inventories: Mapping[InventoryKey, InventoryRow],
    freed: Mapping[InventoryKey, int],
) -> None:
    """Check that all demands fit at once; the first that does not, in order, is reported.

    :param freed: what the consumers of the request hold now and give back, by place.
    :raises DoesNotFit: 409, one of its kinds
    """
    _require_any_inventory(demands, inventories)
    wanted: dict[InventoryKey, int] = defaultdict(int)
    for demand in demands:
        wanted[demand.key] += demand.amount
    for demand in demands:
        inventory = inventories.get(demand.key)
        if inventory is None:
            raise NoInventory(classes=demand.class_name, providers=demand.provider_uuid)
        if not _in_units(demand.amount, inventory):
            raise UnitsViolated(class_name=demand.class_name, provider=demand.provider_uuid)
        after = inventory.used - freed.get(demand.key, 0) + wanted[demand.key]
        # An inventory may be shrunk below its usage; what does not add to it is let through then.
        # `used` is positive where it is not below `after`, which the demand made at least 1.
        if after > inventory.capacity and after > inventory.used:
            raise CapacityExceeded(class_name=demand.class_name, provider=demand.provider_uuid)


def has_room(
    demands: Sequence[Demand],
    inventories: Mapping[InventoryKey, InventoryRow],
    freed: Mapping[InventoryKey, int],
) -> bool:
    """All demands fit at once, by the inventories that are known."""
    try:
        require_room(demands, inventories, freed)
    except DoesNotFit:
        return False
    return True


def _require_any_inventory(
    demands: Sequence[Demand], inventories: Mapping[InventoryKey, InventoryRow]
) -> None:
    """Each provider has at least one of the classes named anywhere in the request."""
    providers = {demand.key[0]: demand.provider_uuid for demand in demands}
    classes = {demand.key[1]: demand.class_name for demand in demands}
    stocked = {provider_id for provider_id, class_id in inventories if class_id in classes}
    bare = [uuid for provider_id, uuid in providers.items() if provider_id not in stocked]
    if bare:
        raise NoInventory(classes=", ".join(classes.values()), providers=", ".join(bare))


def _in_units(amount: int, inventory: InventoryRow) -> bool:
    return inventory.min_unit <= amount <= inventory.max_unit and amount % inventory.step_size == 0


def by_key(rows: Sequence[InventoryRow]) -> dict[InventoryKey, InventoryRow]:
    """Return the inventory records by provider id and class id."""
    return {(row.provider_id, row.class_id): row for row in rows}

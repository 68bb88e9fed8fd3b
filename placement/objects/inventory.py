"""Inventory records: how much of a class a provider has (contract 02 section 4)."""

import logging
from collections.abc import Mapping
from typing import Any

from placement import errors
from placement.db import class_rows, inventory_rows, provider_rows
from placement.db.api import Database, Transaction
from placement.db.inventory_rows import InventoryRow, ProviderInventory, Record, ShownRecord
from placement.db.provider_rows import LockedProvider
from placement.objects import resource_class, resource_provider

LOG = logging.getLogger(__name__)

MAX_INT = 2147483647
MAX_RATIO = 3.40282e38

IN_USE_CODE = "placement.inventory.inuse"


class InvalidCapacity(errors.BadRequest):
    """The record leaves nothing, or less, to allocate. ``action``: create or update."""

    text = (
        "Unable to {action} inventory for resource provider {provider_uuid}: Invalid inventory for "
        "'{resource_class}' on resource provider '{provider_uuid}'. {reason}"
    )


class UnknownClassToCreate(errors.BadRequest):
    """The class of the record to add does not exist."""

    text = (
        "Unable to create inventory for resource provider {provider_uuid}: "
        "No such resource class {name}."
    )


class UnknownClassToReplace(errors.BadRequest):
    """A class among the new records does not exist."""

    text = (
        "Unknown resource class in inventory for resource provider {provider_uuid}: "
        "No such resource class {name}."
    )


class NoRecordToReplace(errors.BadRequest):
    """The class exists but the provider has no record of it."""

    text = (
        "No inventory record with resource class for resource provider {provider_uuid}: "
        "No inventory of class {name} found"
    )


class RecordNotFound(errors.NotFound):
    """The provider has no record of the class, which may not even exist."""

    text = "No inventory of class {name} for {provider_uuid}"


class RecordNotFoundForDelete(errors.NotFound):
    """The provider has no record to delete of the class, which may not even exist."""

    text = "No inventory of class {name} found for delete"


class RecordExists(errors.ConcurrentUpdate):
    """The provider has a record of the class to add."""

    text = (
        "Update conflict: Inventory of class {name} exists already on resource provider "
        "{provider_uuid}."
    )


class GenerationConflict(errors.ConcurrentUpdate):
    """The provider changed since the client read its inventory."""

    text = "resource provider generation conflict"


class RecordsInUse(errors.Conflict):
    """Records with allocations were left out of the new inventory."""

    code = IN_USE_CODE
    text = "update conflict: Inventory for '{names}' on resource provider '{provider_uuid}' in use."


class InventoryInUse(errors.Conflict):
    """Records with allocations were to be deleted with all others."""

    code = IN_USE_CODE
    text = "Inventory for '{names}' on resource provider '{provider_uuid}' in use."


class RecordInUse(errors.ConcurrentUpdate):
    """A record with allocations was to be deleted. The code is not that of the others: it stays."""

    text = (
        "Unable to delete inventory of class {name}: "
        "Inventory for '{name}' on resource provider '{provider_uuid}' in use."
    )


class InventoryLost(errors.ConcurrentUpdate):
    """Others kept changing the provider whose inventory was to be deleted."""

    text = "Unable to delete inventory for resource provider {provider_uuid}, please try again."


class RecordLost(errors.ConcurrentUpdate):
    """Others kept changing the provider whose record was to be deleted."""

    text = "Unable to delete inventory of class {name}: the provider changed, please try again."


def record_from(values: Mapping[str, Any]) -> Record:
    """Return the record that valid JSON stands for: defaults filled in, ``10.0`` as 10."""
    return Record(
        total=int(values["total"]),
        reserved=int(values.get("reserved", 0)),
        min_unit=int(values.get("min_unit", 1)),
        max_unit=int(values.get("max_unit", MAX_INT)),
        step_size=int(values.get("step_size", 1)),
        allocation_ratio=float(values.get("allocation_ratio", 1.0)),
    )


def of_provider(db: Database, provider_uuid: str) -> ProviderInventory:
    """Return the records of a provider in the order of their classes.

    :raises resource_provider.ProviderNotFound:
    """
    inventory = db.read(lambda connection: inventory_rows.of_provider(connection, provider_uuid))
    if inventory is None:
        raise resource_provider.ProviderNotFound(uuid=provider_uuid)
    return inventory


def show(db: Database, provider_uuid: str, class_name: str) -> tuple[int, ShownRecord]:
    """Return the provider's generation and its record of a class.

    :raises resource_provider.ProviderNotFound:
    :raises RecordNotFound:
    """
    inventory = db.read(
        lambda connection: inventory_rows.of_provider(connection, provider_uuid, class_name)
    )
    if inventory is None:
        raise resource_provider.ProviderNotFound(uuid=provider_uuid)
    if not inventory.records:
        raise RecordNotFound(name=class_name, provider_uuid=provider_uuid)
    return inventory.generation, inventory.records[0]


def replace_all(
    db: Database,
    provider_uuid: str,
    records: Mapping[str, Record],
    *,
    generation: int,
    may_be_full: bool,
) -> int:
    """Make ``records`` (by class name) the inventory of a provider; return its generation after.

    :param generation: what the client has seen.
    :param may_be_full: a record may leave nothing to allocate (from 1.26 on).
    :raises resource_provider.ProviderNotFound:
    :raises GenerationConflict:
    :raises InvalidCapacity:
    :raises UnknownClassToReplace:
    :raises RecordsInUse: a record to remove has allocations.
    """
    return db.write(lambda tx: _replace_all(tx, provider_uuid, records, generation, may_be_full))


def _replace_all(
    tx: Transaction,
    provider_uuid: str,
    records: Mapping[str, Record],
    generation: int,
    may_be_full: bool,
) -> int:
    provider = _locked_at(tx, provider_uuid, generation)
    for name, record in records.items():
        _check_capacity("update", provider_uuid, name, record, may_be_full)
    present = {row.class_name: row for row in inventory_rows.lock_of(tx, [provider.id])}
    class_ids = class_rows.hold(tx, records.keys() - present.keys())
    unknown = sorted(records.keys() - present.keys() - class_ids.keys())
    if unknown:
        raise UnknownClassToReplace(provider_uuid=provider_uuid, name=unknown[0])
    _remove_others(tx, provider, present, records)
    for name in records.keys() & present.keys():
        _warn_if_overused(provider_uuid, name, records[name], present[name].used)
    inventory_rows.update_records(
        tx, {present[name].id: record for name, record in records.items() if name in present}
    )
    inventory_rows.insert_records(
        tx, [(provider.id, class_id, records[name]) for name, class_id in class_ids.items()]
    )
    return _bumped(tx, provider)


def _remove_others(
    tx: Transaction,
    provider: LockedProvider,
    present: Mapping[str, InventoryRow],
    records: Mapping[str, Record],
) -> None:
    """Delete the records whose class is not among ``records``, unless one is in use."""
    removed = [row for name, row in present.items() if name not in records]
    if not removed:
        return
    kept = [row.class_id for name, row in present.items() if name in records]
    in_use = inventory_rows.classes_in_use(tx, provider.id, kept)
    if in_use:
        raise RecordsInUse(names=", ".join(in_use), provider_uuid=provider.uuid)
    inventory_rows.delete_records(tx, [row.id for row in removed])


def add(
    db: Database, provider_uuid: str, class_name: str, record: Record, *, may_be_full: bool
) -> int:
    """Add the record of a class to a provider and return the provider's generation after.

    :param may_be_full: the record may leave nothing to allocate (from 1.26 on).
    :raises resource_provider.ProviderNotFound:
    :raises InvalidCapacity:
    :raises UnknownClassToCreate:
    :raises RecordExists: also after losing every race.
    """
    return db.write(
        lambda tx: _add(tx, provider_uuid, class_name, record, may_be_full),
        on_conflict=lambda: RecordExists(name=class_name, provider_uuid=provider_uuid),
    )


def _add(
    tx: Transaction, provider_uuid: str, class_name: str, record: Record, may_be_full: bool
) -> int:
    provider = resource_provider.lock_one(tx, provider_uuid)
    _check_capacity("create", provider_uuid, class_name, record, may_be_full)
    place = inventory_rows.hold_place(tx, provider.id, class_name)
    if place is None:
        raise UnknownClassToCreate(provider_uuid=provider_uuid, name=class_name)
    if place.id is not None:
        raise RecordExists(provider_uuid=provider_uuid, name=class_name)
    inventory_rows.insert_records(tx, [(provider.id, place.class_id, record)])
    return _bumped(tx, provider)


def replace(
    db: Database,
    provider_uuid: str,
    class_name: str,
    record: Record,
    *,
    generation: int,
    may_be_full: bool,
) -> int:
    """Replace the record of one class, which must be there; return the generation after.

    :raises resource_provider.ProviderNotFound:
    :raises GenerationConflict:
    :raises InvalidCapacity:
    :raises resource_class.ClassNotFound: the class does not exist at all.
    :raises NoRecordToReplace: the class exists, the record does not.
    """
    return db.write(
        lambda tx: _replace(tx, provider_uuid, class_name, record, generation, may_be_full)
    )


def _replace(
    tx: Transaction,
    provider_uuid: str,
    class_name: str,
    record: Record,
    generation: int,
    may_be_full: bool,
) -> int:
    provider = _locked_at(tx, provider_uuid, generation)
    _check_capacity("update", provider_uuid, class_name, record, may_be_full)
    place = inventory_rows.hold_place(tx, provider.id, class_name)
    if place is None:
        raise resource_class.ClassNotFound(name=class_name)
    if place.id is None:
        raise NoRecordToReplace(provider_uuid=provider_uuid, name=class_name)
    _warn_if_overused(provider_uuid, class_name, record, place.used)
    inventory_rows.update_records(tx, {place.id: record})
    return _bumped(tx, provider)


def delete_all(db: Database, provider_uuid: str) -> None:
    """Delete every record of a provider; its generation grows even if there was none.

    :raises resource_provider.ProviderNotFound:
    :raises InventoryInUse: nothing is deleted.
    """
    db.write(
        lambda tx: _delete_all(tx, provider_uuid),
        on_conflict=lambda: InventoryLost(provider_uuid=provider_uuid),
    )


def _delete_all(tx: Transaction, provider_uuid: str) -> None:
    provider = resource_provider.lock_one(tx, provider_uuid)
    in_use = inventory_rows.classes_in_use(tx, provider.id)
    if in_use:
        raise InventoryInUse(names=", ".join(in_use), provider_uuid=provider_uuid)
    inventory_rows.delete_all(tx, provider.id)
    _bumped(tx, provider)


def delete(db: Database, provider_uuid: str, class_name: str) -> None:
    """Delete the record of one class.

    :raises resource_provider.ProviderNotFound:
    :raises RecordNotFoundForDelete:
    :raises RecordInUse:
    """
    db.write(
        lambda tx: _delete(tx, provider_uuid, class_name),
        on_conflict=lambda: RecordLost(name=class_name),
    )


def _delete(tx: Transaction, provider_uuid: str, class_name: str) -> None:
    provider = resource_provider.lock_one(tx, provider_uuid)
    place = inventory_rows.hold_place(tx, provider.id, class_name)
    if place is None or place.id is None:
        raise RecordNotFoundForDelete(name=class_name)
    if place.in_use:
        raise RecordInUse(name=class_name, provider_uuid=provider_uuid)
    inventory_rows.delete_records(tx, [place.id])
    _bumped(tx, provider)


def _locked_at(tx: Transaction, provider_uuid: str, generation: int) -> LockedProvider:
    """Lock the provider whose generation the client knows."""
    provider = resource_provider.lock_one(tx, provider_uuid)
    if provider.generation != generation:
        raise GenerationConflict()
    return provider


def _bumped(tx: Transaction, provider: LockedProvider) -> int:
    provider_rows.bump(tx, [provider])
    return provider.generation + 1


def _check_capacity(
    action: str, provider_uuid: str, class_name: str, record: Record, may_be_full: bool
) -> None:
    """Apply the capacity rule, which looks at nothing but the product (contract 02 section 4.1)."""
    capacity = int((record.total - record.reserved) * record.allocation_ratio)
    if capacity > 0 or (capacity == 0 and may_be_full):
        return
    relation = "greater than" if may_be_full else "greater than or equal to"
    raise InvalidCapacity(
        action=action,
        provider_uuid=provider_uuid,
        resource_class=class_name,
        reason=f"The reserved value is {relation} total.",
    )


def _warn_if_overused(provider_uuid: str, class_name: str, record: Record, used: int) -> None:
    """Shrinking below what is used is allowed; somebody should know."""
    if used and used > (record.total - record.reserved) * record.allocation_ratio:
        LOG.warning(
            "Resource provider %s is now over-capacity for %s: %s used",
            provider_uuid,
            class_name,
            used,
        )

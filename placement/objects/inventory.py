"""Inventory records: how much of a class a provider has (specification 02 section 4)."""

import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from placement import errors
from placement.db import allocation_rows, class_rows, inventory_rows, writes
from placement.db.change import Change
from placement.db.database import Database, Transaction
from placement.db.inventory_rows import InventoryRow, ProviderInventory, ShownRecord
from placement.db.provider_rows import LockedProvider
from placement.inventory_record import InventoryRecord
from placement.objects import resource_class, resource_provider

LOG = logging.getLogger(__name__)

CLASS_NAME = re.compile(r"[A-Z0-9_]+\Z")

IN_USE_CODE = "placement.inventory.inuse"

UPDATE_CONFLICT = "update conflict: "
UNKNOWN_CLASS = "Unknown resource class in inventory"


class InvalidCapacity(errors.BadRequest):
    """The capacity of the record is not positive. ``action``: create or update."""

    reason = "invalid_amount"
    about = "resource_class"
    text = (
        "Unable to {action} inventory for resource provider {provider_uuid}: Invalid inventory for "
        "'{resource_class}' on resource provider '{provider_uuid}'. {cause}"
    )
    action: str
    provider_uuid: str
    resource_class: str
    cause: str


class InventoryClassMissing(errors.BadRequest):
    """The class of a record to write does not exist. ``action``: the words for what could not be done."""

    reason = "unknown_resource_class"
    about = "name"
    text = "{action} for resource provider {provider_uuid}: No such resource class {name}."
    action: str
    provider_uuid: str
    name: str


class NoRecordToReplace(errors.BadRequest):
    """The class exists, but the provider does not have a record of it."""

    reason = "unknown_inventory"
    about = "name"
    text = (
        "No inventory record with resource class for resource provider {provider_uuid}: "
        "No inventory of class {name} found"
    )
    provider_uuid: str
    name: str


class RecordNotFound(errors.NotFound):
    """The provider does not have a record of the class, which may not even exist."""

    text = "No inventory of class {name} {purpose}"
    name: str
    purpose: str


class RecordExists(errors.ConcurrentUpdate):
    """The provider has a record of the class to add."""

    reason = "inventory_exists"
    retry = errors.Retry.NEVER
    text = (
        "Update conflict: Inventory of class {name} exists already on resource provider "
        "{provider_uuid}."
    )
    name: str
    provider_uuid: str


class GenerationConflict(errors.ConcurrentUpdate):
    """The provider changed since the client read its inventory."""

    reason = "provider_generation"
    retry = errors.Retry.AFTER_READING
    text = "resource provider generation conflict"


class InventoryInUse(errors.Conflict):
    """The request would delete records with allocations, by name, with all others or by omission."""

    reason = "inventory_in_use"
    of_consumers = True
    code = IN_USE_CODE
    text = "{cause}Inventory for '{names}' on resource provider '{provider_uuid}' in use."
    cause: str
    names: str
    provider_uuid: str


class RecordInUse(errors.ConcurrentUpdate):
    """The request would delete a record with allocations. Its code differs from the others' and is frozen."""

    reason = "inventory_in_use"
    of_consumers = True
    retry = errors.Retry.NEVER
    text = (
        "Unable to delete inventory of class {name}: "
        "Inventory for '{name}' on resource provider '{provider_uuid}' in use."
    )
    name: str
    provider_uuid: str


class InventoryLost(errors.ConcurrentUpdate):
    """Other requests kept changing the provider whose inventory was to be deleted."""

    text = "Unable to delete inventory for resource provider {provider_uuid}, please try again."
    provider_uuid: str


class RecordLost(errors.ConcurrentUpdate):
    """Other requests kept changing the provider whose record was to be deleted."""

    text = "Unable to delete inventory of class {name}: the provider changed, please try again."
    name: str


def record_from(values: Mapping[str, Any]) -> InventoryRecord:
    """Return the record of valid JSON: defaults are filled in, and ``10.0`` becomes 10."""
    given: dict[str, Any] = {
        name: (float if name == "allocation_ratio" else int)(values[name])
        for name in InventoryRecord._fields
        if name in values
    }
    return InventoryRecord(**given)


def records_from(given: Mapping[str, Any]) -> dict[str, InventoryRecord]:
    """Return the records of valid JSON by class name.

    A key that cannot be a class gets an arbitrary record, because the request is refused.
    """
    return {
        name: record_from(values if CLASS_NAME.match(name) else {"total": 1})
        for name, values in given.items()
    }


def of_provider(db: Database, provider_uuid: str) -> ProviderInventory:
    """Return the records of a provider in the order of their classes.

    :raises resource_provider.ProviderNotFound:
    """
    return resource_provider.read_of(db, provider_uuid, inventory_rows.of_provider)


def show(db: Database, provider_uuid: str, class_name: str) -> tuple[int, ShownRecord]:
    """Return the provider's generation and its record of a class.

    :raises resource_provider.ProviderNotFound:
    :raises RecordNotFound:
    """
    record_of_class = partial(inventory_rows.of_provider, class_name=class_name)
    inventory = resource_provider.read_of(db, provider_uuid, record_of_class)
    if not inventory.records:
        raise RecordNotFound(name=class_name, purpose=f"for {provider_uuid}")
    return inventory.generation, inventory.records[0]


def replace_all(
    db: Database,
    provider_uuid: str,
    records: Mapping[str, InventoryRecord],
    *,
    generation: int,
    may_be_full: bool,
) -> int:
    """Make ``records`` (by class name) the inventory of a provider; return its generation after.

    :param generation: the generation that the client has read.
    :param may_be_full: a record may leave nothing to allocate (from 1.26 on).
    :raises resource_provider.ProviderNotFound:
    :raises GenerationConflict:
    :raises InvalidCapacity:
    :raises InventoryClassMissing:
    :raises InventoryInUse: a record to remove has allocations.
    """

    def work(tx: Transaction) -> int:
        # The generation is checked before the records, so that an outdated client learns that first.
        provider = resource_provider.lock_one(tx, provider_uuid, generation, GenerationConflict)
        for name, record in records.items():
            check_capacity("update", provider_uuid, name, record, may_be_full)
        rows = inventory_rows.lock_of(tx, [provider.id])
        present = {row.class_name: row for row in rows if row.class_name}
        # The classes are locked: otherwise a class whose last record is being added could be deleted
        # meanwhile.
        class_ids = class_rows.lock(tx, records.keys() - present.keys())
        unknown = sorted(records.keys() - present.keys() - class_ids.keys())
        if unknown:
            raise InventoryClassMissing(
                action=UNKNOWN_CLASS, provider_uuid=provider_uuid, name=unknown[0]
            )
        _remove_others(tx, provider, present, records)
        changed = {row.id: records[name] for name, row in present.items() if name in records}
        for name in records.keys() & present.keys():
            _warn_if_overused(provider_uuid, name, records[name], present[name].used)
        inventory_rows.update_records(tx, changed)
        _add(tx, provider, {class_id: records[name] for name, class_id in class_ids.items()})
        return _step(tx, provider)

    return db.write(work)


def _add(tx: Transaction, provider: LockedProvider, records: Mapping[int, InventoryRecord]) -> None:
    """Insert the records by class id, with the ledger's usage of each class."""
    if records:
        used = allocation_rows.sums(tx, [provider.id])
        added = [(provider.id, class_id, record) for class_id, record in records.items()]
        inventory_rows.insert_records(tx, added, used)


def _remove_others(
    tx: Transaction,
    provider: LockedProvider,
    present: Mapping[str, InventoryRow],
    records: Mapping[str, InventoryRecord],
) -> None:
    """Delete the records whose class is not among ``records``, unless one is in use."""
    removed = [row for name, row in present.items() if name not in records]
    if not removed:
        return
    kept = [row.class_id for name, row in present.items() if name in records]
    in_use = inventory_rows.classes_in_use(tx, provider.id, kept)
    if in_use:
        raise InventoryInUse(
            cause=UPDATE_CONFLICT, names=", ".join(in_use), provider_uuid=provider.uuid
        )
    inventory_rows.delete_records(tx, [row.id for row in removed])


def add(
    db: Database, provider_uuid: str, class_name: str, record: InventoryRecord, *, may_be_full: bool
) -> int:
    """Add the record of a class to a provider and return the provider's generation after.

    :param may_be_full: the record may leave nothing to allocate (from 1.26 on).
    :raises resource_provider.ProviderNotFound:
    :raises InvalidCapacity:
    :raises InventoryClassMissing:
    :raises RecordExists: also after losing every race.
    """
    exists = partial(RecordExists, name=class_name, provider_uuid=provider_uuid)

    def work(tx: Transaction) -> int:
        provider = resource_provider.lock_one(tx, provider_uuid)
        check_capacity("create", provider_uuid, class_name, record, may_be_full)
        held = inventory_rows.hold_record(tx, provider.id, class_name)
        if held is None:
            raise InventoryClassMissing(
                action="Unable to create inventory", provider_uuid=provider_uuid, name=class_name
            )
        if held.id is not None:
            raise exists()
        _add(tx, provider, {held.class_id: record})
        return _step(tx, provider)

    return db.write(work, on_conflict=exists)


def replace(
    db: Database,
    provider_uuid: str,
    class_name: str,
    record: InventoryRecord,
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

    def work(tx: Transaction) -> int:
        provider = resource_provider.lock_one(tx, provider_uuid, generation, GenerationConflict)
        check_capacity("update", provider_uuid, class_name, record, may_be_full)
        held = inventory_rows.hold_record(tx, provider.id, class_name)
        if held is None:
            raise resource_class.ClassNotFound(name=class_name)
        if held.id is None:
            raise NoRecordToReplace(provider_uuid=provider_uuid, name=class_name)
        _warn_if_overused(provider_uuid, class_name, record, held.used)
        inventory_rows.update_records(tx, {held.id: record})
        return _step(tx, provider)

    return db.write(work)


def delete_all(db: Database, provider_uuid: str) -> None:
    """Delete every record of a provider; its generation is stepped even without any record.

    :raises resource_provider.ProviderNotFound:
    :raises InventoryInUse: nothing is deleted.
    """

    def work(tx: Transaction) -> None:
        provider = resource_provider.lock_one(tx, provider_uuid)
        in_use = inventory_rows.classes_in_use(tx, provider.id)
        if in_use:
            raise InventoryInUse(cause="", names=", ".join(in_use), provider_uuid=provider_uuid)
        inventory_rows.delete_all(tx, provider.id)
        _step(tx, provider)

    db.write(work, on_conflict=partial(InventoryLost, provider_uuid=provider_uuid))


def delete(db: Database, provider_uuid: str, class_name: str) -> None:
    """Delete the record of one class.

    :raises resource_provider.ProviderNotFound:
    :raises RecordNotFound:
    :raises RecordInUse:
    """

    def work(tx: Transaction) -> None:
        provider = resource_provider.lock_one(tx, provider_uuid)
        held = inventory_rows.hold_record(tx, provider.id, class_name)
        if held is None or held.id is None:
            raise RecordNotFound(name=class_name, purpose="found for delete")
        if held.in_use:
            raise RecordInUse(name=class_name, provider_uuid=provider_uuid)
        inventory_rows.delete_records(tx, [held.id])
        _step(tx, provider)

    db.write(work, on_conflict=partial(RecordLost, name=class_name))


def _step(tx: Transaction, provider: LockedProvider) -> int:
    writes.finish(tx, Change(stepped={1: [provider.as_read]}))
    return provider.generation + 1


def check_capacity(
    action: str, provider_uuid: str, class_name: str, record: InventoryRecord, may_be_full: bool
) -> None:
    """Apply the capacity rule, which checks only the product (specification 02 section 4.1)."""
    # The capacity is rounded down: half a unit cannot be allocated.
    capacity = int(record.capacity)
    if capacity > 0 or (capacity == 0 and may_be_full):
        return
    relation = "greater than" if may_be_full else "greater than or equal to"
    raise InvalidCapacity(
        action=action,
        provider_uuid=provider_uuid,
        resource_class=class_name,
        cause=f"The reserved value is {relation} total.",
    )


def _warn_if_overused(
    provider_uuid: str, class_name: str, record: InventoryRecord, used: int
) -> None:
    """Warn in the log if an inventory shrinks below its usage, which is allowed."""
    if used and used > record.capacity:
        LOG.warning(
            "Resource provider %s is now over-capacity for %s: %s used",
            provider_uuid,
            class_name,
            used,
        )

"""Statements on ``inventories``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import os_resource_classes
from sqlalchemy import ColumnElement, Integer, bindparam, delete, func, select, update

from placement.db import counters, models, statements
from placement.db.database import Access, Transaction, stale_if_refused
from placement.db.statements import CompiledStatement, ratio_of
from placement.inventory_record import InventoryRecord

_inventories = models.inventories
_used = _inventories.c.used

_classes = models.resource_classes
_providers = models.resource_providers
_allocations = models.allocations


RECORD = tuple(
    ratio_of(_inventories).label(name) if name == "allocation_ratio" else _inventories.c[name]
    for name in InventoryRecord._fields
)
"""The columns of a record, in the order of its fields."""

AMOUNTS = (*RECORD, _used)
"""The amounts of an inventory, and its usage."""

SEEN_AMOUNTS = (*RECORD, counters.USED)
"""The same for reads without a lock; the usage is right even if the counter is not."""


class ShownRecord(NamedTuple):
    """A record as the API shows it.

    ``modified_at``: the time of the last update or the creation, in UTC; None if never recorded.
    """

    class_name: str
    record: InventoryRecord
    used: int
    modified_at: datetime | None


class ProviderInventory(NamedTuple):
    """The inventory of one provider, by class id, and the provider's generation."""

    generation: int
    records: list[ShownRecord]


# MariaDB would also lock joined rows of the classes, and all claims would wait for them; so this is a
# subquery.
_CLASS_NAME = (
    select(_classes.c.name)
    .where(_classes.c.id == _inventories.c.resource_class_id)
    .scalar_subquery()
    .label("class_name")
)


@dataclass(frozen=True, slots=True)
class InventoryRow:
    """One inventory record with the name of its class and the usage counter."""

    id: int
    provider_id: int
    class_id: int
    class_name: str
    record: InventoryRecord
    used: int

    @classmethod
    def from_values(
        cls, id_: int, provider_id: int, class_id: int, class_name: str, amounts: Sequence[Any]
    ) -> InventoryRow:
        """Return the row with these values of ``AMOUNTS``."""
        *record, used = amounts
        return cls(id_, provider_id, class_id, class_name, InventoryRecord._make(record), used)


def lock_of(tx: Transaction, provider_ids: Collection[int]) -> list[InventoryRow]:
    """Return the inventory records of the providers, which the caller has locked. One statement.

    A locking read shows the newest rows at every isolation level. The name of a class that no longer exists
    is empty.
    """
    if not provider_ids:
        return []
    rows = tx.rows(_LOCK_OF, {"provider": sorted(provider_ids)})
    return [InventoryRow.from_values(row[0], row[1], row[2], row[3] or "", row[4:]) for row in rows]


_LOCK_OF = CompiledStatement(
    select(
        _inventories.c.id,
        _inventories.c.resource_provider_id,
        _inventories.c.resource_class_id,
        _CLASS_NAME,
        *AMOUNTS,
    )
    .where(statements.is_among(_inventories.c.resource_provider_id, "provider"))
    .order_by(_inventories.c.id)
    .with_for_update(),
    "provider",
)


def of_provider(
    access: Access, provider_uuid: str, class_name: str | None = None
) -> ProviderInventory | None:
    """Return the inventory of a provider, or only its record of one class. One statement.

    None if the provider does not exist.
    """
    given = {"uuid": provider_uuid}
    if class_name is not None:
        given["class"] = class_name
    rows = access.rows(_compile_listing(class_name is not None), given)
    if not rows:
        return None
    records = [
        ShownRecord(row[1], InventoryRecord._make(row[4:]), int(row[2]), row[3])
        for row in rows
        if row[1] is not None
    ]
    return ProviderInventory(rows[0][0], records)


@cache
def _compile_listing(of_class: bool) -> CompiledStatement:
    own: ColumnElement[bool] = _inventories.c.resource_provider_id == _providers.c.id
    if of_class:
        class_id = select(_classes.c.id).where(_classes.c.name == bindparam("class"))
        own = own & (_inventories.c.resource_class_id == class_id.scalar_subquery())
    return CompiledStatement(
        select(
            func.coalesce(_providers.c.generation, 0),
            _classes.c.name,
            counters.USED,
            func.coalesce(_inventories.c.updated_at, _inventories.c.created_at),
            *RECORD,
        )
        # The joins are not nested: SQLite would compute the inner join over all providers first.
        .select_from(
            _providers.outerjoin(_inventories, own).outerjoin(
                _classes, _classes.c.id == _inventories.c.resource_class_id
            )
        )
        .where(_providers.c.uuid == bindparam("uuid"))
        .order_by(_classes.c.id)
    )


class HeldRecord(NamedTuple):
    """The record of one class that a locked provider has; ``id`` is None if it has none."""

    class_id: int
    id: int | None
    used: int
    in_use: bool


def hold_record(tx: Transaction, provider_id: int, class_name: str) -> HeldRecord | None:
    """Return the record of a class that a locked provider has; None if the class does not exist.

    The class cannot be deleted until the end of the transaction. One statement.
    """
    goes = os_resource_classes.is_custom(class_name)
    rows = tx.rows(_compile_hold(goes), {"provider": provider_id, "class": class_name})
    return HeldRecord(rows[0][0], rows[0][1], int(rows[0][2]), bool(rows[0][3])) if rows else None


@cache
def _compile_hold(goes: bool) -> CompiledStatement:
    provider_id: ColumnElement[int] = bindparam("provider", type_=Integer)
    statement = (
        select(
            _classes.c.id,
            _inventories.c.id,
            func.coalesce(_inventories.c.used, 0),
            _has_allocations(provider_id, _classes.c.id),
        )
        .outerjoin(
            _inventories,
            (_inventories.c.resource_class_id == _classes.c.id)
            & (_inventories.c.resource_provider_id == provider_id),
        )
        .where(_classes.c.name == bindparam("class"))
    )
    if goes:
        statement = statement.with_for_update(read=True, of=_classes)
    return CompiledStatement(statement)


def _has_allocations(
    provider_id: ColumnElement[int], class_id: ColumnElement[int]
) -> ColumnElement[bool]:
    """Return whether the record is in use, which means it has allocations (specification 02 section 4.1)."""
    return (
        select(_allocations.c.id)
        .where(
            _allocations.c.resource_provider_id == provider_id,
            _allocations.c.resource_class_id == class_id,
        )
        .exists()
    )


def classes_in_use(tx: Transaction, provider_id: int, kept: Collection[int] = ()) -> list[str]:
    """Return the classes of a locked provider, except ``kept``, whose records are in use.

    The order is that of specification 02 section 4.4. One statement.
    """
    given: dict[str, Any] = {"provider": provider_id}
    if kept:
        given["kept"] = sorted(kept)
    return tx.column(_compile_classes_in_use(bool(kept)), given)


@cache
def _compile_classes_in_use(but_kept: bool) -> CompiledStatement:
    provider_id: ColumnElement[int] = bindparam("provider", type_=Integer)
    statement = (
        select(_classes.c.name)
        .join(_inventories, _inventories.c.resource_class_id == _classes.c.id)
        .where(
            _inventories.c.resource_provider_id == provider_id,
            _has_allocations(provider_id, _classes.c.id),
        )
        .order_by(_classes.c.id)
    )
    if but_kept:
        statement = statement.where(~statements.is_among(_classes.c.id, "kept"))
    return CompiledStatement(statement)


def insert_records(
    tx: Transaction,
    records: Sequence[tuple[int, int, InventoryRecord]],
    used: Mapping[tuple[int, int], int],
) -> None:
    """Insert records of locked providers, as (provider id, class id, record). One statement, or none.

    :param used: the usage by the ledger, by provider id and class id; zeros can be missing. Older software
        could leave allocations without an inventory.
    :raises StaleRead: the provider has a record of the class, or the class no longer exists.
    """
    created_at = models.now()
    rows: list[dict[str, Any]] = [
        {
            "resource_provider_id": provider_id,
            "resource_class_id": class_id,
            "used": used.get((provider_id, class_id), 0),
            "created_at": created_at,
            **record._asdict(),
        }
        for provider_id, class_id, record in records
    ]
    with stale_if_refused("the class is gone, or a record of it was added"):
        tx.insert(_inventories, rows)


def update_records(tx: Transaction, record_by_id: Mapping[int, InventoryRecord]) -> None:
    """Replace the amounts of records of locked providers; ``used`` stays. One statement."""
    for batch in statements.batches(sorted(record_by_id.items())):
        values: dict[str, Any] = {
            name: statements.value_of(
                _inventories.c.id, {key: record[index] for key, record in batch}
            )
            for index, name in enumerate(InventoryRecord._fields)
        }
        tx.change(
            update(_inventories)
            .where(statements.is_one_of(_inventories.c.id, [key for key, _ in batch]))
            .values(updated_at=models.now(), **values)
        )


def delete_records(tx: Transaction, ids: Collection[int]) -> None:
    """Delete records of locked providers. One statement."""
    if ids:
        tx.change(_DELETE, {"ids": sorted(ids)})


def delete_all(tx: Transaction, provider_id: int) -> None:
    """Delete every record of a locked provider. One statement."""
    tx.change(_DELETE_ALL, {"provider": provider_id})


_DELETE = CompiledStatement(
    delete(_inventories).where(statements.is_among(_inventories.c.id, "ids"))
)
_DELETE_ALL = CompiledStatement(
    delete(_inventories).where(_inventories.c.resource_provider_id == bindparam("provider"))
)

"""Statements on ``inventories``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    Update,
    case,
    delete,
    exc,
    func,
    insert,
    select,
    update,
)

from placement.db import in_list, models
from placement.db.api import StaleRead, Transaction

_inventories = models.inventories
_used = _inventories.c.used

AMOUNTS = (
    _inventories.c.total,
    _inventories.c.reserved,
    _inventories.c.min_unit,
    _inventories.c.max_unit,
    _inventories.c.step_size,
    _inventories.c.allocation_ratio,
    _inventories.c.used,
)
"""What an inventory offers and what is used of it, in the order of ``InventoryRow``."""
_classes = models.resource_classes
_providers = models.resource_providers
_allocations = models.allocations


class Record(NamedTuple):
    """What a client sets of an inventory record (contract 02 section 4.1)."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


class ShownRecord(NamedTuple):
    """A record as the API shows it.

    ``modified_at``: last update, or creation; UTC; None if never recorded.
    """

    class_name: str
    record: Record
    used: int
    modified_at: datetime | None


class ProviderInventory(NamedTuple):
    """The inventory of one provider, by class id, and the provider's generation."""

    generation: int
    records: list[ShownRecord]


# A subquery and not a join: MariaDB would lock the joined rows of the classes too, and every claim
# of the cloud would wait for every other.
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
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float
    used: int

    @property
    def capacity(self) -> float:
        """What may be used of this record, not rounded (contract 03 section 8)."""
        return (self.total - self.reserved) * self.allocation_ratio


def lock_of(tx: Transaction, provider_ids: Collection[int]) -> list[InventoryRow]:
    """Return the inventory records of the providers, which the caller has locked.

    A locking read, so that it shows the newest rows at every isolation level. One statement.
    """
    if not provider_ids:
        return []
    size = in_list.size_for(len(provider_ids))
    rows = tx.execute(_lock_of(size), in_list.bound("provider", sorted(provider_ids), size))
    return [InventoryRow(*row) for row in rows]


@cache
def _lock_of(size: int) -> Select[*tuple[Any, ...]]:
    return (
        select(
            _inventories.c.id,
            _inventories.c.resource_provider_id,
            _inventories.c.resource_class_id,
            _CLASS_NAME,
            *AMOUNTS,
        )
        .where(in_list.is_among(_inventories.c.resource_provider_id, "provider", size))
        .order_by(_inventories.c.id)
        .with_for_update()
    )


def move_used(tx: Transaction, change_by_id: Mapping[int, int]) -> None:
    """Add to the usage counters of inventory records, whatever their number. One statement."""
    changes = sorted((key, change) for key, change in change_by_id.items() if change)
    for part in in_list.batches(changes):
        tx.execute(*moving(part))


def moving(changes: Sequence[tuple[int, int]]) -> tuple[Update, dict[str, Any]]:
    """Return the statement of :func:`move_used` and its parameters.

    :param changes: by how much, by record id.
    """
    size = in_list.size_for(len(changes))
    parameters = in_list.bound("key", [key for key, _ in changes], size)
    if size == in_list.ANY_SIZE:
        return _move_used(size, case(dict(changes), value=_inventories.c.id)), parameters
    return _move_used_of(size), parameters | in_list.bound("by", [by for _, by in changes], size)


_UPDATE = update(_inventories)


@cache
def _move_used_of(size: int) -> Update:
    return _move_used(size, in_list.by_key(_inventories.c.id, _used, "key", "by", size))


def _move_used(size: int, by: ColumnElement[int], updated: Update = _UPDATE) -> Update:
    return updated.where(in_list.is_among(_inventories.c.id, "key", size)).values(
        # The record as the API shows it did not change: its modified time stays.
        {_used: _used + by, _inventories.c.updated_at: _inventories.c.updated_at}
    )


def moving_with(
    providers: tuple[Update, dict[str, Any]], changes: Sequence[tuple[int, int]]
) -> tuple[Update, dict[str, Any]]:
    """Return one statement for an update of providers and for :func:`moving` records of theirs.

    For MySQL and MariaDB, with at most as many changes as have a ready text. It finds no provider
    without one of the records and no record of another provider, and counts the rows of both.
    """
    statement, parameters = providers
    size = in_list.size_for(len(changes))
    return _move_used_with(statement, size), parameters | moving(changes)[1]


@lru_cache(maxsize=256)
def _move_used_with(providers: Update, size: int) -> Update:
    by = in_list.by_key(_inventories.c.id, _used, "key", "by", size)
    own = _inventories.c.resource_provider_id == _providers.c.id
    return _move_used(size, by, providers.where(own))


_record_columns = tuple(_inventories.c[name] for name in Record._fields)


def of_provider(
    tx: Transaction, provider_uuid: str, class_name: str | None = None
) -> ProviderInventory | None:
    """Return the inventory of a provider, None if there is no such provider. One statement.

    :param class_name: only the record of this class.
    """
    own: ColumnElement[bool] = _inventories.c.resource_provider_id == _providers.c.id
    if class_name is not None:
        class_id = select(_classes.c.id).where(_classes.c.name == class_name).scalar_subquery()
        own = own & (_inventories.c.resource_class_id == class_id)
    rows = tx.execute(
        select(
            _providers.c.generation,
            _classes.c.name,
            _inventories.c.used,
            func.coalesce(_inventories.c.updated_at, _inventories.c.created_at),
            *_record_columns,
        )
        # Not joined in brackets: SQLite would build the inner join over all providers first.
        .select_from(
            _providers.outerjoin(_inventories, own).outerjoin(
                _classes, _classes.c.id == _inventories.c.resource_class_id
            )
        )
        .where(_providers.c.uuid == provider_uuid)
        .order_by(_classes.c.id)
    ).all()
    if not rows:
        return None
    records = [
        ShownRecord(row[1], Record._make(row[4:]), int(row[2]), row[3])
        for row in rows
        if row[1] is not None
    ]
    return ProviderInventory(rows[0][0], records)


class Place(NamedTuple):
    """Where one record of a provider is, or would be.

    ``id`` is None if the provider has no record of the class.
    """

    class_id: int
    id: int | None
    used: int
    in_use: bool


def hold_place(tx: Transaction, provider_id: int, class_name: str) -> Place | None:
    """Return where a locked provider's record of a class is; None if there is no such class.

    The class is kept from going until the end of the transaction. One statement.
    """
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
        .where(_classes.c.name == class_name)
    )
    if class_name.startswith("CUSTOM_"):
        statement = statement.with_for_update(read=True, of=_classes)
    row = tx.execute(statement).one_or_none()
    return None if row is None else Place(row[0], row[1], int(row[2]), bool(row[3]))


def _has_allocations(provider_id: int, class_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Some allocation of the class exists: what makes a record be in use (contract 02 4.1)."""
    return (
        select(_allocations.c.id)
        .where(
            _allocations.c.resource_provider_id == provider_id,
            _allocations.c.resource_class_id == class_id,
        )
        .exists()
    )


def classes_in_use(tx: Transaction, provider_id: int, kept: Collection[int] = ()) -> list[str]:
    """Return the classes, other than ``kept``, whose records of a locked provider are in use.

    In the order of their ids, which is that of contract 02 section 4.4. One statement.
    """
    return list(
        tx.scalars(
            select(_classes.c.name)
            .join(_inventories, _inventories.c.resource_class_id == _classes.c.id)
            .where(
                _inventories.c.resource_provider_id == provider_id,
                _classes.c.id.not_in(sorted(kept)),
                _has_allocations(provider_id, _classes.c.id),
            )
            .order_by(_classes.c.id)
        )
    )


def insert_records(
    tx: Transaction,
    records: Iterable[tuple[int, int, Record]],
    used: Mapping[tuple[int, int], int] = MappingProxyType({}),
) -> None:
    """Insert records of locked providers as (provider id, class id, record). One statement.

    :param used: the usage to begin with, by provider id and class id, where it is not 0.
    :raises StaleRead: the provider has a record of the class.
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
    try:
        for batch in in_list.batches(rows):
            tx.execute(insert(_inventories).values(batch))
    except exc.IntegrityError as taken:
        raise StaleRead("an inventory record of the class was added") from taken


def update_records(tx: Transaction, record_by_id: Mapping[int, Record]) -> None:
    """Replace what clients set of records of locked providers; ``used`` stays. One statement."""
    for batch in in_list.batches(sorted(record_by_id.items())):
        values: dict[str, Any] = {
            name: _by_id({key: record[index] for key, record in batch})
            for index, name in enumerate(Record._fields)
        }
        tx.execute(
            update(_inventories)
            .where(_inventories.c.id.in_([key for key, _ in batch]))
            .values(updated_at=models.now(), **values)
        )


def _by_id(value_by_id: Mapping[int, float]) -> Any:
    """A value for each record, written once where all of them get the same."""
    values = list(value_by_id.values())
    if values.count(values[0]) == len(values):
        return values[0]
    return case(value_by_id, value=_inventories.c.id)


def delete_records(tx: Transaction, ids: Collection[int]) -> None:
    """Delete records of locked providers. One statement."""
    if ids:
        tx.execute(delete(_inventories).where(_inventories.c.id.in_(sorted(ids))))


def delete_all(tx: Transaction, provider_id: int) -> None:
    """Delete every record of a locked provider. One statement."""
    tx.execute(delete(_inventories).where(_inventories.c.resource_provider_id == provider_id))

"""The reads of a ledger change: the rows that it names, and the places that it changes.

The names take seven small index look-ups in one statement. The statement has one snapshot, so a consumer's
generation and its allocations belong together. Providers and their inventories are locked when they are read.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, reduce
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    String,
    cast,
    func,
    literal,
    literal_column,
    select,
    union_all,
)

from placement import telemetry
from placement.db import counters, dialects, inventory_rows, models, provider_rows, statements
from placement.db.database import Access, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.provider_rows import LockedProvider
from placement.db.statements import CompiledStatement
from placement.inventory_record import InventoryRecord

_consumers = models.consumers
_allocations = models.allocations
_providers = models.resource_providers
_classes = models.resource_classes
_inventories = models.inventories
_nothing: ColumnElement[int] = literal_column("0", Integer)


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a consumer and its type, by the ids of the three records."""

    project_id: int
    user_id: int
    type_id: int | None


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer record as it was read."""

    id: int
    uuid: str
    generation: int
    owner: Owner


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """One allocation as it was read."""

    id: int
    consumer_uuid: str
    provider_id: int
    class_id: int
    used: int


@dataclass(slots=True)
class Reading:
    """The rows that were found under the names: ids by name, and the rows of the consumers.

    ``provider_generations`` is by provider uuid. ``stock``, on request: the inventory records of a provider
    with right counters, without the names of their classes, and with ratios that may have lost digits. Names
    that do not exist are missing. ``unseen``: consumers with allocations that no listing shows, as far as
    :func:`find_shown` was called.
    """

    projects: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    providers: dict[str, int] = field(default_factory=dict)
    provider_generations: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, ConsumerRow] = field(default_factory=dict)
    allocations: dict[str, list[AllocationRow]] = field(default_factory=dict)
    stock: list[InventoryRow] = field(default_factory=list)
    unseen: set[str] = field(default_factory=set)


Branch = tuple[Select[Any], ColumnElement[str]]
"""A look-up without its condition, and the column for the condition."""


class _Kind(IntEnum):
    """The kinds of rows in one reading; the first column has the kind."""

    PROJECT = 0
    USER = 1
    TYPE = 2
    CLASS = 3
    PROVIDER = 4
    CONSUMER = 5
    ALLOCATION = 6
    STOCK = 7


def _pad(kind: _Kind, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return a look-up with its kind, and as many columns as the widest has."""
    # The padding is 0, not NULL, here and for missing values: PostgreSQL types a bare NULL in a UNION as
    # text, which does not match an integer (its manual: UNION, CASE, and Related Constructs).
    padding = [_nothing] * (6 - len(columns))
    return select(literal_column(str(kind.value), Integer), *columns, *padding)


def _select_names(kind: _Kind, table: Any, name: ColumnElement[str]) -> tuple[Branch]:
    return ((_pad(kind, table.c.id, name), name),)


_PROVIDER = _pad(
    _Kind.PROVIDER, _providers.c.id, _providers.c.uuid, func.coalesce(_providers.c.generation, 0)
)
_CONSUMER = _pad(
    _Kind.CONSUMER,
    _consumers.c.id,
    _consumers.c.uuid,
    _consumers.c.generation,
    _consumers.c.project_id,
    _consumers.c.user_id,
    func.coalesce(_consumers.c.consumer_type_id, 0),
)
_ALLOCATION = _pad(
    _Kind.ALLOCATION,
    _allocations.c.id,
    _allocations.c.consumer_id,
    _allocations.c.resource_provider_id,
    _allocations.c.resource_class_id,
    _allocations.c.used,
)
_BRANCHES: Mapping[str, tuple[Branch, ...]] = {
    "projects": _select_names(_Kind.PROJECT, models.projects, models.projects.c.external_id),
    "users": _select_names(_Kind.USER, models.users, models.users.c.external_id),
    "types": _select_names(_Kind.TYPE, models.consumer_types, models.consumer_types.c.name),
    "classes": _select_names(_Kind.CLASS, _classes, _classes.c.name),
    "providers": ((_PROVIDER, _providers.c.uuid),),
    "consumers": ((_CONSUMER, _consumers.c.uuid), (_ALLOCATION, _allocations.c.consumer_id)),
}


# SQLite stores any value in a column of whole numbers.
_WHOLE = {"sqlite": "CAST({} AS INTEGER)", "postgresql": "{}", "mysql": "{}"}


def _as_text(amount: ColumnElement[Any]) -> ColumnElement[str]:
    whole = dialects.DialectText(_WHOLE, amount) if isinstance(amount.type, Integer) else amount
    return cast(whole, String(30))


# The record is a text, so that the other look-ups need no further columns. Fractions can lose digits in it.
_RECORD = reduce(
    operator.add,
    [part for each in inventory_rows.AMOUNTS for part in (literal(" "), _as_text(each))],
)
_STOCK = _pad(
    _Kind.STOCK,
    _inventories.c.id,
    cast(_RECORD, String(255)),
    _inventories.c.resource_provider_id,
    _inventories.c.resource_class_id,
).where(
    # A subquery, not a join: a join doubles the cost of this look-up on PostgreSQL.
    _inventories.c.resource_provider_id
    == select(_providers.c.id)
    .where(statements.is_among(_providers.c.uuid, "providers"), counters.ARE_RIGHT)
    .scalar_subquery()
)


@cache
def _compile_reading(with_stock: bool, *parts: str) -> CompiledStatement:
    branches = [
        branch.where(statements.is_among(name, part))
        for part in parts
        for branch, name in _BRANCHES[part]
    ]
    if with_stock:
        branches.append(_STOCK)
    return CompiledStatement(union_all(*branches), *parts)


def read(
    tx: Access, names: Mapping[str, Collection[str]], *, with_stock: bool = False
) -> Reading:
    """Return the rows that exist under the names, without locks.

    One statement, or one per thousand names of a kind; a consumer's generation and its allocations always
    belong together.

    :param names: lists under ``projects``, ``users`` (external ids), ``types``, ``classes`` (names),
        ``providers`` and ``consumers`` (uuids); at least one of them is not empty.
    :param with_stock: also read the inventory of the one named provider.
    """
    # Each name is asked once: a name in two batches would be read twice, and its allocations would count
    # double.
    different = {part: list(dict.fromkeys(given)) for part, given in names.items()}
    found = Reading()
    for start in range(0, max(map(len, different.values())), statements.MOST):
        some = {part: given[start : start + statements.MOST] for part, given in different.items()}
        filled = {part: given for part, given in some.items() if given}
        statement = _compile_reading(with_stock and "providers" in filled, *filled)
        _sort_into(found, tx.rows(statement, filled))
    # The order of the look-ups is restored, since UNION ALL does not guarantee an order.
    for rows in found.allocations.values():
        rows.sort(key=lambda row: row.id)
    return found


def _sort_into(found: Reading, rows: Sequence[tuple[Any, ...]]) -> None:
    """Sort each row of the statement into the reading, by its kind."""
    ids_by_name = {
        _Kind.PROJECT: found.projects,
        _Kind.USER: found.users,
        _Kind.TYPE: found.types,
        _Kind.CLASS: found.classes,
        _Kind.PROVIDER: found.providers,
    }
    for kind, id_, name, *values in rows:
        if kind in ids_by_name:
            ids_by_name[kind][name] = id_
        if kind == _Kind.PROVIDER:
            found.provider_generations[name] = values[0]
        elif kind == _Kind.CONSUMER:
            generation, project_id, user_id, type_id = values
            owner = Owner(project_id, user_id, type_id or None)
            found.consumers[name] = ConsumerRow(id_, name, generation, owner)
        elif kind == _Kind.ALLOCATION:
            row = AllocationRow(id_, name, *values[:3])
            found.allocations.setdefault(name, []).append(row)
        elif kind == _Kind.STOCK:
            *record, used = name.split()
            key = (id_, values[0], values[1])
            stock = InventoryRow(*key, "", InventoryRecord.parse(record), int(used))
            found.stock.append(stock)


def find_shown(tx: Access, consumer_uuids: Collection[str]) -> set[str]:
    """Return the consumers with a visible allocation, whose references all exist. One statement."""
    return {row[0] for row in tx.rows_of_all(_SHOWN, "uuid", consumer_uuids)}


_SHOWN = CompiledStatement(
    select(_consumers.c.uuid)
    .distinct()
    .join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .join(models.projects, models.projects.c.id == _consumers.c.project_id)
    .join(models.users, models.users.c.id == _consumers.c.user_id)
    .where(statements.is_among(_consumers.c.uuid, "uuid")),
    "uuid",
)


def lock_with_inventories(
    tx: Transaction, provider_ids: Collection[int]
) -> tuple[dict[int, LockedProvider], list[InventoryRow]]:
    """Lock providers in id order together with their inventories. One statement.

    The returned rows are the newest and cannot change any more. A provider or record that is not returned can
    still exist: a provider without inventory, or, on PostgreSQL, a record that was inserted while the
    statement waited for a lock.

    :returns: the providers by id, and the records, without the names of their classes.
    """
    if not provider_ids:
        return {}, []
    # The locked rows are checked as this statement returns them: a statement that waited for a lock sees the
    # holder's commit (PostgreSQL's manual: Read Committed Isolation Level).
    providers: dict[int, LockedProvider] = {}
    records: list[InventoryRow] = []
    rows = tx.rows(_HOLD, {"key": sorted(provider_ids)})
    telemetry.note_lock()
    for row in rows:
        id_, uuid, generation, counted, record_id, class_id, *values = row
        if id_ not in providers:
            providers[id_] = LockedProvider(id_, uuid, generation, counted)
        records.append(InventoryRow.from_values(record_id, id_, class_id, "", values))
    return providers, records


_HOLD = CompiledStatement(
    select(
        *provider_rows.LOCKED,
        _inventories.c.id,
        _inventories.c.resource_class_id,
        *inventory_rows.AMOUNTS,
    )
    .join_from(_providers, _inventories, _inventories.c.resource_provider_id == _providers.c.id)
    .where(statements.is_among(_providers.c.id, "key"))
    # PostgreSQL locks in this order: it sorts before it locks, and ids never change while it waits.
    .order_by(_providers.c.id)
    .with_for_update()
    # Providers are locked first, as in every other writer: otherwise the optimizer could begin with the
    # inventories and lock them first.
    .prefix_with("STRAIGHT_JOIN", dialect="mysql")
    .prefix_with("STRAIGHT_JOIN", dialect="mariadb"),
    "key",
)

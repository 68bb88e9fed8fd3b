"""What a change of the ledger reads: all that it names, and the places that it changes.

What it names takes seven small index look-ups. They travel as one statement: they need no order among
themselves, and one statement has one snapshot, in which a consumer's generation and its allocations
belong together. The places it changes, providers with their inventories, are locked as they are read.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
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
from placement.db import coexistence_rows, dialects, in_list, inventory_rows, models
from placement.db.database import Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.provider_rows import LockedProvider
from placement.db.ready import Ready

_consumers = models.consumers
_allocations = models.allocations
_providers = models.resource_providers
_classes = models.resource_classes
_inventories = models.inventories
_nothing: ColumnElement[int] = literal_column("0", Integer)


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer record as it was read."""

    id: int
    uuid: str
    generation: int
    project_id: int
    user_id: int
    type_id: int | None


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
    """What was found under the names: ids by name, and the rows of the consumers.

    ``provider_generations`` is by provider uuid. ``stock``, if it was asked for: the inventory records of a
    provider whose counters are right, without the names of their classes and nearly as they are, since
    ratios may have lost digits. What does not exist is missing.
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


Branch = tuple[Select[Any], ColumnElement[str]]
"""A look-up without its condition, and the column that is to be among the names."""


def _names(kind: int, table: Any, name: ColumnElement[str]) -> tuple[Branch]:
    kind_of_row: ColumnElement[int] = literal_column(str(kind), Integer)
    padding = (_nothing, _nothing, _nothing, _nothing)
    return ((select(kind_of_row, table.c.id, name, *padding), name),)


_PROVIDER = select(
    literal_column("4", Integer),
    _providers.c.id,
    _providers.c.uuid,
    func.coalesce(_providers.c.generation, 0),
    _nothing,
    _nothing,
    _nothing,
)
_CONSUMER = select(
    literal_column("5", Integer),
    _consumers.c.id,
    _consumers.c.uuid,
    _consumers.c.generation,
    _consumers.c.project_id,
    _consumers.c.user_id,
    func.coalesce(_consumers.c.consumer_type_id, 0),
)
_ALLOCATION = select(
    literal_column("6", Integer),
    _allocations.c.id,
    _allocations.c.consumer_id,
    _allocations.c.resource_provider_id,
    _allocations.c.resource_class_id,
    _allocations.c.used,
    _nothing,
)
_BRANCHES: Mapping[str, tuple[Branch, ...]] = {
    "projects": _names(0, models.projects, models.projects.c.external_id),
    "users": _names(1, models.users, models.users.c.external_id),
    "types": _names(2, models.consumer_types, models.consumer_types.c.name),
    "classes": _names(3, _classes, _classes.c.name),
    "providers": ((_PROVIDER, _providers.c.uuid),),
    "consumers": ((_CONSUMER, _consumers.c.uuid), (_ALLOCATION, _allocations.c.consumer_id)),
}


# As text, so that the other look-ups need no further columns. Fractions may lose digits on the way.
_RECORD = reduce(
    operator.add,
    [part for each in inventory_rows.AMOUNTS for part in (literal(" "), cast(each, String(30)))],
)
_STOCK = select(
    literal_column("7", Integer),
    _inventories.c.id,
    cast(_RECORD, String(255)),
    _inventories.c.resource_provider_id,
    _inventories.c.resource_class_id,
    _nothing,
    _nothing,
).where(
    # Not joined: that makes this look-up twice as dear to PostgreSQL.
    _inventories.c.resource_provider_id
    == select(_providers.c.id)
    .where(in_list.is_among(_providers.c.uuid, "providers", 1), coexistence_rows.COUNTED)
    .scalar_subquery()
)


# The sizes of six lists would make many statements; those of everyday requests are few.
@lru_cache(maxsize=256)
def _statement(with_stock: bool, *sizes: tuple[str, int]) -> Ready:
    branches = [
        branch.where(in_list.is_among(name, part, size))
        for part, size in sizes
        for branch, name in _BRANCHES[part]
    ]
    if with_stock:
        branches.append(_STOCK)
    return Ready(union_all(*branches))


def read(
    tx: Transaction, names: Mapping[str, Collection[str]], *, with_stock: bool = False
) -> Reading:
    """Return what exists under the names. No locks; one statement, or one for each thousand names
    of a kind, in which a consumer's generation and its allocations still belong together.

    :param names: under ``projects``, ``users`` (external ids), ``types``, ``classes`` (names),
        ``providers`` and ``consumers`` (uuids); at least one of them is not empty.
    :param with_stock: also what the one provider has that is named.
    """
    different = {part: list(dict.fromkeys(given)) for part, given in names.items()}
    found = Reading()
    for start in range(0, max(map(len, different.values())), in_list.MOST):
        some = {part: given[start : start + in_list.MOST] for part, given in different.items()}
        filled = {part: given for part, given in some.items() if given}
        _read_into(found, tx, filled, with_stock and "providers" in filled)
    for rows in found.allocations.values():
        rows.sort(key=lambda row: row.id)
    return found


def _read_into(
    found: Reading, tx: Transaction, names: Mapping[str, Sequence[str]], with_stock: bool
) -> None:
    sizes: list[tuple[str, int]] = []
    parameters: dict[str, Any] = {}
    for part, given in names.items():
        sizes.append((part, in_list.size_for(len(given))))
        parameters |= in_list.bound(part, given, sizes[-1][1])
    by_kind = (found.projects, found.users, found.types, found.classes, found.providers)
    for kind, key, name, *values in tx.rows(_statement(with_stock, *sizes), parameters):
        if kind < 5:
            by_kind[kind][name] = key
            if kind == 4:
                found.provider_generations[name] = values[0]
        elif kind == 5:
            generation, project_id, user_id, type_id = values
            found.consumers[name] = ConsumerRow(
                key, name, generation, project_id, user_id, type_id or None
            )
        elif kind == 7:
            found.stock.append(_seen_record(key, values[0], values[1], name))
        else:
            row = AllocationRow(key, name, values[0], values[1], values[2])
            found.allocations.setdefault(name, []).append(row)


def _seen_record(id_: int, provider_id: int, class_id: int, text: str) -> InventoryRow:
    total, reserved, min_unit, max_unit, step_size, ratio, used = text.split()
    units = int(min_unit), int(max_unit), int(step_size)
    amounts = (int(total), int(reserved), *units, float(ratio), int(used))
    return InventoryRow(id_, provider_id, class_id, "", *amounts)


def hold(
    tx: Transaction, provider_ids: Collection[int]
) -> tuple[dict[int, LockedProvider], list[InventoryRow]]:
    """Lock providers in id order together with their inventories. One statement.

    What is returned is the newest there is and cannot change any more. What is not returned may
    exist all the same: a provider without inventory, or, on PostgreSQL, a record that was inserted
    while the statement waited for a lock, and so after its snapshot.

    :returns: the providers by id, and the records, without the names of their classes.
    """
    if not provider_ids:
        return {}, []
    size = in_list.size_for(len(provider_ids))
    providers: dict[int, LockedProvider] = {}
    records: list[InventoryRow] = []
    rows = tx.rows(_hold(size), in_list.bound("key", sorted(provider_ids), size))
    telemetry.holds_providers()
    for row in rows:
        id_, uuid, generation, counted, record_id, class_id, *values = row
        if id_ not in providers:
            providers[id_] = LockedProvider(id_, uuid, generation, counted)
        records.append(InventoryRow(record_id, id_, class_id, "", *values))
    return providers, records


@cache
def _hold(size: int) -> Ready:
    joined = _providers.join(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
    statement = (
        select(
            _providers.c.id,
            _providers.c.uuid,
            _providers.c.generation,
            coexistence_rows.COUNTED,
            _inventories.c.id,
            _inventories.c.resource_class_id,
            *inventory_rows.AMOUNTS,
        )
        .select_from(joined)
        .where(in_list.is_among(_providers.c.id, "key", size))
        .order_by(_providers.c.id)
        .with_for_update()
    )
    # Providers first, as every other writer takes them.
    for dialect in dialects.MYSQL:
        statement = statement.prefix_with("STRAIGHT_JOIN", dialect=dialect)
    return Ready(statement)

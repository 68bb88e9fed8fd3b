"""How a change of the ledger begins and ends: two readings, and the writes before the commit.

What it names takes seven small index look-ups. They travel as one statement: they need no order among
themselves, and one statement has one snapshot, in which a consumer's generation and its allocations
belong together. The places it changes, providers with their inventories, are locked as they are read.

From there to the commit whoever wants the same providers waits, and each statement is a journey of
the one who does not: what is written then goes in as few as the database takes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    TextClause,
    Update,
    func,
    literal_column,
    select,
    union_all,
)

from placement.db import in_list, inventory_rows, models, owner_usage_rows, provider_rows
from placement.db.api import StaleRead, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.owner_usage_rows import Account
from placement.db.provider_rows import LockedProvider

_consumers = models.consumers
_allocations = models.allocations
_providers = models.resource_providers
_classes = models.resource_classes
_inventories = models.inventories
_nothing: ColumnElement[int] = literal_column("0")


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

    ``provider_generations`` is by provider uuid. What does not exist is missing.
    """

    projects: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    providers: dict[str, int] = field(default_factory=dict)
    provider_generations: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, ConsumerRow] = field(default_factory=dict)
    allocations: dict[str, list[AllocationRow]] = field(default_factory=dict)


Branch = tuple[Select[Any], ColumnElement[str]]
"""A look-up without its condition, and the column that is to be among the names."""


def _names(kind: int, table: Any, name: ColumnElement[str]) -> tuple[Branch]:
    kind_of_row: ColumnElement[int] = literal_column(str(kind))
    padding = (_nothing, _nothing, _nothing, _nothing)
    return ((select(kind_of_row, table.c.id, name, *padding), name),)


_PROVIDER = select(
    literal_column("4"),
    _providers.c.id,
    _providers.c.uuid,
    func.coalesce(_providers.c.generation, 0),
    _nothing,
    _nothing,
    _nothing,
)
_CONSUMER = select(
    literal_column("5"),
    _consumers.c.id,
    _consumers.c.uuid,
    _consumers.c.generation,
    _consumers.c.project_id,
    _consumers.c.user_id,
    func.coalesce(_consumers.c.consumer_type_id, 0),
)
_ALLOCATION = select(
    literal_column("6"),
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


# The sizes of six lists would make many statements; those of everyday requests are few.
@lru_cache(maxsize=256)
def _statement(*sizes: tuple[str, int]) -> CompoundSelect[Any]:
    return union_all(
        *(
            branch.where(in_list.is_among(name, part, size))
            for part, size in sizes
            for branch, name in _BRANCHES[part]
        )
    )


def read(tx: Transaction, names: Mapping[str, Collection[str]]) -> Reading:
    """Return what exists under the names. One statement, no locks.

    :param names: under ``projects``, ``users`` (external ids), ``types``, ``classes`` (names),
        ``providers`` and ``consumers`` (uuids); at least one of them is not empty.
    """
    sizes: list[tuple[str, int]] = []
    parameters: dict[str, Any] = {}
    for part, given in names.items():
        if given:
            different = list(dict.fromkeys(given))
            sizes.append((part, in_list.size_for(len(different))))
            parameters |= in_list.bound(part, different, sizes[-1][1])
    found = Reading()
    by_kind = (found.projects, found.users, found.types, found.classes, found.providers)
    for kind, key, name, *values in tx.execute(_statement(*sizes), parameters):
        if kind < 5:
            by_kind[kind][name] = key
            if kind == 4:
                found.provider_generations[name] = values[0]
        elif kind == 5:
            generation, project_id, user_id, type_id = values
            found.consumers[name] = ConsumerRow(
                key, name, generation, project_id, user_id, type_id or None
            )
        else:
            row = AllocationRow(key, name, values[0], values[1], values[2])
            found.allocations.setdefault(name, []).append(row)
    for rows in found.allocations.values():
        rows.sort(key=lambda row: row.id)
    return found


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
    for row in tx.execute(_hold(size), in_list.bound("key", sorted(provider_ids), size)):
        id_, uuid, generation, record_id, class_id, *values = row
        if id_ not in providers:
            providers[id_] = LockedProvider(id_, uuid, generation)
        records.append(InventoryRow(record_id, id_, class_id, "", *values))
    return providers, records


@cache
def _hold(size: int) -> Select[Any]:
    joined = _providers.join(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
    statement = (
        select(
            _providers.c.id,
            _providers.c.uuid,
            _providers.c.generation,
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
    for dialect in ("mysql", "mariadb"):
        statement = statement.prefix_with("STRAIGHT_JOIN", dialect=dialect)
    return statement


@dataclass(frozen=True, slots=True)
class Closing:
    """What is left to write of a change once its places are held and have room.

    ``moved``: by how much the counters of which records move; ``stepped``: the providers whose
    generation moves on; ``touched``: ids of others that the search must read again; ``owed``: by
    how much the sums of owners move.
    """

    moved: Sequence[tuple[InventoryRow, int]]
    stepped: Collection[LockedProvider]
    touched: Collection[int]
    owed: Mapping[Account, int]

    @property
    def is_small(self) -> bool:
        """There are ready texts for all of it."""
        parts = (self.moved, self.stepped, self.touched, self.owed)
        return max(map(len, parts)) <= in_list.SIZES[-1]

    @property
    def is_uniform(self) -> bool:
        """Some counter moves of every provider, and all providers are written alike."""
        ids = {provider.id for provider in self.stepped} or set(self.touched)
        alike = not (self.stepped and self.touched)
        return alike and bool(ids) and ids == {record.provider_id for record, _ in self.moved}


def close(tx: Transaction, closing: Closing) -> None:
    """Move counters, generations, revisions and sums: the last writes of a change.

    PostgreSQL takes them all as one statement. MySQL and MariaDB update counters and providers
    with one if the change is uniform. To SQLite no statement travels.

    :raises StaleRead: the generation of a provider is not the one that was read.
    """
    if closing.is_small and tx.dialect.name == "postgresql":
        _write_at_once(tx, closing)
        return
    if closing.is_small and closing.is_uniform and tx.dialect.name in ("mysql", "mariadb"):
        _write_places(tx, closing)
    else:
        inventory_rows.move_used(tx, {record.id: by for record, by in closing.moved})
        provider_rows.bump(tx, closing.stepped)
        provider_rows.touch(tx, closing.touched)
    owner_usage_rows.add(tx, closing.owed)


def _write_at_once(tx: Transaction, closing: Closing) -> None:
    """Write all of it with one statement; no part of it writes a row of another."""
    writes: list[tuple[Update | TextClause, dict[str, Any]]] = []
    if closing.stepped:
        writes.append(provider_rows.bumping(provider_rows.generations(closing.stepped)))
    if closing.touched:
        writes.append(provider_rows.touching(closing.touched))
    if closing.moved:
        writes.append(inventory_rows.moving([(record.id, by) for record, by in closing.moved]))
    if rows := owner_usage_rows.rows_of(closing.owed):
        writes.append(owner_usage_rows.adding(tx.dialect.name, rows))
    if not writes:
        return
    parameters = {name: value for _, bound in writes for name, value in bound.items()}
    done = tx.execute(_together(*(statement for statement, _ in writes)), parameters)
    # The rows of the first alone are counted.
    if closing.stepped and done.rowcount != len(closing.stepped):
        raise StaleRead("a provider's generation moved")


@lru_cache(maxsize=256)
def _together(first: Any, *others: Any) -> Any:
    if not others:
        return first
    return first.add_cte(
        *(
            (each.columns() if isinstance(each, TextClause) else each).cte(f"write_{number}")
            for number, each in enumerate(others)
        )
    )


def _write_places(tx: Transaction, closing: Closing) -> None:
    """Write counters and providers of a uniform change with one statement."""
    providers = (
        provider_rows.bumping(provider_rows.generations(closing.stepped))
        if closing.stepped
        else provider_rows.touching(closing.touched)
    )
    changes = [(record.id, by) for record, by in closing.moved]
    found = tx.execute(*inventory_rows.moving_with(providers, changes)).rowcount
    # Each row of either table counts once, and those of a provider that has moved on do not.
    if found != len(closing.stepped) + len(closing.touched) + len(changes):
        raise StaleRead("a provider's generation moved")

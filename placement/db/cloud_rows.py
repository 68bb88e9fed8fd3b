"""Statements that read the data of searches: digests of revisions, and the content of providers."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Integer,
    Table,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    true,
    type_coerce,
)

from placement.db import dialects, freshness, models, statements
from placement.db.change_rows import COUNTED_BITS, SLOTS, Log, is_mark
from placement.db.coexistence.state import UNDER_WAY
from placement.db.database import Access, Snapshot
from placement.db.inventory_rows import SEEN_AMOUNTS
from placement.db.statements import CompiledStatement, capacity_of

_providers = models.resource_providers
_inventories = models.inventories
_classes = models.resource_classes

_DIGEST = (
    func.count(),
    func.coalesce(func.sum(_providers.c.id), 0),
    func.coalesce(func.sum(_providers.c.revision), 0),
)

_changes = models.provider_changes

BLOCK_BITS = 8
"""The ids of a block differ in this many bits: about the square root of a large cloud."""

_block = _providers.c.id.bitwise_rshift(BLOCK_BITS)
_once = select(literal_column("1").label("once")).subquery("once")


@cache
def _ask_total() -> CompiledStatement:
    return CompiledStatement(
        select(
            func.count(),
            func.coalesce(func.sum(_changes.c.mark.bitwise_and(COUNTED_BITS)), 0),
            UNDER_WAY,
            freshness.any_expired(),
        ).select_from(_changes)
    )


@cache
def _ask_log() -> CompiledStatement:
    return CompiledStatement(
        select(
            _changes.c.slot,
            _changes.c.mark,
            _changes.c.recent,
            # Values of the type Boolean would be converted in each row, so the type is another.
            type_coerce(UNDER_WAY, Integer),
            type_coerce(freshness.any_expired(), Integer),
        )
        # The statement returns a row even if the log is empty, such as after a deletion by hand.
        .select_from(_once.outerjoin(_changes, true()))
    )


_BY_BLOCK = CompiledStatement(select(_block, *_DIGEST).group_by(_block))


# A time in whole seconds since the epoch, 0 for NULL: drivers are slow with times.
_SECONDS = {
    # The fraction is left out, because SQLite rounds it. SQLite reads a number as a day, which may lie before
    # the first year of Python.
    "sqlite": "max(coalesce(CAST(strftime('%s', substr({}, 1, 19)) AS INTEGER), 0), 0)",
    "postgresql": "coalesce(CAST(floor(extract(epoch FROM {})) AS bigint), 0)",
    "mysql": "coalesce(timestampdiff(SECOND, '1970-01-01', {}), 0)",
}

_PROVIDER = (
    _providers.c.id,
    _providers.c.uuid,
    _providers.c.revision,
    _providers.c.parent_provider_id,
    func.coalesce(_providers.c.root_provider_id, _providers.c.id),
    func.coalesce(_providers.c.name, _providers.c.uuid),
    func.coalesce(_providers.c.generation, 0),
    dialects.DialectText(
        _SECONDS,
        func.coalesce(_providers.c.updated_at, _providers.c.created_at),
        type_=BigInteger(),
    ),
)

# The associations of providers, each as the table, its column that refers to a name, the name, and the
# further columns.
_PARTS: tuple[tuple[Table, str, Column[Any], Sequence[ColumnElement[Any]]], ...] = (
    (_inventories, "resource_class_id", _classes.c.name, SEEN_AMOUNTS),
    (models.resource_provider_traits, "trait_id", models.traits.c.name, ()),
    (models.resource_provider_aggregates, "aggregate_id", models.placement_aggregates.c.uuid, ()),
)


class Digest(NamedTuple):
    """The count of providers, the sum of their ids, and the sum of their revisions.

    Revisions only grow, and a new provider starts with a random one, so equal digests mean equal content.
    """

    number: int
    ids: int
    revisions: int


class Contents(NamedTuple):
    """The data of some providers for the search, as rows of plain tuples.

    ``providers``: (id, uuid, revision, parent id or None, root id, name, generation, modified), the last in
    whole seconds since the epoch and 0 if never recorded; ``inventories``: (provider id, class,
    ``SEEN_AMOUNTS``); ``traits``: (provider id, trait); ``aggregates``: (provider id, aggregate).
    :func:`contents` gives classes and traits by name and aggregates by uuid, :func:`everything` gives all by
    id.
    """

    providers: Sequence[tuple[Any, ...]]
    inventories: Sequence[tuple[Any, ...]]
    traits: Sequence[tuple[Any, ...]]
    aggregates: Sequence[tuple[Any, ...]]


def total(access: Access) -> int | None:
    """Return a number that grows with every write of a provider.

    None during a coexistence, if the log is not whole, or if some allocations have expired. One statement,
    with the same cost in a cloud of any size.
    """
    ((slots, marks, coexistence_under_way, any_expired),) = access.rows(_ask_total())
    return None if coexistence_under_way or any_expired or slots != SLOTS else int(marks)


def log(access: Access) -> tuple[Log | None, bool]:
    """Return the log of writes (None during a coexistence), and whether some allocations have expired.

    One statement.
    """
    rows = access.rows(_ask_log())
    # This value is the same in all rows.
    _, _, _, coexistence_under_way, any_expired = rows[0]
    if coexistence_under_way:
        return None, bool(any_expired)
    # A slot with a mark that no token can have counts as missing.
    slots = {
        slot: (mark, recent)
        for slot, mark, recent, *_ in rows
        if slot is not None and is_mark(mark)
    }
    return Log(slots), bool(any_expired)


def digests_by_block(tx: Snapshot) -> dict[int, Digest]:
    """Return the digest of each block of ``2 ** BLOCK_BITS`` successive ids that has providers.

    One statement, which reads all providers. During a coexistence revisions do not show all changes.
    """
    return {int(row[0]): Digest(*map(int, row[1:])) for row in tx.rows(_BY_BLOCK)}


def revisions(tx: Snapshot, blocks: Collection[int]) -> dict[int, int]:
    """Return the revisions by id of the providers in these blocks."""
    return dict(tx.rows(_REVISIONS, {"block": sorted(blocks)}))


def _is_within(size: int) -> ColumnElement[bool]:
    """Return the condition that ids are in one of a few blocks, as ranges that the primary key serves."""
    if size == statements.ANY_SIZE:
        return statements.is_among(_block, "block")
    first = [bindparam(f"block_{index}") * 2**BLOCK_BITS for index in range(size)]
    return or_(*(_providers.c.id.between(low, low + 2**BLOCK_BITS - 1) for low in first))


_REVISIONS = CompiledStatement(
    select(_providers.c.id, _providers.c.revision).where(statements.BySize("block", _is_within)),
    "block",
)


def contents(tx: Access, ids: Collection[int]) -> Contents:
    """Return the data of these providers that the search needs. Four statements."""
    these = {"id": sorted(ids)}
    return Contents(*(tx.rows(statement, these) for statement in _CONTENTS))


def steady_contents(access: Access, ids: Collection[int]) -> Contents | None:
    """Read the contents outside a snapshot; return None if one was written meanwhile. Five statements."""
    found = contents(access, ids)
    again = access.rows(_CONTENTS[0], {"id": sorted(ids)})
    return found if sorted(found.providers) == sorted(again) else None


_CONTENTS = [
    CompiledStatement(select(*_PROVIDER).where(statements.is_among(_providers.c.id, "id")), "id"),
    *(
        CompiledStatement(
            select(table.c.resource_provider_id, name, *more)
            .join_from(table, name.table, name.table.c.id == table.c[key])
            .where(statements.is_among(table.c.resource_provider_id, "id"), name.is_not(None))
            # Without this hint and with old statistics, MariaDB starts at the small table of names and reads
            # every inventory.
            .prefix_with("STRAIGHT_JOIN", dialect="mysql"),
            "id",
        )
        for table, key, name, more in _PARTS
    ),
]


def stocks(tx: Snapshot, ids: Collection[int]) -> Sequence[tuple[Any, ...]]:
    """Return inventories, usage and versions of these providers. One statement.

    Rows of (id, revision, generation, modified, class, ``SEEN_AMOUNTS``); a provider without inventory has
    one row with None from the class on.
    """
    return tx.rows(_STOCKS, {"id": sorted(ids)})


_STOCKS = CompiledStatement(
    select(_PROVIDER[0], _PROVIDER[2], *_PROVIDER[-2:], _classes.c.name, *SEEN_AMOUNTS)
    .select_from(_providers)
    .outerjoin(_inventories, _inventories.c.resource_provider_id == _providers.c.id)
    .outerjoin(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(statements.is_among(_providers.c.id, "id")),
    "id",
)


def everything(tx: Snapshot) -> tuple[Contents, list[dict[int, str]]]:
    """Return all providers, and the names of classes, traits and aggregates by id. Seven statements."""
    found = Contents(*(tx.rows(statement) for statement in _EVERYTHING))
    return found, [dict(tx.rows(statement)) for statement in _NAMES]


_EVERYTHING = [
    CompiledStatement(select(*_PROVIDER)),
    *(
        CompiledStatement(select(table.c.resource_provider_id, table.c[key], *more))
        for table, key, _, more in _PARTS
    ),
]
_NAMES = [
    CompiledStatement(select(name.table.c.id, name).where(name.is_not(None)))
    for _, _, name, _ in _PARTS
]


def any_has_trait(access: Access, names: Collection[str]) -> bool:
    """Return whether any provider has one of these traits. One statement."""
    return bool(access.rows(_HAS_TRAIT, {"name": sorted(names)}))


def any_is_in_aggregate(access: Access, uuids: Collection[str]) -> bool:
    """Return whether any provider is in one of these aggregates. One statement."""
    return bool(access.rows(_IS_IN_AGGREGATE, {"name": sorted(uuids)}))


def any_could_hold(access: Access, class_name: str, amount: int) -> bool:
    """Return whether any inventory of a class has at least this capacity, used or not. One statement.

    Databases round differently from Python, so an inventory that is minimally too small counts as large
    enough.
    """
    return bool(access.rows(_COULD_HOLD, {"name": class_name, "amount": amount}))


_HAIR = 1.00001


def _some(name: Column[Any], table: Table, key: str) -> CompiledStatement:
    """Return the statement that finds a provider with any of some names."""
    rows = select(table.c.resource_provider_id).join_from(
        table, name.table, name.table.c.id == table.c[key]
    )
    return CompiledStatement(rows.where(statements.is_among(name, "name")).limit(1), "name")


_HAS_TRAIT = _some(models.traits.c.name, models.resource_provider_traits, "trait_id")
_IS_IN_AGGREGATE = _some(
    models.placement_aggregates.c.uuid, models.resource_provider_aggregates, "aggregate_id"
)
_COULD_HOLD = CompiledStatement(
    select(_inventories.c.resource_provider_id)
    .join_from(_inventories, _classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(
        _classes.c.name == bindparam("name"),
        _inventories.c.max_unit >= bindparam("amount"),
        capacity_of(_inventories) * _HAIR >= bindparam("amount"),
    )
    .limit(1)
)

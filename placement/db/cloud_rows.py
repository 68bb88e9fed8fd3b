"""Statements that read what the search needs: digests of revisions, and the content of providers.

Bulk reads go through the driver's cursor: a quarter of a million trait associations as tuples cost
a third of what they cost as SQLAlchemy rows.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Select, bindparam, func, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from placement.db import coexistence_rows, dialects, in_list, models, packed_rows
from placement.db.change_rows import SLOTS, Log
from placement.db.database import Access, Snapshot
from placement.db.inventory_rows import SEEN_AMOUNTS
from placement.db.packed_rows import PackedColumns, PackedRecords
from placement.db.ready import Ready

LOG = logging.getLogger(__name__)

_providers = models.resource_providers
_inventories = models.inventories
_classes = models.resource_classes
_provider_traits = models.resource_provider_traits
_traits = models.traits
_provider_aggregates = models.resource_provider_aggregates
_aggregates = models.placement_aggregates

_DIGEST = (
    func.count(),
    func.coalesce(func.sum(_providers.c.id), 0),
    func.coalesce(func.sum(_providers.c.revision), 0),
)

_changes = models.provider_changes

BLOCK_BITS = 8
"""Providers in a block have the same id but for so many bits: the square root of a large cloud."""

_block = _providers.c.id.bitwise_rshift(BLOCK_BITS)
_TOTAL = Ready(
    select(
        func.count(), func.coalesce(func.sum(_changes.c.mark), 0), coexistence_rows.UNDER_WAY
    ).select_from(_changes)
)
_LOG = Ready(
    select(_changes.c.slot, _changes.c.mark, _changes.c.recent, coexistence_rows.UNDER_WAY)
)
_BY_BLOCK = select(_block, *_DIGEST).group_by(_block)


class _Seconds(FunctionElement[int]):
    """A time in whole seconds since the epoch, 0 for NULL: drivers are slow with times."""

    inherit_cache = True
    type = BigInteger()


@compiles(_Seconds, "sqlite")
def _on_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    # Without its fraction, which SQLite rounds.
    moment = f"substr({compiler.process(element.clauses, **options)}, 1, 19)"
    return f"coalesce(CAST(strftime('%s', {moment}) AS INTEGER), 0)"


@compiles(_Seconds, "postgresql")
def _on_postgresql(element: Any, compiler: Any, **options: Any) -> str:
    moment = compiler.process(element.clauses, **options)
    return f"coalesce(CAST(floor(extract(epoch FROM {moment})) AS bigint), 0)"


@compiles(_Seconds, *dialects.MYSQL)
def _on_mysql(element: Any, compiler: Any, **options: Any) -> str:
    moment = compiler.process(element.clauses, **options)
    return f"coalesce(timestampdiff(SECOND, '1970-01-01', {moment}), 0)"


_PROVIDER = (
    _providers.c.id,
    _providers.c.uuid,
    _providers.c.revision,
    _providers.c.parent_provider_id,
    func.coalesce(_providers.c.root_provider_id, _providers.c.id),
    _providers.c.name,
    func.coalesce(_providers.c.generation, 0),
    _Seconds(func.coalesce(_providers.c.updated_at, _providers.c.created_at)),
)

# With old statistics MariaDB starts at the small table of names and reads every inventory.
_JOIN_AS_WRITTEN = ("STRAIGHT_JOIN",)


class Digest(NamedTuple):
    """Count of providers, sum of their ids, sum of their revisions.

    Revisions only grow and new ids bring a random one, so equal digests mean equal content.
    """

    number: int
    ids: int
    revisions: int


Table = Sequence[Sequence[Any]] | NDArray[Any]


class Contents(NamedTuple):
    """What the search knows of some providers, as rows of plain tuples.

    ``providers``: (id, uuid, revision, parent id or None, root id, name, generation, modified), the
    last in whole seconds since the epoch, 0 if never recorded;
    ``inventories``: (provider id, class, total, reserved, min_unit, max_unit, step_size,
    allocation_ratio, used); ``traits``: (provider id, trait); ``aggregates``: (provider id,
    aggregate). Classes, traits and aggregates are given by name and uuid by :func:`contents`, by id
    by :func:`everything`.
    """

    providers: Sequence[tuple[Any, ...]]
    inventories: Sequence[tuple[Any, ...]]
    traits: Sequence[tuple[Any, ...]]
    aggregates: Sequence[tuple[Any, ...]]


class Everything(NamedTuple):
    """The same of all providers, where rows may be lists, and tables arrays of records or numbers."""

    providers: Sequence[Sequence[Any]]
    inventories: Table
    traits: Table
    aggregates: Table


class Names(NamedTuple):
    """Class names, trait names and aggregate uuids by id."""

    classes: dict[int, str]
    traits: dict[int, str]
    aggregates: dict[int, str]


def total(access: Access) -> int | None:
    """Return a number that grows with every write of a provider; None where there is none.

    There is none during a coexistence, or if the log is not whole. One statement, which costs the same
    in any cloud.
    """
    ((slots, marks, coexistence_under_way),) = access.rows(_TOTAL)
    return None if coexistence_under_way or slots != SLOTS else int(marks)


def log(tx: Snapshot) -> Log | None:
    """Return the log of the last writes, None during a coexistence. One statement."""
    rows = tx.rows(_LOG)
    if any(row[-1] for row in rows) if rows else coexistence_rows.is_under_way(tx):
        return None
    return Log({row[0]: (row[1], row[2]) for row in rows})


def digests_by_block(tx: Snapshot) -> dict[int, Digest]:
    """Return the digest of each block of ``2 ** BLOCK_BITS`` successive ids that has providers.

    One statement, which reads all providers. During a coexistence revisions do not tell everything.
    """
    return {int(row[0]): Digest(*map(int, row[1:])) for row in _tuples(tx, _BY_BLOCK)}


def revisions(tx: Snapshot, blocks: Collection[int]) -> dict[int, int]:
    """Return the revisions by id of the providers in these blocks."""
    size = in_list.size_for(len(blocks))
    return dict(_tuples(tx, _revisions(size), in_list.bound("block", sorted(blocks), size)))


@cache
def _revisions(size: int) -> Select[Any]:
    """Each block is a range of ids, so that the primary key finds it."""
    statement = select(_providers.c.id, _providers.c.revision)
    if size == in_list.ANY_SIZE:
        return statement.where(in_list.is_among(_block, "block", size))
    first = [bindparam(f"block_{index}") * 2**BLOCK_BITS for index in range(size)]
    within = [_providers.c.id.between(low, low + 2**BLOCK_BITS - 1) for low in first]
    return statement.where(or_(*within))


def contents(tx: Snapshot, ids: Collection[int]) -> Contents:
    """Return what the search needs to know of these providers. Four statements."""
    size = in_list.size_for(len(ids))
    these = in_list.bound("id", sorted(ids), size)
    return Contents(*(tx.rows(statement, these) for statement in _contents(size)))


@cache
def _contents(size: int) -> tuple[Ready, ...]:
    inventory, trait, aggregate = _inventories.c, _provider_traits.c, _provider_aggregates.c
    joined = (
        select(inventory.resource_provider_id, _classes.c.name, *SEEN_AMOUNTS).join_from(
            _inventories, _classes, _classes.c.id == inventory.resource_class_id
        ),
        select(trait.resource_provider_id, _traits.c.name).join_from(
            _provider_traits, _traits, _traits.c.id == trait.trait_id
        ),
        select(aggregate.resource_provider_id, _aggregates.c.uuid).join_from(
            _provider_aggregates, _aggregates, _aggregates.c.id == aggregate.aggregate_id
        ),
    )
    keys = (
        inventory.resource_provider_id,
        trait.resource_provider_id,
        aggregate.resource_provider_id,
    )
    return (
        Ready(select(*_PROVIDER).where(in_list.is_among(_providers.c.id, "id", size))),
        *(
            Ready(
                statement.where(in_list.is_among(key, "id", size)).prefix_with(
                    *_JOIN_AS_WRITTEN, dialect="mysql"
                )
            )
            for statement, key in zip(joined, keys, strict=True)
        ),
    )


def stocks(tx: Snapshot, ids: Collection[int]) -> Sequence[tuple[Any, ...]]:
    """Return inventories, usage and versions of these providers. One statement.

    Rows of (id, revision, generation, modified, class, total, reserved, min_unit, max_unit, step_size,
    allocation_ratio, used); one with None from the class on where a provider has no inventory.
    """
    size = in_list.size_for(len(ids))
    return tx.rows(_stocks(size), in_list.bound("id", sorted(ids), size))


@cache
def _stocks(size: int) -> Ready:
    versions = _PROVIDER[0], _PROVIDER[2], *_PROVIDER[-2:]
    own = _inventories.c.resource_provider_id == _providers.c.id
    return Ready(
        select(*versions, _classes.c.name, *SEEN_AMOUNTS)
        .select_from(
            _providers.outerjoin(_inventories, own).outerjoin(
                _classes, _classes.c.id == _inventories.c.resource_class_id
            )
        )
        .where(in_list.is_among(_providers.c.id, "id", size))
    )


def everything(tx: Snapshot) -> tuple[Everything, Names]:
    """Return all providers and the names that their rows refer to by id. Seven statements, or eight."""
    found = _all_packed(tx) if packed_rows.take(tx) else None
    if found is None:
        found = Everything(*(_tuples(tx, statement) for statement in _EVERYTHING))
    return found, Names(*(dict(_tuples(tx, statement)) for statement in _NAMES))


def _all_packed(tx: Snapshot) -> Everything | None:
    """Return what a few long texts say; None if the server, or what is before it, has cut one."""
    try:
        providers = _PACKED_PROVIDERS.unpack(_tuples(tx, _PACKED_PROVIDERS.statement))
        columns = [
            packed.unpack(_tuples(tx, packed.statement))
            for packed in (_PACKED_INVENTORIES, _PACKED_TRAITS, _PACKED_AGGREGATES)
        ]
    except packed_rows.Cut as cut:
        LOG.warning(
            "The server has cut a text of many rows (%s), which are read one by one now", cut
        )
        return None
    (kind, ratio, provider, *amounts, used), *pairs = columns
    return Everything(
        providers,
        np.rec.fromarrays([provider, kind, *amounts, ratio, used]),
        *(np.column_stack([owner, name]) for name, owner in pairs),
    )


_EVERYTHING = (
    select(*_PROVIDER),
    select(_inventories.c.resource_provider_id, _inventories.c.resource_class_id, *SEEN_AMOUNTS),
    select(_provider_traits.c.resource_provider_id, _provider_traits.c.trait_id),
    select(_provider_aggregates.c.resource_provider_id, _provider_aggregates.c.aggregate_id),
)
*_WHOLE_AMOUNTS, _RATIO, _USED_OF_IT = SEEN_AMOUNTS
_PACKED_PROVIDERS = PackedRecords(_providers.c.id, _PROVIDER)
_PACKED_INVENTORIES = PackedColumns(
    _inventories.c.resource_provider_id,
    (_inventories.c.resource_class_id, _RATIO),
    (_inventories.c.resource_provider_id, *_WHOLE_AMOUNTS, _USED_OF_IT),
)
_PACKED_TRAITS, _PACKED_AGGREGATES = (
    PackedColumns(provider, (name,), (provider,))
    for provider, name in (
        (_provider_traits.c.resource_provider_id, _provider_traits.c.trait_id),
        (_provider_aggregates.c.resource_provider_id, _provider_aggregates.c.aggregate_id),
    )
)
_NAMES = (
    select(_classes.c.id, _classes.c.name),
    select(_traits.c.id, _traits.c.name),
    select(_aggregates.c.id, _aggregates.c.uuid),
)


def _tuples(
    access: Access, statement: Select[Any], parameters: Mapping[str, Any] | None = None
) -> Sequence[tuple[Any, ...]]:
    """Return the rows as the driver gives them. The types read here need no conversion."""
    result = access.execute(statement, parameters)
    cursor = result.cursor
    rows: Sequence[tuple[Any, ...]] = cursor.fetchall() if cursor is not None else ()
    result.close()
    return rows

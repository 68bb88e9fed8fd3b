"""Writes that are not this service's own (specification 06 section 13.1).

While a fleet of the OpenStack service is replaced, both services write to one database, and the table
``coexistence`` has a row. During that time the usage counters may be wrong, so usage is the sum of the ledger
(:data:`USED`, :func:`sums`).

``own_generation`` of a provider is its generation as this service left it; both step together. The old
service does not know the column, so it has written each provider whose two generations differ. Some of its
writes step no generation: it deletes a consumer, renames or moves a provider, or sets aggregates before 1.19.
Searches find these by :func:`signs`, which they compare during a coexistence.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)

from placement.db import change_rows, dialects, models
from placement.db.database import Access, Snapshot, Transaction
from placement.db.statements import is_one_of

_providers = models.resource_providers
_inventories = models.inventories
_allocations = models.allocations
_consumers = models.consumers
_coexistence = models.coexistence

UNDER_WAY: ColumnElement[bool] = exists(select(literal(1)).select_from(_coexistence))
"""The old service may write too."""

IS_FOREIGN: ColumnElement[bool] = or_(
    _providers.c.own_generation.is_(None), _providers.c.own_generation != _providers.c.generation
)
"""The provider was written by another service since this one wrote it."""

COUNTED: ColumnElement[bool] = case((or_(UNDER_WAY, IS_FOREIGN), False), else_=True)
"""The usage counters of a provider are right."""

FOREIGN_STEPS: ColumnElement[int] = func.coalesce(_providers.c.generation, 0) - func.coalesce(
    _providers.c.own_generation, -1
)
"""The number of those writes; the creation of a provider by another service counts as one."""

LEDGER_SUM: ColumnElement[int] = (
    select(cast(func.coalesce(func.sum(_allocations.c.used), 0), BigInteger))
    .where(
        _allocations.c.resource_provider_id == _inventories.c.resource_provider_id,
        _allocations.c.resource_class_id == _inventories.c.resource_class_id,
    )
    .correlate(_inventories)
    .scalar_subquery()
)
"""The usage of an inventory by the ledger."""

USED: ColumnElement[int] = case((UNDER_WAY, LEDGER_SUM), else_=_inventories.c.used)
"""The usage of an inventory, for reads. A writer calls :func:`sums` after it has locked the provider."""


_MARK = {
    "sqlite": "CAST(julianday({1}) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM {1}) * 1000000 AS bigint)",
    # Times have whole seconds there.
    "mysql": "(timestampdiff(SECOND, '1970-01-01', {1}) + crc32({0}))",
}


def _mark(table: FromClause) -> ColumnElement[int]:
    """A checksum of a row's name and of the time of its last change: it differs after a change of name."""
    moment = func.coalesce(table.c.updated_at, table.c.created_at)
    return dialects.Spelled(_MARK, table.c.name, moment, type_=BigInteger())


_MANY = 2**33
_MIXED, _BELOW, _STRIDE = 9007199254740881, 999999999989, 1000003


def _mixed(number: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    """A number that is linear in neither argument: sums of ids alone are equal for {1, 4} and {2, 3}."""
    key = cast(number, BigInteger) * _STRIDE + other + _STRIDE
    return literal(_MIXED, BigInteger) % key % _BELOW


def _set_sign(number: ColumnElement[int], of_provider: ColumnElement[int]) -> ColumnElement[int]:
    """A checksum of a provider's rows."""
    rows = select(cast(_sum(number + literal(_MANY, BigInteger)), BigInteger))
    return rows.where(of_provider == _providers.c.id).correlate(_providers).scalar_subquery()


def _sum(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(value), 0)


_members = models.resource_provider_aggregates.c

SIGNS_OF_PROVIDER: tuple[ColumnElement[int], ...] = tuple(
    case((UNDER_WAY, sign), else_=0)
    for sign in (
        # Ids of allocations only grow, so their sums differ for different sets; aggregates come and go.
        _set_sign(_allocations.c.id, _allocations.c.resource_provider_id),
        _set_sign(
            _mixed(_members.aggregate_id, _members.resource_provider_id),
            _members.resource_provider_id,
        ),
        _mark(_providers),
    )
)
"""Checksums by which a change of a provider shows that stepped no generation; 0 without a coexistence."""

Signs = tuple[int, ...]


def signs(tx: Snapshot) -> Signs:
    """Return numbers of which at least one differs after any write by any service.

    Ids and the generations of consumers only grow: equal counts and sums mean the same consumers, unchanged.
    Four statements, which read all consumers, memberships, classes and providers.
    """
    members, classes = _members, models.resource_classes
    number = func.count()
    parts = (
        select(number, _sum(_consumers.c.id), _sum(_consumers.c.generation)),
        select(
            number,
            _sum(members.aggregate_id),
            _sum(_mixed(members.aggregate_id, members.resource_provider_id)),
        ),
        select(number, _sum(classes.c.id), _sum(_mark(classes))),
        select(
            number,
            _sum(_providers.c.id),
            _sum(_providers.c.revision + func.coalesce(_providers.c.generation, 0)),
            _sum(_mark(_providers)),
            _sum(_mixed(_providers.c.parent_provider_id, _providers.c.id)),
            _sum(_mixed(_providers.c.root_provider_id, _providers.c.id)),
        ),
    )
    return tuple(int(number) for part in parts for number in tx.rows(part)[0])


class ForeignWrites(NamedTuple):
    """The foreign writes to this database; ``since`` is the begin of the coexistence, None without one."""

    since: datetime | None
    writes: int
    providers: int


def foreign_writes(access: Access) -> ForeignWrites:
    """Return the foreign writes. One statement, which reads all providers."""
    since = select(func.min(_coexistence.c.since)).scalar_subquery()
    (row,) = access.rows(
        select(
            since,
            func.coalesce(func.sum(case((IS_FOREIGN, FOREIGN_STEPS), else_=0)), 0),
            func.coalesce(func.sum(case((IS_FOREIGN, 1), else_=0)), 0),
        ).select_from(_providers)
    )
    return ForeignWrites(row[0], int(row[1]), int(row[2]))


def sums(tx: Transaction, provider_ids: Collection[int]) -> dict[tuple[int, int], int]:
    """Return the usage by the ledger, by provider id and class id; 0 is missing. One statement.

    The caller has locked the providers, so that no write adds to it.
    """
    rows = tx.rows(
        select(
            _allocations.c.resource_provider_id,
            _allocations.c.resource_class_id,
            func.sum(_allocations.c.used),
        )
        .where(is_one_of(_allocations.c.resource_provider_id, sorted(provider_ids)))
        .group_by(_allocations.c.resource_provider_id, _allocations.c.resource_class_id)
    )
    return {(row[0], row[1]): int(row[2]) for row in rows}


def foreign(access: Access, most: int) -> dict[int, str]:
    """Return id and name of providers that another service has written, at most so many."""
    rows = access.rows(
        select(_providers.c.id, _providers.c.name)
        .where(IS_FOREIGN)
        .order_by(_providers.c.id)
        .limit(most)
    )
    return {row[0]: row[1] for row in rows}


def adopt(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Count the usage of locked providers from the ledger, and mark them as ours. Three statements."""
    if not provider_ids:
        return
    these = sorted(provider_ids)
    tx.change(
        update(_inventories)
        .where(is_one_of(_inventories.c.resource_provider_id, these))
        .values(used=LEDGER_SUM, updated_at=_inventories.c.updated_at)
    )
    mark_ours(tx, these)


def correct(tx: Transaction, used_by_id: Mapping[int, int]) -> None:
    """Write usage counters of inventories of locked providers. One statement, or none."""
    if used_by_id:
        tx.change(
            update(_inventories)
            .where(is_one_of(_inventories.c.id, sorted(used_by_id)))
            .values(
                used=case(used_by_id, value=_inventories.c.id),
                updated_at=_inventories.c.updated_at,
            )
        )


def mark_ours(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Mark locked providers as ours; their counters are right. Two statements."""
    tx.change(
        update(_providers)
        .where(is_one_of(_providers.c.id, sorted(provider_ids)))
        .values(
            own_generation=_providers.c.generation,
            revision=_providers.c.revision + 1,
            updated_at=_providers.c.updated_at,
        )
    )
    change_rows.note(tx, provider_ids)


def number_of_providers(access: Access) -> int:
    """Return how many providers there are. One statement."""
    return int(access.value(select(func.count()).select_from(_providers)) or 0)


def ids_after(access: Access, provider_id: int, most: int) -> list[int]:
    """Return the next ids of providers, in order."""
    statement = select(_providers.c.id).where(_providers.c.id > provider_id)
    return access.column(statement.order_by(_providers.c.id).limit(most))


def without_own_generation(access: Access) -> int:
    """Return how many providers have no own generation yet. One statement."""
    unknown = select(func.count()).where(_providers.c.own_generation.is_(None))
    return int(access.value(unknown) or 0)


def note_generations(tx: Transaction, most: int) -> int:
    """Note the generation of some providers, from which foreign writes are counted; return of how many."""
    unknown = select(_providers.c.id).where(_providers.c.own_generation.is_(None))
    ids = tx.column(unknown.order_by(_providers.c.id).limit(most))
    tx.change(
        update(_providers)
        .where(is_one_of(_providers.c.id, ids), _providers.c.own_generation.is_(None))
        .values(
            own_generation=func.coalesce(_providers.c.generation, 0),
            updated_at=_providers.c.updated_at,
        )
    )
    return len(ids)


def begin(tx: Transaction) -> None:
    """Let the old service write too; a second call changes nothing."""
    if not tx.value(select(UNDER_WAY)):
        tx.insert(_coexistence, [{"id": 1, "since": models.now()}])


def end(tx: Transaction) -> None:
    """End the coexistence: from now on services use the counters and the log, which are right."""
    tx.change(delete(_coexistence))
    # A worker that did not search meanwhile does not know what the other service has deleted.
    change_rows.note_many(tx)


def is_under_way(access: Access) -> bool:
    """Tell whether the old service may write too. One statement."""
    return bool(access.value(select(UNDER_WAY)))

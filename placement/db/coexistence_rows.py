"""Writes that are not this service's own (specification 06 section 13.1).

While a fleet of the OpenStack service is replaced, both services write to one database, and the table
``coexistence`` has a row, with the id 1, that says since when. During that time the usage counters may be
wrong, so usage is the sum of the ledger (:data:`USED`, :func:`placement.db.allocation_rows.sums`). A second
row tells for how long the old service has been quiet: its id is a checksum of all that service was seen to
write, and its time, by the clock of the database, is when a worker first saw it (:func:`note_state`).

``own_generation`` of a provider is its generation as this service left it; both step together. The old
service does not know the column, so it has written each provider whose two generations differ. Some of its
writes step no generation: it deletes a consumer, renames or moves a provider, or sets aggregates before 1.19.
Searches find these by :func:`signs`, which they compare during a coexistence.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
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
    insert,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from placement.db import change_rows, dialects, models
from placement.db.database import Access, Snapshot, Transaction
from placement.db.statements import CompiledStatement, is_one_of

_providers = models.resource_providers
_inventories = models.inventories
_allocations = models.allocations
_consumers = models.consumers
_coexistence = models.coexistence

BEGUN = 1
"""The id of the row that says since when; that of the other row is larger."""

UNDER_WAY: ColumnElement[bool] = exists(
    select(literal(1)).select_from(_coexistence).where(_coexistence.c.id == literal_column(str(BEGUN)))
)
"""The old service may write too."""

IS_FOREIGN: ColumnElement[bool] = or_(
    _providers.c.own_generation.is_(None), _providers.c.own_generation != _providers.c.generation
)
"""The provider was written by another service since this one wrote it."""

COUNTED: ColumnElement[bool] = case((or_(UNDER_WAY, IS_FOREIGN), False), else_=True)
"""The usage counters of a provider are right."""

UNSEEN = -1
"""The own generation of a provider that another service has made."""

FOREIGN_STEPS: ColumnElement[int] = func.coalesce(_providers.c.generation, 0) - func.coalesce(
    _providers.c.own_generation, UNSEEN
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
"""The usage of an inventory, for reads. A writer adds the allocations up after it has locked the provider."""


_MARK = {
    "sqlite": "CAST(julianday({1}) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM {1}) * 1000000 AS bigint)",
    # Times have whole seconds there.
    "mysql": "(timestampdiff(SECOND, '1970-01-01', {1}) + crc32({0}))",
}


def _mark(table: FromClause) -> ColumnElement[int]:
    """A checksum of a row's name and of the time of its last change: it differs after a change of name.

    0 where there is no time, or, on MySQL and MariaDB, no name.
    """
    moment = func.coalesce(table.c.updated_at, table.c.created_at)
    return func.coalesce(dialects.Spelled(_MARK, table.c.name, moment, type_=BigInteger()), 0)


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

BLOCK_BITS = 5
"""The ids of providers that are compared, and read again, together differ in so many bits."""

Rows = Mapping[int, Sequence[Any]]
"""What was read of each block, by ``provider id >> BLOCK_BITS``."""


class Signs(NamedTuple):
    """Numbers of which at least one differs after any write by any service that a search can see.

    ``classes`` and ``consumers``: of all of them. ``shape``: which providers there are, and their places in
    trees. ``contents``, ``allocations`` and ``memberships``: all else about providers.
    """

    classes: Sequence[Any]
    consumers: Sequence[Any]
    shape: Rows
    contents: Rows
    allocations: Rows
    memberships: Rows

    def changed_since(self, before: "Signs") -> set[int] | None:
        """Return the blocks whose contents have changed; None if more has changed than contents."""
        if (self.classes, self.shape) != (before.classes, before.shape):
            return None
        pairs = (
            (self.contents, before.contents),
            (self.allocations, before.allocations),
            (self.memberships, before.memberships),
        )
        return {
            block
            for new, old in pairs
            for block in new.keys() | old.keys()
            if new.get(block) != old.get(block)
        }


def _by_block(of_provider: ColumnElement[int], *signs: ColumnElement[Any]) -> CompiledStatement:
    block = of_provider.bitwise_rshift(literal_column(str(BLOCK_BITS)))
    return CompiledStatement(select(block, *signs).group_by(block))


_CLASSES_SIGN = CompiledStatement(
    select(
        func.count(),
        _sum(models.resource_classes.c.id),
        _sum(_mark(models.resource_classes)),
    )
)
_SHAPE = (
    func.count(),
    _sum(_providers.c.id),
    _sum(_mixed(_providers.c.parent_provider_id, _providers.c.id)),
    _sum(_mixed(_providers.c.root_provider_id, _providers.c.id)),
)
_PROVIDERS = _by_block(
    _providers.c.id,
    *_SHAPE,
    _sum(_providers.c.revision + func.coalesce(_providers.c.generation, 0)),
    _sum(_mark(_providers)),
)
# Ids of allocations only grow: of equal number and sum they are the same, and none is changed in place.
_ALLOCATIONS = _by_block(
    _allocations.c.resource_provider_id, func.count(), _sum(_allocations.c.id)
)
_MEMBERSHIPS = _by_block(
    _members.resource_provider_id,
    func.count(),
    _sum(_members.aggregate_id),
    _sum(_mixed(_members.aggregate_id, _members.resource_provider_id)),
)


# They too only grow, and so do their generations.
_CONSUMERS_SIGN = CompiledStatement(
    select(func.count(), _sum(_consumers.c.id), _sum(_consumers.c.generation))
)


def signs(tx: Snapshot, before: Signs | None) -> Signs:
    """Return the signs. Four statements, which read all classes, consumers, providers and memberships.

    A fifth reads all allocations. No service changes them without a consumer: those of ``before`` are right
    if the consumers are the same, and that is cheaper to know.
    """
    classes, consumers = tx.rows(_CLASSES_SIGN)[0], tx.rows(_CONSUMERS_SIGN)[0]
    providers = _rows_by_block(tx, _PROVIDERS)
    is_known = before is not None and before.consumers == consumers
    allocations = before.allocations if before and is_known else _rows_by_block(tx, _ALLOCATIONS)
    first = len(_SHAPE)
    return Signs(
        classes,
        consumers,
        {block: numbers[:first] for block, numbers in providers.items()},
        {block: numbers[first:] for block, numbers in providers.items()},
        allocations,
        _rows_by_block(tx, _MEMBERSHIPS),
    )


def _rows_by_block(tx: Snapshot, statement: CompiledStatement) -> Rows:
    return {block: numbers for block, *numbers in tx.rows(statement)}


_NOW: ColumnElement[datetime] = dialects.Spelled(
    {
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
        "postgresql": "timezone('utc', clock_timestamp())",
        "mysql": "utc_timestamp()",
    },
    type_=_coexistence.c.since.type,
)
_QUIET_S: ColumnElement[int] = dialects.Spelled(
    {
        "sqlite": "CAST((julianday('now') - julianday({})) * 86400 AS INTEGER)",
        "postgresql": "CAST(floor(extract(epoch FROM timezone('utc', clock_timestamp()) - {})) AS bigint)",
        "mysql": "timestampdiff(SECOND, {}, utc_timestamp())",
    },
    _coexistence.c.since,
    type_=BigInteger(),
)


class ForeignWrites(NamedTuple):
    """The foreign writes to this database.

    ``since``: the begin of the coexistence, None without one. ``surplus``: by how much the counters exceed
    the ledger, 0 without a coexistence; writes of this service leave it as it is. ``noted``: the noted state,
    None if none is. ``quiet_s``: for how long it has been.
    """

    since: datetime | None
    writes: int
    providers: int
    surplus: int
    noted: int | None
    quiet_s: int

    @property
    def state(self) -> int:
        """A checksum that another write of another service changes: an id of the table."""
        seen = f"{self.writes} {self.surplus}"
        return (zlib.crc32(seen.encode()) >> 1) + BEGUN + 1


_SURPLUS = select(func.coalesce(func.sum(_inventories.c.used), 0)).scalar_subquery() - (
    select(func.coalesce(func.sum(_allocations.c.used), 0)).scalar_subquery()
)
_is_state = _coexistence.c.id > BEGUN


def _of_state(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(func.max(value)).where(_is_state).scalar_subquery()


def foreign_writes(access: Access) -> ForeignWrites:
    """Return the foreign writes. One statement, which reads all providers, and the ledger if it matters."""
    ((began, *numbers, noted, quiet_s),) = access.rows(
        select(
            select(func.min(_coexistence.c.since)).where(~_is_state).scalar_subquery(),
            _sum(case((IS_FOREIGN, FOREIGN_STEPS), else_=0)),
            _sum(case((IS_FOREIGN, 1), else_=0)),
            case((UNDER_WAY, _SURPLUS), else_=0),
            _of_state(_coexistence.c.id),
            _of_state(_QUIET_S),
        ).select_from(_providers)
    )
    writes, providers, surplus = map(int, numbers)
    return ForeignWrites(began, writes, providers, surplus, noted, int(quiet_s or 0))


def since(access: Access) -> datetime | None:
    """Return the begin of the coexistence, None without one. One statement."""
    began: datetime | None = access.value(select(_coexistence.c.since).where(~_is_state))
    return began


def note_state(tx: Transaction, state: int) -> None:
    """Note that other services have written: from now on it is counted for how long they are quiet.

    Where another worker has noted the same already, its time stays. Writes of this service to a provider that
    they have made do not count as theirs from now on: it has an own generation, which steps with the other.
    """
    if (
        tx.value(select(_coexistence.c.id).where(_coexistence.c.id == BEGUN).with_for_update())
        is None
    ):
        # It has ended since it was looked at.
        return
    tx.change(delete(_coexistence).where(_is_state, _coexistence.c.id != state))
    noted = exists(select(literal(1)).select_from(_coexistence).where(_coexistence.c.id == state))
    row = select(literal(state, BigInteger), _NOW).where(~noted)
    tx.change(insert(_coexistence).from_select(["id", "since"], row))
    tx.change(
        update(_providers)
        .where(_providers.c.own_generation.is_(None))
        .values(own_generation=UNSEEN, updated_at=_providers.c.updated_at)
    )


def take_the_end(tx: Transaction, state: int, quiet_s: int) -> bool:
    """Tell whether the caller is the one that ends the coexistence: one is, whenever so long has passed.

    :param state: for how long it must be the newest that is noted.
    """
    due = update(_coexistence).where(_coexistence.c.id == state, quiet_s <= _QUIET_S)
    return tx.change(due.values(since=_NOW)) == 1


def is_quiet(access: Access) -> bool:
    """Tell whether no provider was written by another service, and every counter is that of the ledger."""
    foreign_one = exists(select(literal(1)).select_from(_providers).where(IS_FOREIGN))
    wrong = exists(
        select(literal(1)).select_from(_inventories).where(_inventories.c.used != LEDGER_SUM)
    )
    return not access.value(select(or_(foreign_one, wrong)))


def foreign(access: Access, most: int) -> dict[int, str]:
    """Return id and name of providers that another service has written, at most so many."""
    rows = access.rows(
        select(_providers.c.id, func.coalesce(_providers.c.name, _providers.c.uuid))
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
            # Older services could store no generation, which is 0: it stays no foreign one.
            generation=func.coalesce(_providers.c.generation, 0),
            own_generation=func.coalesce(_providers.c.generation, 0),
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
        tx.insert(_coexistence, [{"id": BEGUN, "since": models.now()}])


def end(tx: Transaction) -> bool:
    """End the coexistence: from now on services use the counters and the log, which are right.

    :returns: whether this call has ended it.
    """
    lasted = tx.change(delete(_coexistence)) > 0
    # A worker that did not search meanwhile does not know what the other service has deleted.
    change_rows.note_many(tx)
    return lasted


def is_under_way(access: Access) -> bool:
    """Tell whether the old service may write too. One statement."""
    return bool(access.value(select(UNDER_WAY)))

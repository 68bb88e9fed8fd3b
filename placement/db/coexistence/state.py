"""Whether another service may write, since when, what it has written, and for how long it has been quiet.

The table ``coexistence`` has a row with the id 1 while the other service may write. A second row records how
long the other service has been quiet: its id is a checksum of the writes seen from that service, and its
time, by the clock of the database, is when a worker first saw them (:func:`note_state`).

``own_generation`` of a provider is its generation as this service left it; both step together. The old
service does not know the column, so it has written each provider whose two generations differ. Some of its
writes do not step a generation: it deletes a consumer, renames or moves a provider, or sets aggregates before
1.19. Searches find these writes by checksums.
"""

import zlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    case,
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

from placement.db import dialects, models
from placement.db.database import MOST_TURNS, Access, Database, Transaction
from placement.db.statements import CompiledStatement, is_one_of

_providers = models.resource_providers
_coexistence = models.coexistence

BATCH = 500
"""The number of providers per transaction whose generations are stored."""

BEGUN = 1
"""The id of the row that records the begin; the id of the other row is larger."""

UNDER_WAY: ColumnElement[bool] = exists(
    select(literal(1)).select_from(_coexistence).where(_coexistence.c.id == literal_column(str(BEGUN)))
)
"""The condition that the old service may write too."""

IS_FOREIGN: ColumnElement[bool] = or_(
    _providers.c.own_generation.is_(None), _providers.c.own_generation != _providers.c.generation
)
"""The condition that another service wrote the provider after this one did."""

IS_NOTED: ColumnElement[bool] = exists(
    select(literal(1)).select_from(_coexistence).where(_coexistence.c.id > literal_column(str(BEGUN)))
)
"""The condition that the start of the old service's silence is on record."""

UNSEEN = -1
"""The own generation of a provider that another service has made: its creation counts as one write."""

_NOW: ColumnElement[datetime] = dialects.DialectText(
    {
        "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
        "postgresql": "timezone('utc', clock_timestamp())",
        "mysql": "utc_timestamp()",
    },
    type_=_coexistence.c.since.type,
)
_QUIET_S: ColumnElement[int] = dialects.DialectText(
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

    ``since``: the begin of the coexistence, or None. ``surplus``: the amount by which the counters exceed the
    ledger, 0 without a coexistence; writes of this service do not change it. ``noted``: the noted state, or
    None. ``quiet_s``: the age of the noted state, negative after a wrong clock.
    """

    since: datetime | None
    writes: int
    providers: int
    surplus: int
    noted: int | None
    quiet_s: int

    @property
    def state(self) -> int:
        """A checksum that each further foreign write changes; it serves as an id in the table."""
        seen = f"{self.writes} {self.surplus}"
        return (zlib.crc32(seen.encode()) >> 1) + BEGUN + 1


def _sum(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(value), 0)


# A deletion of allocations by the other service does not step a provider's generation, but leaves the
# counters too high.
_SURPLUS = select(_sum(models.inventories.c.used)).scalar_subquery() - (
    select(_sum(models.allocations.c.used)).scalar_subquery()
)
_foreign_steps = func.coalesce(_providers.c.generation, 0) - func.coalesce(
    _providers.c.own_generation, UNSEEN
)
_is_state = _coexistence.c.id > BEGUN


def _of_state(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(func.max(value)).where(_is_state).scalar_subquery()


def read_foreign_writes(access: Access) -> ForeignWrites:
    """Return the foreign writes.

    One statement, which reads all providers, and during a coexistence the ledger.
    """
    ((began, *numbers, noted, quiet_s),) = access.rows(
        select(
            select(func.min(_coexistence.c.since)).where(~_is_state).scalar_subquery(),
            _sum(case((IS_FOREIGN, _foreign_steps), else_=0)),
            _sum(case((IS_FOREIGN, 1), else_=0)),
            case((UNDER_WAY, _SURPLUS), else_=0),
            _of_state(_coexistence.c.id),
            _of_state(_QUIET_S),
        ).select_from(_providers)
    )
    writes, providers, surplus = map(int, numbers)
    return ForeignWrites(began, writes, providers, surplus, noted, int(quiet_s or 0))


def read_begin(access: Access) -> datetime | None:
    """Return the begin of the coexistence, None without one. One statement."""
    began: datetime | None = access.value(select(_coexistence.c.since).where(~_is_state))
    return began


def describe(access: Access) -> str | None:
    """Return a sentence for people on a coexistence under way, otherwise None. One statement."""
    began = read_begin(access)
    if began is None:
        return None
    return (
        f"The OpenStack service may write to this database too, since {began:%Y-%m-%d %H:%M:%S} UTC: until"
        " that ends searches and usages count the ledger"
    )


def note_state(tx: Transaction, state: int) -> None:
    """Note that other services have written, and restart the time for which they are quiet.

    If another worker has noted the same state already, its time stays. Providers made by other services get
    an own generation here, so that later writes of this service do not count as foreign.
    """
    lasts = select(_coexistence.c.id).where(_coexistence.c.id == BEGUN)
    if tx.value(lasts.with_for_update()) is None:
        # The coexistence has ended since this thread read it. A state noted now would count for the next
        # coexistence.
        return
    # A time in the future comes from a wrong clock, and nothing could end the coexistence before that time.
    is_past = or_(_coexistence.c.id != state, _QUIET_S < 0)
    tx.change(delete(_coexistence).where(_is_state, is_past))
    noted = exists(select(literal(1)).select_from(_coexistence).where(_coexistence.c.id == state))
    row = select(literal(state, BigInteger), _NOW).where(~noted)
    tx.change(insert(_coexistence).from_select(["id", "since"], row))
    tx.change_unshown(
        update(_providers)
        .where(_providers.c.own_generation.is_(None))
        .values(own_generation=UNSEEN, updated_at=_providers.c.updated_at)
    )


def reserve_end(tx: Transaction, state: int, quiet_s: int) -> bool:
    """Return whether the caller is the one worker that ends the coexistence, after the given quiet time.

    :param state:

    the state that must have been the newest noted one for that time.
    """
    due = update(_coexistence).where(_coexistence.c.id == state, quiet_s <= _QUIET_S)
    # The new time keeps other workers from ending too; if this one dies on the way, another tries after the
    # same time.
    return tx.change(due.values(since=_NOW)) == 1


def forget_quiet(tx: Transaction) -> None:
    """Restart the time for which other services have been quiet. One statement."""
    tx.change(_FORGET_QUIET)


_FORGET_QUIET = CompiledStatement(delete(_coexistence).where(_is_state))


def note_generations(db: Database, tell_progress: Callable[[str, int, int], object]) -> None:
    """Store own generations, from which foreign writes are counted, where missing; many transactions."""
    unknown = select(func.count()).where(_providers.c.own_generation.is_(None))
    total, done = int(db.read(lambda reader: reader.value(unknown)) or 0), 0
    for _ in range(MOST_TURNS):
        noted = db.write(partial(note_some_generations, most=BATCH))
        if not noted:
            return
        done += noted
        # Another service can create providers meanwhile.
        tell_progress("resource providers noted", done, max(done, total))


def note_some_generations(tx: Transaction, most: int) -> int:
    """Store the own generation of some providers without one; return the number of providers."""
    unknown = select(_providers.c.id).where(_providers.c.own_generation.is_(None))
    ids = tx.column(unknown.order_by(_providers.c.id).limit(most))
    tx.change_unshown(
        update(_providers)
        .where(is_one_of(_providers.c.id, ids), _providers.c.own_generation.is_(None))
        .values(
            own_generation=func.coalesce(_providers.c.generation, 0),
            updated_at=_providers.c.updated_at,
        )
    )
    return len(ids)


def begin(tx: Transaction) -> None:
    """Allow the old service to write too; a second call changes nothing."""
    if not tx.value(select(UNDER_WAY)):
        tx.insert(_coexistence, [{"id": BEGUN, "since": models.now()}])


def remove_begin(tx: Transaction) -> bool:
    """Remove the row of the coexistence; return whether it was there."""
    return tx.change(delete(_coexistence)) > 0


def is_under_way(access: Access) -> bool:
    """Return whether the old service may write too. One statement."""
    return bool(access.value(select(UNDER_WAY)))

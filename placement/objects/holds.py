"""Holds that are over: their room is free again (specification 09 section 5).

Whoever looks for room removes them first, so that no thread has to watch the time; and so does a request
that would be refused for what consumers hold. A hold is over by the clock of the database, and counts only
while its consumer has the generation that it was claimed with.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from placement import authorship, errors, telemetry
from placement.db import (
    hold_rows,
    ledger_rows,
    ledger_writes,
    provider_rows,
    writes,
)
from placement.db.change import Change, ConsumerOutcome
from placement.db.database import MOST_TURNS, Database, Transaction
from placement.db.ledger_rows import ConsumerRow, Reading
from placement.objects import allocation, ledger
from placement.objects.replacement import ConsumerChange

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MOST_ROUNDS, MOST_S = 20, 10.0
"""How often, and for how long, a request removes holds and begins again. After that it goes on with what is
there, whatever the database answers."""

MOST_SEEN = 1000
"""Consumers that are read at once."""

MOST_AT_ONCE = 200
"""Consumers that are removed in one transaction."""

PATIENCE_S, SHORT_S = 2.0, 0.05
"""How long is waited for what others have locked, and for what was waited for in vain before. Who removes
holds takes a fraction of the first."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
"""The latest time that can be shown; a later one in the database is shown as this one."""

_left_behind: WeakKeyDictionary[Database, frozenset[int]] = WeakKeyDictionary()
"""The consumers for which this process has waited in vain: it does not wait for them again."""


_told: WeakKeyDictionary[Database, str] = WeakKeyDictionary()
"""Why the end of holds could not be written: what this process has warned of, and does not again."""


class _Removal(NamedTuple):
    """The outcome of one transaction.

    ``gone``: ids of consumers whose holds are over no more. ``expired``: the consumers that it has removed,
    each with the uuids of the providers that it had something of. ``blocked``: of one that others keep from
    being removed, the uuid, and the ids of providers that they have locked.
    """

    gone: frozenset[int]
    expired: Mapping[str, Sequence[str]]
    blocked: tuple[str, Set[int]] | None


def look_without_ended(db: Database, look: Callable[[], T], any_over: Callable[[T], bool]) -> T:
    """Look; if some hold is over, remove it and look again, as often as :func:`rounds` allows."""
    for _ in rounds():
        found = look()
        if not (any_over(found) and expire(db)):
            return found
    return look()


def rounds() -> Iterator[None]:
    """Yield as often as a request may remove holds and begin again."""
    end_s = time.monotonic() + MOST_S
    for _ in range(MOST_ROUNDS):
        yield
        if time.monotonic() >= end_s:
            break
    LOG.warning("Holds that are over are still there after a request has removed holds for long")


def expire(db: Database) -> bool:
    """Remove the holds that are over; return whether any has gone, by this thread or another, or all have.

    What others have locked is passed over, and waited for if nothing else is left: as a rule they remove it
    too. What stays locked, or cannot be removed, stays for the moment.
    """
    with authorship.acting_alone("expiry of holds"):
        return _expire(db)


def _expire(db: Database) -> bool:
    deadline_s, any_went = time.monotonic() + PATIENCE_S, False
    try:
        found = _find_over(db)
        any_went = not found or _remove_stray(db, found)
        over = {id_: uuid for id_, uuid in found.items() if uuid is not None}
        # Bounded: in each turn one of them goes, or up to PATIENCE_S pass.
        while over:
            left_behind = _left_behind.get(db, frozenset())
            left_s = deadline_s - time.monotonic()
            is_patient = left_s > 0 and not over.keys() <= left_behind
            gone = _remove_or_wait(db, over, left_behind, left_s if is_patient else SHORT_S)
            # Another process may have removed the same ones: whoever stopped for having done nothing itself
            # answered as if there were no room.
            gone = gone or over.keys() - _find_over(db).keys()
            if not (gone or is_patient):
                _left_behind[db] = frozenset(over)
                LOG.info("Holds that are over stay for the moment: %d are locked", len(over))
                break
            any_went = any_went or bool(gone)
            over = {id_: uuid for id_, uuid in over.items() if id_ not in gone}
    except errors.Unavailable as refused:
        # The caller's own statement meets the same database, and has the better words for it.
        LOG.info("Holds that are over stay for the moment: %s", refused)
    except (errors.SequenceBehind, errors.NumberAtBound) as refused:
        # The database itself keeps the rows there, until an operator mends that: each request continues with
        # the rows as they are (specification 09 section 5).
        level = logging.INFO if _told.get(db) == str(refused) else logging.WARNING
        _told[db] = str(refused)
        LOG.log(level, "Holds that are over stay, since their end cannot be written: %s", refused)
    return any_went


def _find_over(db: Database) -> dict[int, str | None]:
    return db.read(lambda reader: hold_rows.find_over(reader, MOST_SEEN))


def _remove_stray(db: Database, found: Mapping[int, str | None]) -> bool:
    """Remove holds whose consumer is missing, or another one; return whether some went."""
    stray = [id_ for id_, uuid in found.items() if uuid is None]
    if not stray:
        return False
    try:
        removed = db.write(lambda tx: hold_rows.remove_stray(tx, stray), wait_s=SHORT_S)
    except (errors.Conflict, errors.DatabaseBusy, errors.OutcomeUnknown):
        return False
    if removed:
        LOG.info(
            "Holds that are over and have no consumer were removed: %d. No allocations changed",
            removed,
        )
    return removed > 0


def keep_allocations(tx: Transaction, records: Sequence[ConsumerRow], reading: Reading) -> None:
    """End the holds of locked consumers by stepping their generations; they keep what they hold."""
    uuids = [record.uuid for record in records]
    writes.take(tx, consumers=uuids)
    ledger_writes.step_consumers(tx, records)
    hold_rows.remove_ended(tx, [record.id for record in records])
    # Trees show the generations of consumers.
    ids = {row.provider_id for uuid in uuids for row in reading.allocations.get(uuid, ())}
    ledger.lock_providers(tx, (), ids)
    author = authorship.current()
    outcomes = {row.uuid: ConsumerOutcome(author, row.generation + 1) for row in records}
    writes.finish(tx, Change(touched=ids, usage_only=True, consumers=outcomes))


def end_all(db: Database) -> list[str]:
    """End all holds, also those that are over; the consumers keep what they hold. Return their uuids."""
    ended: list[str] = []
    for _ in range(MOST_TURNS):
        removed, held = db.write(_end_some)
        ended += held
        if not (removed or held):
            break
    return ended


def _end_some(tx: Transaction) -> tuple[int, list[str]]:
    """Return how many rows have gone, and the uuids of the consumers that were held."""
    found = hold_rows.find_some(tx, MOST_AT_ONCE)
    uuids = [uuid for uuid in found.values() if uuid is not None]
    # From this lock on no search removes the consumers.
    ledger_writes.lock_consumers(tx, uuids)
    held = sorted(hold_rows.of(tx, uuids))
    if held:
        reading = ledger_rows.read(tx, {"consumers": held})
        keep_allocations(tx, [reading.consumers[uuid] for uuid in held], reading)
    # Rows that did not count go too.
    return hold_rows.remove_ended(tx, found), held


def show_time(expires_at: int) -> str:
    """Return the end of a hold, in milliseconds since the epoch, as answers have it."""
    moment = EPOCH + timedelta(milliseconds=min(max(0, expires_at), LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _remove_or_wait(
    db: Database, over: Mapping[int, str], left_behind: Set[int], wait_s: float
) -> Set[int]:
    """Remove some of these; return which are not over any more. Where all are locked, wait for one."""
    try:
        done = db.write(lambda tx: _remove_some(tx, over, left_behind), wait_s=wait_s)
        if done.blocked and not done.gone and wait_s > SHORT_S:
            blocked = done.blocked
            done = db.write(lambda tx: _remove_some(tx, over, left_behind, blocked), wait_s=wait_s)
    except (errors.Conflict, errors.DatabaseBusy, errors.OutcomeUnknown):
        # The caller looks whether they are gone all the same.
        return frozenset()
    telemetry.HOLDS.count("expired", number=len(done.expired))
    for consumer_uuid, providers in done.expired.items():
        LOG.info(
            "The hold of consumer %s has expired: its allocations of resource providers %s were removed",
            consumer_uuid,
            ", ".join(providers) or "that do not exist",
        )
    return done.gone


def _remove_some(
    tx: Transaction,
    over: Mapping[int, str],
    left_behind: Set[int],
    awaited: tuple[str, Set[int]] | None = None,
) -> _Removal:
    if awaited:
        uuid, provider_ids = awaited
        # The consumer before its providers, as every writer locks them.
        ledger_writes.lock_consumers(tx, [uuid])
        provider_rows.lock(tx, (), provider_ids)
    free = hold_rows.lock_free(tx, over, MOST_AT_ONCE)
    # Confirmed, removed, or claimed and held again until the lock was there.
    valid = hold_rows.of(tx, [over[id_] for id_ in free])
    ended = {uuid: hold for uuid, hold in valid.items() if hold.is_over}
    held = ledger_rows.read(tx, {"consumers": [*ended]}).allocations if ended else {}
    places = {uuid: {row.provider_id for row in rows} for uuid, rows in held.items()}
    locked = provider_rows.lock_free(tx, frozenset().union(*places.values()))
    changes = [
        ConsumerChange(uuid, {}, project="", user="", generation=hold.generation)
        for uuid, hold in ended.items()
        if locked.isdisjoint(places.get(uuid, ()))
    ]
    # The hold removes its allocations as any client would, with the generation of the hold: the same steps
    # keep counters, sums and the log right.
    providers = allocation.remove(tx, changes, may_be_empty=True) if changes else {}
    hold_rows.remove_ended(tx, free)
    gone = frozenset(id_ for id_ in free if locked.isdisjoint(places.get(over[id_], ())))
    # Rather one that was not waited for before.
    rest = sorted(over.keys() - gone, key=left_behind.__contains__)
    blocked = (over[rest[0]], locked & places.get(over[rest[0]], set())) if rest else None
    expired = {
        change.uuid: sorted(
            providers[id_].uuid for id_ in places.get(change.uuid, ()) if id_ in providers
        )
        for change in changes
    }
    return _Removal(gone, expired, blocked)

"""The removal of expired holds, which frees their room (specification 09 section 5).

A search removes expired holds before it looks for room, and so does a request that would be refused because
of allocations (:mod:`placement.db.freshness`). A hold expires by the clock of the database, and counts only
while its consumer has the generation of the claim.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence, Set
from typing import NamedTuple
from weakref import WeakKeyDictionary

from placement import authorship, errors, telemetry
from placement.db import ledger_rows, ledger_writes, provider_rows, writes
from placement.db.change import Change, ConsumerOutcome
from placement.db.database import MOST_TURNS, Access, Database, Transaction
from placement.db.freshness import Expiry
from placement.db.ledger_rows import ConsumerRow, Reading
from placement.extensions.claims import hold_rows
from placement.objects import allocation, ledger
from placement.objects.replacement import ConsumerChange

LOG = logging.getLogger(__name__)

MOST_SEEN = 1000
"""The number of expired holds that are read at once."""

MOST_AT_ONCE = 200
"""The number of consumers that one transaction removes."""

PATIENCE_S, SHORT_S = 2.0, 0.05
"""How long to wait for locked rows, and for rows for which a wait has failed before. The removal of
expired holds usually takes a fraction of the first time.
"""

_left_behind: WeakKeyDictionary[Database, frozenset[int]] = WeakKeyDictionary()
"""The consumers for which this process has waited without success: it does not wait for them again."""

_warned: WeakKeyDictionary[Database, str] = WeakKeyDictionary()
"""The logged reasons why holds could not be ended: this process logs each reason once."""


class _Removal(NamedTuple):
    """The outcome of one transaction.

    ``settled``: ids of consumers without an expired hold now. ``expired``: the removed consumers, each with
    the uuids of its former providers. ``blocked``: the uuid of a consumer that cannot be removed because of
    locks, and the ids of the locked providers.
    """

    settled: frozenset[int]
    expired: Mapping[str, Sequence[str]]
    blocked: tuple[str, Set[int]] | None


def remove_expired(db: Database) -> bool:
    """Remove expired holds; return whether any thread has removed some, or none are left.

    Locked holds are skipped first, and waited for if only locked ones are left: usually another thread is
    removing them. A hold that stays locked, or cannot be removed, stays for the moment.
    """
    with authorship.acting_alone("expiry of holds"):
        return _remove_expired(db)


def _remove_expired(db: Database) -> bool:
    deadline_s, any_removed = time.monotonic() + PATIENCE_S, False
    try:
        found = _find_expired(db)
        any_removed = not found or _remove_stray(db, found)
        expired = {id_: uuid for id_, uuid in found.items() if uuid is not None}
        # The loop is bounded: each iteration removes a hold, or takes up to PATIENCE_S.
        while expired:
            left_behind = _left_behind.get(db, frozenset())
            left_s = deadline_s - time.monotonic()
            is_patient = left_s > 0 and not expired.keys() <= left_behind
            settled = _remove_or_wait(db, expired, left_behind, left_s if is_patient else SHORT_S)
            # Another process may have removed the same holds: stopping here would report "no room" although
            # there is some.
            settled = settled or expired.keys() - _find_expired(db).keys()
            if not (settled or is_patient):
                _left_behind[db] = frozenset(expired)
                LOG.info("Expired holds stay for the moment: %d are locked", len(expired))
                break
            any_removed = any_removed or bool(settled)
            expired = {id_: uuid for id_, uuid in expired.items() if id_ not in settled}
    except errors.Unavailable as refused:
        # The caller's own statement meets the same database, and reports its state better.
        LOG.info("Expired holds stay for the moment: %s", refused)
    except (errors.SequenceBehind, errors.NumberAtBound) as refused:
        # The database itself prevents the removal until an operator fixes that: each request continues with
        # the rows as they are (specification 09 section 5).
        level = logging.INFO if _warned.get(db) == str(refused) else logging.WARNING
        _warned[db] = str(refused)
        LOG.log(level, "Expired holds stay, since their end cannot be written: %s", refused)
    return any_removed


def _find_expired(db: Database) -> dict[int, str | None]:
    return db.read(lambda reader: hold_rows.find_expired(reader, MOST_SEEN))


def _remove_stray(db: Database, found: Mapping[int, str | None]) -> bool:
    """Remove holds whose consumer is missing or was replaced; return whether there were some."""
    stray = [id_ for id_, uuid in found.items() if uuid is None]
    if not stray:
        return False
    try:
        removed = db.write(lambda tx: hold_rows.remove_stray(tx, stray), wait_s=SHORT_S)
    except (errors.Conflict, errors.DatabaseBusy, errors.OutcomeUnknown):
        return False
    if removed:
        LOG.info(
            "Expired holds that have no consumer were removed: %d. No allocations changed", removed
        )
    return removed > 0


def keep_allocations(tx: Transaction, records: Sequence[ConsumerRow], reading: Reading) -> None:
    """End the holds of locked consumers by stepping their generations; they keep their allocations."""
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
    """End all holds, expired ones too; the consumers keep their allocations. Return their uuids."""
    ended: list[str] = []
    for _ in range(MOST_TURNS):
        removed, held = db.write(_end_some)
        ended += held
        if not (removed or held):
            break
    return ended


def _end_some(tx: Transaction) -> tuple[int, list[str]]:
    """End some holds; return the number of removed rows, and the uuids of the held consumers."""
    found = hold_rows.find_some(tx, MOST_AT_ONCE)
    uuids = [uuid for uuid in found.values() if uuid is not None]
    # From this lock on, searches cannot remove the consumers.
    ledger_writes.lock_consumers(tx, uuids)
    held = sorted(hold_rows.find_valid(tx, uuids))
    if held:
        reading = ledger_rows.read(tx, {"consumers": held})
        keep_allocations(tx, [reading.consumers[uuid] for uuid in held], reading)
    # Rows that did not count are removed too.
    return hold_rows.remove_ended(tx, found), held


def _remove_or_wait(
    db: Database, expired: Mapping[int, str], left_behind: Set[int], wait_s: float
) -> Set[int]:
    """Remove some of these holds and return the settled consumers; if all are locked, wait for one."""
    try:
        done = db.write(lambda tx: _remove_some(tx, expired, left_behind), wait_s=wait_s)
        if done.blocked and not done.settled and wait_s > SHORT_S:
            blocked = done.blocked
            done = db.write(lambda tx: _remove_some(tx, expired, left_behind, blocked), wait_s=wait_s)
    except (errors.Conflict, errors.DatabaseBusy, errors.OutcomeUnknown):
        # The caller checks whether other threads have removed them.
        return frozenset()
    telemetry.HOLDS.count("expired", number=len(done.expired))
    for consumer_uuid, providers in done.expired.items():
        LOG.info(
            "The hold of consumer %s has expired: its allocations of resource providers %s were removed",
            consumer_uuid,
            ", ".join(providers) or "that do not exist",
        )
    return done.settled


def _remove_some(
    tx: Transaction,
    expired: Mapping[int, str],
    left_behind: Set[int],
    awaited: tuple[str, Set[int]] | None = None,
) -> _Removal:
    if awaited:
        uuid, provider_ids = awaited
        # The consumer is locked before its providers, as in every writer.
        ledger_writes.lock_consumers(tx, [uuid])
        provider_rows.lock(tx, (), provider_ids)
    free = hold_rows.lock_free(tx, expired, MOST_AT_ONCE)
    # While this thread waited for the lock the consumer was confirmed, removed, or claimed and held again.
    valid = hold_rows.find_valid(tx, [expired[id_] for id_ in free])
    ended = {uuid: hold for uuid, hold in valid.items() if hold.has_expired}
    held = ledger_rows.read(tx, {"consumers": [*ended]}).allocations if ended else {}
    places = {uuid: {row.provider_id for row in rows} for uuid, rows in held.items()}
    locked = provider_rows.lock_free(tx, frozenset().union(*places.values()))
    changes = [
        ConsumerChange(uuid, {}, project="", user="", generation=hold.generation)
        for uuid, hold in ended.items()
        if locked.isdisjoint(places.get(uuid, ()))
    ]
    # The hold removes its allocations like a client, with its own generation: the same code keeps counters,
    # sums and the log right.
    providers = allocation.remove(tx, changes, may_be_empty=True) if changes else {}
    hold_rows.remove_ended(tx, free)
    settled = frozenset(id_ for id_ in free if locked.isdisjoint(places.get(expired[id_], ())))
    # A consumer that was not waited for before is preferred.
    rest = sorted(expired.keys() - settled, key=left_behind.__contains__)
    blocked = (expired[rest[0]], locked & places.get(expired[rest[0]], set())) if rest else None
    removed = {
        change.uuid: sorted(
            providers[id_].uuid for id_ in places.get(change.uuid, ()) if id_ in providers
        )
        for change in changes
    }
    return _Removal(settled, removed, blocked)


def _find_generations(access: Access, consumer_uuids: Collection[str]) -> Mapping[str, int]:
    holds = hold_rows.find_valid(access, consumer_uuids)
    return {uuid: hold.generation for uuid, hold in holds.items() if hold.has_expired}


EXPIRY = Expiry(
    any_expired=hold_rows.ANY_EXPIRED,
    remove_expired=remove_expired,
    find_expired=_find_generations,
    end_all=end_all,
)

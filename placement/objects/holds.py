"""Holds that are over: their room is free again (specification 09 section 5).

Whoever looks for room removes them first, so that no thread has to watch the time. A hold is over by the
clock of the database, and counts only while its consumer has the generation that it was claimed with.
"""

import logging
from datetime import UTC, datetime

from placement import errors, telemetry
from placement.db import hold_rows, ledger_writes
from placement.db.database import Database, Transaction
from placement.objects import allocation
from placement.objects.replacement import ConsumerChange

LOG = logging.getLogger(__name__)

MOST_AT_ONCE = 200
"""Consumers that are removed in one transaction."""


def expire(db: Database) -> int:
    """Remove what is over, some ``MOST_AT_ONCE`` consumers; return how many rows went.

    A database that takes no writes goes on with what is there.
    """
    try:
        expired, rows = db.write(_expire)
    except (errors.Unavailable, errors.Conflict) as refused:
        LOG.info("Holds that are over stay for the moment: %s", refused)
        return 0
    telemetry.current().holds_expired += expired
    return rows


def shown(expires_at: int) -> str:
    """Return the end of a hold, in milliseconds since the epoch, as answers have it."""
    moment = datetime.fromtimestamp(expires_at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _expire(tx: Transaction) -> tuple[int, int]:
    over = hold_rows.over(tx, MOST_AT_ONCE)
    ledger_writes.lock_consumers(tx, [uuid for _, uuid, _ in over])
    # Confirmed, removed, or claimed and held again until the lock was there.
    valid = hold_rows.of(tx, [uuid for _, uuid, counts in over if counts])
    changes = [
        ConsumerChange(uuid, {}, project="", user="", generation=hold.generation)
        for uuid, hold in valid.items()
        if hold.is_over
    ]
    if changes:
        allocation.remove(tx, changes, may_be_empty=True)
    done = hold_rows.remove_ended(tx, [id_ for id_, _, _ in over])
    return len(changes), len(changes) + done

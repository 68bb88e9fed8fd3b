"""A fleet of the OpenStack service is replaced while it writes (specification 06 section 13.1)."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial

from placement import telemetry
from placement.db import coexistence_rows, invariants, provider_rows
from placement.db.database import Database, Transaction

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
BATCH = 500
"""Providers that are counted again in one transaction."""

TellProgress = Callable[[str, int, int], object]


class ForeignWriteWatch:
    """Says once a minute, in the log of this process, whether another service writes.

    :param db: whose providers are looked at.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._next_look_s = time.monotonic() + LOOK_EVERY_S

    def look(self) -> None:
        """Look if the last time is long enough ago; one statement then, and none otherwise."""
        now_s = time.monotonic()
        with self._lock:
            if now_s < self._next_look_s:
                return
            self._next_look_s = now_s + LOOK_EVERY_S
        report(self._db)


def report(db: Database) -> coexistence_rows.ForeignWrites:
    """Say in the log what other services have written, and count again what they should not have.

    :returns: what was found.
    """
    found = db.read(coexistence_rows.foreign_writes)
    telemetry.current().foreign_writes = found.writes
    if found.since is not None:
        if found.writes:
            LOG.warning(
                "Another service writes to this database since %s: %d writes to %d resource providers",
                found.since,
                found.writes,
                found.providers,
            )
    elif found.providers:
        adopt_foreign(db)
    return found


def adopt_foreign(db: Database) -> int:
    """Count again from the ledger what another service wrote after the coexistence; say what it was.

    :returns: the number of providers.
    """
    total = 0
    while names := db.write(partial(provider_rows.adopt_foreign, most=BATCH)):
        total += len(names)
        for name in names:
            log_foreign(name)
    return total


def log_foreign(name: str) -> None:
    """Say that a provider was written by a service that should not run any more."""
    LOG.error(
        "Another service wrote resource provider %s although the coexistence has ended; its usage was"
        " counted again. Stop that service, or run placement-manage db release",
        name,
    )


def finish(db: Database, progress: TellProgress = lambda what, done, total: None) -> None:
    """Compute everything derived anew while the service runs, and end the coexistence.

    No process of the old service runs any more. Several short transactions; a second call does no harm.

    :param progress: told what is counted, how many rows of it are, and how many there are.
    """
    total, done, last = db.read(coexistence_rows.number_of_providers), 0, 0
    while ids := db.read(partial(coexistence_rows.ids_after, provider_id=last, most=BATCH)):
        db.write(partial(_adopt, ids=ids))
        done += len(ids)
        progress("resource providers counted", done, max(done, total))
        last = ids[-1]
    _repair_owner_usages(db, progress)
    db.write(coexistence_rows.end)


def _repair_owner_usages(db: Database, progress: TellProgress) -> None:
    total, done = db.snapshot(invariants.wrong_owner_usages), 0

    def tell(number: int) -> None:
        nonlocal done
        done += number
        progress("usages of projects counted", done, max(done, total))

    invariants.repair(db, invariants.OWNER_USAGES, tell)


def _adopt(tx: Transaction, ids: Collection[int]) -> None:
    provider_rows.lock(tx, (), ids)
    coexistence_rows.adopt(tx, ids)


def release(db: Database) -> None:
    """Let processes of the old service write again, while this one runs."""
    db.write(coexistence_rows.begin)

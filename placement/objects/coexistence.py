"""A fleet of the OpenStack service is replaced while it writes (specification 06 section 13.1)."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import partial

from sqlalchemy import exc

from placement import errors, telemetry
from placement.db import coexistence_rows, driver_errors, invariants, provider_rows
from placement.db.coexistence_rows import ForeignWrites
from placement.db.database import Database, Transaction

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
BATCH = 500
"""Providers that are counted again in one transaction."""

TellProgress = Callable[[str, int, int], object]


STEP_S = 0.25
"""For how long one request counts what is derived, before it goes on with what it was asked for."""


class ForeignWriteWatch:
    """Says once a minute, in the log of this process, whether another service writes.

    It also ends a coexistence in which no other service writes any more. There is no background thread: the
    requests of the one process that ends it do some of the work each, before they read the picture.

    :param db: whose providers are looked at.
    :param finish_after_s: for how long no other service has written then; 0 for never.
    """

    def __init__(self, db: Database, finish_after_s: int = 0) -> None:
        self._db = db
        self._finish_after_s = finish_after_s
        self._lock = threading.Lock()
        self._next_look_s = time.monotonic() + LOOK_EVERY_S
        self._counting: Iterator[None] | None = None
        self._step = threading.Lock()
        self._told = False

    def look(self) -> None:
        """Look if the last time is long enough ago; one statement then, and none otherwise.

        During a coexistence another transaction notes what has changed. After the time, some more end it.
        """
        now_s = time.monotonic()
        with self._lock:
            is_due = now_s >= self._next_look_s
            if is_due:
                self._next_look_s = now_s + LOOK_EVERY_S
        if is_due:
            found = report(self._db)
            if found.since is not None and self._finish_after_s:
                self._guarded(partial(self._consider_end, found))
        if self._counting is not None and self._step.acquire(blocking=False):
            try:
                self._guarded(self._count)
            finally:
                self._step.release()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do what no request asked for, so none must fail by it."""
        try:
            work()
        except (errors.PlacementError, exc.SQLAlchemyError) as error:
            self._counting = None
            if not self._told:
                self._told = True
                LOG.warning(
                    "This process could not end the coexistence with the OpenStack service, which"
                    " makes searches slower: %s. %s",
                    error,
                    _advice_on(driver_errors.cause(error)),
                )

    def _consider_end(self, found: ForeignWrites) -> None:
        """Note that other services have written since any process looked; begin the end if they have not."""
        if found.noted != found.state:
            self._db.write(partial(coexistence_rows.note_state, state=found.state))
        elif found.quiet_s >= self._finish_after_s and self._db.write(
            partial(coexistence_rows.take_the_end, state=found.state, quiet_s=self._finish_after_s)
        ):
            self._counting = counting(self._db)

    def _count(self) -> None:
        """Count on for a moment; when all is counted, end the coexistence if it is still quiet."""
        end_s = time.monotonic() + STEP_S
        counting_on = self._counting or iter(())
        for _ in counting_on:
            if time.monotonic() >= end_s:
                return
        self._counting = None
        if self._db.write(_end_if_quiet):
            LOG.info(
                "No other service has written to this database for %d seconds: the coexistence with the"
                " OpenStack service has ended. If that is to write again, run placement-manage db release",
                self._finish_after_s,
            )


def _end_if_quiet(tx: Transaction) -> bool:
    return coexistence_rows.is_quiet(tx) and coexistence_rows.end(tx)


def _advice_on(error: BaseException) -> str:
    if isinstance(error, exc.DBAPIError) and (
        driver_errors.lacks_rights(error) or driver_errors.is_read_only(error)
    ):
        return 'An operator must run "placement-manage db sync --finish" with a user who may write'
    return "It will be tried again"


def described(since: datetime) -> str:
    """Say for people that a coexistence is under way."""
    return (
        f"The OpenStack service may write to this database too, since {since:%Y-%m-%d %H:%M:%S} UTC: until"
        " that ends searches and usages count the ledger"
    )


def report(db: Database) -> ForeignWrites:
    """Say in the log what other services have written, and count again what they should not have.

    :returns: what was found.
    """
    found = db.read(coexistence_rows.foreign_writes)
    telemetry.FOREIGN_WRITES.set(found.writes)
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
    for _ in counting(db, progress):
        pass
    db.write(coexistence_rows.end)


def counting(
    db: Database, progress: TellProgress = lambda what, done, total: None
) -> Iterator[None]:
    """Compute everything derived anew, one short transaction for each turn."""
    total, done, last = db.read(coexistence_rows.number_of_providers), 0, 0
    while ids := db.read(partial(coexistence_rows.ids_after, provider_id=last, most=BATCH)):
        db.write(partial(_adopt, ids=ids))
        done += len(ids)
        progress("resource providers counted", done, max(done, total))
        last = ids[-1]
        yield
    total, done = db.snapshot(invariants.wrong_owner_usages), 0
    for number in invariants.repairs(db, invariants.OWNER_USAGES):
        done += number
        progress("usages of projects counted", done, max(done, total))
        yield


def _adopt(tx: Transaction, ids: Collection[int]) -> None:
    provider_rows.lock(tx, (), ids)
    coexistence_rows.adopt(tx, ids)


def release(db: Database) -> None:
    """Let processes of the old service write again, while this one runs."""
    db.write(coexistence_rows.begin)

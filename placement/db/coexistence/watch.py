"""The watch: what other services write is said in the log; where they are quiet, a coexistence ends."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from sqlalchemy import exc

from placement import errors, telemetry
from placement.db import driver_errors
from placement.db.coexistence import state, takeover
from placement.db.coexistence.adoption import adopt_foreign, is_quiet
from placement.db.coexistence.state import ForeignWrites
from placement.db.coexistence.takeover import count_anew
from placement.db.database import Database, Transaction

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 60.0
STEP_S = 0.25
"""How long one request counts derived values before it continues with its own work."""


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
                self._guard(partial(self._consider_end, found))
        # At most one thread counts; the others continue with their requests.
        if self._counting is not None and self._step.acquire(blocking=False):
            try:
                self._guard(self._count)
            finally:
                self._step.release()

    def _guard(self, work: Callable[[], None]) -> None:
        """Run work that no request asked for, so that no request fails by it."""
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
                    _advise_on(driver_errors.cause(error)),
                )

    def _consider_end(self, found: ForeignWrites) -> None:
        """Note that other services have written since any process looked; begin the end if they have not."""
        if found.noted != found.state or found.quiet_s < 0:
            self._db.write(partial(state.note_state, state=found.state))
        elif found.quiet_s >= self._finish_after_s and self._db.write(
            partial(state.reserve_end, state=found.state, quiet_s=self._finish_after_s)
        ):
            self._counting = count_anew(self._db)

    def _count(self) -> None:
        """Count on for a moment; when all is counted, end the coexistence if it is still quiet."""
        end_s = time.monotonic() + STEP_S
        for _ in self._counting or ():
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
    # Counting takes minutes, in which the other service may have written: then it ends another time.
    return is_quiet(tx) and takeover.end(tx)


def _advise_on(error: BaseException) -> str:
    if isinstance(error, exc.DBAPIError) and (
        driver_errors.lacks_rights(error) or driver_errors.is_read_only(error)
    ):
        return 'An operator must run "placement-manage db sync --finish" with a user who may write'
    return "It will be tried again"


def report(db: Database) -> ForeignWrites:
    """Say in the log what other services have written, and count again what they should not have.

    :returns: what was found.
    """
    found = db.read(state.read_foreign_writes)
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

"""The watch, which logs what other services write, and ends a coexistence when they are quiet."""

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
from placement.db.database import Database

LOG = logging.getLogger(__name__)

CHECK_EVERY_S = 60.0
STEP_S = 0.25
"""The time for which a request counts derived values before it continues with its own work."""


class ForeignWriteWatch:
    """A check, once a minute, whether another service writes, with a line in the log of this process.

    The watch also ends a coexistence in which no other service writes any more. There is no background
    thread: in the process that ends it, each request does some of the work before it reads the picture.

    :param db: the database that is watched.
    :param finish_after_s: the quiet time after which the coexistence ends; 0 for never.
    """

    def __init__(self, db: Database, finish_after_s: int = 0) -> None:
        self._db = db
        self._finish_after_s = finish_after_s
        self._lock = threading.Lock()
        self._next_check_s = time.monotonic() + CHECK_EVERY_S
        self._counting: Iterator[None] | None = None
        self._step = threading.Lock()
        self._told = False

    def check(self) -> None:
        """Read foreign writes if the last reading is old enough; one statement then, and none otherwise.

        During a coexistence another transaction notes the changes. After the quiet time, further ones end it.
        """
        now_s = time.monotonic()
        with self._lock:
            is_due = now_s >= self._next_check_s
            if is_due:
                self._next_check_s = now_s + CHECK_EVERY_S
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
        """Run work that no request asked for; an error in it is logged and fails no request."""
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
        """Note new writes of other services, or begin the end of the coexistence if there are none."""
        if found.noted != found.state or found.quiet_s < 0:
            self._db.write(partial(state.note_state, state=found.state))
        elif found.quiet_s >= self._finish_after_s and self._db.write(
            partial(state.reserve_end, state=found.state, quiet_s=self._finish_after_s)
        ):
            self._counting = count_anew(self._db)

    def _count(self) -> None:
        """Continue counting for a moment; when all is counted, end the coexistence if it is still quiet."""
        end_s = time.monotonic() + STEP_S
        for _ in self._counting or ():
            if time.monotonic() >= end_s:
                return
        self._counting = None
        # Counting takes minutes, in which the other service may have written; then a later attempt ends the
        # coexistence.
        if self._db.write(lambda tx: is_quiet(tx) and takeover.end(tx)):
            LOG.info(
                "No other service has written to this database for %d seconds: the coexistence with the"
                " OpenStack service has ended. If that is to write again, run placement-manage db release",
                self._finish_after_s,
            )


def _advise_on(error: BaseException) -> str:
    if isinstance(error, exc.DBAPIError) and (
        driver_errors.lacks_rights(error) or driver_errors.is_read_only(error)
    ):
        return 'An operator must run "placement-manage db sync --finish" with a user who may write'
    return "It will be tried again"


def report(db: Database) -> ForeignWrites:
    """Log what other services have written, and count again what they wrote after a coexistence.

    :returns: the foreign writes that were found.
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

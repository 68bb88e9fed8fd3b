"""Requests that wait for a change: a few, without a connection, sharing one query."""

import threading
import time
from collections.abc import Callable

from placement import telemetry
from placement.db.database import Database
from placement.extensions.feed import figures
from placement.extensions.feed.feed import Token, find_token

LOOK_EVERY_S = 0.2
COEXISTENCE_LOOK_EVERY_S = 2.0
"""The interval during a coexistence, when a query takes the database up to 180 ms
(:mod:`placement.db.coexistence.checksums`).
"""

HUNG_UP_S = 1.0
"""The longest time before the service notices that a client has hung up, or that the process must stop."""


class Lookout:
    """The place where requests of one process wait for a state other than the one they know.

    The first that finds a query due asks the database for all of them. There is no further thread.

    :param most: the number of requests that can wait at once.
    """

    def __init__(self, db: Database, most: int) -> None:
        self._db = db
        self._most = most
        self._waiting = 0
        self._moved = threading.Condition()
        self._looking = False
        self._next_look_s = 0.0
        self._seen: Token | None = None
        # The start of the query that saw the state, on the monotonic clock.
        self._seen_s = 0.0

    def wait(self, known: Token, seconds: float, ends_early: Callable[[], bool]) -> bool:
        """Wait until the state is not ``known``, the time has ended, or ``ends_early`` is true.

        :param known: the state that the caller has just read.
        :param ends_early: returns whether the client has hung up or the process stops; called repeatedly.
        :return: False, at once, if enough other requests wait.
        """
        with self._moved:
            if self._waiting >= self._most:
                figures.CHANGES_UNWAITED.count()
                return False
            self._waiting += 1
            try:
                begun_s = time.monotonic()
                self._watch(known, begun_s, begun_s + seconds, ends_early)
                telemetry.note_idle(time.monotonic() - begun_s)
            finally:
                self._waiting -= 1
        return True

    def _watch(
        self, known: Token, begun_s: float, end_s: float, ends_early: Callable[[], bool]
    ) -> None:
        """Query the state, or let another thread do it, until the wait ends. The caller holds the lock."""
        while (left_s := end_s - time.monotonic()) > 0 and not ends_early():
            # A query that began before the caller read may have seen an older state, which differs too.
            if self._seen != known and self._seen_s >= begun_s:
                return
            due_s = self._next_look_s - time.monotonic()
            if self._looking or due_s > 0:
                pause_s = HUNG_UP_S if self._looking else min(due_s, HUNG_UP_S)
                self._moved.wait(min(left_s, pause_s))
            else:
                self._query()

    def _query(self) -> None:
        """Query the database without the lock; after a failure another request tries next."""
        self._looking = True
        self._moved.release()
        seen, seen_s = None, time.monotonic()
        try:
            seen = find_token(self._db)
        finally:
            self._moved.acquire()
            self._looking = False
            pause_s = COEXISTENCE_LOOK_EVERY_S if seen and not seen.marks else LOOK_EVERY_S
            self._next_look_s = time.monotonic() + pause_s
            if seen is not None:
                self._seen, self._seen_s = seen, seen_s
            self._moved.notify_all()

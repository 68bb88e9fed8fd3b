"""The engine, the three kinds of access, and the one retry.

A caller that holds a :class:`Database` is outermost and owns its transaction; a function that takes
a ``Transaction`` runs inside one. The engine is in driver autocommit and every transaction begins
and ends with a statement of its own, so that what reaches the database is what this page says:

``read``
    No transaction. For work of exactly one statement, which every engine answers from one snapshot.
``snapshot``
    A read-only transaction in which all statements see the same committed state.
``write``
    A transaction at READ COMMITTED (SQLite: one writer at a time) that is repeated from its first
    statement when the database or a lost compare-and-set says so.
"""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import tenacity
from sqlalchemy import Connection, Engine, exc

from placement import errors
from placement.db import faults

T = TypeVar("T")
Transaction = Connection

# READ COMMITTED, and not more, for writes: the rows that a check depends on are locked before they
# are read, and a statement that waited for a lock must see what the holder committed. On MySQL it
# also avoids gap locks, which make two inserts of new consumers deadlock; the session default is
# set at connect there.
BEGIN_WRITE = {
    "sqlite": ("BEGIN IMMEDIATE",),
    # Not READ WRITE: a standby, or a database that its operator has made read-only, then says so.
    "postgresql": ("BEGIN ISOLATION LEVEL READ COMMITTED",),
    "mysql": ("START TRANSACTION",),
}
BEGIN_SNAPSHOT = {
    "sqlite": ("BEGIN",),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    "mysql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}

# Full jitter from some 10 ms: long enough to let the other transaction finish, short enough that
# a client does not notice.
RETRY_WAIT_S = 0.01
RETRY_WAIT_MAX_S = 0.5


class StaleRead(Exception):
    """What was read inside this transaction is no longer true: begin it again.

    Raised by a compare-and-set that found no row, and by an insert that somebody else made first.
    """


class Database:
    """One configured database.

    :param engine: a SQLAlchemy engine in autocommit (see :mod:`placement.db.engine`).
    :param attempts: called for each write; how often a transaction is tried at the most.
    :param deadline_s: no new attempt begins later than this after the first.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        attempts: Callable[[], int] = lambda: 10,
        deadline_s: float = 30.0,
    ) -> None:
        self.engine = engine
        self.dialect = "mysql" if engine.dialect.name == "mariadb" else engine.dialect.name
        in_memory = self.dialect == "sqlite" and engine.url.database in (None, "", ":memory:")
        # SQLite has one writer and no queue for it: its busy handler polls. Writers of one process
        # line up here instead. An in-memory database is one shared connection: everybody lines up.
        lock = threading.RLock()
        self._writers: Any = lock if self.dialect == "sqlite" else nullcontext()
        self._readers: Any = lock if in_memory else nullcontext()
        self._attempts = attempts
        self._deadline_s = deadline_s
        self._write_retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_repeat_write),
            stop=self._give_up,
            wait=tenacity.wait_random_exponential(multiplier=RETRY_WAIT_S, max=RETRY_WAIT_MAX_S),
            reraise=True,
        )
        self._read_retry = self._write_retry.copy(
            retry=tenacity.retry_if_exception(faults.may_repeat),
        )

    def _give_up(self, state: tenacity.RetryCallState) -> bool:
        elapsed_s = state.seconds_since_start or 0.0
        return state.attempt_number >= max(1, self._attempts()) or elapsed_s >= self._deadline_s

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return ``work(connection)`` outside any transaction; ``work`` runs one statement.

        :raises errors.DatabaseBusy: others kept what it reads locked.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
        """
        return self._reading(work, ())

    def snapshot(self, work: Callable[[Connection], T]) -> T:
        """Return ``work(tx)``, all of whose statements see one committed state.

        :raises errors.DatabaseBusy: others kept what it reads locked.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
        """
        return self._reading(work, BEGIN_SNAPSHOT[self.dialect])

    def _reading(self, work: Callable[[Connection], T], begin: tuple[str, ...]) -> T:
        try:
            return self._guarded(self._read_retry, self._run, work, begin, self._readers)
        except exc.DBAPIError as error:
            if faults.is_conflict(error):
                raise errors.DatabaseBusy() from error
            raise

    def write(
        self,
        work: Callable[[Connection], T],
        *,
        on_conflict: Callable[[], errors.PlacementError] = lambda: errors.ConcurrentUpdate(
            detail="the objects changed while they were being written"
        ),
    ) -> T:
        """Return ``work(tx)`` once its transaction is committed.

        ``work`` may run several times and must start from nothing each time. Whatever it raises
        rolls the transaction back.

        :param on_conflict: makes the error for a transaction that kept losing.
        :raises errors.OutcomeUnknown: the connection was lost during COMMIT.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
        """
        try:
            return self._guarded(
                self._write_retry, self._run, work, BEGIN_WRITE[self.dialect], self._writers
            )
        except StaleRead as stale:
            raise on_conflict() from stale
        except exc.DBAPIError as error:
            if faults.is_conflict(error):
                raise on_conflict() from error
            raise

    def _guarded(
        self,
        retrying: tenacity.Retrying,
        run: Callable[..., T],
        *args: Any,
    ) -> T:
        try:
            return retrying(run, *args)
        except exc.DBAPIError as error:
            if faults.is_disconnect(error):
                raise errors.DatabaseUnavailable() from error
            if faults.is_read_only(error):
                raise errors.DatabaseReadOnly() from error
            raise
        except exc.TimeoutError as error:
            raise errors.DatabaseUnavailable() from error

    def _run(self, work: Callable[[Connection], T], begin: tuple[str, ...], turn: Any) -> T:
        with turn, self.engine.connect() as connection:
            if not begin:
                return work(connection)
            return self._in_transaction(connection, work, begin)

    def _in_transaction(
        self, tx: Connection, work: Callable[[Connection], T], begin: tuple[str, ...]
    ) -> T:
        try:
            for statement in begin:
                tx.exec_driver_sql(statement)
            result = work(tx)
        except BaseException:
            _roll_back(tx)
            raise
        try:
            tx.exec_driver_sql("COMMIT")
        except exc.DBAPIError as error:
            if faults.is_disconnect(error):
                raise errors.OutcomeUnknown() from error
            _roll_back(tx)
            raise
        except BaseException:
            tx.invalidate()
            raise
        return result

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _roll_back(tx: Connection) -> None:
    """Undo the transaction; give the connection up if that cannot be said or heard."""
    if tx.invalidated or tx.closed:
        return
    try:
        tx.exec_driver_sql("ROLLBACK")
    except exc.DBAPIError:
        # Also where the database ended the transaction by itself (SQLite does on a full disk).
        tx.invalidate()


def _may_repeat_write(error: BaseException) -> bool:
    return isinstance(error, StaleRead) or faults.may_repeat(error)

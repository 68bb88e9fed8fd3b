"""The engine, the three kinds of access, and the one retry.

A caller that holds a :class:`Database` is outermost and owns its transaction; a function that takes
a ``Transaction`` runs inside one. The engine is in driver autocommit and every transaction begins
and ends with a statement of its own, so that what reaches the database is what this page says:

``read`` hands out a :class:`Reader`
    No transaction, and exactly one statement, which every engine answers from one snapshot.
``snapshot`` hands out a :class:`Snapshot`
    A read-only transaction in which all statements see the same committed state.
``write`` hands out a :class:`Transaction`
    At READ COMMITTED (SQLite: one writer at a time), repeated from its first statement when the
    database or a lost compare-and-set says so.

A function of one statement that reads takes any :class:`Access`.
"""

import itertools
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any, TypeVar

import tenacity
from sqlalchemy import Connection, CursorResult, Engine, Executable, ScalarResult, exc, select
from sqlalchemy.pool import StaticPool

from placement import errors, telemetry
from placement.db import dialects, driver_errors, message, ready
from placement.db.message import Part
from placement.db.message import StaleRead as StaleRead
from placement.db.ready import Ready, Row
from placement.db.silence import Silence
from placement.db.writer_queue import WriterQueue

T = TypeVar("T")
A = TypeVar("A", bound="Access")

NOTHING: Mapping[str, Any] = {}
"""No parameters; a plain dictionary, as drivers want it."""

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

DEADLINE_S = 30


_ANYTHING = Ready(select(1))


class Access:
    """What runs statements: one of the three kinds below.

    What nobody needs an answer to waits for the next statement and travels with it, where the driver takes
    several at once; BEGIN does, to begin with.

    ``dialect``: sqlite, postgresql or mysql.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = dialects.kind(connection)
        self._is_direct = ready.nobody_listens(connection.engine)
        self._may_wait = self._is_direct and bool(connection.info.get(message.SEVERAL))
        self._waiting: list[Part] = []
        self._has_begun = False

    @property
    def connection(self) -> Connection:
        """SQLAlchemy's, with everything sent that waited."""
        self._settle()
        return self._connection

    def rows(self, statement: Ready, parameters: Mapping[str, Any] = NOTHING) -> Sequence[Row]:
        """Return the rows of a statement that is made ready, as plain tuples."""
        self._note_statement()
        if self._is_direct:
            return ready.rows(self._connection, statement, parameters, self._taken())
        return ready.watched_rows(self._connection, statement, parameters)

    def change(self, statement: Ready, parameters: Mapping[str, Any] = NOTHING) -> int:
        """Run a statement that is made ready; return how many rows it has found."""
        self._note_statement()
        if self._is_direct:
            return ready.change(self._connection, statement, parameters, self._taken())
        return ready.watched_change(self._connection, statement, parameters)

    def begin(self, texts: Sequence[str]) -> None:
        """Begin a transaction, at the latest with the next statement."""
        for text in texts:
            self._send(text)

    def reach(self) -> None:
        """Send what must be heard before COMMIT.

        Whether a pooled connection was cut, and numbers of rows that the statements do not check themselves.

        :raises StaleRead: one of them is another than it must be.
        """
        if not self._has_begun or any(part.finds is not None for part in self._waiting):
            self._settle()

    def commit(self) -> None:
        """End the transaction; what was written is there for everybody."""
        self._send("COMMIT")
        self._settle()

    def roll_back(self) -> None:
        """Undo the transaction; give the connection up if that cannot be said or heard."""
        self._waiting.clear()
        if not self._has_begun or self._connection.invalidated or self._connection.closed:
            return
        try:
            self._send("ROLLBACK")
            self._settle()
        except exc.DBAPIError:
            # Also where the database ended the transaction by itself (SQLite does on a full disk).
            self.give_up()

    def give_up(self) -> None:
        """Let nobody use the connection again: what comes from it next is unknown."""
        self._connection.invalidate()

    def _send(self, text: str) -> None:
        """Send one of the statements around a transaction."""
        self._note_statement()
        self._waiting.append(Part(text))
        if not self._may_wait:
            self._settle()

    def _taken(self) -> list[Part]:
        """Return what waits; it is about to be sent."""
        self._has_begun = True
        waiting, self._waiting = self._waiting, []
        return waiting

    def _settle(self) -> None:
        """Send what waits."""
        if self._is_direct:
            ready.send(self._connection, self._taken())
        else:
            for part in self._taken():
                self._connection.exec_driver_sql(part.text)

    def execute(
        self, statement: Executable, parameters: Any = None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run a statement that is built for the occasion."""
        self._note_statement()
        return self.connection.execute(statement, parameters)

    def scalar(self, statement: Executable) -> Any:
        """Return the one value of a statement that is built for the occasion."""
        self._note_statement()
        return self.connection.scalar(statement)

    def scalars(self, statement: Executable) -> ScalarResult[Any]:
        """Return the first column of a statement that is built for the occasion."""
        self._note_statement()
        return self.connection.scalars(statement)

    def exec_driver_sql(self, text: str, parameters: Any = None) -> CursorResult[*tuple[Any, ...]]:
        """Run a text in the driver's own language."""
        self._note_statement()
        return self.connection.exec_driver_sql(text, parameters)

    def _note_statement(self) -> None:
        telemetry.ran_statement()


class Reader(Access):
    """Runs one statement, outside any transaction: a second one could see another state."""

    _has_run = False

    def _note_statement(self) -> None:
        if self._has_run:
            raise RuntimeError("Database.read is for one statement; take Database.snapshot")
        self._has_run = True
        super()._note_statement()


class Snapshot(Access):
    """A read-only transaction, all of whose statements see one committed state."""


class Transaction(Access):
    """A transaction that writes.

    ``attempt``: 1, or more if those before were rolled back. ``lot``: a number drawn at random, one for
    all statements.
    """

    attempt = 0

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.lot = secrets.randbits(16)

    def change_later(
        self, statement: Ready, parameters: Mapping[str, Any], finds: int | None = None
    ) -> None:
        """Run a statement that writes, at the latest with the next one or with COMMIT.

        :param finds: how many rows it must find, if that is known.
        :raises StaleRead: it has found another number. Where it waits, the statement that it travels with
            raises what is repeated alike.
        """
        waits = self._may_wait and ready.postponed(self._connection, statement, parameters, finds)
        if waits:
            self._note_statement()
            self._waiting.append(waits)
        elif self.change(statement, parameters) != finds and finds is not None:
            raise StaleRead("other rows are there than were read")


class Database:
    """One configured database.

    :param engine: of :func:`placement.db.engine.make_engine`: in autocommit, and prepared.
    :param attempts: called for each write; how often a transaction is tried at the most.
    :param deadline_s: no new attempt begins later than this after the first. What an attempt waits for has
        deadlines of its own (:mod:`placement.db.deadlines`).
    """

    def __init__(
        self,
        engine: Engine,
        *,
        attempts: Callable[[], int] = lambda: 10,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.engine = engine
        self.synchronised = False
        """The schema and the standard names are up to date; asked once."""
        self.in_use: set[Access] = set()
        """What has a connection at the moment: cheaper to count than those of the pool."""
        self.dialect = dialects.kind(engine)
        in_memory = self.dialect == "sqlite" and engine.url.database in (None, "", ":memory:")
        # SQLite has one writer and no queue for it: its busy handler polls. Writers of one process
        # line up here instead. An in-memory database is one shared connection: everybody lines up.
        self._writers: Any = WriterQueue(deadline_s) if self.dialect == "sqlite" else nullcontext()
        self._readers: Any = nullcontext()
        if in_memory:
            self._readers = self._writers = threading.RLock()
        self._silence = Silence()
        self._attempts = attempts
        self._deadline_s = deadline_s
        self._write_retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_repeat_write),
            stop=self._give_up,
            wait=tenacity.wait_random_exponential(multiplier=RETRY_WAIT_S, max=RETRY_WAIT_MAX_S),
            before_sleep=_note_repeat,
            reraise=True,
        )
        self._read_retry = self._write_retry.copy(
            retry=tenacity.retry_if_exception(driver_errors.may_repeat),
        )
        self._ping_retry = self._read_retry.copy(stop=tenacity.stop_after_attempt(2))

    def ping(self) -> None:
        """Hear whether the database answers; a pooled connection that was cut is no answer yet.

        :raises errors.Unavailable: it does not.
        """
        self._guarded(self._ping_retry, self._run, Reader, _ask, (), self._readers)

    def _give_up(self, state: tenacity.RetryCallState) -> bool:
        elapsed_s = state.seconds_since_start or 0.0
        return state.attempt_number >= max(1, self._attempts()) or elapsed_s >= self._deadline_s

    def read(self, work: Callable[[Reader], T]) -> T:
        """Return ``work(reader)``, which runs one statement outside any transaction.

        :raises errors.DatabaseBusy: others kept what it reads locked, or it took too long.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
        """
        return self._reading(Reader, work, ())

    def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        """Return ``work(tx)``, all of whose statements see one committed state.

        :raises errors.DatabaseBusy: others kept what it reads locked, or it took too long.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
        """
        return self._reading(Snapshot, work, BEGIN_SNAPSHOT[self.dialect])

    def _reading(self, kind: type[A], work: Callable[[A], T], begin: tuple[str, ...]) -> T:
        try:
            return self._guarded(self._read_retry, self._run, kind, work, begin, self._readers)
        except exc.DBAPIError as error:
            if driver_errors.is_conflict(error):
                raise errors.DatabaseBusy() from error
            raise

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        on_conflict: Callable[[], errors.PlacementError] = errors.ObjectsChanged,
    ) -> T:
        """Return ``work(tx)`` once its transaction is committed.

        ``work`` may run several times and must start from nothing each time. Whatever it raises
        rolls the transaction back.

        :param on_conflict: makes the error for a transaction that kept losing.
        :raises errors.OutcomeUnknown: the connection was lost during COMMIT.
        :raises errors.DatabaseBusy: a statement took too long; SQLite: another program keeps the file
            locked.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
        """
        attempts = itertools.count(1)

        def attempt(tx: Transaction) -> T:
            telemetry.attempted()
            tx.attempt = next(attempts)
            return work(tx)

        begin = BEGIN_WRITE[self.dialect]
        try:
            return self._guarded(
                self._write_retry, self._run, Transaction, attempt, begin, self._writers
            )
        except StaleRead as stale:
            telemetry.gave_up()
            raise on_conflict() from stale
        except exc.DBAPIError as error:
            if driver_errors.is_conflict(error):
                telemetry.gave_up()
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
            if driver_errors.is_disconnect(error):
                raise errors.DatabaseUnavailable() from error
            if driver_errors.is_read_only(error):
                raise errors.DatabaseReadOnly() from error
            if driver_errors.took_too_long(error):
                raise errors.DatabaseBusy() from error
            raise
        except exc.TimeoutError as error:
            raise errors.DatabaseUnavailable() from error

    def _run(self, kind: type[A], work: Callable[[A], T], begin: tuple[str, ...], turn: Any) -> T:
        try:
            with turn, self._silence.heard(), self._connected() as connection:
                access = kind(connection)
                self.in_use.add(access)
                try:
                    return self._in_transaction(access, work, begin) if begin else work(access)
                finally:
                    self.in_use.remove(access)
        except (exc.SQLAlchemyError, errors.OutcomeUnknown) as error:
            telemetry.database_failed(driver_errors.kind(error))
            raise

    def _connected(self) -> Connection:
        began = perf_counter()
        connection = self.engine.connect()
        telemetry.waited_for_connection(perf_counter() - began)
        return connection

    def _in_transaction(self, tx: A, work: Callable[[A], T], begin: tuple[str, ...]) -> T:
        try:
            tx.begin(begin)
            result = work(tx)
            tx.reach()
        except BaseException:
            tx.roll_back()
            telemetry.transaction_ended()
            raise
        try:
            tx.commit()
        except exc.DBAPIError as error:
            if driver_errors.is_disconnect(error):
                raise errors.OutcomeUnknown() from error
            tx.roll_back()
            raise
        except BaseException:
            tx.give_up()
            raise
        finally:
            telemetry.transaction_ended()
        return result

    def prepare_to_fork(self) -> None:
        """Close the connections that nobody uses: two processes on one socket garble both.

        For the end of start-up. uWSGI forks its workers then, and does not tell Python, so that nothing
        of theirs could forget what they inherit.
        """
        if not isinstance(self.engine.pool, StaticPool):
            self.engine.dispose()

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _ask(reader: Reader) -> None:
    reader.rows(_ANYTHING)


def _note_repeat(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    telemetry.repeats(
        "stale" if error is None or isinstance(error, StaleRead) else driver_errors.kind(error)
    )


def _may_repeat_write(error: BaseException) -> bool:
    return isinstance(error, StaleRead) or driver_errors.may_repeat(error)

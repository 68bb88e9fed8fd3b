"""The engine, the three kinds of access, and the one retry.

A caller that holds a :class:`Database` is outermost and owns its transaction; a function that takes a
``Transaction`` runs inside one. The engine is in driver autocommit: every transaction begins and ends with a
statement of its own. ``read`` hands out a :class:`Reader`, ``snapshot`` a :class:`Snapshot`, and ``write`` a
:class:`Transaction` at READ COMMITTED (SQLite: one writer at a time), which is repeated from its first
statement when the database or a lost compare-and-set says so. A function of one statement that reads takes
any :class:`Access`.
"""

import itertools
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any, TypeVar

import tenacity
from sqlalchemy import Connection, Engine, Executable, Table, exc, select
from sqlalchemy.pool import StaticPool

from placement import errors, telemetry
from placement.db import character_sets, deadlines, dialects, driver_errors, freshness, transport
from placement.db.change import Change, WriteWatcher
from placement.db.engine import HOSTS
from placement.db.lost_connections import LostConnections
from placement.db.queues import BriefQueue, FrozenDatabaseGuard, WriterQueue
from placement.db.statements import (
    NOTHING,
    ROWS_AT_ONCE,
    CompiledStatement,
    DriverText,
    Parameters,
    Row,
    Statement,
    batches,
    find_shown_table,
    insert_of,
    list_key,
)
from placement.db.transport import MessageObservers, QueuedStatement
from placement.db.transport import StaleRead as StaleRead

T = TypeVar("T")
A = TypeVar("A", bound="Access")

# A random part of a doubling pause, which starts at about 10 ms.
RETRY_WAIT_S, RETRY_WAIT_MAX_S = 0.01, 0.5
DEADLINE_S = 30

MOST_TURNS = 10_000
"""The most transactions of work in batches: a batch that reports the same rows as done again and again
must not continue for ever.
"""


_ANYTHING = CompiledStatement(select(1))


@contextmanager
def stale_if_refused(why: str, *, gives_ids: bool = False) -> Iterator[None]:
    """Begin the transaction again if a unique or foreign key refuses a write in the block.

    :param gives_ids: the caller chooses the ids of inserted rows; no sequence gives them.
    :raises StaleRead: a key refused the write.
    """
    try:
        yield
    except exc.IntegrityError as refused:
        if not gives_ids and driver_errors.find_table_of_taken_id(refused):
            # The taken value is the id, not the name, so the next attempts would draw taken ids too.
            raise
        raise StaleRead(why) from refused


Runnable = Statement | CompiledStatement | Executable
"""A statement with its parameters, or one without parameters that is compiled once or at run time."""


class Access:
    """The base of the three kinds of access below; it runs statements.

    ``dialect``: sqlite, postgresql or mysql. If the driver accepts several statements at once, a statement
    whose outcome is not needed yet is sent together with the next one. BEGIN is the first such statement.

    ``unfinished``: a table of the API that was changed after the last ``writes.finish``, or "".
    """

    unfinished = ""

    def __init__(self, connection: Connection, watch: MessageObservers | None = None) -> None:
        self._connection = connection
        self._watch = watch or MessageObservers()
        self.dialect = dialects.kind(connection)
        self._may_wait = bool(connection.info.get(transport.SEVERAL))
        self._queue: list[QueuedStatement] = []
        self._has_begun = False

    @property
    def connection(self) -> Connection:
        """The connection of SQLAlchemy, for reflection and DDL only; queued statements are sent first."""
        # A queued BEGIN is sent now: SQLAlchemy's statements would otherwise run outside the transaction.
        self._flush()
        return self._connection

    def rows(self, statement: Runnable, parameters: Parameters = NOTHING) -> Sequence[Row]:
        """Return the rows of a statement, as plain tuples."""
        self._note_statement()
        text, queued = self._prepare(statement, parameters)
        _, rows, description = transport.send(
            self._connection, (*self.take_queue(), queued), self._watch, reads=True
        )
        return text.convert(rows, description)

    def value(self, statement: Runnable, parameters: Parameters = NOTHING) -> Any:
        """Return the first column of the first row of a statement, None if there is no row."""
        rows = self.rows(statement, parameters)
        return rows[0][0] if rows else None

    def column(self, statement: Runnable, parameters: Parameters = NOTHING) -> list[Any]:
        """Return the first column of the rows of a statement."""
        return [row[0] for row in self.rows(statement, parameters)]

    def rows_of_all(self, statement: Runnable, name: str, values: Collection[Any]) -> list[Row]:
        """Return the rows for all values of the list ``name``: one statement for each thousand, in order."""
        found: list[Row] = []
        for batch in batches(sorted(values)):
            found += self.rows(statement, {name: batch})
        return found

    def change(self, statement: Runnable, parameters: Parameters = NOTHING) -> int:
        """Run a statement that reads no rows; return the number of matched rows."""
        self._note_statement()
        _, queued = self._prepare(statement, parameters)
        number = transport.send(self._connection, (*self.take_queue(), queued), self._watch).number
        if number:
            self.unfinished = find_shown_table(statement) or self.unfinished
        return number

    def begin(self, texts: Sequence[str]) -> None:
        """Begin a transaction; BEGIN is sent at the latest with the next statement."""
        for text in texts:
            self._send_around(text)

    def flush_checked(self) -> None:
        """Send queued statements whose row counts must be checked before COMMIT.

        BEGIN is sent too if it is still queued: on a lost connection BEGIN fails, and that can be repeated.

        :raises StaleRead: a statement matched another number of rows than expected.
        """
        if not self._has_begun or any(each.expected_rows is not None for each in self._queue):
            self._flush()

    def commit(self) -> None:
        """End the transaction; from now on other transactions see what it wrote."""
        self._send_around("COMMIT")
        self._flush()

    def roll_back(self) -> None:
        """Undo the transaction; give up the connection if that fails."""
        # Statements not yet sent need no rollback, and must not be sent with the next transaction.
        self._queue.clear()
        if not self._has_begun or self._connection.invalidated or self._connection.closed:
            return
        try:
            self._send_around("ROLLBACK")
            self._flush()
        except exc.DBAPIError:
            # ROLLBACK is sent even if the database ended the transaction itself, as SQLite does on a full
            # disk.
            self.give_up()

    def send_after(self, texts: Sequence[str]) -> None:
        """Send the statements that follow a transaction on its connection, or give the connection up."""
        if not texts or self._connection.invalidated or self._connection.closed:
            return
        try:
            for text in texts:
                self._send_around(text)
            self._flush()
        except exc.DBAPIError:
            self.give_up()

    def give_up(self) -> None:
        """Take the connection out of use: its state is unknown."""
        self._connection.invalidate()

    def take_queue(self) -> list[QueuedStatement]:
        """Return the queued statements, which are about to be sent, and empty the queue."""
        # The queue is emptied before sending: a message that fails must not be sent again with ROLLBACK.
        self._has_begun = True
        queue, self._queue = self._queue, []
        return queue

    def _prepare(
        self, statement: Runnable, parameters: Parameters, expected_rows: int | None = None
    ) -> tuple[DriverText, QueuedStatement]:
        if isinstance(statement, Statement):
            statement, parameters = statement
        dialect = self._connection.dialect
        if isinstance(statement, CompiledStatement):
            text, parameters = statement.text(dialect, parameters)
        else:
            # The statement's values may come from a request: they are bound, never written into the text.
            text = DriverText(statement, dialect, writes_values=False)
        return text, QueuedStatement(text.text, text.bind(parameters), expected_rows)

    def _send_around(self, text: str) -> None:
        """Send one of the statements that surround a transaction."""
        self._note_statement()
        self._queue.append(QueuedStatement(text))
        if not self._may_wait:
            self._flush()

    def _flush(self) -> None:
        if queue := self.take_queue():
            transport.send(self._connection, queue, self._watch)

    def _note_statement(self) -> None:
        telemetry.STATEMENTS.count()


class Reader(Access):
    """An access for one statement outside any transaction, since a second one could see another state."""

    _has_run = False

    def _note_statement(self) -> None:
        if self._has_run:
            raise RuntimeError("Database.read is for one statement; take Database.snapshot")
        self._has_run = True
        super()._note_statement()


class Snapshot(Access):
    """A read-only transaction, all of whose statements see one committed state."""


class Transaction(Access):
    """A transaction that writes, and ends with :func:`placement.db.writes.finish`.

    ``attempt``: 1, or more after rolled-back attempts. ``slot_seed``: the random number by which statements
    choose their slot of a table. ``watchers``: the observers of the change; ``watching``: the functions that
    they want called at its end. ``is_unnamed``: the log will say that all providers may have changed.
    """

    attempt = 0
    is_unnamed = False

    def __init__(self, connection: Connection, watch: MessageObservers | None = None) -> None:
        super().__init__(connection, watch)
        self.slot_seed = secrets.randbits(16)
        self.watchers: Sequence[WriteWatcher] = ()
        self.watching: list[Callable[[Change], object]] = []

    def change_later(
        self,
        statement: Runnable,
        parameters: Parameters = NOTHING,
        expected_rows: int | None = None,
    ) -> None:
        """Run a statement that writes, at the latest with the next one or with COMMIT.

        :param expected_rows: the number of rows that it must match, if known.
        :raises StaleRead: it matched another number. If the statement was queued, the statement sent with it
            raises this error, or a driver error that is repeated alike.
        """
        self._note_statement()
        self.unfinished = find_shown_table(statement) or self.unfinished
        _, queued = self._prepare(statement, parameters, expected_rows)
        if self._may_wait:
            self._queue.append(transport.add_check(self._connection.dialect.driver, queued))
        else:
            self._queue.append(queued)
            self._flush()

    def change_unshown(self, statement: Runnable, parameters: Parameters = NOTHING) -> int:
        """Run :meth:`change` on columns that only this service uses, so that nothing needs to be logged."""
        unfinished = self.unfinished
        number = self.change(statement, parameters)
        self.unfinished = unfinished
        return number

    def insert(self, table: Table, rows: Sequence[Parameters]) -> None:
        """Insert the rows, which all have the same columns. One statement per 64 rows, none for no row."""
        for part in batches(rows, ROWS_AT_ONCE):
            self.change(insert_of(table, part))

    def insert_later(self, table: Table, rows: Sequence[Parameters], or_add: str = "") -> None:
        """Insert rows, at the latest with the next statement, which then raises the insert's error.

        :param or_add: the dialect's clause that adds to rows with a taken key.
        """
        for part in batches(rows, ROWS_AT_ONCE):
            self.change_later(insert_of(table, part, after=or_add))

    def insert_missing(self, table: Table, rows: Sequence[Parameters]) -> int:
        """Insert the rows with a free unique key, and return their number.

        The statement waits for an uncommitted transaction that has inserted such a key. A taken key does not
        raise an error, so the transaction stays usable.
        """
        skip = self._skip_taken(table)
        return sum(self.change(insert_of(table, part, *skip)) for part in batches(rows, ROWS_AT_ONCE))

    def insert_free(self, table: Table, rows: Sequence[Parameters]) -> None:
        """Insert rows with unique keys that were free when read, at the latest with the next statement.

        :raises StaleRead: a key is taken.
        """
        for part in batches(rows, ROWS_AT_ONCE):
            insert = insert_of(table, part, *self._skip_taken(table))
            self.change_later(insert, expected_rows=len(part))

    def _skip_taken(self, table: Table) -> tuple[str, str]:
        # MySQL cannot skip taken keys alone: IGNORE also accepts values that do not fit. The names have been
        # looked up before, and a database that cannot hold them has refused then.
        if self.dialect == "mysql":
            return "IGNORE ", ""
        if self.dialect == "sqlite":
            return "", " ON CONFLICT DO NOTHING"
        # The clause names the key: otherwise an id from a lagging sequence would look like a taken name.
        return "", f" ON CONFLICT ({list_key(table)}) DO NOTHING"


class Database:
    """One configured database.

    :param engine: an engine from :func:`placement.db.engine.make_engine`, in autocommit.
    :param attempts: a function, called for each write, that returns the maximal number of attempts.
    :param deadline_s: the time after the first attempt after which no new one begins. The waits in an attempt
        have their own deadlines (:mod:`placement.db.deadlines`).
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
        """Whether the schema and the standard names are known to be up to date."""
        self.in_use: set[Access] = set()
        """The number of transactions with a connection: cheaper than counting the pool's connections."""
        self.watchers: Sequence[WriteWatcher] = ()
        """The observers of all writes, set by the code that reads the configuration."""
        self.watch = MessageObservers()
        self.observers = self.watch.observers
        """The observers of each message to the database."""
        self.dialect = dialects.kind(engine)
        in_memory = self.dialect == "sqlite" and engine.url.database in (None, "", ":memory:")
        # SQLite has one writer and no queue: its busy handler polls. Writers of one process queue here
        # instead. An in-memory database is one shared connection, so readers queue too.
        self._writers: Any = WriterQueue(deadline_s) if self.dialect == "sqlite" else nullcontext()
        self._readers: Any = nullcontext()
        if in_memory:
            self._readers = self._writers = threading.RLock()
        # Without this guard each thread of a server would wait out the deadlines of a frozen database.
        self._frozen_guard = FrozenDatabaseGuard()
        self.lost = LostConnections()
        self._attempts = attempts
        self._deadline_s = deadline_s
        self._has_several_hosts = engine.get_execution_options().get(HOSTS, 1) > 1
        self._write_retry = tenacity.Retrying(
            retry=self._may_repeat_write,
            stop=self._give_up,
            # Pauses are random: after equal pauses two conflicting transactions would conflict again.
            wait=tenacity.wait_random_exponential(multiplier=RETRY_WAIT_S, max=RETRY_WAIT_MAX_S),
            before_sleep=self._note_repeat,
            reraise=True,
        )
        # A read does not compare and set, so it raises no StaleRead.
        self._read_retry = self._write_retry.copy(
            retry=tenacity.retry_if_exception(driver_errors.may_repeat),
        )
        # A caller that asks for a short wait continues without the lock (the expiry of holds): a refused lock
        # is its answer, and only a lost connection is worth another attempt.
        self._brief_retry = self._write_retry.copy(
            retry=tenacity.retry_if_exception(driver_errors.is_disconnect),
        )
        # There are two attempts: the first may discover that the pool's connections are dead.
        self._ping_retry = self._read_retry.copy(stop=tenacity.stop_after_attempt(2))

    def ping(self) -> None:
        """Check that the database answers; a lost pooled connection is replaced.

        :raises errors.Unavailable: the database does not answer.
        """
        self._run_repeatedly(self._ping_retry, self._run, Reader, _ask, (), self._readers)

    def _give_up(self, state: tenacity.RetryCallState) -> bool:
        # Attempts and time are both bounded: ten lock waits of 10 s would outlast every client.
        elapsed_s = state.seconds_since_start or 0.0
        return state.attempt_number >= max(1, self._attempts()) or elapsed_s >= self._deadline_s

    def _may_repeat_write(self, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if error is None or isinstance(error, StaleRead):
            return error is not None
        # After a failover another server accepts writes, so the connection to this one was given up. With one
        # host there is only one repeat: unless that host is a proxy, its clients would wait for nothing.
        may_wait = self._has_several_hosts or state.attempt_number == 1
        return driver_errors.may_repeat(error) or (may_wait and driver_errors.is_of_replica(error))

    def read(self, work: Callable[[Reader], T]) -> T:
        """Return ``work(reader)``, which runs one statement outside any transaction.

        :raises errors.DatabaseBusy: the rows stayed locked, or the statement took too long.
        :raises errors.NotStorable: a parameter has characters that the database cannot hold.
        :raises errors.DatabaseUnavailable: no connection could be made within the deadline.
        """
        return self._run_read(Reader, work, ())

    def snapshot(self, work: Callable[[Snapshot], T]) -> T:
        """Return ``work(tx)``, all of whose statements see one committed state; raises as :meth:`read`."""
        return self._run_read(Snapshot, work, dialects.BEGIN_SNAPSHOT[self.dialect])

    def _run_read(self, kind: type[A], work: Callable[[A], T], begin: tuple[str, ...]) -> T:
        try:
            return self._run_repeatedly(self._read_retry, self._run, kind, work, begin, self._readers)
        except exc.DBAPIError as error:
            if driver_errors.is_conflict(error):
                raise errors.DatabaseBusy() from error
            raise

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        on_conflict: Callable[[], errors.PlacementError] = errors.ObjectsChanged,
        wait_s: float | None = None,
    ) -> T:
        """Return ``work(tx)`` once its transaction is committed.

        ``work`` may run several times and must start from nothing each time. An error that it raises rolls
        the transaction back.

        :param on_conflict: a function that makes the error for a transaction that kept losing.
        :param wait_s: the time to wait for each lock instead of the usual one; a conflict is not repeated
            then.
        :raises errors.OutcomeUnknown: the connection was lost during COMMIT.
        :raises errors.DatabaseBusy, errors.DatabaseUnavailable: as :meth:`read`; on SQLite also while another
            program keeps the file locked.
        """
        attempts = itertools.count(1)

        def attempt(tx: Transaction) -> T:
            telemetry.WRITE_ATTEMPTS.count()
            tx.attempt = next(attempts)
            tx.watchers = self.watchers
            result = work(tx)
            if tx.unfinished:
                raise RuntimeError(f"{tx.unfinished} was changed without placement.db.writes.finish")
            return result

        retry, turn, brief = self._write_retry, self._writers, deadlines.USUAL
        if wait_s is not None:
            retry, brief = self._brief_retry, deadlines.limit_lock_wait(self.dialect, wait_s)
            # Writers of SQLite wait here, not in the database, whose deadline is short.
            if isinstance(turn, WriterQueue):
                turn = BriefQueue(turn, wait_s)
        begin = (*brief.before, *dialects.BEGIN_WRITE[self.dialect], *brief.inside)
        try:
            return self._run_repeatedly(retry, self._run, Transaction, attempt, begin, turn, brief.after)
        except (StaleRead, exc.DBAPIError) as error:
            if not (isinstance(error, StaleRead) or driver_errors.is_conflict(error)):
                raise
            # A caller that asks for a short wait continues without the write, so no client is refused.
            if wait_s is None:
                telemetry.CONTENTION_REFUSALS.count()
            raise on_conflict() from error

    def _run_repeatedly(
        self,
        retrying: tenacity.Retrying,
        run: Callable[..., T],
        *args: Any,
    ) -> T:
        try:
            return retrying(run, *args)
        except errors.OutcomeUnknown as error:
            self.lost.note(driver_errors.origin(error), is_repeated=False)
            raise
        except exc.DBAPIError as error:
            if driver_errors.is_lost(error):
                self.lost.note(driver_errors.origin(error), is_repeated=False)
            # The first three errors are 503, not 500: another server, or the same one later, can answer.
            if driver_errors.is_disconnect(error):
                raise errors.DatabaseUnavailable() from error
            if driver_errors.is_read_only(error):
                raise errors.DatabaseReadOnly() from error
            if driver_errors.took_too_long(error):
                raise errors.DatabaseBusy() from error
            if (table := driver_errors.find_table_of_taken_id(error)) is not None:
                raise errors.SequenceBehind(table=table) from error
            if driver_errors.is_out_of_range(error):
                raise errors.NumberAtBound() from error
            if (name := character_sets.find_unstorable(error)) is not None:
                raise errors.NotStorable(name=name) from error
            raise
        except exc.TimeoutError as error:
            # The pool is exhausted. The attempt has already waited for pool_timeout, so it is not repeated.
            raise errors.DatabaseUnavailable() from error

    def _run(
        self,
        kind: type[A],
        work: Callable[[A], T],
        begin: tuple[str, ...],
        turn: Any,
        after: tuple[str, ...] = (),
    ) -> T:
        try:
            # The order matters: a writer of SQLite that queues must not take a connection from readers.
            with turn, self._frozen_guard.notice(), self._connect() as connection:
                access = kind(connection, self.watch)
                self.in_use.add(access)
                try:
                    return self._transact(access, work, begin) if begin else work(access)
                finally:
                    # This also runs after an error: the connection returns to the pool with its usual lock
                    # timeout.
                    access.send_after(after)
                    self.in_use.remove(access)
        except (exc.SQLAlchemyError, errors.OutcomeUnknown) as error:
            telemetry.DATABASE_ERRORS.count(driver_errors.classify(error))
            raise

    def _note_repeat(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        stale = isinstance(error, StaleRead)
        kind = "stale" if stale or error is None else driver_errors.classify(error)
        telemetry.REPEATS.count(kind)
        if error is not None and driver_errors.is_lost(error):
            self.lost.note(driver_errors.origin(error), is_repeated=True)

    def _connect(self) -> Connection:
        if self.lost.untold:
            self.lost.tell_if_due()
        began = perf_counter()
        connection = self.engine.connect()
        telemetry.note_wait(perf_counter() - began)
        return connection

    def _transact(self, tx: A, work: Callable[[A], T], begin: tuple[str, ...]) -> T:
        try:
            tx.begin(begin)
            try:
                result = work(tx)
            except errors.Conflict as refused:
                # Expired holds are read under the same locks or snapshot: they cannot change meanwhile.
                # If some have expired, the web layer removes them and begins the request again.
                if refused.of_consumers and tx.value(freshness.ask_any_expired()):
                    vars(refused)["is_amid_expired"] = True
                raise
            # The numbers are checked here, not with COMMIT: some drivers report them after committing.
            tx.flush_checked()
        except BaseException:
            # SystemExit, which ends a server's worker, also counts: the locks must be released.
            tx.roll_back()
            telemetry.note_unlock()
            raise
        try:
            tx.commit()
        except exc.DBAPIError as error:
            # The server may have committed before the connection was lost: a repetition could claim twice, or
            # report a success as a conflict. A snapshot does not change anything, and is repeated.
            if isinstance(tx, Transaction) and driver_errors.is_disconnect(error):
                raise errors.OutcomeUnknown() from error
            tx.roll_back()
            raise
        except BaseException:
            # COMMIT was interrupted: its answer may still arrive, and would be read as the answer to another
            # statement.
            tx.give_up()
            raise
        finally:
            telemetry.note_unlock()
        return result

    def prepare_to_fork(self) -> None:
        """Close the idle connections at the end of start-up: two processes on one socket garble both.

        uWSGI then forks its workers without Python's hooks, by which they could drop the connections.
        """
        if not isinstance(self.engine.pool, StaticPool):
            self.engine.dispose()

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _ask(reader: Reader) -> None:
    reader.rows(_ANYTHING)

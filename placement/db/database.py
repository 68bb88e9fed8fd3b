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

# Full jitter from some 10 ms, in which the other transaction ends.
RETRY_WAIT_S, RETRY_WAIT_MAX_S = 0.01, 0.5
DEADLINE_S = 30

MOST_TURNS = 10_000
"""Transactions of a work that is done in batches, until one finds nothing left: a batch that reports the same
rows as done again and again must not continue for ever."""


_ANYTHING = CompiledStatement(select(1))


@contextmanager
def stale_if_refused(why: str, *, gives_ids: bool = False) -> Iterator[None]:
    """Begin the transaction again if a unique or foreign key refuses what is written inside.

    :param gives_ids: the ids of what is inserted are chosen here, and not drawn from a sequence.
    :raises StaleRead: for this reason.
    """
    try:
        yield
    except exc.IntegrityError as refused:
        if not gives_ids and driver_errors.find_table_of_taken_id(refused):
            # Another row has the id, not the name: the next attempts would draw taken ids too.
            raise
        raise StaleRead(why) from refused


Runnable = Statement | CompiledStatement | Executable
"""A statement with its parameters, or one that is compiled once or built for the occasion, without them."""


class Access:
    """Runs statements: one of the three kinds below. ``dialect``: sqlite, postgresql or mysql.

    Where the driver takes several statements at once, a statement whose outcome is not needed at once is sent
    together with the next one. BEGIN is the first of them.

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
        """SQLAlchemy's, for reflection and DDL; the queue has been sent. Nothing else goes through it."""
        # BEGIN may still be queued: what SQLAlchemy sends would run before it, outside the transaction.
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
        """Run a statement that reads no rows; return how many rows it has found."""
        self._note_statement()
        _, queued = self._prepare(statement, parameters)
        number = transport.send(self._connection, (*self.take_queue(), queued), self._watch).number
        if number:
            self.unfinished = find_shown_table(statement) or self.unfinished
        return number

    def begin(self, texts: Sequence[str]) -> None:
        """Begin a transaction, at the latest with the next statement."""
        for text in texts:
            self._send_around(text)

    def flush_checked(self) -> None:
        """Send queued statements whose row counts must be checked before COMMIT.

        And BEGIN, if nothing was sent yet: on a connection that was cut BEGIN fails, which can be repeated.

        :raises StaleRead: a statement has found another number of rows than expected.
        """
        if not self._has_begun or any(each.expected_rows is not None for each in self._queue):
            self._flush()

    def commit(self) -> None:
        """End the transaction; from now on other transactions see what it wrote."""
        self._send_around("COMMIT")
        self._flush()

    def roll_back(self) -> None:
        """Undo the transaction; give up the connection if that fails."""
        # Unsent statements need no rollback, and must not travel with the next transaction's first message.
        self._queue.clear()
        if not self._has_begun or self._connection.invalidated or self._connection.closed:
            return
        try:
            self._send_around("ROLLBACK")
            self._flush()
        except exc.DBAPIError:
            # This is done even where the database ended the transaction itself (SQLite does on a full disk).
            self.give_up()

    def send_after(self, texts: Sequence[str]) -> None:
        """Send what follows a transaction on its connection, or give the connection up."""
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
        # Emptied before it is sent: a message that fails must not be sent again with ROLLBACK.
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
        """Send one of the statements around a transaction."""
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
    """A transaction that writes, and ends with :func:`placement.db.writes.finish`.

    ``attempt``: 1, or more if earlier ones were rolled back. ``slot_seed``: by this random number its
    statements choose their slot of a table. ``watchers``: who learns of the change; ``watching``: their
    functions for its end. ``is_unnamed``: the log will say that all providers may have changed.
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

        :param expected_rows: how many rows it must find, if that is known.
        :raises StaleRead: it has found another number. If it waits, the statement with which it travels
            raises that, or an error of the driver that is repeated alike.
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
        """Run :meth:`change` for columns that this service keeps for itself: nobody need learn of them."""
        unfinished = self.unfinished
        number = self.change(statement, parameters)
        self.unfinished = unfinished
        return number

    def insert(self, table: Table, rows: Sequence[Parameters]) -> None:
        """Insert the rows, which all name the same columns. One statement for each 64, none for no row."""
        for part in batches(rows, ROWS_AT_ONCE):
            self.change(insert_of(table, part))

    def insert_later(self, table: Table, rows: Sequence[Parameters], or_add: str = "") -> None:
        """Insert rows, at the latest with the next statement, which raises an error of this one.

        :param or_add: the clause of the dialect that adds to rows whose key is taken.
        """
        for part in batches(rows, ROWS_AT_ONCE):
            self.change_later(insert_of(table, part, after=or_add))

    def insert_missing(self, table: Table, rows: Sequence[Parameters]) -> int:
        """Insert the rows whose unique key is free, and return how many those were.

        The statement waits for a transaction that has inserted such a key and is not committed. The database
        raises no error for a taken key, so the transaction stays usable.
        """
        skip = self._skip_taken(table)
        return sum(self.change(insert_of(table, part, *skip)) for part in batches(rows, ROWS_AT_ONCE))

    def insert_free(self, table: Table, rows: Sequence[Parameters]) -> None:
        """Insert rows whose unique keys were free when they were read, at the latest with the next statement.

        :raises StaleRead: one of them is taken.
        """
        for part in batches(rows, ROWS_AT_ONCE):
            insert = insert_of(table, part, *self._skip_taken(table))
            self.change_later(insert, expected_rows=len(part))

    def _skip_taken(self, table: Table) -> tuple[str, str]:
        # MySQL has nothing that skips taken keys alone: IGNORE forgives values that do not fit as well.
        # Names have been looked up before, where a database that cannot hold them says so.
        if self.dialect == "mysql":
            return "IGNORE ", ""
        if self.dialect == "sqlite":
            return "", " ON CONFLICT DO NOTHING"
        # The clause names the key: an id that a lagging sequence has drawn would look like a taken name.
        return "", f" ON CONFLICT ({list_key(table)}) DO NOTHING"


class Database:
    """One configured database.

    :param engine: of :func:`placement.db.engine.make_engine`: in autocommit, and prepared.
    :param attempts: called for each write; how often a transaction is tried at most.
    :param deadline_s: no new attempt begins later than this after the first. The waits of an attempt have
        deadlines of their own (:mod:`placement.db.deadlines`).
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
        """The transactions that have a connection now: cheaper to count than the pool's connections."""
        self.watchers: Sequence[WriteWatcher] = ()
        """Observers of all writes; set by whoever knows the configuration."""
        self.watch = MessageObservers()
        self.observers = self.watch.observers
        """Called before and after each message to the database."""
        self.dialect = dialects.kind(engine)
        in_memory = self.dialect == "sqlite" and engine.url.database in (None, "", ":memory:")
        # SQLite has one writer and no queue for it: its busy handler polls. Writers of one process
        # line up here instead. An in-memory database is one shared connection: readers line up too.
        self._writers: Any = WriterQueue(deadline_s) if self.dialect == "sqlite" else nullcontext()
        self._readers: Any = nullcontext()
        if in_memory:
            self._readers = self._writers = threading.RLock()
        # Without this each thread of a server waits out the deadlines of a frozen database by itself.
        self._frozen_guard = FrozenDatabaseGuard()
        self.lost = LostConnections()
        self._attempts = attempts
        self._deadline_s = deadline_s
        self._has_several_hosts = engine.get_execution_options().get(HOSTS, 1) > 1
        self._write_retry = tenacity.Retrying(
            retry=self._may_repeat_write,
            stop=self._give_up,
            # Pauses are random: transactions that met once would meet again after equal pauses.
            wait=tenacity.wait_random_exponential(multiplier=RETRY_WAIT_S, max=RETRY_WAIT_MAX_S),
            before_sleep=self._note_repeat,
            reraise=True,
        )
        # A read has no compare-and-set to lose, so it raises no StaleRead.
        self._read_retry = self._write_retry.copy(
            retry=tenacity.retry_if_exception(driver_errors.may_repeat),
        )
        # A short wait is asked for where the caller continues without it (the expiry of holds): a lock that
        # was not given is its answer, and only a lost connection is worth another attempt.
        self._brief_retry = self._write_retry.copy(
            retry=tenacity.retry_if_exception(driver_errors.is_disconnect),
        )
        # Twice: the first may be the discovery that the pool's connections are dead.
        self._ping_retry = self._read_retry.copy(stop=tenacity.stop_after_attempt(2))

    def ping(self) -> None:
        """Check that the database answers; a pooled connection that was cut is replaced.

        :raises errors.Unavailable: it does not.
        """
        self._run_repeatedly(self._ping_retry, self._run, Reader, _ask, (), self._readers)

    def _give_up(self, state: tenacity.RetryCallState) -> bool:
        # Two bounds: ten waits for a lock of 10 s each would outlast the patience of every client.
        elapsed_s = state.seconds_since_start or 0.0
        return state.attempt_number >= max(1, self._attempts()) or elapsed_s >= self._deadline_s

    def _may_repeat_write(self, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if error is None or isinstance(error, StaleRead):
            return error is not None
        # After a failover another server takes writes, so the connection to this one was given up. With one
        # host named there is one repeat: where that host is no proxy, its clients would wait for nothing.
        may_wait = self._has_several_hosts or state.attempt_number == 1
        return driver_errors.may_repeat(error) or (may_wait and driver_errors.is_of_replica(error))

    def read(self, work: Callable[[Reader], T]) -> T:
        """Return ``work(reader)``, which runs one statement outside any transaction.

        :raises errors.DatabaseBusy: what it reads stayed locked, or it took too long.
        :raises errors.NotStorable: a parameter has characters that the database cannot hold.
        :raises errors.DatabaseUnavailable: no connection within the deadline.
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

        ``work`` may run several times and must start from nothing each time. Whatever it raises
        rolls the transaction back.

        :param on_conflict: makes the error for a transaction that kept losing.
        :param wait_s: how long it waits for each lock, if not as usual; a conflict is not repeated then.
        :raises errors.OutcomeUnknown: the connection was lost during COMMIT.
        :raises errors.DatabaseBusy, errors.DatabaseUnavailable: as :meth:`read`; on SQLite also while
            another program keeps the file locked.
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
            # SQLite's writers wait here, not in the database, whose short deadline would not hold.
            if isinstance(turn, WriterQueue):
                turn = BriefQueue(turn, wait_s)
        begin = (*brief.before, *dialects.BEGIN_WRITE[self.dialect], *brief.inside)
        try:
            return self._run_repeatedly(retry, self._run, Transaction, attempt, begin, turn, brief.after)
        except StaleRead as stale:
            telemetry.CONTENTION_REFUSALS.count()
            raise on_conflict() from stale
        except exc.DBAPIError as error:
            if driver_errors.is_conflict(error):
                telemetry.CONTENTION_REFUSALS.count()
                raise on_conflict() from error
            raise

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
            # The first three are 503, not 500: another server, or the same one later, can answer.
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
            # The pool is exhausted. Not repeated: the attempt has waited for pool_timeout already.
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
            # The order matters: a writer of SQLite that waits for its turn takes no connection from readers.
            with turn, self._frozen_guard.notice(), self._connect() as connection:
                access = kind(connection, self.watch)
                self.in_use.add(access)
                try:
                    return self._transact(access, work, begin) if begin else work(access)
                finally:
                    # After an error too: the connection returns to the pool with its usual lock timeout.
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
                # Asked while it has its locks, or its snapshot: nobody can have removed meanwhile what it was
                # refused for. If some have expired, the web layer removes them and begins the request again.
                if refused.of_consumers and tx.value(freshness.ask_any_expired()):
                    vars(refused)["is_amid_expired"] = True
                raise
            # Here, not with COMMIT: drivers that report each number report it after they have committed.
            tx.flush_checked()
        except BaseException:
            # SystemExit, by which a server stops its worker, counts too: the locks must be released.
            tx.roll_back()
            telemetry.note_unlock()
            raise
        try:
            tx.commit()
        except exc.DBAPIError as error:
            # The server may have committed before the connection went: to repeat it could claim twice, or
            # answer a success with a conflict. A snapshot has no outcome to be unsure of, and is repeated.
            if isinstance(tx, Transaction) and driver_errors.is_disconnect(error):
                raise errors.OutcomeUnknown() from error
            tx.roll_back()
            raise
        except BaseException:
            # Broken off in the middle of COMMIT: its answer may still come, and would be taken for another's.
            tx.give_up()
            raise
        finally:
            telemetry.note_unlock()
        return result

    def prepare_to_fork(self) -> None:
        """Close the idle connections at the end of start-up: two processes on one socket garble both.

        uWSGI then forks its workers without the hooks of Python by which they could forget the connections.
        """
        if not isinstance(self.engine.pool, StaticPool):
            self.engine.dispose()

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def _ask(reader: Reader) -> None:
    reader.rows(_ANYTHING)

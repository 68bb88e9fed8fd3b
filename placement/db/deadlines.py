"""The times that the service waits for its database: for a connection, a lock, a statement, a packet.

A frozen or disconnected server does not answer, and a driver would wait for ever. The server has the shorter
deadlines, because it reports why it gives up; the driver has longer ones, for a frozen server.

psycopg2 waits for ever for a frozen PostgreSQL, whose kernel still acknowledges packets. So :func:`watch`
cuts the connection of a statement that takes too long. The driver's own solution, a wait callback, affects
the whole process: libpq then ignores ``connect_timeout``, so that the host after a silent one is never tried;
and COPY, large objects and connections shared by threads fail, even in a program that only embeds
``PlacementDirect``. Some drivers restart the time for a connection at each address; :func:`connect` bounds
the total. PyMySQL counts it only until the connection is accepted, so the handshake and the first statements
get ``connect_timeout`` as their ``read_timeout``.
"""

import math
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Dialect, Engine, event, exc
from sqlalchemy.engine import URL

from placement.db import dialects
from placement.db.address import UnusableUrl, hosts

CONNECT_S = 10
ONE_OF_SEVERAL_S = 3
"""The connect timeout for one of several servers, since a dead one delays the attempt at the next."""

UNBOUNDED_S = 150
"""Linux gives up a connection that is not answered after about 130 s."""

LOCK_S = 10
STATEMENT_S = 30
READ_S = 35
"""The read timeout. It is longer than ``STATEMENT_S``: a server that works answers first."""

IDLE_TRANSACTION_S = 15
"""The time after which the server ends a transaction whose worker is frozen or cut off, with its locks.

Together with ``LOCK_S``, less than the 30 s of ``attempts_deadline``: requests get such locks in time.
"""

LOOK_S = 1.0

SQLITE_S = 30
"""How long SQLite polls for a file that another process has locked."""

# A lost peer is noticed after 60 s of silence; Linux by itself starts to probe after two hours.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


@dataclass(frozen=True)
class Deadlines:
    """The deadlines in seconds; 0 waits for ever.

    ``read`` and ``write`` limit the wait for the next packet, and the driver counts them (PostgreSQL:
    ``read`` limits the whole statement). The server counts the others.
    """

    connect: int
    read: int
    write: int
    statement: int
    lock: int
    idle_transaction: int


class LockWaitStatements(NamedTuple):
    """Statements that make a transaction wait less for locks: before it, first inside it, and after."""

    before: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


USUAL = LockWaitStatements()


def limit_lock_wait(kind: str, wait_s: float) -> LockWaitStatements:
    """Return the statements that limit each lock wait of a transaction; MySQL rounds to whole seconds."""
    # The wait is at least 1 ms: 0 means no limit on PostgreSQL.
    wait_ms = max(1, int(1000 * wait_s))
    if kind == "postgresql":
        # LOCAL ends with the transaction, so nothing has to be reset.
        return LockWaitStatements(inside=(f"SET LOCAL lock_timeout = {wait_ms}",))
    if kind == "sqlite":
        # This statement precedes BEGIN IMMEDIATE, because BEGIN IMMEDIATE is the statement that waits.
        usual_ms = 1000 * SQLITE_S
        return LockWaitStatements(
            before=(f"PRAGMA busy_timeout = {wait_ms}",),
            after=(f"PRAGMA busy_timeout = {usual_ms}",),
        )
    # The old value is kept on the server: the operator or the URL may have set another value than ours.
    seconds = max(1, math.ceil(wait_s))
    return LockWaitStatements(
        (f"SET @lock_wait = @@innodb_lock_wait_timeout, innodb_lock_wait_timeout = {seconds}",),
        (),
        ("SET innodb_lock_wait_timeout = @lock_wait",),
    )


NONE = Deadlines(CONNECT_S, 0, 0, 0, 0, 0)
"""The deadlines of commands that change the schema or read everything: only the wait to connect ends."""


def take(url: URL, *, patient: bool = False) -> tuple[URL, Deadlines]:
    """Return the URL without the parameters of this service, and the deadlines that it names.

    :param patient: the defaults are :data:`NONE`.
    :raises UnusableUrl: a deadline is not a whole number.
    """
    connect_s = ONE_OF_SEVERAL_S if len(hosts(url)) > 1 else CONNECT_S
    usual = Deadlines(connect_s, READ_S, READ_S, STATEMENT_S, LOCK_S, IDLE_TRANSACTION_S)
    usual = NONE if patient else usual
    found = Deadlines(
        **{name: _seconds(url, name, getattr(usual, name)) for name in Deadlines.__annotations__}
    )
    ours = ["statement_timeout", "lock_timeout", "idle_transaction_timeout"]
    if url.get_backend_name() == "postgresql":
        ours += ["read_timeout", "write_timeout"]
    elif url.get_driver_name() == "pymysql":
        ours += ["read_timeout"]
    return url.difference_update_query(ours), found


def _seconds(url: URL, name: str, usual: int) -> int:
    text = url.query.get(f"{name}_timeout")
    if text is None:
        return usual
    try:
        return int(str(text))
    except ValueError:
        raise UnusableUrl(f"{name}_timeout is not a whole number of seconds") from None


def make_arguments(url: URL, deadlines: Deadlines) -> dict[str, Any]:
    """Return the driver's arguments for the deadlines; the driver's own parameters in the URL win."""
    if url.get_backend_name() == "postgresql":
        given = {
            "connect_timeout": deadlines.connect,
            "tcp_user_timeout": deadlines.write * 1000,
            **KEEPALIVE,
        }
    else:
        given = {
            f"{name}_timeout": getattr(deadlines, name) for name in ("connect", "read", "write")
        }
        # PyMySQL's connect_timeout ends when the socket is open, so a frozen server could delay the greeting.
        # set_up restores the usual read_timeout once the connection is made.
        if url.get_driver_name() == "pymysql":
            given["read_timeout"] = deadlines.connect or deadlines.read
    return {name: value for name, value in given.items() if value and name not in url.query}


def set_up(engine: Engine, deadlines: Deadlines) -> None:
    """Set the server's deadlines at each new connection, and watch a driver that cannot give up."""
    if engine.dialect.name in dialects.MYSQL:
        statement = _make_mysql_statement(deadlines)
        if engine.dialect.driver == "pymysql":

            @event.listens_for(engine, "connect")
            def read_patiently(connection: Any, _record: Any) -> None:
                # PyMySQL does not have a public way to change the timeout.
                connection._read_timeout = deadlines.read or None

    else:
        statement = _make_postgresql_statement(deadlines)
        if deadlines.read:
            watch(engine, deadlines.read)
    if not statement:
        return

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()


def _make_postgresql_statement(deadlines: Deadlines) -> str:
    """Return the statement that sets deadlines not yet set for the server, database, user or connection."""
    wanted = {
        "statement_timeout": deadlines.statement,
        "lock_timeout": deadlines.lock,
        "idle_in_transaction_session_timeout": deadlines.idle_transaction,
    }
    calls = [
        f"CASE current_setting('{name}') WHEN '0' THEN set_config('{name}', '{value}s', false) END"
        for name, value in wanted.items()
        if value
    ]
    return f"SELECT {', '.join(calls)}" if calls else ""


def _make_mysql_statement(deadlines: Deadlines) -> str:
    """Return one statement for both servers; each reads the other's settings as comments.

    MySQL has no limit for idle transactions, and its statement limit covers reads only; other statements have
    only ``read``.
    """
    settings = ["autocommit = 1"]
    if deadlines.lock:
        # The second limit is for locks on tables, by default more than a day: an ALTER TABLE that waits for a
        # forgotten transaction would block every request behind it.
        names = ("innodb_lock_wait_timeout", "lock_wait_timeout")
        settings += [f"{name} = {deadlines.lock}" for name in names]
    # MariaDB skips what is meant for MySQL 8 and newer. The last limit is in milliseconds; IF would mix two
    # kinds of integer into a decimal, which this variable does not accept.
    of_one = [
        ("M!", "{}", "max_statement_time", deadlines.statement),
        ("M!", "{}", "idle_transaction_timeout", deadlines.idle_transaction),
        ("!80000", "CAST({} AS SIGNED)", "max_execution_time", deadlines.statement * 1000),
    ]
    unset = [
        f"/*{only} , {name} = {kind.format(f'IF(@@{name} = 0, {value}, @@{name})')} */"
        for only, kind, name, value in of_one
        if value
    ]
    return f"SET SESSION {', '.join(settings)} {' '.join(unset)}"


_running: dict[int, tuple[float, Any]] = {}
"""The end of the running statement and its driver connection, by thread."""

_starting = threading.Lock()
_watched_process = 0


def watch(engine: Engine, patience_s: float) -> None:
    """Cut the connection of each statement that takes longer, by at most about a second."""
    event.listen(engine, "connect", lambda _connection, _record: _start_watchdog())
    # A wait callback of psycopg2 is not an option (see the module's docstring). Events of the engine cost a
    # fifth of a small statement, so these are events of the dialect.
    for name in ("do_execute", "do_executemany"):
        event.listen(engine, name, _make_listener(engine.dialect, name, patience_s))


def _make_listener(dialect: Dialect, method: str, patience_s: float) -> Callable[..., bool]:
    """Return a listener that runs the statement by this method of the dialect, and returns true."""

    def run(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        # No lock is needed: each thread writes its own entry, and a dictionary's operations are atomic.
        thread = threading.get_ident()
        _running[thread] = time.monotonic() + patience_s, cursor.connection
        try:
            getattr(dialect, method)(cursor, statement, parameters, context)
        finally:
            _running.pop(thread, None)
        return True

    return run


def _start_watchdog() -> None:
    """Start the thread unless it runs; a forked process does not inherit the thread of its parent."""
    global _watched_process
    with _starting:
        if _watched_process != os.getpid():
            # The entries belong to the parent's threads: cutting one here would cut a connection of the
            # parent.
            _running.clear()
            threading.Thread(target=_cut_overdue, name="watchdog", daemon=True).start()
            _watched_process = os.getpid()


def _cut_overdue() -> None:
    while True:
        time.sleep(LOOK_S)
        now = time.monotonic()
        for thread, (until, connection) in list(_running.items()):
            # A statement that ends at this very moment only loses its connection.
            if now > until and _running.pop(thread, None) is not None:
                _cut(connection)


def _cut(connection: Any) -> None:
    """Shut the connection down; the descriptor stays open for its owner, which waits on it."""
    # shutdown() acts on the connection through any descriptor. Closing the owner's descriptor would free its
    # number for another file, from which libpq would then read. A connection that was closed or lost
    # meanwhile does not have a descriptor.
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def longest_attempt_s(url: URL) -> float:
    """Return how long one attempt can take that tries every address of every host of ``url``."""
    _, waits = take(url)
    named = [name for name, _ in hosts(url)] or [url.host or ""]
    # A driver reads 0 as no limit other than the kernel's.
    return (waits.connect or UNBOUNDED_S) * sum(map(_count_addresses, named))


def _count_addresses(host: str) -> int:
    """Count the addresses that a driver would try for a host; a path names a socket."""
    if not host or host.startswith("/"):
        return 1
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # The driver will report the error.
        return 1
    return max(1, len({each[4][0] for each in found}))


def connect(engine: Engine, within_s: float) -> None:
    """Make a connection for the pool of ``engine``, or give up after ``within_s`` seconds.

    :raises sqlalchemy.exc.DBAPIError: the connection was refused, or not made in this time.
    """
    if engine.dialect.name == "sqlite":
        engine.connect().close()
        return
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def attempt() -> None:
        try:
            engine.connect().close()
        except BaseException as error:
            outcome.put(error)
        else:
            outcome.put(None)

    # A thread makes the attempt, since drivers restart connect_timeout at each address, and names are
    # resolved without a limit. The thread is a daemon: an attempt that hangs for ever does not keep the
    # process alive.
    threading.Thread(target=attempt, name="first connection", daemon=True).start()
    try:
        error = outcome.get(timeout=max(0.0, within_s))
    except queue.Empty:
        # A hanging attempt keeps its place in the pool, so the next attempt gets a new pool.
        engine.dispose(close=False)
        silence = TimeoutError("connection timeout expired: no answer")
        raise exc.OperationalError("connect", None, silence, connection_invalidated=True) from None
    if error is not None:
        raise error

"""How long the service waits for its database: for a connection, a lock, a statement, a packet.

A server that is frozen, or behind a cable that was pulled, says nothing, and a driver left to itself waits
for ever. The server has the shorter deadlines, because it says why it gives up; the driver has longer ones,
because the server may be frozen.

psycopg2 waits for ever for an answer of a frozen PostgreSQL, whose kernel still acknowledges packets. So
:func:`watch` cuts the connection of a statement that takes too long. The driver's own way, a wait callback,
belongs to the whole process: under it libpq ignores ``connect_timeout``, so that after a silent host the
second is never tried; and COPY, large objects and connections shared by threads fail, also those of the
program that a ``PlacementDirect`` runs in. Some drivers count the time for a connection for each address
anew: :func:`connect` bounds the whole. PyMySQL counts it only until the other side has taken the connection,
so what follows, up to the first statements, has ``connect_timeout`` as its ``read_timeout``.
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
"""The connect timeout for one of several servers: how long a dead one may delay the attempt at the next."""

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

# A lost peer is noticed after 60 s of silence; Linux begins to ask after two hours by itself.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


@dataclass(frozen=True)
class Deadlines:
    """Seconds; 0 waits for ever.

    ``read`` and ``write``: for the next packet, counted by the driver (PostgreSQL: ``read`` for the
    whole statement). The others are counted by the server.
    """

    connect: int
    read: int
    write: int
    statement: int
    lock: int
    idle_transaction: int


class LockWaitStatements(NamedTuple):
    """Statements that make a transaction wait less for locks: sent before it, first inside it, and after."""

    before: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


USUAL = LockWaitStatements()


def limit_lock_wait(kind: str, wait_s: float) -> LockWaitStatements:
    """Return what lets a transaction wait so long for each lock; MySQL knows whole seconds only."""
    # The wait is at least 1 ms: 0 means no limit on PostgreSQL.
    wait_ms = max(1, int(1000 * wait_s))
    if kind == "postgresql":
        # LOCAL: it ends with the transaction, so nothing has to be put back.
        return LockWaitStatements(inside=(f"SET LOCAL lock_timeout = {wait_ms}",))
    if kind == "sqlite":
        # This statement precedes BEGIN IMMEDIATE, which is the statement that waits.
        usual_ms = 1000 * SQLITE_S
        return LockWaitStatements(
            before=(f"PRAGMA busy_timeout = {wait_ms}",),
            after=(f"PRAGMA busy_timeout = {usual_ms}",),
        )
    # Kept on the server meanwhile: its operator, or the URL, may have set another than ours.
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
    """Return the driver's arguments for them; the driver's own parameters in the URL stand."""
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
        # PyMySQL's connect_timeout ends when the socket is open: a frozen server would hold the greeting.
        # set_up gives the connection its usual read_timeout once it is made.
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
                # PyMySQL has no public way to change it.
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
    """Leave what is set already for this server, database, user or connection."""
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
    """Make one statement for both servers: each takes the other's settings for comments.

    MySQL ends statements that only read, and no idle transaction; ``read`` is what is left for the others.
    """
    settings = ["autocommit = 1"]
    if deadlines.lock:
        # The second is for locks on tables, whose default is a day and more: an ALTER TABLE that waits for a
        # forgotten transaction would hold up every request behind it.
        names = ("innodb_lock_wait_timeout", "lock_wait_timeout")
        settings += [f"{name} = {deadlines.lock}" for name in names]
    # MariaDB leaves out what is for MySQL 8 and newer. The last one counts milliseconds; IF makes a decimal
    # of its two kinds of integers, which this variable does not take.
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
"""The end of the running statement, and the driver's connection that runs it, by thread."""

_starting = threading.Lock()
_watched_process = 0


def watch(engine: Engine, patience_s: float) -> None:
    """Cut the connection of each statement that takes longer, by at most about a second."""
    event.listen(engine, "connect", lambda _connection, _record: _start_watchdog())
    # A wait callback of psycopg2 would not do (see the head of this module). Events of the engine cost a
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
    """Start the thread, unless it runs: a process that was forked has no threads of its parent."""
    global _watched_process
    with _starting:
        if _watched_process != os.getpid():
            # The entries belong to the parent's threads: cutting one here would end the parent's
            # conversation.
            _running.clear()
            threading.Thread(target=_look, name="watchdog", daemon=True).start()
            _watched_process = os.getpid()


def _look() -> None:
    while True:
        time.sleep(LOOK_S)
        now = time.monotonic()
        for thread, (until, connection) in list(_running.items()):
            # A statement that ends at this very moment costs its connection, and nothing else.
            if now > until and _running.pop(thread, None) is not None:
                _cut(connection)


def _cut(connection: Any) -> None:
    """End the conversation. The descriptor stays open for its owner, which waits on it."""
    # shutdown() acts on the connection, whichever descriptor names it. To close the owner's would free its
    # number for another file, from which libpq would continue to read. A connection that was closed or lost
    # meanwhile has no descriptor.
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def longest_attempt_s(url: URL) -> float:
    """Return how long one attempt may take that tries every address of every host of ``url``."""
    _, waits = take(url)
    named = [name for name, _ in hosts(url)] or [url.host or ""]
    # A driver takes 0 for as long as the kernel waits.
    return (waits.connect or UNBOUNDED_S) * sum(map(_count_addresses, named))


def _count_addresses(host: str) -> int:
    """Count the addresses that a driver would try for a host; a path is that of a socket."""
    if not host or host.startswith("/"):
        return 1
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # The driver will say it.
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

    # A thread makes the attempt, since drivers count connect_timeout for each address anew, and names are
    # looked up without a limit. It is a daemon: an attempt that hangs for ever does not keep the process from
    # ending.
    threading.Thread(target=attempt, name="first connection", daemon=True).start()
    try:
        error = outcome.get(timeout=max(0.0, within_s))
    except queue.Empty:
        # The attempt keeps its place in the pool for as long as it hangs: the next one has a new pool.
        engine.dispose(close=False)
        silence = TimeoutError("connection timeout expired: no answer")
        raise exc.OperationalError("connect", None, silence, connection_invalidated=True) from None
    if error is not None:
        raise error

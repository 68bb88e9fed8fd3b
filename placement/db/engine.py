"""One SQLAlchemy engine in driver autocommit, set up for each kind of database.

Several servers of MariaDB or MySQL, such as the nodes of a cluster, are named as in SQLAlchemy's URLs for
PostgreSQL (which libpq handles itself):
``mysql+pymysql://placement:secret@/placement?host=db1&host=db2:3307&host=db3``. A new connection goes to the
first server that accepts writes; the order is the order of preference. If none does, it goes to the first
server that can be read; a connection of a command fails.
"""

import os
import time
import weakref
import zlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, create_engine, event, exc
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from placement.db import address, character_sets, deadlines, dialects, driver_errors, transport
from placement.db.statements import read_text

MULTI_STATEMENTS = 1 << 16
"""The flag of the MySQL protocol for several statements in one message."""

MODES_OF_VALUES = frozenset(
    {
        "ALLOW_INVALID_DATES",
        "ERROR_FOR_DIVISION_BY_ZERO",
        "NO_AUTO_CREATE_USER",
        "NO_ENGINE_SUBSTITUTION",
        "NO_ZERO_DATE",
        "NO_ZERO_IN_DATE",
        "STRICT_ALL_TABLES",
        "STRICT_TRANS_TABLES",
        "TRADITIONAL",
    }
)
"""Modes of MySQL that decide which values are refused. Other modes change the meaning of statements."""

MODES_NEEDED = ("NO_AUTO_VALUE_ON_ZERO", "STRICT_TRANS_TABLES")
"""An id of 0, the id of the first standard class, is stored and does not mean "generate one". A value that
does not fit is refused, not changed.
"""

MYSQL_PORT = 3306
NODE_NOT_READY = 1047

HOSTS = "hosts"
"""The execution option of an engine with the number of servers for its connections."""

REPLICA_S = 5.0
"""How long a connection to a read-only server is used; the next one searches for a server that accepts
writes.
"""

_REPLICA_SINCE = "replica since"

POOL_SIZE = 20
"""The number of pooled connections by default: as many as a server process commonly has threads."""


def make_engine(
    connection: str,
    *,
    sqlite_synchronous: bool = True,
    mysql_sql_mode: str | None = "TRADITIONAL",
    pool: Mapping[str, Any] | None = None,
    patient: bool = False,
) -> Engine:
    """Return an engine for the SQLAlchemy URL ``connection``.

    :param sqlite_synchronous: false trades the last transactions of a power cut for speed.
    :param mysql_sql_mode: session mode; empty or None keeps the server's mode. In both cases only the
        :data:`MODES_OF_VALUES` are used.
    :param pool: further keyword arguments of ``create_engine`` (``pool_size``, ``max_overflow``,
        ``pool_timeout``, ``pool_recycle``); unused by an in-memory SQLite database.
    :param patient: statements have no deadline (:mod:`placement.db.deadlines`).
    :raises sqlalchemy.exc.ArgumentError: the URL, or a number in it, cannot be parsed.
    """
    url = with_default_driver(address.parse(connection))
    # Each transaction begins and ends with its own statements (placement.db.database), so a connection that
    # returns to the pool is not inside one, and a ROLLBACK would be a wasted round trip.
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
    several = url.get_driver_name() in transport.DRIVERS and url.query.get("multi_statements") != "0"
    url = url.difference_update_query(["multi_statements"])
    backend = url.get_backend_name()
    waits = deadlines.NONE
    if backend != "sqlite":
        url, waits = deadlines.take(url, patient=patient)
        url, spoken = character_sets.take(url)
        options["connect_args"] = deadlines.make_arguments(url, waits) | spoken
    nodes = _nodes(url) if backend in dialects.MYSQL else []
    if nodes:
        # MySQL's drivers know one host only: _connect_to_first tries one after the other.
        url = url.difference_update_query(["host"])
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        # Each connection to :memory: opens a database of its own, so all threads share one connection.
        options |= {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    else:
        options |= {"pool_size": POOL_SIZE, **(pool or {})}
    engine = _create(url, options)
    # SQLAlchemy sends a ROLLBACK in autocommit too; its option skip_autocommit_rollback needs 2.0.43.
    engine.dialect.do_rollback = lambda dbapi_connection: None  # type: ignore[method-assign]
    transport.prepare(engine)
    if several:
        _allow_several(engine)
    _forget_connections_in_children(engine)
    if backend == "sqlite":
        _set_up_sqlite(engine, sqlite_synchronous)
    elif backend in dialects.MYSQL:
        _set_up_mysql(engine, mysql_sql_mode)
    if nodes:
        _connect_to_first(engine, nodes, or_replica=not patient)
    if backend != "sqlite":
        deadlines.set_up(engine, waits)
    return engine


def _create(url: URL, options: dict[str, Any]) -> Engine:
    try:
        return create_engine(url, **options)
    except exc.NoSuchModuleError:
        raise
    except (exc.ArgumentError, ValueError):
        # The message of the error may repeat the URL.
        raise address.UnusableUrl("its parts, or its parameters, do not fit the driver") from None


def _forget_connections_in_children(engine: Engine) -> None:
    """Let a forked worker make its own connections, since two processes would garble one socket."""
    # The reference is weak: Python cannot remove such a hook, which would keep every engine alive.
    known = weakref.ref(engine)

    def forget() -> None:
        inherited = known()
        if inherited is not None and inherited.pool.__class__ is not StaticPool:
            # The connections are not closed: the parent still uses these sockets, and a closing message would
            # end its sessions.
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=forget)


def with_default_driver(url: URL) -> URL:
    """Add a driver to a URL without one.

    This is psycopg2 for PostgreSQL; for MySQL the C driver (mysqlclient) if it is installed, otherwise
    PyMySQL."""
    if url.drivername == "postgresql":
        return url.set(drivername="postgresql+psycopg2")
    if url.drivername in dialects.MYSQL:
        try:
            import MySQLdb  # noqa: F401
        except ImportError:
            return url.set(drivername=f"{url.drivername}+pymysql")
    return url


def _set_up_sqlite(engine: Engine, synchronous: bool) -> None:
    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        # The timeout is set first, because changing the journal mode has to wait for a lock on the file.
        cursor.execute(f"PRAGMA busy_timeout = {1000 * deadlines.SQLITE_S}")
        cursor.execute("PRAGMA journal_mode = WAL")
        # At NORMAL a WAL can lose its last commits when the power fails (sqlite.org/pragma.html).
        cursor.execute(f"PRAGMA synchronous = {'FULL' if synchronous else 'OFF'}")
        cursor.close()
        # SQLite stores any bytes as a text, such as names in Latin-1. Its driver would refuse to read these.
        connection.text_factory = read_text
        # SQLite lacks a checksum function (placement.db.digests).
        connection.create_function("placement_crc32", -1, _sum_up, deterministic=True)


def _sum_up(*values: object) -> int:
    # The digests pass texts as bytes.
    return zlib.crc32(repr(tuple(map(read_text, values))).encode())


def _allow_several(engine: Engine) -> None:
    """Note for each new connection whether several statements can be one message.

    A member of a cluster gets single statements. When Galera ends a transaction between two statements of a
    message, in favour of another node, the rest of the message runs outside it; tests found parts of claims
    written so.
    """
    is_mysql = engine.dialect.name in dialects.MYSQL

    if is_mysql:

        @event.listens_for(engine, "do_connect")
        def ask(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
            # mysqlclient allows several statements by default.
            parameters["client_flag"] = parameters.get("client_flag", 0) | MULTI_STATEMENTS

    @event.listens_for(engine, "connect")
    def judge(connection: Any, record: Any) -> None:
        # The flag is kept for each connection: the URL may name a proxy, behind which servers join or leave a
        # cluster.
        record.info[transport.SEVERAL] = not (is_mysql and is_in_cluster(connection))


def is_in_cluster(connection: Any) -> bool:
    """Return whether the server is a node of Galera or of MySQL's group replication."""
    cursor = connection.cursor()
    names = "'wsrep_on', 'group_replication_group_name'"
    cursor.execute(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
    found = cursor.fetchall()
    cursor.close()
    return any(value not in ("", "OFF") for _, value in found)


def _set_up_mysql(engine: Engine, sql_mode: str | None) -> None:
    # This runs before SQLAlchemy asks how this server quotes names, at the first connection.
    @event.listens_for(engine, "connect", insert=True)
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        if sql_mode:
            cursor.execute("SET SESSION sql_mode = %s", (sql_mode,))
        # The mode is read back from the server: TRADITIONAL stands for several modes.
        cursor.execute("SELECT @@SESSION.sql_mode")
        given = cursor.fetchone()[0].split(",")
        mode = ",".join([*(each for each in given if each in MODES_OF_VALUES), *MODES_NEEDED])
        cursor.execute("SET SESSION sql_mode = %s", (mode,))
        # InnoDB's REPEATABLE READ locks gaps, so inserts of new consumers would deadlock, and a statement
        # that waited for a lock would not see the holder's commit.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.close()

    @event.listens_for(engine, "handle_error")
    def judge(context: Any) -> None:
        # A server that refuses work, or has become a replica, reports it over a connection that the driver
        # considers healthy and would use again for the next attempt.
        error = context.sqlalchemy_exception
        if error is not None and (
            driver_errors.is_disconnect(error) or driver_errors.is_of_replica(error)
        ):
            context.is_disconnect = True


def _nodes(url: URL) -> list[tuple[str, int]]:
    """Return the hosts and ports that the parameters ``host`` name.

    :raises address.UnusableUrl: a port is not a number.
    """
    try:
        return [(name, int(port) if port else MYSQL_PORT) for name, port in address.hosts(url)]
    except ValueError:
        raise address.UnusableUrl("the port of a host is not a number") from None


def _connect_to_first(engine: Engine, nodes: list[tuple[str, int]], *, or_replica: bool) -> None:
    """Connect to the first server that accepts writes.

    :param or_replica: whether to connect to the first server that can be read, if none accepts writes.
    """
    engine.update_execution_options(**{HOSTS: len(nodes)})

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        failed = dialect.loaded_dbapi.OperationalError
        refusal: Exception = failed(NODE_NOT_READY, "none of the nodes takes work")
        usual = {"connect_timeout": deadlines.ONE_OF_SEVERAL_S, **parameters}
        replica: dict[str, Any] | None = None
        for host, port in nodes:
            node = usual | {"host": host, "port": port}
            try:
                connection = dialect.connect(*arguments, **node)
            except failed as error:
                # A wrong password is such an error too; the operator sees the error of the last node.
                refusal = error
                continue
            if _takes_work(connection):
                if not _is_replica(connection):
                    return connection
                replica = replica or (node if or_replica else None)
            connection.close()
        if replica is None:
            raise refusal
        # No server accepts writes until a failover is complete. Until then reads are answered, and writes are
        # refused and tried again.
        record.info[_REPLICA_SINCE] = time.monotonic()
        return dialect.connect(*arguments, **replica)

    @event.listens_for(engine, "checkin")
    def leave_replica(_connection: Any, record: Any) -> None:
        # The connection is not dropped at once: a new one may first have to wait for dead servers.
        since = record.info.get(_REPLICA_SINCE)
        if since is not None and time.monotonic() - since > REPLICA_S:
            record.invalidate()


def _takes_work(connection: Any) -> bool:
    """Return whether the server executes statements.

    A node of Galera that lost the others still accepts connections, but refuses every statement. A server
    built with Galera that is not in a cluster reports "not ready" as well.
    """
    # The check runs only at connect: a node that loses the others later answers 1047, which drops all
    # connections to it.
    cursor = connection.cursor()
    cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
    row = cursor.fetchone()
    cursor.close()
    return row is None or row[1] == "ON" or not is_in_cluster(connection)


def _is_replica(connection: Any) -> bool:
    """Return whether the server is a replica or a secondary group member, which refuses writes."""
    # The check runs only at connect: a server that becomes a replica later answers 1290, which drops all
    # connections to it.
    cursor = connection.cursor()
    cursor.execute("SHOW VARIABLES LIKE 'read_only'")
    [_, value] = cursor.fetchone()
    cursor.close()
    return bool(value != "OFF")

"""Engine creation: one SQLAlchemy engine in driver autocommit, set up for each kind of database."""

import os
import weakref
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from placement.db import deadlines, dialects, failover, message, ready

SQLITE_BUSY_TIMEOUT_MS = 30_000

MULTI_STATEMENTS = 1 << 16
"""Of the MySQL protocol: several statements may come as one message."""

POOL_SIZE = 20
"""Connections kept, unless configured: as many as a server process commonly has threads. With the
library's 5 the others would connect anew for each request. None is made before it is needed."""


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
    :param mysql_sql_mode: session mode; empty or None keeps the server's.
    :param pool: further keyword arguments of ``create_engine`` (``pool_size``, ``max_overflow``,
        ``pool_timeout``, ``pool_recycle``); unused by an in-memory SQLite database.
    :param patient: a statement may take as long as it takes (:mod:`placement.db.deadlines`).
    :raises sqlalchemy.exc.ArgumentError: the URL cannot be parsed.
    :raises ValueError: a number in it is none.
    """
    url = with_default_driver(make_url(connection))
    options: dict[str, Any] = {
        "isolation_level": "AUTOCOMMIT",
        # Transactions begin and end with their own statements (placement.db.database), which leave no
        # connection inside one: the rollback of a returned connection would be a wasted round trip.
        "skip_autocommit_rollback": True,
        "pool_reset_on_return": None,
        # An UPDATE of placement.db.closing joins one row of the log to nothing, on purpose.
        "enable_from_linting": False,
    }
    url, several = _takes_several(url)
    backend = url.get_backend_name()
    hosts: list[failover.Host] = []
    waits = deadlines.NONE
    if backend != "sqlite":
        url, waits = deadlines.take(url, patient=patient)
        options["connect_args"] = deadlines.arguments(url, waits)
    if backend in dialects.MYSQL:
        url, hosts = failover.split(url)
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        options |= {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    else:
        options |= {"pool_size": POOL_SIZE, **(pool or {})}
    engine = create_engine(url, **options)
    ready.prepare(engine)
    if several:
        _allow_several(engine)
    _forget_connections_in_children(engine)
    if backend == "sqlite":
        _set_up_sqlite(engine, sqlite_synchronous)
    elif backend in dialects.MYSQL:
        _set_up_mysql(engine, mysql_sql_mode)
        failover.leave_what_is_gone(engine)
        if hosts:
            failover.connect_to_first(engine, hosts)
    if backend != "sqlite":
        deadlines.set_up(engine, waits)
    return engine


def _takes_several(url: URL) -> tuple[URL, bool]:
    """Return the URL, and whether several statements may be one message: not with ``multi_statements=0``."""
    is_wanted = url.query.get("multi_statements") != "0"
    url = url.difference_update_query(["multi_statements"])
    return url, is_wanted and url.get_driver_name() in message.DRIVERS


def _forget_connections_in_children(engine: Engine) -> None:
    """Let a forked worker make connections of its own: two processes on one socket garble both."""
    known = weakref.ref(engine)

    def forget() -> None:
        inherited = known()
        if inherited is not None and inherited.pool.__class__ is not StaticPool:
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=forget)


def with_default_driver(url: URL) -> URL:
    """Name the driver of a URL that names none: psycopg2 for PostgreSQL; for MySQL the C driver
    (mysqlclient) if it is installed and PyMySQL if not."""
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
        cursor.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {'FULL' if synchronous else 'OFF'}")
        cursor.close()


def _allow_several(engine: Engine) -> None:
    """Note of each new connection whether several statements may be one message.

    Not to a member of a cluster. A transaction that Galera ends between two statements of a message, in
    favour of another node, ends unnoticed, and the rest of the message is run on its own.
    """
    is_mysql = engine.dialect.name in dialects.MYSQL

    if is_mysql:

        @event.listens_for(engine, "do_connect")
        def ask(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
            # mysqlclient does so by itself.
            parameters["client_flag"] = parameters.get("client_flag", 0) | MULTI_STATEMENTS

    @event.listens_for(engine, "connect")
    def judge(connection: Any, record: Any) -> None:
        record.info[message.SEVERAL] = not (is_mysql and _is_in_cluster(connection))


def _is_in_cluster(connection: Any) -> bool:
    """Whether the server is a node of Galera, or of MySQL's group replication."""
    cursor = connection.cursor()
    names = "'wsrep_on', 'group_replication_group_name'"
    cursor.execute(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
    found = cursor.fetchall()
    cursor.close()
    return any(value not in ("", "OFF") for _, value in found)


def _set_up_mysql(engine: Engine, sql_mode: str | None) -> None:
    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        if sql_mode:
            cursor.execute("SET SESSION sql_mode = %s", (sql_mode,))
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.close()

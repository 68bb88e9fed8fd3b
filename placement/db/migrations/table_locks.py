"""A moment at which no transaction is open, for changes of tables on MariaDB and MySQL.

A transaction of REPEATABLE READ that has read one table, and finds the next one rebuilt since, is refused
with error 1412. The OpenStack service has no answer to that but 500 (specification 06 section 13.1). So all
tables are locked first, which is possible only where no transaction has touched any; who comes later
waits until the change is done, and begins after it.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Connection, exc

from placement.db import driver_errors

TRIES_S = 10.0
"""How long a moment is looked for without making anybody wait. A fleet that never pauses has none: then
the locks are waited for, and what waits crosswise begins again after a deadlock (1213)."""

PAUSE_S = 0.005

_TABLES = sa.text(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
    " AND table_type = 'BASE TABLE' ORDER BY table_name"
)


@contextmanager
def nobody_else(connection: Connection) -> Iterator[None]:
    """Hold all tables of the database; other databases than MariaDB and MySQL need no such thing.

    Nor does a Galera cluster have it, which ends the transactions in the way of a change instead.
    """
    if connection.dialect.name not in ("mysql", "mariadb") or not _lock(connection):
        yield
        return
    try:
        yield
    finally:
        connection.exec_driver_sql("UNLOCK TABLES")


def _lock(connection: Connection) -> bool:
    """Lock all tables as soon as nobody uses any; say whether that is possible here."""
    if connection.exec_driver_sql("SHOW VARIABLES LIKE 'wsrep_on'").fetchall() == [
        ("wsrep_on", "ON")
    ]:
        return False
    quote = connection.dialect.identifier_preparer.quote
    names = ", ".join(f"{quote(name)} WRITE" for name in connection.scalars(_TABLES))
    at_once = " NOWAIT" if getattr(connection.dialect, "is_mariadb", False) else ""
    if not at_once:
        connection.exec_driver_sql("SET SESSION lock_wait_timeout = 1")
    give_up = time.monotonic() + TRIES_S
    try:
        while time.monotonic() < give_up:
            try:
                connection.exec_driver_sql(f"LOCK TABLES {names}{at_once}")
                return True
            except exc.DBAPIError as error:
                if not driver_errors.is_conflict(error):
                    raise
            time.sleep(random.uniform(0, 2 * PAUSE_S))  # noqa: S311
        connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")
        connection.exec_driver_sql(f"LOCK TABLES {names}")
    except exc.DBAPIError as error:
        # An operator who grants no LOCK TABLES gets the change, and perhaps a few 1412 with it.
        if driver_errors.lacks_rights(error) or driver_errors.is_refused(error):
            return False
        raise
    return True

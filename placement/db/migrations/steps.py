"""Steps of migrations that can be repeated without harm."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Connection, exc

from placement.db import cluster_lock, dialects, driver_errors
from placement.db.migrations import Progress, afterwards

BATCH = 2000
"""The number of ids whose rows one statement updates."""

TABLE_OPTIONS: Any = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}
"""The options of every table, which override the defaults of the server."""

LOOK_EVERY_S = 0.5

TRIES_S = 10.0
"""How long :func:`all_tables` tries for its locks without making other transactions wait. A fleet that
never pauses has no such moment: then the migration waits for the locks, and a deadlock (1213) makes the
others begin again.
"""

PAUSE_S = 0.005

_ROWS = sa.text(
    "SELECT coalesce(table_rows, 0) FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = :name"
)
_PROGRESS = sa.text("SELECT stage, progress FROM information_schema.processlist WHERE id = :id")
_TABLES = sa.text(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
    " AND table_type = 'BASE TABLE' AND table_name <> :lock ORDER BY table_name"
).bindparams(lock=cluster_lock.TABLE)
"""All tables except the one in which the lock's holder shows that it is alive."""


def table(metadata: sa.MetaData, name: str, *items: Any) -> sa.Table:
    """Define a table with the two timestamps every table begins with."""
    return sa.Table(
        name,
        metadata,
        sa.Column("created_at", sa.DateTime),
        sa.Column("updated_at", sa.DateTime),
        *items,
        **TABLE_OPTIONS,
    )


def create_missing(metadata: sa.MetaData) -> None:
    """Create the missing tables and their missing indexes."""
    connection = op.get_bind()
    metadata.create_all(connection, checkfirst=True)
    for missing in metadata.sorted_tables:
        present = index_names(missing.name)
        for index in sorted(missing.indexes, key=lambda index: str(index.name)):
            if index.name not in present:
                index.create(connection)


def index_names(table_name: str) -> set[str | None]:
    """Return the names of the indexes of a table."""
    return {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table_name)}


def has_table(name: str) -> bool:
    """Return whether the table exists."""
    return sa.inspect(op.get_bind()).has_table(name)


def has_column(table_name: str, column: str) -> bool:
    """Return whether the table has the column already."""
    columns = sa.inspect(op.get_bind()).get_columns(table_name)
    return any(present["name"] == column for present in columns)


def add_column(table_name: str, column: sa.Column[Any]) -> None:
    """Add the column unless it exists."""
    if has_column(table_name, column.name):
        return
    # MariaDB shows the new column to older transactions as well; MySQL refuses them with 1412.
    with nullcontext() if is_mariadb() else all_tables(op.get_bind()):
        op.add_column(table_name, column)


def alter(statement: str, table_name: str) -> None:
    """Change a table of MariaDB or MySQL, and report the estimated number of rebuilt rows.

    MySQL does not show its progress, so it has no report.
    """
    report, connection = _progress(), op.get_bind()
    rows = int(connection.scalar(_ROWS, {"name": table_name}) or 0)
    session = connection.scalar(sa.text("SELECT CONNECTION_ID()"))
    done = threading.Event()

    def look() -> None:
        try:
            with connection.engine.connect() as other:
                while not done.wait(LOOK_EVERY_S):
                    found = other.execute(_PROGRESS, {"id": session}).first()
                    if found is not None and found.stage:
                        part = 1 if found.stage > 1 else float(found.progress) / 100
                        report(table_name, int(rows * part), rows)
        except exc.SQLAlchemyError:
            return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        op.execute(statement)
    finally:
        done.set()
        watcher.join()


def update_in_batches(table_name: str, statement: str, key: str = "id") -> None:
    """Run an UPDATE on ranges of a key, so that no writer waits for all rows.

    On MariaDB and MySQL each range is its own transaction.
    """
    report, connection = _progress(), op.get_bind()
    # The callers' statements are all constant.
    query = f"SELECT MIN({key}), MAX({key}) FROM {table_name}"  # noqa: S608
    bounds = connection.execute(sa.text(query)).one()
    if bounds[0] is None:
        return
    total = bounds[1] - bounds[0] + 1
    for first in range(bounds[0], bounds[1] + 1, BATCH):
        span = {"first": first, "last": first + BATCH - 1}
        op.execute(sa.text(f"{statement} AND {key} BETWEEN :first AND :last").bindparams(**span))
        report(table_name, min(first - bounds[0] + BATCH, total), total)


def _progress() -> Progress:
    given: Progress | None = op.get_context().opts.get("rows")
    return given or (lambda what, done, total: None)


def commit() -> None:
    """Commit the step, and begin the transaction of the next one. A revision can begin again after any step.

    :raises placement.db.migrations.RevisionOvertaken: another process has taken the remaining steps.
    """
    op.get_context().opts["commit"]()


def drop_index(name: str, table_name: str) -> None:
    """Drop the index if it exists."""
    if name in index_names(table_name):
        op.drop_index(name, table_name=table_name)


def is_sqlite() -> bool:
    """Return whether this is SQLite."""
    return dialects.kind(op.get_bind()) == "sqlite"


def is_mysql() -> bool:
    """Return whether this is MySQL or MariaDB."""
    return dialects.kind(op.get_bind()) == "mysql"


def is_mariadb() -> bool:
    """Return whether this is MariaDB, and not MySQL."""
    return bool(getattr(op.get_bind().dialect, "is_mariadb", False))


@contextmanager
def all_tables(connection: Connection) -> Iterator[None]:
    """Lock all tables of MariaDB or MySQL at a moment at which no transaction is open.

    Otherwise a REPEATABLE READ transaction that has read one table and then reads a rebuilt one fails with
    error 1412, and the OpenStack service answers 500 (specification 06 section 13.1). Other databases do not
    need this. A Galera cluster does not either: it ends the conflicting transactions.
    """
    if not is_mysql():
        yield
        return
    # The unlock is registered before the lock, since _lock can fail after it has locked.
    with afterwards(connection, "UNLOCK TABLES"):
        _lock(connection)
        yield


def _lock(connection: Connection) -> None:
    """Lock all tables as soon as none is in use, where that is possible."""
    if connection.exec_driver_sql("SHOW VARIABLES LIKE 'wsrep_on'").fetchall() == [
        ("wsrep_on", "ON")
    ]:
        return
    quote = connection.dialect.identifier_preparer.quote
    names = ", ".join(f"{quote(name)} WRITE" for name in connection.scalars(_TABLES))
    # MySQL does not have NOWAIT, and its shortest wait is a second.
    at_once = " NOWAIT" if is_mariadb() else ""
    give_up = time.monotonic() + TRIES_S
    try:
        connection.exec_driver_sql("SET @table_wait = @@lock_wait_timeout, lock_wait_timeout = 1")
        with afterwards(connection, "SET lock_wait_timeout = @table_wait"):
            while time.monotonic() < give_up:
                try:
                    connection.exec_driver_sql(f"LOCK TABLES {names}{at_once}")
                    return
                except exc.DBAPIError as error:
                    if not driver_errors.is_conflict(error):
                        raise
                time.sleep(random.uniform(0, 2 * PAUSE_S))  # noqa: S311
        connection.exec_driver_sql(f"LOCK TABLES {names}")
    except exc.DBAPIError as error:
        # Without the right to LOCK TABLES the change proceeds, perhaps with a few errors 1412.
        if not (driver_errors.lacks_rights(error) or driver_errors.lacks_database(error)):
            raise

"""Steps of migrations that may be taken twice."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

from placement.db import dialects
from placement.db.migrations import table_copies

BATCH = 2000
"""Ids whose rows are updated in one statement."""

TABLE_OPTIONS: Any = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}
"""Of every table, whatever the defaults of the server are."""

Progress = Callable[[str, int, int], object]
"""Told what is being done, how many rows of it are done, and how many there are."""


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
    """Create the tables that are not there, and what indexes of them are not."""
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


def has_column(table_name: str, column: str) -> bool:
    """Tell whether the table has the column already."""
    columns = sa.inspect(op.get_bind()).get_columns(table_name)
    return any(present["name"] == column for present in columns)


def add_column(table_name: str, column: sa.Column[Any]) -> None:
    """Add the column unless it is there."""
    if not has_column(table_name, column.name):
        op.add_column(table_name, column)


def alter(statement: str, table_name: str) -> None:
    """Change a table of MariaDB or MySQL, and tell how many rows of it are rebuilt."""
    tell, connection = _tell(), op.get_bind()
    with table_copies.watched(connection, table_name, tell):
        op.execute(statement)


def update_in_batches(table_name: str, statement: str) -> None:
    """Run an UPDATE with a condition on ranges of ids, so that no writer waits for all rows.

    Each range is a transaction of its own where changes of tables are: on MariaDB and MySQL.
    """
    tell, connection = _tell(), op.get_bind()
    # Statements of the callers, all constant.
    bounds = connection.execute(sa.text(f"SELECT MIN(id), MAX(id) FROM {table_name}")).one()  # noqa: S608
    if bounds[0] is None:
        return
    total = bounds[1] - bounds[0] + 1
    for first in range(bounds[0], bounds[1] + 1, BATCH):
        span = {"first": first, "last": first + BATCH - 1}
        op.execute(sa.text(f"{statement} AND id BETWEEN :first AND :last").bindparams(**span))
        tell(table_name, min(first - bounds[0] + BATCH, total), total)


def _tell() -> Progress:
    told: Progress | None = op.get_context().opts.get("rows")
    return told or (lambda what, done, total: None)


def drop_index(name: str, table_name: str) -> None:
    """Drop the index if it is there."""
    if name in index_names(table_name):
        op.drop_index(name, table_name=table_name)


def is_mysql() -> bool:
    """Tell whether this is MySQL or MariaDB."""
    return dialects.kind(op.get_bind()) == "mysql"

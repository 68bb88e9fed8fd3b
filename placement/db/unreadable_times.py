"""Times of SQLite that are no times, such as the numbers that SQLite's own functions of dates return.

SQLite stores any value in any column. Reads count such a value as NULL
(:meth:`placement.db.statements.DriverText.convert`).
"""

from sqlalchemy import text

from placement.db import models
from placement.db.database import Access

_IS_NO_TIME = (
    "{column} IS NOT NULL AND ({column} NOT GLOB '[0-9][0-9][0-9][0-9]-*' OR {column} GLOB '0000*'"
    " OR strftime('%s', {column}) IS NULL)"
)
_FIND = text(
    " UNION ALL ".join(
        f"SELECT '{table.name}', '{column}', count(*), CAST(min({column}) AS TEXT) FROM {table.name}"  # noqa: S608
        f" WHERE {_IS_NO_TIME.format(column=column)}"
        for table in models.whole_metadata().sorted_tables
        for column in ("created_at", "updated_at")
        if column in table.c
    )
)


def describe(access: Access) -> list[str]:
    """Return a line for each column with such values; none on other databases. One statement."""
    if access.dialect != "sqlite":
        return []
    return [
        f"table {table}, column {column}: {number} rows, one with {example!r}"
        for table, column, number, example in access.rows(_FIND)
        if number
    ]

"""Values of SQLite that are of another type than their column.

SQLite stores any value in any column, such as the numbers that its own functions of dates return, and the
empty texts of an imported file. :meth:`placement.db.statements.DriverText.convert` reads such values.
"""

from collections.abc import Iterator
from functools import cache

from sqlalchemy import DateTime, Integer, String, Table, TextClause, text

from placement.db import models
from placement.db.database import Access

_IS_NO_NUMBER = "typeof({column}) NOT IN ('integer', 'null')"
_IS_NO_TEXT = "typeof({column}) NOT IN ('text', 'null')"
_IS_NO_TIME = (
    "{column} IS NOT NULL AND ({column} NOT GLOB '[0-9][0-9][0-9][0-9]-*' OR {column} GLOB '0000*'"
    " OR strftime('%s', {column}) IS NULL)"
)


def describe(access: Access) -> list[str]:
    """Return a line for each column with such values; none on other databases."""
    if access.dialect != "sqlite":
        return []
    return [line for table in models.whole_metadata().sorted_tables for line in _describe(access, table)]


def _describe(access: Access, table: Table) -> Iterator[str]:
    (row,) = access.rows(_find(table))
    for column, number, example in zip(_conditions(table), row[::2], row[1::2], strict=True):
        if number:
            yield f"table {table.name}, column {column}: {number} rows, one with {example!r}"


@cache
def _find(table: Table) -> TextClause:
    """Return the statement that counts the wrong values of each column, with an example of each."""
    counted = (
        f"count(CASE WHEN {wrong} THEN 1 END), CAST(min(CASE WHEN {wrong} THEN {column} END) AS TEXT)"
        for column, wrong in _conditions(table).items()
    )
    return text(f"SELECT {', '.join(counted)} FROM {table.name}")  # noqa: S608


def _conditions(table: Table) -> dict[str, str]:
    """Return for each column of whole numbers, texts or times the condition that a value is wrong."""
    kinds = ((Integer, _IS_NO_NUMBER), (String, _IS_NO_TEXT), (DateTime, _IS_NO_TIME))
    return {
        column.name: wrong.format(column=column.name)
        for kind, wrong in kinds
        for column in table.columns
        if isinstance(column.type, kind)
    }

"""Inserting rows, also those that somebody else may be inserting at the same moment.

Core compiles a VALUES list of several rows at every call; the texts here are made once.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Table, bindparam, text

from placement.db.database import Transaction
from placement.db.ready import Ready

ROWS_AT_ONCE = 64
"""Rows of one statement; everyday requests insert a few. More take a statement for each so many."""

Row = Mapping[str, Any]
SKIP_TAKEN = " ON CONFLICT DO NOTHING"


def insert_all(tx: Transaction, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows, which all name the same columns. One statement, or none for no row."""
    for part in parts(rows):
        tx.change(*inserting(table, part))


def insert_later(tx: Transaction, table: Table, rows: Sequence[Row]) -> None:
    """Do the same, at the latest with the next statement: an error is raised there."""
    for part in parts(rows):
        tx.change_later(*inserting(table, part))


def insert_missing(tx: Transaction, table: Table, rows: Sequence[Row]) -> int:
    """Insert the rows whose unique key is free and pass over the others. One statement.

    A row that another transaction has inserted but not committed is waited for. No error is caught
    to get there, so the transaction stays usable on every engine.

    :returns: how many rows were inserted.
    """
    return sum(tx.change(*_skipping(tx, table, part)) for part in parts(rows))


def insert_free(tx: Transaction, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows, whose unique keys were free when they were read. One statement, which may wait.

    :raises StaleRead: one of them is taken.
    """
    for part in parts(rows):
        tx.change_later(*_skipping(tx, table, part), finds=len(part))


def _skipping(tx: Transaction, table: Table, rows: Sequence[Row]) -> tuple[Ready, dict[str, Any]]:
    way = ("IGNORE ", "") if tx.dialect == "mysql" else ("", SKIP_TAKEN)
    return inserting(table, rows, *way)


def parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in parts of one statement."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def inserting(
    table: Table, rows: Sequence[Row], before: str = "", after: str = ""
) -> tuple[Ready, dict[str, Any]]:
    """Return the statement that inserts a part of rows, and its parameters.

    :param before: what stands before INTO; ``after``: behind the values.
    """
    differing = []
    parameters: dict[str, Any] = {}
    for name, value in rows[0].items():
        values = [row[name] for row in rows]
        # A value that all rows have is bound once.
        if values.count(value) == len(rows):
            parameters[name] = value
        else:
            differing.append(name)
            parameters.update({f"{name}_{index}": each for index, each in enumerate(values)})
    return _insert(table, tuple(rows[0]), tuple(differing), len(rows), before, after), parameters


@lru_cache(maxsize=512)
def _insert(
    table: Table,
    names: tuple[str, ...],
    differing: tuple[str, ...],
    count: int,
    before: str,
    after: str,
) -> Ready:
    def keys(index: int) -> list[str]:
        return [f"{name}_{index}" if name in differing else name for name in names]

    rows = (f"({', '.join(f':{key}' for key in keys(index))})" for index in range(count))
    # Nothing of it comes from outside: names of columns and placeholders.
    statement = text(
        f"INSERT {before}INTO {table.name} ({', '.join(names)}) VALUES {', '.join(rows)}{after}"  # noqa: S608
    )
    typed = {
        key: bindparam(key, type_=table.c[name].type)
        for index in range(count)
        for name, key in zip(names, keys(index), strict=True)
    }
    return Ready(statement.bindparams(*typed.values()))

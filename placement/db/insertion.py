"""Inserting rows that somebody else may be inserting at the same moment."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Table, TextClause, bindparam, text

from placement.db.api import Transaction

ROWS_AT_ONCE = 64
SKIP_TAKEN = " ON CONFLICT DO NOTHING"


def insert_missing(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose unique key is free and pass over the others. One statement.

    A row that another transaction has inserted but not committed is waited for. No error is caught
    to get there, so the transaction stays usable on every engine. More than ``ROWS_AT_ONCE`` rows
    take a statement for each so many.

    :param rows: all with the same columns.
    :returns: how many rows were inserted.
    """
    inserted = 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        statement = _insert_or_pass(table, tuple(part[0]), len(part), tx.dialect.name)
        parameters = {
            f"{name}_{index}": value
            for index, row in enumerate(part)
            for name, value in row.items()
        }
        inserted += tx.execute(statement, parameters).rowcount
    return inserted


# Core compiles a VALUES list of several rows at every call; these texts are made once.
@lru_cache(maxsize=256)
def _insert_or_pass(table: Table, names: tuple[str, ...], count: int, dialect: str) -> TextClause:
    ignore, skip_taken = ("IGNORE ", "") if dialect in ("mysql", "mariadb") else ("", SKIP_TAKEN)
    rows = ", ".join(
        f"({', '.join(f':{name}_{index}' for name in names)})" for index in range(count)
    )
    columns = ", ".join(names)
    # Nothing of it comes from outside: names of columns and placeholders.
    statement = f"INSERT {ignore}INTO {table.name} ({columns}) VALUES {rows}{skip_taken}"  # noqa: S608
    return text(statement).bindparams(
        *(
            bindparam(f"{name}_{index}", type_=table.c[name].type)
            for index in range(count)
            for name in names
        )
    )

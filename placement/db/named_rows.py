"""Rows that are known by a name: look up their ids, or create missing rows."""

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import Column, Table, select

from placement.db import models
from placement.db.database import Access, StaleRead, Transaction, stale_if_refused
from placement.db.statements import CompiledStatement, is_among

Key = Column[Any]
"""The column of the names; its table is the table that is read."""

PROJECTS: Key = models.projects.c.external_id
USERS: Key = models.users.c.external_id
TYPES: Key = models.consumer_types.c.name
AGGREGATES: Key = models.placement_aggregates.c.uuid
TRAITS: Key = models.traits.c.name
CONSUMERS: Key = models.consumers.c.uuid
CLASSES: Key = models.resource_classes.c.name


def ids(tx: Access, key: Key, names: Collection[str], *, hold: bool = False) -> dict[str, int]:
    """Return the ids of the names that exist. One statement for each thousand names.

    :param hold: lock the rows against deletion.
    """
    return dict(tx.rows_of_all(_compile_look_up(key, hold), "name", names))


@cache
def _compile_look_up(key: Key, hold: bool) -> CompiledStatement:
    statement = select(key, key.table.c.id).where(is_among(key, "name"))
    if hold:
        statement = statement.order_by(key.table.c.id).with_for_update(read=True)
    return CompiledStatement(statement, "name")


def names(tx: Access, key: Key, row_ids: Collection[int]) -> dict[int, str]:
    """Return the names of the ids that exist. One statement for each thousand ids."""
    return dict(tx.rows_of_all(_compile_names(key), "id", row_ids))


@cache
def _compile_names(key: Key) -> CompiledStatement:
    return CompiledStatement(
        select(key.table.c.id, key).where(is_among(key.table.c.id, "id")), "id"
    )


def describe(tx: Access, key: Key, row_ids: Collection[int]) -> dict[int, str]:
    """Return what a log line calls these rows; an id without a row is not mistaken for a name.

    One statement for each thousand ids.
    """
    found = names(tx, key, row_ids)
    return {
        row_id: (found[row_id] or "''")
        if row_id in found
        else f"(row {row_id} of {key.table.name}, which is missing)"
        for row_id in row_ids
    }


def restore(tx: Transaction, key: Key, row_id: int, name: str) -> None:
    """Insert a missing row under a name that marks it as restored. One statement.

    :raises StaleRead: another transaction has inserted it.
    """
    table = key.table
    assert isinstance(table, Table)
    with stale_if_refused(f"the row of {table.name} is there again", gives_ids=True):
        tx.insert(table, [{"id": row_id, key.name: name, "created_at": models.now()}])


def create(tx: Transaction, key: Key, names: Collection[str]) -> dict[str, int]:
    """Make sure that rows of these names exist and return their ids. Two statements.

    Names are inserted in sorted order, so that two writers of the same names wait and do not deadlock.

    :raises StaleRead: the database considers two of the names equal.
    """
    table = key.table
    assert isinstance(table, Table)
    now = models.now()
    tx.insert_missing(table, [{key.name: name, "created_at": now} for name in sorted(names)])
    found = ids(tx, key, names)
    if len(found) < len(names):
        # Only a collation of an older database that considers two of the names equal leads here.
        raise StaleRead(f"a name of {table.name} could not be stored as given")
    return found

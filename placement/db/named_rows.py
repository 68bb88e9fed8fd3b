"""Rows that are known by a name: look their ids up, or create what is missing."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, Table, select

from placement.db import models
from placement.db.database import Snapshot, StaleRead, Transaction
from placement.db.in_list import batches
from placement.db.insertion import insert_missing

PROJECTS: Column[Any] = models.projects.c.external_id
USERS: Column[Any] = models.users.c.external_id
TYPES: Column[Any] = models.consumer_types.c.name
AGGREGATES: Column[Any] = models.placement_aggregates.c.uuid


def ids(
    tx: Snapshot | Transaction, key: Column[Any], names: Collection[str], *, hold: bool = False
) -> dict[str, int]:
    """Return the ids of those names that exist. One statement, or none for no name.

    :param hold: keep the rows from going.
    """
    found: dict[str, int] = {}
    for batch in batches(sorted(names)):
        statement = select(key, key.table.c.id).where(key.in_(batch))
        if hold:
            statement = statement.order_by(key.table.c.id).with_for_update(read=True)
        found |= {row[0]: row[1] for row in tx.execute(statement)}
    return found


def create(tx: Transaction, key: Column[Any], names: Collection[str]) -> dict[str, int]:
    """Make sure that rows of these names exist and return their ids. Two statements.

    Names go in in sorted order, so that two writers of the same ones wait and do not deadlock.

    :raises StaleRead: the database takes one of them for another.
    """
    table = key.table
    assert isinstance(table, Table)
    now = models.now()
    insert_missing(tx, table, [{key.name: name, "created_at": now} for name in sorted(names)])
    found = ids(tx, key, names)
    if len(found) < len(names):
        # Only where a collation of an older database takes two of the names for one.
        raise StaleRead(f"a name of {table.name} could not be stored as given")
    return found

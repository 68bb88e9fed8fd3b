"""Statements on projects, users and consumer types: rows that appear once and never go away."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, Table, select

from placement.db import models
from placement.db.api import StaleRead, Transaction
from placement.db.insertion import insert_missing

PROJECTS: Column[Any] = models.projects.c.external_id
USERS: Column[Any] = models.users.c.external_id
TYPES: Column[Any] = models.consumer_types.c.name


def create(tx: Transaction, key: Column[Any], names: Collection[str]) -> dict[str, int]:
    """Make sure that rows of these names exist and return their ids. Two statements.

    Names go in in sorted order, so that two writers of the same ones wait and do not deadlock.
    """
    if not names:
        return {}
    table = key.table
    assert isinstance(table, Table)
    now = models.now()
    insert_missing(tx, table, [{key.name: name, "created_at": now} for name in sorted(names)])
    rows = tx.execute(select(key, table.c.id).where(key.in_(sorted(names))))
    ids = {row[0]: row[1] for row in rows}
    if len(ids) < len(names):
        # Only where a collation of an older database takes two of the names for one.
        raise StaleRead(f"a name of {table.name} could not be stored as given")
    return ids

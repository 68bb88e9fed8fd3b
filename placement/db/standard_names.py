"""The standard traits and resource classes of the installed libraries (specification 06 section 7.5)."""

from functools import partial
from typing import Any

import os_resource_classes
import os_traits
from sqlalchemy import Table, select

from placement.db import models
from placement.db.database import Access, Database, Transaction, stale_if_refused


def synchronise(database: Database) -> None:
    """Insert the missing standard names; nothing is renamed or removed.

    Several processes can do this at once: one that meets a row of another begins again. Two statements if
    nothing is missing.
    """
    for table in (models.traits, models.resource_classes):
        if database.read(partial(_find_missing, table=table)):
            database.write(partial(_insert, table=table))


def _find_missing(access: Access, table: Table) -> list[dict[str, Any]]:
    """Return the rows to insert. The id of a standard class is its position in the library's list, from 0."""
    present = set(access.column(select(table.c.name)))
    rows: list[dict[str, Any]] = [{"name": name} for name in os_traits.get_traits()]
    if table is models.resource_classes:
        rows = [{"id": id_, "name": name} for id_, name in enumerate(os_resource_classes.STANDARDS)]
    return [row for row in rows if row["name"] not in present]


def _insert(tx: Transaction, table: Table) -> None:
    created_at = models.now()
    rows = [row | {"created_at": created_at} for row in _find_missing(tx, table)]
    gives_ids = table is models.resource_classes
    with stale_if_refused(f"another process filled {table.name}", gives_ids=gives_ids):
        tx.insert(table, rows)

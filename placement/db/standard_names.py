"""The standard traits and resource classes of the installed libraries (specification 06 section 7.5)."""

from collections.abc import Sequence

import os_resource_classes
import os_traits
from sqlalchemy import Table, exc, select

from placement.db import models
from placement.db.database import Database, StaleRead, Transaction
from placement.db.insertion import insert_all


def synchronise(database: Database) -> None:
    """Insert every standard name that is not there yet; nothing is renamed or removed.

    Several processes may do it at once: who finds a row made by another begins again. Two
    statements when there is nothing to do.
    """
    if _missing_traits(_names(database, models.traits)):
        database.write(_insert_traits)
    if _missing_classes(_names(database, models.resource_classes)):
        database.write(_insert_classes)


def _names(database: Database, table: Table) -> set[str]:
    return database.read(lambda connection: set(connection.scalars(select(table.c.name))))


def _missing_traits(present: set[str]) -> list[dict[str, object]]:
    return [{"name": name} for name in os_traits.get_traits() if name not in present]


def _missing_classes(present: set[str]) -> list[dict[str, object]]:
    """The id of a standard class is its position in the library's list, from 0."""
    return [
        {"id": position, "name": name}
        for position, name in enumerate(os_resource_classes.STANDARDS)
        if name not in present
    ]


def _insert_traits(tx: Transaction) -> None:
    present = set(tx.scalars(select(models.traits.c.name)))
    _insert(tx, models.traits, _missing_traits(present))


def _insert_classes(tx: Transaction) -> None:
    present = set(tx.scalars(select(models.resource_classes.c.name)))
    missing = _missing_classes(present)
    if tx.dialect != "mysql":
        _insert(tx, models.resource_classes, missing)
        return
    # MySQL takes an id of 0 for "give me one" unless told otherwise.
    mode = tx.exec_driver_sql("SELECT @@SESSION.sql_mode").scalar_one()
    tx.exec_driver_sql(
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
    )
    try:
        _insert(tx, models.resource_classes, missing)
    finally:
        tx.exec_driver_sql("SET SESSION sql_mode = %s", (mode,))


def _insert(tx: Transaction, table: Table, rows: Sequence[dict[str, object]]) -> None:
    created_at = models.now()
    try:
        insert_all(tx, table, [row | {"created_at": created_at} for row in rows])
    except exc.IntegrityError as duplicate:
        raise StaleRead(f"another process filled {table.name}") from duplicate

"""Statements on ``resource_classes``."""

from collections.abc import Collection
from datetime import datetime
from functools import cache
from typing import NamedTuple

import os_resource_classes
from sqlalchemy import bindparam, case, delete, func, select, update

from placement.db import models, named_rows
from placement.db.database import Access, Transaction, stale_if_refused
from placement.db.statements import CompiledStatement

_classes = models.resource_classes
_inventories = models.inventories

FIRST_CUSTOM_ID = 10000
"""The first id of custom classes, so that the order of ids is standard classes first, then age."""


class ClassRow(NamedTuple):
    """A resource class. ``modified_at``: the last update or creation, in UTC; None if never recorded."""

    id: int
    name: str
    modified_at: datetime | None


_columns = (
    _classes.c.id,
    _classes.c.name,
    func.coalesce(_classes.c.updated_at, _classes.c.created_at),
)


_EVERY = CompiledStatement(select(*_columns).order_by(_classes.c.id))


def read_all(access: Access) -> list[ClassRow]:
    """Return all classes in id order. One statement."""
    return [ClassRow._make(row) for row in access.rows(_EVERY)]


def get(access: Access, name: str, *, lock: bool = False) -> ClassRow | None:
    """Return the class of this name, if there is one. One statement.

    :param lock: keep other transactions from renaming the class, deleting it or adding inventory of it.
    """
    rows = access.rows(_compile_look_up(lock), {"name": name})
    return ClassRow._make(rows[0]) if rows else None


@cache
def _compile_look_up(lock: bool) -> CompiledStatement:
    statement = select(*_columns).where(_classes.c.name == bindparam("name"))
    return CompiledStatement(statement.with_for_update() if lock else statement)


def lock(tx: Transaction, names: Collection[str]) -> dict[str, int]:
    """Return the ids of the names that are classes, and lock these classes against deletion. One statement.

    This is for a transaction that is about to write rows with these ids. The foreign key alone would refuse
    them only at the insert, and would not protect the name. Standard classes are never deleted and need no
    lock.
    """
    goes = any(map(os_resource_classes.is_custom, names))
    return named_rows.ids(tx, named_rows.CLASSES, names, hold=goes)


def insert_custom(tx: Transaction, name: str) -> bool:
    """Insert a custom class; false if the name is taken. Three statements.

    Creators lock the oldest class, so that no two of them choose the same id. If the database distinguishes
    the two locks, a new inventory of that class does not wait for them.

    :raises StaleRead: another node of the cluster chose the same id or name.
    """
    oldest = select(_classes.c.id).order_by(_classes.c.id).limit(1)
    tx.rows(oldest.with_for_update(key_share=True))
    ((highest, taken),) = tx.rows(
        select(func.max(_classes.c.id), func.max(case((_classes.c.name == name, 1), else_=0)))
    )
    if taken:
        return False
    class_id = max(FIRST_CUSTOM_ID, (-1 if highest is None else highest) + 1)
    with stale_if_refused("the resource class's id or name was taken", gives_ids=True):
        tx.insert(_classes, [{"id": class_id, "name": name, "created_at": models.now()}])
    return True


def rename(tx: Transaction, class_id: int, name: str) -> None:
    """Give a locked class a name. One statement.

    :raises StaleRead: another class has taken the name.
    """
    renamed = update(_classes).where(_classes.c.id == class_id)
    with stale_if_refused("the resource class's name was taken"):
        tx.change(renamed.values(name=name, updated_at=models.now()))


def is_in_inventory(tx: Transaction, class_id: int) -> bool:
    """Return whether a provider has an inventory record of the class. One statement."""
    used = select(_inventories.c.id).where(_inventories.c.resource_class_id == class_id).limit(1)
    return bool(tx.rows(used))


def delete_class(tx: Transaction, class_id: int) -> None:
    """Delete a locked class. One statement.

    :raises StaleRead: another node of the cluster has inserted inventory of the class.
    """
    with stale_if_refused("the resource class got into an inventory"):
        tx.change(delete(_classes).where(_classes.c.id == class_id))

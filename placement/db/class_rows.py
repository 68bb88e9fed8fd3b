"""Statements on ``resource_classes``."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import case, delete, exc, func, insert, select, update

from placement.db import models
from placement.db.api import StaleRead, Transaction
from placement.db.in_list import batches

_classes = models.resource_classes
_inventories = models.inventories

CUSTOM_PREFIX = "CUSTOM_"
FIRST_CUSTOM_ID = 10000
"""Custom classes begin here, so that ordering by id is standard first, then by age."""


class ClassRow(NamedTuple):
    """A resource class. ``modified_at``: last update, or creation; UTC; None if never recorded."""

    id: int
    name: str
    modified_at: datetime | None


_columns = (
    _classes.c.id,
    _classes.c.name,
    func.coalesce(_classes.c.updated_at, _classes.c.created_at),
)


def every(tx: Transaction) -> list[ClassRow]:
    """Return all classes in id order. One statement."""
    return [ClassRow._make(row) for row in tx.execute(select(*_columns).order_by(_classes.c.id))]


def get(tx: Transaction, name: str, *, lock: bool = False) -> ClassRow | None:
    """Return the class of this name, if there is one. One statement.

    :param lock: keep others from renaming, deleting or giving inventory of it.
    """
    statement = select(*_columns).where(_classes.c.name == name)
    row = tx.execute(statement.with_for_update() if lock else statement).one_or_none()
    return None if row is None else ClassRow._make(row)


def ids(tx: Transaction, names: Collection[str]) -> dict[str, int]:
    """Return the ids of those names that are classes. One statement, or none for no name."""
    return _ids(tx, names, lock=False)


def hold(tx: Transaction, names: Collection[str]) -> dict[str, int]:
    """Return the ids of those names that are classes, and keep them from going. One statement.

    For a transaction that is about to write rows with these ids: no foreign key guards them.
    Standard classes never go and need no lock.
    """
    return _ids(tx, names, lock=any(name.startswith(CUSTOM_PREFIX) for name in names))


def _ids(tx: Transaction, names: Collection[str], *, lock: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in batches(sorted(names)):
        statement = select(_classes.c.name, _classes.c.id).where(_classes.c.name.in_(batch))
        if lock:
            statement = statement.order_by(_classes.c.id).with_for_update(read=True)
        found.update((row.name, row.id) for row in tx.execute(statement))
    return found


def insert_custom(tx: Transaction, name: str) -> bool:
    """Insert a custom class; false if the name is taken. Three statements.

    Creators line up on the oldest class, so that no two of them choose the same id.

    :raises StaleRead: another node of the cluster chose the same id or name.
    """
    tx.execute(select(_classes.c.id).order_by(_classes.c.id).limit(1).with_for_update())
    highest, taken = tx.execute(
        select(func.max(_classes.c.id), func.max(case((_classes.c.name == name, 1), else_=0)))
    ).one()
    if taken:
        return False
    class_id = max(FIRST_CUSTOM_ID, (-1 if highest is None else highest) + 1)
    try:
        tx.execute(insert(_classes).values(id=class_id, name=name, created_at=models.now()))
    except exc.IntegrityError as lost:
        raise StaleRead("the resource class's id or name was taken") from lost
    return True


def rename(tx: Transaction, class_id: int, name: str) -> None:
    """Give a locked class a name. One statement.

    :raises StaleRead: somebody else has taken the name.
    """
    try:
        tx.execute(
            update(_classes)
            .where(_classes.c.id == class_id)
            .values(name=name, updated_at=models.now())
        )
    except exc.IntegrityError as taken:
        raise StaleRead("the resource class's name was taken") from taken


def is_in_inventory(tx: Transaction, class_id: int) -> bool:
    """Some provider has an inventory record of the class. One statement."""
    used = select(_inventories.c.id).where(_inventories.c.resource_class_id == class_id).limit(1)
    return tx.execute(used).first() is not None


def delete_class(tx: Transaction, class_id: int) -> None:
    """Delete a locked class. One statement."""
    tx.execute(delete(_classes).where(_classes.c.id == class_id))

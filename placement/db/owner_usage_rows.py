"""Statements on ``owner_usages``: what the consumers of a project use, without asking the ledger.

A sum is spread over slots. A write adds to one slot chosen at random, so that claims of one project
seldom wait for one another, on one database or between the nodes of a cluster; a reader adds up.
"""

import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, TextClause, func, select, text

from placement.db import models
from placement.db.api import Transaction

_usages = models.owner_usages
_types = models.consumer_types
_classes = models.resource_classes

SLOTS = 8
NO_TYPE = 0
CONSUMERS = -1
"""In the place of a resource class: the number of consumers that hold anything."""

BATCH = 100
"""Rows of one statement; everyday requests change a few."""

_ON_CONFLICT = (
    "ON CONFLICT (project_id, user_id, consumer_type_id, resource_class_id, slot) "
    "DO UPDATE SET used = owner_usages.used + excluded.used"
)
_ADD_UP = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": "ON DUPLICATE KEY UPDATE used = used + VALUES(used)",
}
_COLUMNS = tuple(_usages.c.keys())


class Account(NamedTuple):
    """Whose usage, and of what. ``type_id`` is ``NO_TYPE`` for none."""

    project_id: int
    user_id: int
    type_id: int
    class_id: int


class Usage(NamedTuple):
    """What the consumers of one type use of one class.

    ``type_name`` is None for consumers without a type, ``class_name`` None where ``amount`` is the
    number of consumers.
    """

    type_name: str | None
    class_name: str | None
    amount: int


def add(tx: Transaction, changes: Mapping[Account, int]) -> None:
    """Add to the sums of the accounts. One statement.

    To be the last of a transaction: whoever wants the same slot waits from here to the commit.
    """
    rows = rows_of(changes)
    for start in range(0, len(rows), BATCH):
        tx.execute(*adding(tx.dialect.name, rows[start : start + BATCH]))


def rows_of(changes: Mapping[Account, int]) -> list[tuple[int, ...]]:
    """Return the rows that add up to the changes, in the order in which everybody takes them."""
    slot = secrets.randbelow(SLOTS)
    return sorted((*account, slot, change) for account, change in changes.items() if change)


def adding(dialect: str, rows: Sequence[tuple[int, ...]]) -> tuple[TextClause, dict[str, int]]:
    """Return the statement of :func:`add` for some rows, and its parameters."""
    parameters = {
        f"{name}_{index}": value
        for index, row in enumerate(rows)
        for name, value in zip(_COLUMNS, row, strict=True)
    }
    return _add(dialect, len(rows)), parameters


@cache
def _add(dialect: str, count: int) -> TextClause:
    """Return the statement for so many rows: a VALUES list of Core would be compiled each time."""
    rows = (", ".join(f":{name}_{index}" for name in _COLUMNS) for index in range(count))
    values = ", ".join(f"({row})" for row in rows)
    add_up = _ADD_UP["mysql" if dialect == "mariadb" else dialect]
    return text(
        f"INSERT INTO owner_usages ({', '.join(_COLUMNS)}) VALUES {values} {add_up}"  # noqa: S608
    )


def of_project(tx: Transaction, project: str, user: str | None) -> list[Usage]:
    """Return what the consumers of a project, and of a user in it, use by type and class.

    One statement; the rows read are the owner's alone.
    """
    owned = [_usages.c.project_id == _id_of(models.projects, project)]
    if user is not None:
        owned.append(_usages.c.user_id == _id_of(models.users, user))
    total = func.sum(_usages.c.used)
    of_class = _usages.c.resource_class_id
    statement: Select[Any] = (
        select(_types.c.name, of_class, _classes.c.name, total)
        .select_from(_usages)
        .outerjoin(_types, _types.c.id == _usages.c.consumer_type_id)
        .outerjoin(_classes, _classes.c.id == of_class)
        .where(*owned)
        .group_by(_types.c.name, of_class, _classes.c.name)
        .having(total != 0)
    )
    return [
        Usage(type_name, class_name, int(amount))
        for type_name, class_id, class_name, amount in tx.execute(statement)
        if class_name is not None or class_id == CONSUMERS
    ]


def _id_of(table: Any, external_id: str) -> ColumnElement[int]:
    """The row of this owner; a name nobody has equals nothing."""
    return select(table.c.id).where(table.c.external_id == external_id).scalar_subquery()

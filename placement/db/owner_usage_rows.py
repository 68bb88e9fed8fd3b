"""Statements on ``owner_usages``: what the consumers of a project use, without asking the ledger.

A sum is spread over slots. A write adds to one slot chosen at random, so that claims of one project
seldom wait for one another, on one database or between the nodes of a cluster; a reader adds up.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    bindparam,
    func,
    literal_column,
    select,
    union_all,
)

from placement.db import coexistence_rows, insertion, models
from placement.db.database import Access, Transaction
from placement.db.insertion import Row
from placement.db.ready import Ready

_usages = models.owner_usages
_types = models.consumer_types
_classes = models.resource_classes

SLOTS = 8
NO_TYPE = 0
CONSUMERS = -1
"""In the place of a resource class: the number of consumers that hold anything."""

_ON_CONFLICT = (
    " ON CONFLICT (project_id, user_id, consumer_type_id, resource_class_id, slot) "
    "DO UPDATE SET used = owner_usages.used + excluded.used"
)
_ADD_UP = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": " ON DUPLICATE KEY UPDATE used = used + VALUES(used)",
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
    for part in insertion.parts(rows_of(tx, changes)):
        tx.change_later(*adding(tx.dialect, part))


def rows_of(tx: Transaction, changes: Mapping[Account, int]) -> list[Row]:
    """Return the rows that add up to the changes, in the order in which everybody takes them."""
    # Who shares the slot of the log of changes as well has waited for that one already.
    slot = tx.lot % SLOTS
    rows = sorted((*account, slot, change) for account, change in changes.items() if change)
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


def adding(dialect: str, rows: Sequence[Row]) -> tuple[Ready, dict[str, Any]]:
    """Return the statement of :func:`add` for some rows, and its parameters."""
    return insertion.inserting(_usages, rows, after=_ADD_UP[dialect])


def of_project(access: Access, project: str, user: str | None) -> list[Usage] | None:
    """Return what the consumers of a project, and of a user in it, use by type and class.

    None during a coexistence: then :func:`of_project_in_ledger` is right. One statement; the rows read
    are the owner's alone.
    """
    rows = access.rows(_summed(user is not None), _given(project, user))
    return None if rows[0][0] else _usages_in(row[1:] for row in rows)


def of_project_in_ledger(access: Access, project: str, user: str | None) -> list[Usage]:
    """Return the same, added up from the allocations of the project's consumers. One statement."""
    return _usages_in(access.rows(_held(user is not None), _given(project, user)))


def _given(project: str, user: str | None) -> dict[str, str]:
    return {"project": project} if user is None else {"project": project, "user": user}


def _usages_in(rows: Iterable[Sequence[Any]]) -> list[Usage]:
    return [
        Usage(type_name, class_name, int(amount))
        for type_name, class_id, class_name, amount in rows
        if class_name is not None or class_id == CONSUMERS
    ]


@cache
def _summed(of_user: bool) -> Ready:
    """Whether there is a coexistence beside each sum; alone if there is, or if there are no sums.

    The ledger is in a statement of its own: in one with this, PostgreSQL starts parallel workers for it
    (20 ms), which find that it is not asked for.
    """
    under_way = select(coexistence_rows.UNDER_WAY.label("is_so")).subquery()
    own = select(_usages.c.consumer_type_id, _usages.c.resource_class_id, _usages.c.used)
    sums = _named(own.where(*_owned(_usages, of_user)).subquery()).subquery()
    rows = under_way.outerjoin(sums, ~under_way.c.is_so)
    return Ready(select(under_way.c.is_so, *sums.c).select_from(rows))


@cache
def _held(of_user: bool) -> Ready:
    consumers, allocations = models.consumers, models.allocations
    type_id = func.coalesce(consumers.c.consumer_type_id, NO_TYPE).label("consumer_type_id")
    holds = select(allocations.c.id).where(allocations.c.consumer_id == consumers.c.uuid).exists()
    number: ColumnElement[int] = literal_column(str(CONSUMERS))
    amounts = (
        select(type_id, allocations.c.resource_class_id, allocations.c.used)
        .join_from(consumers, allocations, allocations.c.consumer_id == consumers.c.uuid)
        .where(*_owned(consumers, of_user))
    )
    holders: Select[Any, *tuple[Any, ...]] = select(type_id, number, literal_column("1")).where(
        *_owned(consumers, of_user), holds
    )
    return Ready(_named(union_all(amounts, holders).subquery()))


def _named(seen: Subquery) -> Select[Any]:
    """Add up amounts by type and class, and give these their names."""
    total = func.sum(seen.c.used).label("total")
    of_class = seen.c.resource_class_id
    return (
        select(
            _types.c.name.label("type_name"), of_class, _classes.c.name.label("class_name"), total
        )
        .select_from(seen)
        .outerjoin(_types, _types.c.id == seen.c.consumer_type_id)
        .outerjoin(_classes, _classes.c.id == of_class)
        .group_by(_types.c.name, of_class, _classes.c.name)
        .having(total != 0)
    )


def _owned(table: Any, of_user: bool) -> list[ColumnElement[bool]]:
    """The rows of one owner."""
    of_project = table.c.project_id == _id_of(models.projects, "project")
    if not of_user:
        return [of_project]
    return [of_project, table.c.user_id == _id_of(models.users, "user")]


def _id_of(table: Any, name: str) -> ColumnElement[int]:
    """The row of the owner bound under ``name``; one nobody has equals nothing."""
    return select(table.c.id).where(table.c.external_id == bindparam(name)).scalar_subquery()

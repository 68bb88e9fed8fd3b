"""Statements on ``owner_usages``: what the consumers of a project use, without asking the ledger.

A sum is spread over slots. A write adds to one slot chosen at random, so that claims of one project
seldom wait for one another, on one database or between the nodes of a cluster; a reader adds up.
"""

from collections.abc import Iterable, Sequence
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

from placement.db import counters, models
from placement.db.database import Access
from placement.db.statements import CompiledStatement, within_reach

_usages = models.owner_usages
_types = models.consumer_types
_classes = models.resource_classes

# The number of slots. With more, each reader adds up more rows; with fewer, claims of one project wait for
# one another.
SLOTS = 8
NO_TYPE = 0
CONSUMERS = -1
"""The value in the place of a resource class that stands for the number of consumers that hold anything."""


class Account(NamedTuple):
    """The owner, type and class of a sum. ``type_id`` is ``NO_TYPE`` for none."""

    project_id: int
    user_id: int
    type_id: int
    class_id: int


class Usage(NamedTuple):
    """The usage of one class by the consumers of one type.

    ``type_name`` is None for consumers without a type, ``class_name`` None where ``amount`` is the
    number of consumers.
    """

    type_name: str | None
    class_name: str | None
    amount: int


def of_project(access: Access, project: str, user: str | None) -> list[Usage] | None:
    """Return what the consumers of a project, and of a user in it, use by type and class.

    None where the sums may be wrong: then :func:`of_project_in_ledger` is right. One statement; the rows read
    are the owner's alone.
    """
    rows = access.rows(_compile_sums(user is not None), _bind_owner(project, user))
    # The first row is always there, also for an owner without sums.
    return None if rows[0][0] else _make_usages(row[1:] for row in rows)


def of_project_in_ledger(access: Access, project: str, user: str | None) -> list[Usage]:
    """Return the same, added up from the allocations of the project's consumers. One statement."""
    rows = access.rows(_compile_ledger_sums(user is not None), _bind_owner(project, user))
    return _make_usages(rows)


def _bind_owner(project: str, user: str | None) -> dict[str, str]:
    return {"project": project} if user is None else {"project": project, "user": user}


def _make_usages(rows: Iterable[Sequence[Any]]) -> list[Usage]:
    return [
        # A SUM of integers is a Decimal with some drivers.
        Usage(type_name, class_name, int(amount))
        for type_name, class_id, class_name, amount in rows
        # A class that no longer exists is in no listing either.
        if class_name is not None or class_id == CONSUMERS
    ]


@cache
def _compile_sums(of_user: bool) -> CompiledStatement:
    """Whether the sums may be wrong, beside each of them; alone if they may, or if there are none.

    The ledger is in a statement of its own: PostgreSQL would start parallel workers for it here (20 ms).
    """
    unknown = select(counters.OWNERS_ARE_UNKNOWN.label("is_so")).subquery()
    own = select(_usages.c.consumer_type_id, _usages.c.resource_class_id, _usages.c.used)
    sums = _sum_by_name(own.where(*_is_owned(_usages, of_user)).subquery()).subquery()
    # Joined outside, so that the answer whether they may be wrong comes with them, from the same snapshot.
    rows = unknown.outerjoin(sums, ~unknown.c.is_so)
    return CompiledStatement(select(unknown.c.is_so, *sums.c).select_from(rows))


@cache
def _compile_ledger_sums(of_user: bool) -> CompiledStatement:
    consumers, allocations = models.consumers, models.allocations
    type_id = func.coalesce(consumers.c.consumer_type_id, NO_TYPE).label("consumer_type_id")
    holds = select(allocations.c.id).where(allocations.c.consumer_id == consumers.c.uuid).exists()
    number: ColumnElement[int] = literal_column(str(CONSUMERS))
    amounts = (
        select(type_id, allocations.c.resource_class_id, allocations.c.used)
        .join_from(consumers, allocations, allocations.c.consumer_id == consumers.c.uuid)
        .where(*_is_owned(consumers, of_user))
    )
    holders: Select[Any, *tuple[Any, ...]] = select(type_id, number, literal_column("1")).where(
        *_is_owned(consumers, of_user), holds
    )
    return CompiledStatement(_sum_by_name(union_all(amounts, holders).subquery()))


def _sum_by_name(seen: Subquery) -> Select[Any]:
    """Add up amounts by type and class, and give these their names."""
    total = func.sum(within_reach(seen.c.used)).label("total")
    of_class = seen.c.resource_class_id
    return (
        select(
            _types.c.name.label("type_name"), of_class, _classes.c.name.label("class_name"), total
        )
        .select_from(seen)
        .outerjoin(_types, _types.c.id == seen.c.consumer_type_id)
        .outerjoin(_classes, _classes.c.id == of_class)
        .group_by(_types.c.name, of_class, _classes.c.name)
        # Sums of slots that have gone up and down: a claim and its deletion may be in two of them.
        .having(total != 0)
    )


def _is_owned(table: Any, of_user: bool) -> list[ColumnElement[bool]]:
    """The rows of one owner."""
    of_project = table.c.project_id == _select_id(models.projects, "project")
    if not of_user:
        return [of_project]
    return [of_project, table.c.user_id == _select_id(models.users, "user")]


def _select_id(table: Any, name: str) -> ColumnElement[int]:
    """The row of the owner bound under ``name``; a name without a row equals nothing."""
    return select(table.c.id).where(table.c.external_id == bindparam(name)).scalar_subquery()

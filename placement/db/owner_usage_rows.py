"""Statements on ``owner_usages``: the usage of a project's consumers, without reading the ledger.

A sum is spread over slots. A write adds to one random slot, so that claims of one project seldom wait for
each other, on one database or between the nodes of a cluster; a reader adds the slots up.
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

# The number of slots. More slots make each reader add up more rows; fewer make claims of one project wait for
# each other.
SLOTS = 8
NO_TYPE = 0
CONSUMERS = -1
"""The value used instead of a resource class for the number of consumers with allocations."""


class Account(NamedTuple):
    """The owner, type and class of a sum. ``type_id`` is ``NO_TYPE`` for none."""

    project_id: int
    user_id: int
    type_id: int
    class_id: int


class Usage(NamedTuple):
    """The usage of one class by the consumers of one type.

    ``type_name`` is None for consumers without a type; ``class_name`` is None if ``amount`` is the number of
    consumers.
    """

    type_name: str | None
    class_name: str | None
    amount: int


def of_project(access: Access, project: str, user: str | None) -> list[Usage] | None:
    """Return the usage of a project's consumers, or of one user's in it, by type and class.

    None if the sums may be wrong; then :func:`of_project_in_ledger` is right. One statement, which reads only
    the rows of the owner.
    """
    rows = access.rows(_compile_sums(user is not None), _bind_owner(project, user))
    # The first row always exists, even for an owner without sums.
    return None if rows[0][0] else _make_usages(row[1:] for row in rows)


def of_project_in_ledger(access: Access, project: str, user: str | None) -> list[Usage]:
    """Return the usage of a project added up from its consumers' allocations. One statement."""
    rows = access.rows(_compile_ledger_sums(user is not None), _bind_owner(project, user))
    return _make_usages(rows)


def _bind_owner(project: str, user: str | None) -> dict[str, str]:
    return {"project": project} if user is None else {"project": project, "user": user}


def _make_usages(rows: Iterable[Sequence[Any]]) -> list[Usage]:
    return [
        # Some drivers return a SUM of integers as a Decimal.
        Usage(type_name, class_name, int(amount))
        for type_name, class_id, class_name, amount in rows
        # A class that no longer exists is not in a listing either.
        if class_name is not None or class_id == CONSUMERS
    ]


@cache
def _compile_sums(of_user: bool) -> CompiledStatement:
    """Return the statement of the sums, with a column that says whether they may be wrong.

    There is one row without a sum if they may be, or if there are none. The ledger has its own statement: in
    this one PostgreSQL would start parallel workers for it (20 ms).
    """
    unknown = select(counters.OWNERS_ARE_UNKNOWN.label("is_so")).subquery()
    own = select(_usages.c.consumer_type_id, _usages.c.resource_class_id, _usages.c.used)
    sums = _sum_by_name(own.where(*_is_owned(_usages, of_user)).subquery()).subquery()
    # The outer join returns the flag even without sums, and from the same snapshot.
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
        # A slot's sum can be negative or positive: a claim and its deletion may be in two slots.
        .having(total != 0)
    )


def _is_owned(table: Any, of_user: bool) -> list[ColumnElement[bool]]:
    """Return the condition for the rows of one owner."""
    of_project = table.c.project_id == _select_id(models.projects, "project")
    if not of_user:
        return [of_project]
    return [of_project, table.c.user_id == _select_id(models.users, "user")]


def _select_id(table: Any, name: str) -> ColumnElement[int]:
    """Return the subquery for the id of the owner bound as ``name``; a missing owner matches nothing."""
    return select(table.c.id).where(table.c.external_id == bindparam(name)).scalar_subquery()

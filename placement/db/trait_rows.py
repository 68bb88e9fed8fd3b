"""Statements on ``traits``."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, select

from placement.db import models
from placement.db.association_rows import MODIFIED
from placement.db.database import Access, Snapshot, Transaction, stale_if_refused
from placement.db.statements import CompiledStatement, Row, is_among, is_one_of

_traits = models.traits
_associations = models.resource_provider_traits


class TraitRow(NamedTuple):
    """A trait. ``modified_at``: the last update or creation, in UTC; None if never recorded."""

    id: int
    name: str
    created_at: datetime | None
    modified_at: datetime | None


_columns = (_traits.c.id, _traits.c.name, _traits.c.created_at, MODIFIED)

_NAMES = CompiledStatement(select(_traits.c.name, MODIFIED).order_by(_traits.c.id))
_NAMED = CompiledStatement(
    select(*_columns).where(is_among(_traits.c.name, "names")).order_by(_traits.c.id)
)
_DIGEST = CompiledStatement(select(func.count(), func.max(_traits.c.id), func.max(MODIFIED)))


class TraitQuery(NamedTuple):
    """The traits to list: by names, by prefix, and by whether any provider has them."""

    names: Collection[str] | None = None
    prefix: str | None = None
    associated: bool | None = None


def find(access: Access, query: TraitQuery) -> list[TraitRow]:
    """Return the traits that the query selects, in id order. One statement."""
    statement = select(*_columns)
    if query.names is not None:
        statement = statement.where(is_one_of(_traits.c.name, sorted(query.names)))
    if query.prefix:
        # The comparison is exact; LIKE would treat wildcards and ignore case.
        begins = func.substr(_traits.c.name, 1, len(query.prefix)) == query.prefix
        statement = statement.where(begins)
    if query.associated is not None:
        # The subquery looks up one trait at a time: for EXISTS, MariaDB would read every association.
        first = (
            select(_associations.c.trait_id)
            .where(_associations.c.trait_id == _traits.c.id)
            .limit(1)
            .scalar_subquery()
        )
        statement = statement.where(first.is_not(None) if query.associated else first.is_(None))
    return [TraitRow._make(row) for row in access.rows(statement.order_by(_traits.c.id))]


def digest(access: Access) -> Row:
    """Return a digest that changes when a trait is added or deleted. One statement.

    On SQLite there is no digest, since a new trait can reuse the last id. Elsewhere ids only grow: a new
    trait has the greatest id, and a deleted one reduces the count.
    """
    return access.rows(_DIGEST)[0]


def read_all(access: Access) -> Sequence[Row]:
    """Return (name, modified or None) of all traits, in id order. One statement."""
    return access.rows(_NAMES)


def get(access: Access, name: str, *, lock: bool = False) -> TraitRow | None:
    """Return the trait of this name, or None. One statement.

    :param lock: keep other transactions from deleting the trait or giving it to a provider.
    """
    rows = access.rows(_compile_look_up(lock), {"name": name})
    return TraitRow._make(rows[0]) if rows else None


@cache
def _compile_look_up(lock: bool) -> CompiledStatement:
    statement = select(*_columns).where(_traits.c.name == bindparam("name"))
    return CompiledStatement(statement.with_for_update() if lock else statement)


def find_named(tx: Snapshot | Transaction, names: Collection[str]) -> list[TraitRow]:
    """Return the names that are traits. One statement, or none for no name."""
    return [TraitRow._make(row) for row in tx.rows_of_all(_NAMED, "names", names)]


def insert_trait(tx: Transaction, name: str) -> bool:
    """Insert a trait; return false if it exists already. One statement."""
    return tx.insert_missing(_traits, [{"name": name, "created_at": models.now()}]) == 1


def is_in_use(tx: Transaction, trait_id: int) -> bool:
    """Return whether any provider has the trait. One statement."""
    used = select(_associations.c.trait_id).where(_associations.c.trait_id == trait_id).limit(1)
    return bool(tx.rows(used))


def delete_trait(tx: Transaction, trait_id: int) -> None:
    """Delete a locked trait. One statement.

    :raises StaleRead: a provider has got the trait meanwhile.
    """
    with stale_if_refused("the trait was given to a provider"):
        tx.change(delete(_traits).where(_traits.c.id == trait_id))

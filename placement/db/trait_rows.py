"""Statements on ``traits`` and the associations of providers with them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, bindparam, delete, exc, func, select

from placement.db import models
from placement.db.database import Access, Snapshot, StaleRead, Transaction
from placement.db.in_list import batches
from placement.db.insertion import insert_all, insert_missing
from placement.db.ready import Ready, Row

_providers = models.resource_providers
_traits = models.traits
_associations = models.resource_provider_traits


class TraitRow(NamedTuple):
    """A trait. ``modified_at``: last update, or creation; UTC; None if never recorded."""

    id: int
    name: str
    created_at: datetime | None
    modified_at: datetime | None


class ProviderTraits(NamedTuple):
    """The traits of one provider and its generation."""

    generation: int
    traits: list[TraitRow]


_columns = (
    _traits.c.id,
    _traits.c.name,
    _traits.c.created_at,
    func.coalesce(_traits.c.updated_at, _traits.c.created_at),
)


_OF_PROVIDER = Ready(
    select(_providers.c.generation, *_columns)
    .select_from(_providers)
    .outerjoin(_associations, _associations.c.resource_provider_id == _providers.c.id)
    .outerjoin(_traits, _traits.c.id == _associations.c.trait_id)
    .where(_providers.c.uuid == bindparam("uuid"))
    .order_by(_traits.c.id)
)


_NAMES = Ready(select(_traits.c.name, _columns[-1]).order_by(_traits.c.id))
_DIGEST = Ready(select(func.count(), func.max(_traits.c.id), func.max(_columns[-1])))


def name_is_one_of(names: Collection[str]) -> ColumnElement[bool]:
    """The trait is listed; unknown names do no harm."""
    return _traits.c.name.in_(sorted(names))


def name_starts_with(prefix: str) -> ColumnElement[bool]:
    """The name begins with exactly this text (no LIKE: it has wildcards and ignores case)."""
    return func.substr(_traits.c.name, 1, len(prefix)) == prefix


def is_associated(wanted: bool) -> ColumnElement[bool]:
    """At least one provider has the trait, or none has."""
    # One look-up per trait: asked with EXISTS, MariaDB reads every association there is.
    first = (
        select(_associations.c.trait_id)
        .where(_associations.c.trait_id == _traits.c.id)
        .limit(1)
        .scalar_subquery()
    )
    return first.is_not(None) if wanted else first.is_(None)


def find(access: Access, conditions: Sequence[ColumnElement[bool]]) -> list[TraitRow]:
    """Return the traits that meet all conditions, in id order. One statement."""
    rows = access.execute(select(*_columns).where(*conditions).order_by(_traits.c.id))
    return [TraitRow._make(row) for row in rows]


def digest(access: Access) -> Row:
    """Return what is another after a trait was added or deleted. One statement.

    Not on SQLite, where a new trait may take the id of the last one. Elsewhere ids only grow: a new one is
    beyond all, and where there is none a deleted one is missing from the count.
    """
    return access.rows(_DIGEST)[0]


def every(access: Access) -> Sequence[Row]:
    """Return (name, modified or None) of all traits, in id order. One statement."""
    return access.rows(_NAMES)


def get(access: Access, name: str, *, lock: bool = False) -> TraitRow | None:
    """Return the trait of this name, if there is one. One statement.

    :param lock: keep others from deleting it or giving it to a provider.
    """
    rows = access.rows(_get(lock), {"name": name})
    return TraitRow._make(rows[0]) if rows else None


@cache
def _get(lock: bool) -> Ready:
    statement = select(*_columns).where(_traits.c.name == bindparam("name"))
    return Ready(statement.with_for_update() if lock else statement)


def existing(access: Access, names: Sequence[str]) -> set[str]:
    """Return those names that are traits, of one batch. One statement."""
    return {row.name for row in find(access, [name_is_one_of(names)])}


def named(tx: Snapshot | Transaction, names: Collection[str]) -> list[TraitRow]:
    """Return those of the names that are traits. One statement, or none for no name."""
    rows = []
    for batch in batches(sorted(names)):
        rows += find(tx, [name_is_one_of(batch)])
    return rows


def ids(tx: Snapshot | Transaction, names: Collection[str]) -> dict[str, int]:
    """Return the ids of those names that are traits. One statement."""
    return {row.name: row.id for row in named(tx, names)}


def insert_trait(tx: Transaction, name: str) -> bool:
    """Insert a trait; false if it is there. One statement."""
    return insert_missing(tx, _traits, [{"name": name, "created_at": models.now()}]) == 1


def is_in_use(tx: Transaction, trait_id: int) -> bool:
    """Some provider has the trait. One statement."""
    used = select(_associations.c.trait_id).where(_associations.c.trait_id == trait_id).limit(1)
    return tx.execute(used).first() is not None


def delete_trait(tx: Transaction, trait_id: int) -> None:
    """Delete a locked trait. One statement.

    :raises StaleRead: a provider has it meanwhile.
    """
    try:
        tx.execute(delete(_traits).where(_traits.c.id == trait_id))
    except exc.IntegrityError as used:
        raise StaleRead("the trait was given to a provider") from used


def of_provider(access: Access, provider_uuid: str) -> ProviderTraits | None:
    """Return the traits of the provider, None if there is no such provider. One statement."""
    rows = access.rows(_OF_PROVIDER, {"uuid": provider_uuid})
    if not rows:
        return None
    traits = [TraitRow(*row[1:]) for row in rows if row[1] is not None]
    return ProviderTraits(rows[0][0], traits)


def associated(tx: Transaction, provider_id: int) -> set[int]:
    """Return the ids of a locked provider's traits. One statement."""
    return set(
        tx.scalars(
            select(_associations.c.trait_id).where(
                _associations.c.resource_provider_id == provider_id
            )
        )
    )


def associate(tx: Transaction, provider_id: int, trait_ids: Collection[int]) -> None:
    """Give a locked provider traits it does not have. One statement.

    :raises StaleRead: a trait was deleted meanwhile.
    """
    created_at = models.now()
    rows = [
        {"resource_provider_id": provider_id, "trait_id": trait_id, "created_at": created_at}
        for trait_id in sorted(trait_ids)
    ]
    try:
        insert_all(tx, _associations, rows)
    except exc.IntegrityError as gone:
        raise StaleRead("a trait was deleted") from gone


def dissociate(tx: Transaction, provider_id: int, trait_ids: Collection[int] | None = None) -> int:
    """Take traits, or all, from a locked provider and return how many it had. One statement."""
    if trait_ids is not None and not trait_ids:
        return 0
    these = [] if trait_ids is None else [_associations.c.trait_id.in_(sorted(trait_ids))]
    done = tx.execute(
        delete(_associations).where(_associations.c.resource_provider_id == provider_id, *these)
    )
    return done.rowcount

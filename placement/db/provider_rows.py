"""Statements on ``resource_providers``: find, lock in order, write, step, touch."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    bindparam,
    case,
    delete,
    exc,
    func,
    insert,
    or_,
    select,
    update,
)

from placement import telemetry
from placement.db import change_rows, coexistence_rows, in_list, models
from placement.db.database import Access, StaleRead, Transaction
from placement.db.ready import Ready

_providers = models.resource_providers


@dataclass(frozen=True, slots=True)
class LockedProvider:
    """A provider whose row this transaction holds, as it is now."""

    id: int
    uuid: str
    generation: int
    counted: bool = True
    """The usage counters of its inventories are right: only this service has written it."""


def lock(
    tx: Transaction, uuids: Collection[str], ids: Collection[int] = ()
) -> dict[str, LockedProvider]:
    """Lock the providers named by uuid or id, in id order so that two writers cannot deadlock.

    :returns: the locked rows by uuid; unknown ones are missing. One statement.
    """
    sizes: list[tuple[str, int]] = []
    parameters: dict[str, Any] = {}
    for name, given in (("uuid", uuids), ("id", ids)):
        if given:
            sizes.append((name, in_list.size_for(len(given))))
            parameters |= in_list.bound(name, sorted(given), sizes[-1][1])
    if not sizes:
        return {}
    rows = tx.rows(_lock(*sizes), parameters)
    telemetry.holds_providers()
    return {row[1]: LockedProvider(*row) for row in rows}


@cache
def _lock(*sizes: tuple[str, int]) -> Ready:
    named = [in_list.is_among(_providers.c[name], name, size) for name, size in sizes]
    return Ready(
        select(
            _providers.c.id,
            _providers.c.uuid,
            func.coalesce(_providers.c.generation, 0),
            coexistence_rows.COUNTED,
        )
        .where(or_(*named))
        .order_by(_providers.c.id)
        .with_for_update()
    )


def step(tx: Transaction, providers: Collection[LockedProvider]) -> None:
    """Step the generations of the providers, and their revisions, by compare-and-set.

    The rows are locked already; the comparison is the second guard, and the one that holds between
    the nodes of a Galera cluster. Two statements.

    :raises StaleRead: a generation is not the one that was read.
    """
    advance(tx, {1: providers}, ())


def touch(tx: Transaction, ids: Collection[int]) -> None:
    """Step only the revision: the search must read these providers again. Two statements."""
    advance(tx, {}, ids)


def advance(
    tx: Transaction,
    stepped: Mapping[int, Collection[LockedProvider]],
    touched: Collection[int],
    *,
    stock_alone: bool = False,
) -> None:
    """Step generations by so many steps, with their revisions, and only the revisions of others.

    A statement for each, and one that names them all to the searches.

    :param stock_alone: nothing of them has changed but inventories and what is used.
    :raises StaleRead: a generation is not the one that was read.
    """
    for steps, providers in sorted(stepped.items()):
        for part in in_list.batches(generations(providers)):
            tx.change_later(*stepping(part, steps), finds=len(part))
    if touched:
        tx.change_later(*touching(touched))
    change_rows.note(tx, written_ids(stepped, touched), stock_alone=stock_alone)


def written_ids(
    stepped: Mapping[int, Collection[LockedProvider]], touched: Collection[int]
) -> set[int]:
    """Return the ids of the providers that :func:`advance` writes."""
    return {*touched, *(provider.id for each in stepped.values() for provider in each)}


def generations(providers: Collection[LockedProvider]) -> list[tuple[int, int]]:
    """Return ids with generations in id order."""
    return sorted((provider.id, provider.generation) for provider in providers)


def stepping(expected: Sequence[tuple[int, int]], steps: int) -> tuple[Ready, dict[str, Any]]:
    """Return the statement that steps generations with revisions, and its parameters.

    :param expected: ids with the generations that were read.
    """
    size, parameters = in_list.as_read(expected)
    return _step(size), parameters | {"steps": steps, "now": models.now()}


_STEP = update(_providers).values(
    generation=_providers.c.generation + bindparam("steps"),
    own_generation=_providers.c.own_generation + bindparam("steps"),
    revision=_providers.c.revision + 1,
    updated_at=bindparam("now"),
)


@cache
def _step(size: int) -> Ready:
    return Ready(_STEP.where(*in_list.unmoved(_providers, size)))


def stepping_counted(provider_id: int) -> tuple[Ready, dict[str, Any]]:
    """Return the statement that steps one provider whose counters are right, and its parameters.

    Whatever its generation is: for writes that depend on nothing that was read of it.
    """
    return _STEP_COUNTED, {"provider": provider_id, "steps": 1, "now": models.now()}


_STEP_COUNTED = Ready(
    _STEP.where(_providers.c.id == bindparam("provider"), coexistence_rows.COUNTED)
)


# Not a change of the provider as the API shows it: its modified time stays.
_TOUCH = update(_providers).values(
    revision=_providers.c.revision + 1, updated_at=_providers.c.updated_at
)


def touching(ids: Collection[int]) -> tuple[Ready, dict[str, Any]]:
    """Return the statement that steps revisions alone, and its parameters."""
    size = in_list.size_for(len(ids))
    return _touch(size), in_list.bound("touched", sorted(ids), size)


@cache
def _touch(size: int) -> Ready:
    return Ready(_TOUCH.where(in_list.is_among(_providers.c.id, "touched", size)))


class ProviderRow(NamedTuple):
    """A provider as the API shows it.

    ``modified_at``: last update, or creation; UTC; None if never recorded.
    """

    id: int
    uuid: str
    name: str
    generation: int
    parent_uuid: str | None
    root_uuid: str
    modified_at: datetime | None


class TreeRow(NamedTuple):
    """A provider's place in its tree."""

    id: int
    parent_id: int | None
    root_id: int


class TreePosition(NamedTuple):
    """A provider that a write names, where it was when it was read.

    ``has_name``: it has the name that was asked for, as the database compares names.
    """

    id: int
    uuid: str
    has_name: bool
    parent_id: int | None
    root_id: int
    root_uuid: str


_parents = _providers.alias("parent")
_roots = _providers.alias("root")
_tree_columns = (
    _providers.c.id,
    _providers.c.parent_provider_id,
    func.coalesce(_providers.c.root_provider_id, _providers.c.id),
)


def find(access: Access, *, name: str | None = None, uuid: str | None = None) -> list[ProviderRow]:
    """Return the provider that has this name (if any is given), uuid, or both. One statement."""
    given = {"uuid": uuid} if uuid is not None else {}
    if name:
        given["name"] = name
    return [ProviderRow._make(row) for row in access.rows(_find(*given), given)]


@cache
def _find(*names: str) -> Ready:
    return Ready(
        select(
            _providers.c.id,
            _providers.c.uuid,
            _providers.c.name,
            _providers.c.generation,
            _parents.c.uuid,
            func.coalesce(_roots.c.uuid, _providers.c.uuid),
            func.coalesce(_providers.c.updated_at, _providers.c.created_at),
        )
        .select_from(
            _providers.outerjoin(
                _parents, _parents.c.id == _providers.c.parent_provider_id
            ).outerjoin(_roots, _roots.c.id == _providers.c.root_provider_id)
        )
        .where(*(_providers.c[name] == bindparam(name) for name in names))
    )


def get(access: Access, uuid: str) -> ProviderRow | None:
    """Return the provider of this uuid, if there is one. One statement."""
    rows = find(access, uuid=uuid)
    return rows[0] if rows else None


def positions(tx: Transaction, uuids: Collection[str], name: str) -> list[TreePosition]:
    """Return the providers with one of these uuids or with this name; nothing is locked.

    One statement.
    """
    has_name = _providers.c.name == name
    rows = tx.execute(
        select(
            _providers.c.id,
            _providers.c.uuid,
            has_name,
            _providers.c.parent_provider_id,
            func.coalesce(_providers.c.root_provider_id, _providers.c.id),
            func.coalesce(_roots.c.uuid, _providers.c.uuid),
        )
        .outerjoin(_roots, _roots.c.id == _providers.c.root_provider_id)
        .where(or_(_providers.c.uuid.in_(sorted(uuids)), has_name))
    )
    return [TreePosition(row[0], row[1], bool(row[2]), *row[3:]) for row in rows]


def lock_positions(
    tx: Transaction, ids: Collection[int], tree_of: int | None = None
) -> dict[int, TreeRow]:
    """Lock these providers, and all of the tree with the root ``tree_of``, in id order.

    Who holds a provider's row keeps its parent, its root and its existence: whoever moves a subtree
    or deletes a provider locks every row this changes first. One statement.

    :returns: the rows by id; those that are gone are missing.
    """
    wanted: ColumnElement[bool] = _providers.c.id.in_(sorted(ids))
    if tree_of is not None:
        wanted = or_(wanted, _providers.c.root_provider_id == tree_of)
    rows = tx.execute(
        select(*_tree_columns).where(wanted).order_by(_providers.c.id).with_for_update()
    )
    telemetry.holds_providers()
    return {row[0]: TreeRow._make(row) for row in rows}


def tree_members(tx: Transaction, root_id: int) -> set[int]:
    """Return the ids of all providers of the tree, as the newest commit has them."""
    return set(tx.scalars(select(_providers.c.id).where(_providers.c.root_provider_id == root_id)))


def insert_provider(
    tx: Transaction, uuid: str, name: str, parent: TreePosition | None, created_at: datetime
) -> int:
    """Insert a provider below ``parent``, or as a root, and return its id. Two or three statements.

    :raises StaleRead: somebody else has taken the uuid or the name.
    """
    values: dict[str, Any] = {"uuid": uuid, "name": name, "generation": 0, "created_at": created_at}
    if parent is not None:
        values |= {"parent_provider_id": parent.id, "root_provider_id": parent.root_id}
    try:
        done = tx.execute(insert(_providers).values(**values))
    except exc.IntegrityError as taken:
        raise StaleRead("the provider's uuid or name was taken") from taken
    assert done.inserted_primary_key is not None
    provider_id: int = done.inserted_primary_key[0]
    if parent is None:
        tx.execute(
            update(_providers)
            .where(_providers.c.id == provider_id)
            .values(root_provider_id=provider_id, updated_at=None)
        )
    change_rows.note(tx, [provider_id])
    return provider_id


def rename(tx: Transaction, provider_id: int, name: str) -> None:
    """Give a locked provider this name, which may be the one it has. Two statements.

    :raises StaleRead: somebody else has taken the name.
    """
    try:
        tx.execute(
            update(_providers)
            .where(_providers.c.id == provider_id)
            .values(name=name, revision=_providers.c.revision + 1, updated_at=models.now())
        )
    except exc.IntegrityError as taken:
        raise StaleRead("the provider's name was taken") from taken
    change_rows.note(tx, [provider_id])


def move(
    tx: Transaction, provider_id: int, parent: TreePosition | None, subtree: Collection[int]
) -> None:
    """Put a provider below ``parent``, or make it a root; its locked subtree follows.

    Every member shows another root from now on, so all of them count as modified. Two statements.
    """
    tx.execute(
        update(_providers)
        .where(_providers.c.id.in_(sorted(subtree)))
        .values(
            parent_provider_id=case(
                (_providers.c.id == provider_id, parent.id if parent else None),
                else_=_providers.c.parent_provider_id,
            ),
            root_provider_id=parent.root_id if parent else provider_id,
            revision=_providers.c.revision + 1,
            updated_at=models.now(),
        )
    )
    change_rows.note(tx, subtree)


def blockers(tx: Transaction, provider_id: int) -> tuple[bool, bool]:
    """Say whether a locked provider has children, and whether it has allocations. One statement."""
    allocations = models.allocations
    row = tx.execute(
        select(
            select(_parents.c.id).where(_parents.c.parent_provider_id == provider_id).exists(),
            select(allocations.c.id)
            .where(allocations.c.resource_provider_id == provider_id)
            .exists(),
        )
    ).one()
    return bool(row[0]), bool(row[1])


def delete_provider(tx: Transaction, provider_id: int) -> None:
    """Delete a locked provider with its inventories and associations. Six statements."""
    for table in (
        models.inventories,
        models.resource_provider_aggregates,
        models.resource_provider_traits,
    ):
        tx.execute(delete(table).where(table.c.resource_provider_id == provider_id))
    own_row = _providers.c.id == provider_id
    # MySQL deletes no row that a foreign key refers to, and a root's own row does.
    tx.execute(update(_providers).where(own_row).values(root_provider_id=None))
    tx.execute(delete(_providers).where(own_row))
    change_rows.note(tx, [provider_id])


def touch_with_class(tx: Transaction, class_id: int) -> None:
    """Step the revision of every provider that has inventory of a class. Two statements."""
    inventories = models.inventories
    having = select(inventories.c.resource_provider_id).where(
        inventories.c.resource_class_id == class_id
    )
    tx.execute(_TOUCH.where(_providers.c.id.in_(having)))
    change_rows.note_many(tx)

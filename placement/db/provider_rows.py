"""Statements on ``resource_providers``: find, lock in order, write, step, touch."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    Text,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    update,
)

from placement import telemetry
from placement.db import counters, digests, models, statements
from placement.db.database import Access, Transaction, stale_if_refused
from placement.db.statements import CompiledStatement

_providers = models.resource_providers


LOCKED = (
    _providers.c.id,
    _providers.c.uuid,
    func.coalesce(_providers.c.generation, 0),
    counters.ARE_RIGHT,
)
"""The columns of a locked row, for a :class:`LockedProvider`."""


@dataclass(frozen=True, slots=True)
class LockedProvider:
    """A provider whose row this transaction has locked, as it is now."""

    id: int
    uuid: str
    generation: int
    counted: bool = True
    """The condition that the usage counters of its inventories are right: only this service has written
    it.
    """

    @property
    def as_read(self) -> tuple[int, int]:
        """The id with the generation."""
        return self.id, self.generation


def any_exists(access: Access) -> bool:
    """Return whether any provider exists."""
    return bool(access.value(select(exists(select(_providers.c.id)))))


def lock(
    tx: Transaction, uuids: Collection[str], ids: Collection[int] = ()
) -> dict[str, LockedProvider]:
    """Lock the providers named by uuid or id, in id order so that two writers cannot deadlock.

    :returns: the locked rows by uuid; unknown providers are missing. One statement.
    """
    named: dict[str, list[Any]] = {"uuid": sorted(uuids), "id": sorted(ids)}
    given = {name: values for name, values in named.items() if values}
    if not given:
        return {}
    rows = tx.rows(_compile_lock(*given), given)
    telemetry.note_lock()
    return {row[1]: LockedProvider(*row) for row in rows}


@cache
def _compile_lock(*lists: str) -> CompiledStatement:
    named = [statements.is_among(_providers.c[name], name) for name in lists]
    return CompiledStatement(
        select(*LOCKED)
        .where(or_(*named))
        .order_by(_providers.c.id)
        .with_for_update(),
        *lists,
    )


def lock_free(tx: Transaction, ids: Collection[int]) -> set[int]:
    """Lock the providers that no other transaction has locked, and return the rest.

    One statement, or two.
    """
    free = {id_ for (id_,) in tx.rows_of_all(_LOCK_FREE, "id", ids)}
    # SKIP LOCKED skips locked rows; a row that is missing for another reason no longer exists.
    return {id_ for (id_,) in tx.rows_of_all(_EXISTING, "id", set(ids) - free)}


_SOME = select(_providers.c.id).where(statements.is_among(_providers.c.id, "id"))
_EXISTING = CompiledStatement(_SOME, "id")
_LOCK_FREE = CompiledStatement(_SOME.with_for_update(skip_locked=True), "id")


class ProviderRow(NamedTuple):
    """A provider as the API shows it.

    ``modified_at``: the time of the last update or the creation, in UTC; None if never recorded.
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
    """A provider that a write names, at the position where it was read.

    ``has_name``: whether the provider has the requested name, as the database compares names.
    """

    id: int
    uuid: str
    has_name: bool
    parent_id: int | None
    root_id: int
    root_uuid: str


NAME: ColumnElement[str] = func.coalesce(_providers.c.name, _providers.c.uuid)
"""The shown name: older services could store NULL."""

_parents = _providers.alias("parent")
_roots = _providers.alias("root")
_tree_columns = (
    _providers.c.id,
    _providers.c.parent_provider_id,
    func.coalesce(_providers.c.root_provider_id, _providers.c.id),
)


def find(access: Access, *, name: str | None = None, uuid: str | None = None) -> list[ProviderRow]:
    """Return the provider with this name (if one is given), this uuid, or both. One statement."""
    given = {"uuid": uuid} if uuid is not None else {}
    if name:
        given["name"] = name
    return [ProviderRow._make(row) for row in access.rows(_compile_find(*given), given)]


@cache
def _compile_find(*names: str) -> CompiledStatement:
    return CompiledStatement(
        select(
            _providers.c.id,
            _providers.c.uuid,
            NAME,
            func.coalesce(_providers.c.generation, 0),
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
    """Return the provider with this uuid, or None. One statement."""
    rows = find(access, uuid=uuid)
    return rows[0] if rows else None


def find_positions(tx: Transaction, uuids: Collection[str], name: str) -> list[TreePosition]:
    """Return the providers with one of these uuids or with this name; nothing is locked.

    One statement.
    """
    rows = tx.rows(_POSITIONS, {"name": name, "uuid": sorted(uuids)})
    return [TreePosition(row[0], row[1], bool(row[2]), *row[3:]) for row in rows]


_has_name = _providers.c.name == bindparam("name")
_POSITIONS = CompiledStatement(
    select(
        _providers.c.id,
        _providers.c.uuid,
        _has_name,
        _providers.c.parent_provider_id,
        func.coalesce(_providers.c.root_provider_id, _providers.c.id),
        func.coalesce(_roots.c.uuid, _providers.c.uuid),
    )
    .outerjoin(_roots, _roots.c.id == _providers.c.root_provider_id)
    .where(or_(statements.is_among(_providers.c.uuid, "uuid"), _has_name)),
    "uuid",
)


def lock_positions(
    tx: Transaction, ids: Collection[int], tree_of: int | None = None
) -> dict[int, TreeRow]:
    """Lock these providers, and all of the tree with the root ``tree_of``, in id order.

    A locked row keeps its parent, its root and its existence: a move of a subtree and a deletion lock
    every row they change first. One statement.

    :returns: the rows by id; deleted providers are missing.
    """
    given: dict[str, Any] = {"ids": sorted(ids)}
    if tree_of is not None:
        given["root"] = tree_of
    rows = tx.rows(_compile_position_lock(tree_of is not None), given)
    telemetry.note_lock()
    return {row[0]: TreeRow._make(row) for row in rows}


@cache
def _compile_position_lock(with_tree: bool) -> CompiledStatement:
    named = statements.is_among(_providers.c.id, "ids")
    if with_tree:
        named = or_(named, _IS_IN_TREE)
    return CompiledStatement(
        select(*_tree_columns).where(named).order_by(_providers.c.id).with_for_update()
    )


_IS_IN_TREE = _providers.c.root_provider_id == bindparam("root")
_MEMBERS = CompiledStatement(select(_providers.c.id).where(_IS_IN_TREE))


def find_tree_members(tx: Transaction, root_id: int) -> set[int]:
    """Return the ids of all providers of the tree, as the newest commit has them."""
    return set(tx.column(_MEMBERS, {"root": root_id}))


def insert_provider(
    tx: Transaction, uuid: str, name: str, parent: TreePosition | None, created_at: datetime
) -> int:
    """Insert a provider below ``parent``, or as a root, and return its id. Two or three statements.

    :raises StaleRead: the uuid or the name was taken meanwhile.
    """
    values: dict[str, Any] = {
        **{"uuid": uuid, "name": name, "generation": 0, "created_at": created_at},
        "revision": models.first_revision(),
        "parent_provider_id": None if parent is None else parent.id,
        "root_provider_id": None if parent is None else parent.root_id,
    }
    # Whether they were free was read without a lock. The next attempt reads again, and reports which is
    # taken.
    with stale_if_refused("the provider's uuid or name was taken"):
        tx.change_later(_INSERT, values)
        # The id is read back, because PostgreSQL's driver lacks lastrowid. The insert is sent with this read,
        # so its error is raised inside.
        provider_id: int = tx.value(_ID, {"uuid": uuid})
    # A root names itself, by an id that is only known now.
    if parent is None:
        tx.change_later(_BECOME_ROOT, {"provider": provider_id})
    return provider_id


_OWN_ROW = _providers.c.id == bindparam("provider")
_ID = CompiledStatement(select(_providers.c.id).where(_providers.c.uuid == bindparam("uuid")))
_given = {column.name: bindparam(column.name, type_=column.type) for column in _providers.c}
_INSERT = CompiledStatement(
    insert(_providers).values(
        {
            name: _given[name]
            for name in (
                *("uuid", "name", "generation", "revision", "created_at"),
                *("parent_provider_id", "root_provider_id"),
            )
        }
        | {
            "own_generation": _given["generation"],
            "own_revision": _given["revision"],
            # A new provider has no associations yet.
            "digest": digests.of_row(
                cast(_given["uuid"], Text),
                cast(_given["name"], Text),
                cast(_given["parent_provider_id"], Integer),
                cast(_given["root_provider_id"], Integer),
            ),
        }
    )
)
_BECOME_ROOT = CompiledStatement(
    update(_providers)
    .where(_OWN_ROW)
    .values(
        root_provider_id=_providers.c.id,
        digest=digests.of_row(root_id=_providers.c.id),
        updated_at=_providers.c.updated_at,
    )
)


def rename(tx: Transaction, provider_id: int, name: str) -> None:
    """Give a locked provider this name, which can equal its present one. One statement.

    :raises StaleRead: the name was taken meanwhile.
    """
    # The statement is sent at once: a refusal must be raised inside the block.
    with stale_if_refused("the provider's name was taken"):
        tx.change(_RENAME, {"provider": provider_id, "name": name, "now": models.now()})


_RENAME = CompiledStatement(
    update(_providers)
    .where(_OWN_ROW)
    .ordered_values(
        *digests.revise(name=cast(_given["name"], Text)).items(),
        (_providers.c.name, _given["name"]),
        (_providers.c.updated_at, bindparam("now", type_=_providers.c.updated_at.type)),
    )
)


def move(
    tx: Transaction, own: TreePosition, parent: TreePosition | None, subtree: Collection[int]
) -> None:
    """Put a provider below ``parent``, or make it a root; its locked subtree follows.

    Every member has another root from now on, so all of them count as modified. One statement.
    """
    parent_id: ColumnElement[int] = case(
        (_providers.c.id == own.id, parent.id if parent else None),
        else_=_providers.c.parent_provider_id,
    )
    root_id: ColumnElement[int] = literal(parent.root_id if parent else own.id, Integer)
    tx.change(
        update(_providers)
        .where(statements.is_one_of(_providers.c.id, sorted(subtree)))
        .ordered_values(
            *digests.revise(parent_id=parent_id, root_id=root_id).items(),
            (_providers.c.parent_provider_id, parent_id),
            (_providers.c.root_provider_id, root_id),
            (_providers.c.updated_at, models.now()),
        )
    )


def find_blockers(tx: Transaction, provider_id: int) -> tuple[bool, bool, str | None]:
    """Return whether a locked provider has children, whether it has allocations, and its root.

    The root is a uuid, or None if the provider does not have one. One statement.
    """
    ((has_children, has_allocations, root),) = tx.rows(_BLOCKERS, {"provider": provider_id})
    return bool(has_children), bool(has_allocations), root


_provider: BindParameter[int] = bindparam("provider")
_BLOCKERS = CompiledStatement(
    select(
        select(_parents.c.id).where(_parents.c.parent_provider_id == _provider).exists(),
        select(models.allocations.c.id)
        .where(models.allocations.c.resource_provider_id == _provider)
        .exists(),
        select(_roots.c.uuid)
        .join_from(_roots, _parents, _parents.c.root_provider_id == _roots.c.id)
        .where(_parents.c.id == _provider)
        .scalar_subquery(),
    )
)


def delete_provider(tx: Transaction, provider_id: int) -> None:
    """Delete a locked provider with its inventories and associations. Five statements."""
    for statement in _DELETIONS:
        tx.change(statement, {"provider": provider_id})


_DELETIONS = tuple(
    map(
        CompiledStatement,
        (
            *(
                delete(table).where(table.c.resource_provider_id == bindparam("provider"))
                for table in (
                    models.inventories,
                    models.resource_provider_aggregates,
                    models.resource_provider_traits,
                )
            ),
            # MySQL does not delete a row that a foreign key refers to, and a root's own row refers to itself.
            update(_providers)
            .where(_OWN_ROW)
            .values(root_provider_id=null(), updated_at=_providers.c.updated_at),
            delete(_providers).where(_OWN_ROW),
        ),
    )
)

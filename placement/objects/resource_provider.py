"""Resource providers, which have inventory, alone or in a tree (specification 02 sections 3 and 5)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from placement import errors
from placement.db import models, named_rows, provider_rows, writes
from placement.db.association_rows import AGGREGATES
from placement.db.change import Change, Departure
from placement.db.database import Database, Reader, StaleRead, Transaction
from placement.db.provider_rows import LockedProvider, ProviderRow, TreePosition, TreeRow

T = TypeVar("T")

NO_SUCH_PARENT = "parent provider UUID does not exist."
OWN_PARENT = (
    "parent provider UUID cannot be same as UUID. "
    "Please set parent provider UUID to None if there is no parent."
)
RE_PARENTING = "re-parenting a provider is not currently allowed."
UN_PARENTING = "un-parenting a provider is not currently allowed."
LOOP = "creating loop in the provider tree is not allowed."

DUPLICATE_NAME = "placement.duplicate_name"


class ProviderAggregates(NamedTuple):
    """The aggregates of one provider and its generation."""

    generation: int
    uuids: list[str]


class ProviderNotFound(errors.NotFound):
    """The provider in the path does not exist."""

    text = "No resource provider with uuid {uuid} found"
    uuid: str


class ProviderNotFoundForDelete(errors.NotFound):
    """The provider to delete does not exist, or no longer exists."""

    text = "No resource provider with uuid {uuid} found for delete"
    uuid: str


class ProviderNotNamed(errors.BadRequest):
    """The name of the new provider is empty."""

    reason = "invalid_body"
    about = "field"
    field = "/name"
    text = 'Unable to create resource provider "", {uuid}: name is required'
    uuid: str


class ProviderNotCreated(errors.BadRequest):
    """The new provider cannot have this parent. ``cause`` is a further error of this module."""

    reason = "invalid_parent"
    about = "field"
    field = "/parent_provider_uuid"
    text = 'Unable to create resource provider "{name}", {uuid}: {cause}'
    name: str
    uuid: str
    cause: str


class ProviderNotSaved(errors.BadRequest):
    """The provider cannot get this parent. ``cause`` is a further error of this module."""

    reason = "invalid_parent"
    about = "field"
    field = "/parent_provider_uuid"
    text = "Unable to save resource provider {uuid}: {cause}"
    uuid: str
    cause: str


class UuidTaken(errors.Conflict):
    """Another provider has the uuid of the new one."""

    reason = "duplicate_name"
    code = DUPLICATE_NAME
    text = "Conflicting resource provider uuid: {uuid} already exists"
    uuid: str


class NameTaken(errors.Conflict):
    """Another provider has the name of the new one; its uuid is free."""

    reason = "duplicate_name"
    code = DUPLICATE_NAME
    text = "Conflicting resource provider name: {name} already exists"
    name: str


class NewNameTaken(errors.Conflict):
    """Another provider has the new name of an existing one."""

    reason = "duplicate_name"
    code = DUPLICATE_NAME
    text = "Conflicting resource provider {name} already exists."
    name: str


class ProviderHasChildren(errors.Conflict):
    """The provider has children, which must be deleted first."""

    reason = "provider_has_children"
    code = "placement.resource_provider.cannot_delete_parent"
    text = "Unable to delete parent resource provider {uuid}: It has child resource providers."
    uuid: str


class ProviderInUse(errors.Conflict):
    """The provider has allocations, which must be deleted first."""

    reason = "provider_in_use"
    of_consumers = True
    code = "placement.resource_provider.inuse"
    text = "Unable to delete resource provider {uuid}: Resource provider has allocations."
    uuid: str


class GenerationMoved(errors.ConcurrentUpdate):
    """The provider changed since the client read its traits or aggregates."""

    reason = "provider_generation"
    retry = errors.Retry.AFTER_READING
    text = (
        "Resource provider's generation already changed. "
        "Please update the generation and try again."
    )


class AggregatesLost(errors.ConcurrentUpdate):
    """Other requests kept changing the provider."""

    reason = "provider_generation"
    retry = errors.Retry.AFTER_READING
    text = "Update conflict: the provider changed, please try again."


class _Parent(Enum):
    UNCHANGED = 0


UNCHANGED: Final = _Parent.UNCHANGED
"""A value that keeps the parent; None would make the provider a root."""


def show(db: Database, uuid: str) -> ProviderRow:
    """Return the provider.

    :raises ProviderNotFound:
    """
    return read_of(db, uuid, provider_rows.get)


def read_of(db: Database, uuid: str, read: Callable[[Reader, str], T | None]) -> T:
    """Return the result of one statement about a provider; None means that the provider is missing.

    :raises ProviderNotFound:
    """
    found = db.read(lambda reader: read(reader, uuid))
    if found is None:
        raise ProviderNotFound(uuid=uuid)
    return found


def create(db: Database, *, uuid: str, name: str, parent_uuid: str | None = None) -> ProviderRow:
    """Create a provider below a parent or as a root and return it.

    :param uuid: the uuid in its stored form, lower-case and dashed.
    :raises ProviderNotNamed:
    :raises ProviderNotCreated: no such parent.
    :raises UuidTaken: also if the name is taken as well.
    :raises NameTaken:
    """
    if not name:
        raise ProviderNotNamed(uuid=uuid)
    if parent_uuid == uuid:
        raise ProviderNotCreated(name=name, uuid=uuid, cause=OWN_PARENT)
    return db.write(lambda tx: _create(tx, uuid, name, parent_uuid))


def _create(tx: Transaction, uuid: str, name: str, parent_uuid: str | None) -> ProviderRow:
    # The reading does not lock; it finds the errors to report. The lock of the parent shows whether the
    # parent still exists, and the insert shows whether the names are still free; both can start the write
    # again.
    uuids = {uuid} if parent_uuid is None else {uuid, parent_uuid}
    found = {position.uuid: position for position in provider_rows.find_positions(tx, uuids, name)}
    if parent_uuid is not None and parent_uuid not in found:
        raise ProviderNotCreated(name=name, uuid=uuid, cause=NO_SUCH_PARENT)
    if uuid in found:
        raise UuidTaken(uuid=uuid)
    if any(position.has_name for position in found.values()):
        raise NameTaken(name=name)
    parent = None
    if parent_uuid is not None:
        parent = found[parent_uuid]
        _lock_unmoved(tx, [parent])
    writes.take(tx, providers=[uuid])
    created_at = models.now()
    provider_id = provider_rows.insert_provider(tx, uuid, name, parent, created_at)
    writes.finish(tx, Change(written=[provider_id], touched=_list_new_parents(parent)))
    # The provider is returned as written, since reading it again would cost each new host a statement.
    root_uuid = uuid if parent is None else parent.root_uuid
    return ProviderRow(provider_id, uuid, name, 0, parent_uuid, root_uuid, created_at)


def _lock_unmoved(
    tx: Transaction, positions: Collection[TreePosition], tree_of: int | None = None
) -> dict[int, TreeRow]:
    """Lock providers and the tree with this root, if all have the positions that were read.

    :raises StaleRead: a provider was moved or deleted meanwhile.
    """
    locked = provider_rows.lock_positions(tx, [position.id for position in positions], tree_of)
    for position in positions:
        if locked.get(position.id) != TreeRow(position.id, position.parent_id, position.root_id):
            raise StaleRead("a provider moved or vanished")
    return locked


def _lock_to_change(
    tx: Transaction,
    own: TreePosition,
    others: Sequence[TreePosition] = (),
    tree_of: int | None = None,
) -> dict[int, TreeRow]:
    """Lock a provider to change, and others that stay unchanged."""
    locked = _lock_unmoved(tx, [own, *others], tree_of)
    writes.take(tx, providers=[own.uuid])
    return locked


def save(
    db: Database,
    *,
    uuid: str,
    name: str,
    parent_uuid: str | _Parent | None = UNCHANGED,
    may_move: bool = True,
) -> ProviderRow:
    """Rename a provider, give it a parent if asked to, and return it.

    :param may_move: a provider with a parent may get another parent or none (from 1.37 on).
    :raises ProviderNotFound:
    :raises ProviderNotSaved: the parent does not exist, is in the provider's own subtree, or the provider may
        not move.
    :raises NewNameTaken: the parent stays unchanged too.
    """
    return db.write(lambda tx: _save(tx, uuid, name, parent_uuid, may_move))


def _save(
    tx: Transaction, uuid: str, name: str, parent_uuid: str | _Parent | None, may_move: bool
) -> ProviderRow:
    uuids = {uuid, parent_uuid} if isinstance(parent_uuid, str) else {uuid}
    found = {position.uuid: position for position in provider_rows.find_positions(tx, uuids, name)}
    if uuid not in found:
        raise ProviderNotFound(uuid=uuid)
    own = found[uuid]
    moved = Change()
    if parent_uuid is UNCHANGED:
        _lock_to_change(tx, own)
    elif isinstance(parent_uuid, str) and parent_uuid not in found:
        raise ProviderNotSaved(uuid=uuid, cause=NO_SUCH_PARENT)
    else:
        parent = found[parent_uuid] if isinstance(parent_uuid, str) else None
        moved = _set_parent(tx, own, parent, may_move)
    if any(position.has_name and position.id != own.id for position in found.values()):
        raise NewNameTaken(name=name)
    provider_rows.rename(tx, own.id, name)
    writes.finish(tx, replace(moved, written=[own.id]))
    saved = provider_rows.get(tx, uuid)
    assert saved is not None
    return saved


def _set_parent(
    tx: Transaction, own: TreePosition, parent: TreePosition | None, may_move: bool
) -> Change:
    """Set the parent of a provider as specification 02 section 3.5 says; return the change."""
    parent_id = None if parent is None else parent.id
    if parent_id == own.parent_id:
        _lock_to_change(tx, own)
        return Change()
    if own.parent_id is not None and not may_move:
        reason = UN_PARENTING if parent is None else RE_PARENTING
        raise ProviderNotSaved(uuid=own.uuid, cause=reason)
    named = [] if parent is None else [parent]
    locked = _lock_to_change(tx, own, named, tree_of=own.root_id)
    tree = {row.id: row for row in locked.values() if row.root_id == own.root_id}
    # A child that was created while this transaction waited is not locked here, and would keep the old root.
    if provider_rows.find_tree_members(tx, own.root_id) != tree.keys():
        raise StaleRead("the tree grew or shrank")
    # The check runs under the locks: three moves at once could close a loop that none of them sees.
    subtree = _collect_subtree(own.id, tree)
    if parent_id in subtree:
        raise ProviderNotSaved(uuid=own.uuid, cause=LOOP)
    provider_rows.move(tx, own, parent, subtree)
    return Change(touched=_list_new_parents(parent), left=Departure(subtree, own.root_uuid))


def _list_new_parents(parent: TreePosition | None) -> list[int]:
    """Return the id of the new parent, whose row must be written too.

    Only one node of a Galera cluster knows a lock. A move of the parent on another node writes this row as
    well, so the cluster refuses one of the two.
    """
    return [] if parent is None else [parent.id]


def _collect_subtree(top_id: int, tree: Mapping[int, TreeRow]) -> set[int]:
    """Return the ids of a provider and everything below it."""
    children: dict[int | None, list[int]] = {}
    for row in tree.values():
        children.setdefault(row.parent_id, []).append(row.id)
    found, todo = {top_id}, [top_id]
    while todo:
        # In a damaged database parents can form a cycle.
        below = [id_ for id_ in children.get(todo.pop(), []) if id_ not in found]
        found.update(below)
        todo.extend(below)
    return found


def delete(db: Database, uuid: str) -> None:
    """Delete a provider with its inventories and its associations.

    :raises ProviderNotFoundForDelete:
    :raises ProviderHasChildren:
    :raises ProviderInUse:
    """

    def work(tx: Transaction) -> None:
        provider = provider_rows.lock(tx, [uuid]).get(uuid)
        if provider is None:
            raise ProviderNotFoundForDelete(uuid=uuid)
        # Neither children nor allocations can be added any more: a new child writes the row of its parent, a
        # claim writes the row of its provider.
        has_children, has_allocations, root_uuid = provider_rows.find_blockers(tx, provider.id)
        if has_children:
            raise ProviderHasChildren(uuid=uuid)
        if has_allocations:
            raise ProviderInUse(uuid=uuid)
        writes.take(tx, providers=[uuid])
        provider_rows.delete_provider(tx, provider.id)
        writes.finish(tx, Change(left=Departure([provider.id], root_uuid or uuid)))

    db.write(work)


def lock_one(
    tx: Transaction,
    uuid: str,
    generation: int | None = None,
    conflict: type[errors.PlacementError] = GenerationMoved,
) -> LockedProvider:
    """Lock a provider for a change of its traits or aggregates. One statement.

    :param generation: the generation that the client has read, if sent; ``conflict``: the error if it differs
        now.
    :raises ProviderNotFound:
    """
    provider = provider_rows.lock(tx, [uuid]).get(uuid)
    if provider is None:
        raise ProviderNotFound(uuid=uuid)
    if generation is not None and generation != provider.generation:
        raise conflict()
    writes.take(tx, providers=[uuid])
    return provider


def aggregates(db: Database, uuid: str) -> ProviderAggregates:
    """Return the aggregates of a provider.

    :raises ProviderNotFound:
    """
    generation, rows = read_of(db, uuid, AGGREGATES.of_provider)
    return ProviderAggregates(generation, [aggregate for _, aggregate in rows])


def replace_aggregates(
    db: Database, uuid: str, uuids: Sequence[str], *, generation: int | None
) -> int:
    """Replace the aggregates of a provider and return its new generation.

    :param uuids: distinct uuids, stored unchanged; new aggregates are created.
    :param generation: the generation that the client has read; None (below 1.19) neither compares nor steps
        it.
    :raises ProviderNotFound:
    :raises GenerationMoved:
    """
    wanted = set(uuids)

    def work(tx: Transaction) -> int:
        provider = lock_one(tx, uuid, generation)
        present = AGGREGATES.ids(tx, provider.id)
        if wanted != present.keys():
            added = wanted - present.keys()
            known = named_rows.ids(tx, named_rows.AGGREGATES, added)
            if unknown := added - known.keys():
                known |= named_rows.create(tx, named_rows.AGGREGATES, unknown)
            AGGREGATES.remove(tx, provider.id, [present[each] for each in present.keys() - wanted])
            AGGREGATES.add(tx, provider.id, known.values())
        # An unchanged set steps the generation too, as clients of 1.19 and later expect.
        if generation is not None:
            writes.finish(tx, Change(stepped={1: [provider.as_read]}))
            return generation + 1
        if wanted != present.keys():
            writes.finish(tx, Change(touched=[provider.id]))
        return provider.generation

    return db.write(work, on_conflict=AggregatesLost)

"""Resource providers: what has inventory, alone or in a tree (contract 02 section 3)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from placement import errors
from placement.db import models, provider_filters, provider_rows, trait_rows
from placement.db.api import Database, StaleRead, Transaction
from placement.db.provider_rows import LockedProvider, Place, ProviderRow, TreeRow

NO_SUCH_PARENT = "parent provider UUID does not exist."
OWN_PARENT = (
    "parent provider UUID cannot be same as UUID. "
    "Please set parent provider UUID to None if there is no parent."
)
RE_PARENTING = "re-parenting a provider is not currently allowed."
UN_PARENTING = "un-parenting a provider is not currently allowed."
LOOP = "creating loop in the provider tree is not allowed."

DUPLICATE_NAME = "placement.duplicate_name"


class ProviderNotFound(errors.NotFound):
    """No provider has the uuid of the path."""

    text = "No resource provider with uuid {uuid} found"


class ProviderNotFoundForDelete(errors.NotFound):
    """The provider to delete is not there, or not any more."""

    text = "No resource provider with uuid {uuid} found for delete"


class ProviderNotCreated(errors.BadRequest):
    """The new provider has no name, or a parent it cannot have. ``reason`` is one of ours."""

    text = 'Unable to create resource provider "{name}", {uuid}: {reason}'


class ProviderNotSaved(errors.BadRequest):
    """The provider cannot get this parent. ``reason`` is one of ours."""

    text = "Unable to save resource provider {uuid}: {reason}"


class UuidTaken(errors.Conflict):
    """Another provider has the uuid of the new one."""

    code = DUPLICATE_NAME
    text = "Conflicting resource provider uuid: {uuid} already exists"


class NameTaken(errors.Conflict):
    """Another provider has the name of the new one; its uuid is free."""

    code = DUPLICATE_NAME
    text = "Conflicting resource provider name: {name} already exists"


class NewNameTaken(errors.Conflict):
    """Another provider has the name that an existing one was to get."""

    code = DUPLICATE_NAME
    text = "Conflicting resource provider {name} already exists."


class ProviderHasChildren(errors.Conflict):
    """A parent is deleted after its children."""

    code = "placement.resource_provider.cannot_delete_parent"
    text = "Unable to delete parent resource provider {uuid}: It has child resource providers."


class ProviderInUse(errors.Conflict):
    """A provider is deleted after its allocations."""

    code = "placement.resource_provider.inuse"
    text = "Unable to delete resource provider {uuid}: Resource provider has allocations."


class GenerationMoved(errors.ConcurrentUpdate):
    """The provider changed since the client read its traits or aggregates."""

    text = (
        "Resource provider's generation already changed. "
        "Please update the generation and try again."
    )


class UnknownTraitRequired(errors.BadRequest):
    """The filter ``required`` names a trait that does not exist."""

    text = 'Invalid trait(s) in "required" parameter: No such trait(s): {name}.'


class UnknownClassRequested(errors.BadRequest):
    """The filter ``resources`` names a class that does not exist."""

    text = "Invalid resource class in resources parameter: No such resource class {name}."


class _Parent(Enum):
    UNCHANGED = 0


UNCHANGED: Final = _Parent.UNCHANGED
"""The parent stays what it is; None would make the provider a root."""

MOST_SETS = 8
"""Sets of traits and aggregates in one statement, where each is a join: to plan 300 of them takes
PostgreSQL minutes."""


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """Which providers to list; every filter that is given must hold for the provider itself.

    ``required`` and ``member_of`` are ANDed sets, of each of which one member is enough.
    ``resources``: amount by class name.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = frozenset()
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_search(self) -> bool:
        """To be answered by ``provider_search.search`` and not by :func:`find`."""
        return bool(self.resources) or len(self.required) + len(self.member_of) > MOST_SETS


def show(db: Database, uuid: str) -> ProviderRow:
    """Return the provider.

    :raises ProviderNotFound:
    """
    provider = db.read(lambda connection: provider_rows.get(connection, uuid))
    if provider is None:
        raise ProviderNotFound(uuid=uuid)
    return provider


def find(db: Database, query: ProviderQuery) -> list[ProviderRow]:
    """Return the providers that the query selects, in the order of their creation.

    One statement; one more for the names of traits.

    :param query: not one for :func:`provider_search.search`.
    :raises UnknownTraitRequired: unless a filter before it matches nothing (section 3.4.1).
    """
    if query.required or query.forbidden:
        return db.snapshot(lambda tx: _find(tx, query))
    return db.read(lambda connection: _find(connection, query))


def _find(tx: Transaction, query: ProviderQuery) -> list[ProviderRow]:
    conditions = []
    if query.uuid is not None:
        conditions.append(provider_filters.uuid_is(query.uuid))
    if query.name:
        conditions.append(provider_filters.name_is(query.name))
    try:
        conditions += _filters(tx, query)
    except MatchesNothing:
        return []
    return provider_rows.find(tx, conditions)


class MatchesNothing(Exception):
    """A filter that finds no provider at all hides the mistakes in those behind it."""


def _filters(tx: Transaction, query: ProviderQuery) -> list[provider_filters.Condition]:
    """Return the conditions of the filters, in the order of contract 02 section 3.4.1."""
    trait_ids = trait_rows.ids(tx, query.forbidden.union(*query.required))
    positive = [provider_filters.in_tree(query.in_tree)] if query.in_tree is not None else []
    for names in query.required:
        ids = _known(tx, names, trait_ids, positive)
        positive.append(provider_filters.has_any_trait(ids))
    negative = []
    if query.forbidden:
        ids = _known(tx, query.forbidden, trait_ids, positive)
        negative.append(provider_filters.has_no_trait(ids))
    positive += [provider_filters.in_any_aggregate(uuids) for uuids in query.member_of]
    if query.not_member_of:
        negative.append(provider_filters.in_no_aggregate(query.not_member_of))
    return positive + negative


def _known(
    tx: Transaction,
    names: Iterable[str],
    id_by_name: Mapping[str, int],
    before: Sequence[provider_filters.Condition],
) -> list[int]:
    """Return the ids of traits, or say which is unknown if the filters before find anything."""
    unknown = sorted(name for name in names if name not in id_by_name)
    if not unknown:
        return [id_by_name[name] for name in names]
    if all(provider_rows.exists(tx, [condition]) for condition in before):
        raise UnknownTraitRequired(name=unknown[0])
    raise MatchesNothing


def create(db: Database, *, uuid: str, name: str, parent_uuid: str | None = None) -> ProviderRow:
    """Create a provider below a parent or as a root and return it.

    :param uuid: in its stored form, lower-case and dashed.
    :raises ProviderNotCreated: no name, or no such parent.
    :raises UuidTaken: also if the name is taken as well.
    :raises NameTaken:
    """
    if not name:
        raise ProviderNotCreated(name=name, uuid=uuid, reason="name is required")
    if parent_uuid == uuid:
        raise ProviderNotCreated(name=name, uuid=uuid, reason=OWN_PARENT)
    return db.write(lambda tx: _create(tx, uuid, name, parent_uuid))


def _create(tx: Transaction, uuid: str, name: str, parent_uuid: str | None) -> ProviderRow:
    uuids = {uuid} if parent_uuid is None else {uuid, parent_uuid}
    found = {place.uuid: place for place in provider_rows.places(tx, uuids, name)}
    if parent_uuid is not None and parent_uuid not in found:
        raise ProviderNotCreated(name=name, uuid=uuid, reason=NO_SUCH_PARENT)
    if uuid in found:
        raise UuidTaken(uuid=uuid)
    if any(place.has_name for place in found.values()):
        raise NameTaken(name=name)
    parent = None
    if parent_uuid is not None:
        parent = found[parent_uuid]
        _lock_unmoved(tx, [parent])
        _write_parent(tx, parent)
    created_at = models.now()
    provider_id = provider_rows.insert_provider(tx, uuid, name, parent, created_at)
    root_uuid = uuid if parent is None else parent.root_uuid
    return ProviderRow(provider_id, uuid, name, 0, parent_uuid, root_uuid, created_at)


def _lock_unmoved(
    tx: Transaction, places: Collection[Place], tree_of: int | None = None
) -> dict[int, TreeRow]:
    """Lock providers that are where they were read, and the tree with this root.

    :raises StaleRead: one of them moved or vanished in between.
    """
    locked = provider_rows.lock_places(tx, [place.id for place in places], tree_of)
    for place in places:
        if locked.get(place.id) != TreeRow(place.id, place.parent_id, place.root_id):
            raise StaleRead("a provider moved or vanished")
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

    :param may_move: a provider that has a parent may get another or none (from 1.37 on).
    :raises ProviderNotFound:
    :raises ProviderNotSaved: the parent does not exist, is in the provider's own subtree, or the
        provider may not move.
    :raises NewNameTaken: the parent stays unchanged too.
    """
    return db.write(lambda tx: _save(tx, uuid, name, parent_uuid, may_move))


def _save(
    tx: Transaction, uuid: str, name: str, parent_uuid: str | _Parent | None, may_move: bool
) -> ProviderRow:
    uuids = {uuid, parent_uuid} if isinstance(parent_uuid, str) else {uuid}
    found = {place.uuid: place for place in provider_rows.places(tx, uuids, name)}
    if uuid not in found:
        raise ProviderNotFound(uuid=uuid)
    own = found[uuid]
    if parent_uuid is UNCHANGED:
        _lock_unmoved(tx, [own])
    elif isinstance(parent_uuid, str) and parent_uuid not in found:
        raise ProviderNotSaved(uuid=uuid, reason=NO_SUCH_PARENT)
    else:
        parent = found[parent_uuid] if isinstance(parent_uuid, str) else None
        _set_parent(tx, own, parent, may_move)
    if any(place.has_name and place.id != own.id for place in found.values()):
        raise NewNameTaken(name=name)
    provider_rows.rename(tx, own.id, name)
    saved = provider_rows.get(tx, uuid)
    assert saved is not None
    return saved


def _set_parent(tx: Transaction, own: Place, parent: Place | None, may_move: bool) -> None:
    """Put a provider and its subtree where contract 02 section 3.5 says."""
    parent_id = None if parent is None else parent.id
    if parent_id == own.parent_id:
        _lock_unmoved(tx, [own])
        return
    if own.parent_id is not None and not may_move:
        reason = UN_PARENTING if parent is None else RE_PARENTING
        raise ProviderNotSaved(uuid=own.uuid, reason=reason)
    named = [own] if parent is None else [own, parent]
    locked = _lock_unmoved(tx, named, tree_of=own.root_id)
    tree = {row.id: row for row in locked.values() if row.root_id == own.root_id}
    # A child that was being created while we waited is in no lock of ours.
    if provider_rows.tree_members(tx, own.root_id) != tree.keys():
        raise StaleRead("the tree grew or shrank")
    subtree = _subtree(own.id, tree)
    if parent_id in subtree:
        raise ProviderNotSaved(uuid=own.uuid, reason=LOOP)
    if parent is not None:
        _write_parent(tx, parent)
    provider_rows.move(tx, own.id, parent, subtree)


def _write_parent(tx: Transaction, parent: Place) -> None:
    """Write the row of a provider that gets a child.

    A lock is known to one node of a Galera cluster only. Whoever moves the parent on another node
    writes this row as well, so that the cluster refuses one of the two.
    """
    provider_rows.touch(tx, [parent.id])


def _subtree(top_id: int, tree: Mapping[int, TreeRow]) -> set[int]:
    """Return the ids of a provider and everything below it."""
    children: dict[int | None, list[int]] = {}
    for row in tree.values():
        children.setdefault(row.parent_id, []).append(row.id)
    found, todo = {top_id}, [top_id]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo.extend(below)
    return found


def delete(db: Database, uuid: str) -> None:
    """Delete a provider with its inventories and its associations.

    :raises ProviderNotFoundForDelete:
    :raises ProviderHasChildren:
    :raises ProviderInUse:
    """
    db.write(lambda tx: _delete(tx, uuid))


def _delete(tx: Transaction, uuid: str) -> None:
    provider = provider_rows.lock(tx, [uuid]).get(uuid)
    if provider is None:
        raise ProviderNotFoundForDelete(uuid=uuid)
    has_children, has_allocations = provider_rows.blockers(tx, provider.id)
    if has_children:
        raise ProviderHasChildren(uuid=uuid)
    if has_allocations:
        raise ProviderInUse(uuid=uuid)
    provider_rows.delete_provider(tx, provider.id)


def lock_one(tx: Transaction, uuid: str) -> LockedProvider:
    """Lock a provider for a change of what it has. One statement.

    :raises ProviderNotFound:
    """
    provider = provider_rows.lock(tx, [uuid]).get(uuid)
    if provider is None:
        raise ProviderNotFound(uuid=uuid)
    return provider

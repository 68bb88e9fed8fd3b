"""The cloud: all providers in the form that a search needs, as columns over a dense provider index.

Any number of threads may read a ``Cloud`` at once. ``replace`` and ``restock`` work in place, so the owner
must ensure that no thread searches or reads a result meanwhile, or must change a ``snapshot``. Provider
indexes are reused after a removal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.search.columns import ClassColumn, Held, InventoryColumns, NameColumn, table_of
from placement.search.index_set import Indexes, Mask
from placement.search.records import CloudRows, ProviderRecord, Stock
from placement.search.structure import Forest, Sharing, longer

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"
BLOCK = 256
"""Provider ids per digest block: about the square root of a large cloud."""

FIRST_WINS = threading.Lock()
"""A lock for the moment in which one of several threads with the same derived value stores it."""

TREE_BITS = 24
"""A tree has fewer than 2**TREE_BITS providers: more do not fit into memory."""

_ABSENT_IS_NEGATIVE = ("ids", "parents", "roots")
"""Columns with the value -1, not 0, at free slots."""


class BlockDigest(NamedTuple):
    """The count, the sum of ids and the sum of revisions of some providers."""

    providers: int = 0
    ids: int = 0
    revisions: int = 0


class Cloud:
    """All providers, in columns over provider index 0..size-1.

    ``ids`` (-1: free slot), ``parents`` and ``roots`` (provider indexes, -1: none), ``keys`` (hash of the
    uuid: the stable order of trees and of their members), ``stamps`` (grows whenever the provider is
    replaced), ``modified`` (seconds since the epoch, 0: not known), and others by their names. ``lost``: by
    table, the ids of classes, traits and aggregates that rows refer to and that no longer exist. ``severed``:
    by provider index, the id of the stored parent, if that is not a parent in the tree. ``kept_texts``: texts
    that renderers keep, each under its own name, as long as the cloud lasts.
    """

    def __init__(self) -> None:
        self.size = 0
        self.uuids: list[str | None] = []
        self.names: list[str] = []
        self.index_of: dict[int, int] = {}
        self.index_of_uuid: dict[str, int] = {}
        self.kept_texts: dict[str, Any] = {}
        self.lost: dict[str, list[int]] = {}
        self.severed: dict[int, int] = {}
        self.ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self.revisions: NDArray[np.int64] = np.zeros(0, np.int64)
        self.parents: Indexes = np.zeros(0, np.int32)
        self.roots: Indexes = np.zeros(0, np.int32)
        self.keys: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self.stamps: NDArray[np.int64] = np.zeros(0, np.int64)
        self.generations: NDArray[np.int64] = np.zeros(0, np.int64)
        self.modified: NDArray[np.int64] = np.zeros(0, np.int64)
        self._stamp = 0
        self._free: list[int] = []
        owner = object()
        self._traits, self._aggregates = NameColumn(owner), NameColumn(owner)
        self._stock = InventoryColumns(owner)
        self._is_lent = False
        self._uuids_are_lent = False
        self._blocks: dict[int, BlockDigest] = {}
        self._forest: Forest | None = None
        self._sharing: Sharing | None = None
        self._avoided: tuple[frozenset[str], Mask | None] | None = None

    # -- what a search reads -----------------------------------------------------------------

    @property
    def traits(self) -> list[tuple[str, ...]]:
        """The sorted names by provider; equal tuples are one object."""
        return self._traits.lists

    @property
    def aggregates(self) -> list[tuple[str, ...]]:
        """The sorted uuids by provider; equal tuples are one object."""
        return self._aggregates.lists

    @property
    def inventories(self) -> list[tuple[Held, ...]]:
        """The inventories by provider, in the order of their classes."""
        return self._stock.held

    def find_held(self, index: int, name: str) -> Held | None:
        """Return the inventory of one class, or None."""
        return next((held for held in self.inventories[index] if held[0] == name), None)

    @property
    def classes(self) -> dict[str, ClassColumn]:
        """The columns of the classes with inventory of any provider."""
        return self._stock.classes

    def tree_stamps(self, roots: Indexes) -> NDArray[np.int64]:
        """Return for each of these trees a number that is unique for its state."""
        if not self.forest.nested:
            return self.stamps[roots] << TREE_BITS | 1
        members, counts = self.forest.trees(roots)
        latest = np.maximum.reduceat(self.stamps[members], np.cumsum(counts) - counts)
        return latest << TREE_BITS | counts

    def stored_parent(self, index: int) -> str | None:
        """Return the uuid of a provider's stored parent, even if that is not a parent in its tree."""
        severed = self.severed.get(index)
        parent = self.index_of.get(severed, -1) if severed is not None else int(self.parents[index])
        return None if parent < 0 else self.uuids[parent]

    @property
    def forest(self) -> Forest:
        """The trees in order, rebuilt after a change of shape."""
        forest = self._forest
        if forest is None:
            forest = Forest(self.roots, self.keys)
            with FIRST_WINS:
                forest = self._forest = self._forest or forest
        return forest

    @property
    def sharing(self) -> Sharing:
        """The sharing of providers, rebuilt after a change of shape, aggregates or sharing traits."""
        # The value is made without the lock, since that takes long in a large cloud. Only the first one is
        # kept: a search compares by identity which trees reach the same providers, and must not meet two.
        sharing = self._sharing
        if sharing is None:
            sharing = Sharing(
                self._traits.members(SHARING_TRAIT).indexes(self.size),
                self.roots,
                self.aggregates.__getitem__,
                self._aggregates.members,
                self.keys,
            )
            with FIRST_WINS:
                sharing = self._sharing = self._sharing or sharing
        return sharing

    def has_trait(self, name: str) -> bool:
        """Return whether any provider has the trait."""
        return name in self._traits

    def has_class(self, name: str) -> bool:
        """Return whether any provider has inventory of the class."""
        return name in self.classes

    def with_trait(self, name: str) -> Mask:
        """Return a fresh mask of the providers that have the trait."""
        return self._traits.members(name).mask(self.size)

    def mark_avoided(self, traits: frozenset[str]) -> Mask | None:
        """Mark the providers of all trees whose root has one of the traits; None if there is no such tree.

        The mask is cached until a trait or a tree changes, so the caller must not change it.
        """
        if not any(map(self.has_trait, traits)):
            return None
        kept = self._avoided
        if kept is None or kept[0] != traits:
            having = np.logical_or.reduce([self.with_trait(name) for name in sorted(traits)])
            avoided = having[self.roots] & (self.ids >= 0)
            kept = self._avoided = traits, avoided if avoided.any() else None
        return kept[1]

    def list_avoided(self, traits: frozenset[str]) -> list[int]:
        """Return the roots of all trees whose root has one of the traits."""
        avoided = self.mark_avoided(traits)
        if avoided is None:
            return []
        roots: list[int] = np.flatnonzero(avoided & self.forest.is_root).tolist()
        return roots

    def in_aggregate(self, aggregate_uuid: str) -> Mask:
        """Return a fresh mask of the aggregate's direct members."""
        return self._aggregates.members(aggregate_uuid).mask(self.size)

    def room(self, name: str) -> Indexes:
        """Return the ``ClassColumn.room`` column of a class with inventory."""
        return self.classes[name].room

    def lasting_uuids(self) -> Sequence[str | None]:
        """Return the present uuids, which stay valid: later changes are written into a copy."""
        self._uuids_are_lent = True
        return self.uuids

    # -- what the loader compares ------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.index_of)

    def block_digests(self) -> Mapping[int, BlockDigest]:
        """Return the digests by ``provider id // BLOCK``; blocks without providers are absent."""
        return self._blocks

    def block_revisions(self, block: int) -> dict[int, int]:
        """Return revision by id of the providers of one block."""
        ids = range(block * BLOCK, (block + 1) * BLOCK)
        held = ((provider_id, self.index_of.get(provider_id)) for provider_id in ids)
        return {i: int(self.revisions[index]) for i, index in held if index is not None}

    # -- copies ------------------------------------------------------------------------------

    def snapshot(self) -> Cloud:
        """Return a cloud of the same content; later changes of either do not affect the other.

        The first change of either copies the columns over all providers, and later the columns of the changed
        classes, traits and aggregates.
        """
        twin = copy(self)
        self._is_lent = twin._is_lent = True
        return twin

    def with_sharing(self, sharing: Sharing) -> Cloud:
        """Return a cloud of the same content with other sharing providers."""
        twin = self.snapshot()
        twin._sharing = sharing
        return twin

    def _take_back(self) -> None:
        """Copy the columns that every change writes, if another cloud shares them."""
        if not self._is_lent:
            return
        self._is_lent, owner = False, object()
        for name, value in list(vars(self).items()):
            if isinstance(value, list | dict | np.ndarray):
                setattr(self, name, value.copy())
            elif isinstance(value, NameColumn | InventoryColumns):
                setattr(self, name, value.copy(owner))

    def _own_uuids(self) -> list[str | None]:
        if self._uuids_are_lent:
            self.uuids, self._uuids_are_lent = self.uuids.copy(), False
        return self.uuids

    # -- change ------------------------------------------------------------------------------

    def use(self, index: int, amounts: Mapping[str, int]) -> None:
        """Add to the used amount of one provider, which may be negative; the revision does not move."""
        self._take_back()
        self._stock.use(index, amounts)

    def ignore_units(self, name: str) -> None:
        """Take min_unit and step_size of a class as 1 everywhere."""
        self._take_back()
        self._stock.own_class(name).drop_units()

    def set_rooms(self, name: str, indexes: Indexes, rooms: Indexes) -> None:
        """Set the free amount of a class of some providers, for searches only."""
        self._take_back()
        self._stock.own_class(name).room[indexes] = rooms

    def replace(self, records: Iterable[ProviderRecord], removed: Iterable[int] = ()) -> None:
        """Remove providers by id, then store the given ones completely. About 20 us a record.

        A parent or root must be in the cloud or among the records.
        """
        self._take_back()
        self._stamp += 1
        for provider_id in removed:
            self._remove(provider_id)
        changes = list(records)
        added = {record.provider_id for record in changes} - self.index_of.keys()
        self._grow(self.size + max(len(added) - len(self._free), 0))
        indexes = [self._place(record.provider_id, record.uuid) for record in changes]
        for index, record in zip(indexes, changes, strict=True):
            self._store(index, record)
        if self._forest is None:
            self._mend_links()

    def restock(self, stocks: Iterable[Stock]) -> None:
        """Store inventories and usage of otherwise unchanged providers. About 10 us each."""
        self._take_back()
        self._stamp += 1
        for stock in stocks:
            index = self.index_of[stock.provider_id]
            self._store_versions(index, stock)
            self._stock.store(index, stock.inventories)

    @classmethod
    def load(cls, rows: CloudRows) -> Cloud:
        """Build a cloud from database rows in bulk."""
        cloud = cls()
        cloud._load_providers(rows)
        if cloud.size:
            table = table_of(rows.inventories)
            lost = cloud._stock.load(table, cloud._indexes(table["provider"]), rows.class_names)
            found = {"resource_classes": lost}
            for kind, column, pairs, names in (
                ("traits", cloud._traits, rows.traits, rows.trait_names),
                ("placement_aggregates", cloud._aggregates, rows.aggregates, rows.aggregate_uuids),
            ):
                flat = np.fromiter(chain.from_iterable(pairs), np.int64)
                found[kind] = column.load(cloud._indexes(flat[0::2]), flat[1::2], names)
            cloud.lost = {kind: ids for kind, ids in found.items() if ids}
        return cloud

    # -- one record --------------------------------------------------------------------------

    def _place(self, provider_id: int, uuid: str) -> int:
        index = self.index_of.get(provider_id)
        if index is None:
            index = self._free.pop()
            self.index_of[provider_id] = index
            self.ids[index] = provider_id
            self.revisions[index] = 0
            self._count_in_block(provider_id, 1, 0)
        if self.uuids[index] != uuid:
            self._forget_uuid(index)
            self.index_of_uuid[uuid] = index
            self._own_uuids()[index] = uuid
            self.keys[index] = int.from_bytes(_order_digest(uuid))
            self._forget_trees()
        return index

    def _forget_trees(self) -> None:
        self._forest = self._sharing = self._avoided = None

    def _forget_uuid(self, index: int) -> None:
        uuid = self.uuids[index]
        if uuid is not None and self.index_of_uuid.get(uuid) == index:
            del self.index_of_uuid[uuid]
        self._own_uuids()[index] = None

    def _store_versions(self, index: int, record: ProviderRecord | Stock) -> None:
        self._count_in_block(record.provider_id, 0, record.revision - int(self.revisions[index]))
        self.revisions[index] = record.revision
        self.stamps[index] = self._stamp
        self.generations[index] = record.generation
        self.modified[index] = record.modified

    def _store(self, index: int, record: ProviderRecord) -> None:
        self._store_versions(index, record)
        self.names[index] = record.name
        parent = self.index_of.get(record.parent_id, -1) if record.parent_id is not None else -1
        root = self.index_of.get(record.root_id, index)
        self.severed.pop(index, None)
        if (self.parents[index], self.roots[index]) != (parent, root):
            self.parents[index], self.roots[index] = parent, root
            self._forget_trees()
        self._stock.store(index, record.inventories)
        self._store_names(index, record.traits, record.aggregates)

    def _store_names(self, index: int, traits: Iterable[str], aggregates: Iterable[str]) -> None:
        changed = self._traits.store(index, traits)
        if changed:
            self._avoided = None
        if self._aggregates.store(index, aggregates) or SHARING_TRAIT in changed:
            self._sharing = None

    def _remove(self, provider_id: int) -> None:
        index = self.index_of.pop(provider_id, None)
        if index is None:
            return
        self._count_in_block(provider_id, -1, -int(self.revisions[index]))
        self._forget_uuid(index)
        self.names[index] = ""
        self.severed.pop(index, None)
        self._stock.store(index, {})
        self._store_names(index, (), ())
        self.ids[index] = self.parents[index] = self.roots[index] = -1
        self.stamps[index] = self._stamp
        self._free.append(index)
        self._forget_trees()

    def _mend_links(self) -> None:
        """Repair links:

        each root is a root, no provider is its own ancestor or in another tree than its parent. Another
        service, or an operator, can have written any links into the tables.
        """
        alive, roots, parents = np.flatnonzero(self.ids >= 0), self.roots, self.parents
        stored = roots.copy()
        astray = alive[self.ids[roots[alive]] < 0]
        roots[astray] = astray
        above = parents.copy()
        # Each iteration doubles the distance.
        for _ in range(self.size.bit_length()):
            higher, deep = roots[roots[alive]], np.flatnonzero(above >= 0)
            if not len(deep) and np.array_equal(higher, roots[alive]):
                break
            roots[alive] = higher
            above[deep] = above[above[deep]]
        in_ring = alive[roots[roots[alive]] != roots[alive]]
        roots[in_ring] = in_ring
        cut = np.flatnonzero((parents >= 0) & ((above >= 0) | (roots[parents] != roots)))
        self.severed |= dict(zip(cut.tolist(), self.ids[parents[cut]].tolist(), strict=True))
        parents[cut] = -1
        # The cached texts of these providers are stale, although their own rows have not changed.
        self.stamps[cut] = self.stamps[roots != stored] = self._stamp

    def _count_in_block(self, provider_id: int, count: int, revisions: int) -> None:
        block = provider_id // BLOCK
        before = self._blocks.get(block, BlockDigest())
        after = BlockDigest(
            before.providers + count, before.ids + count * provider_id, before.revisions + revisions
        )
        if after.providers:
            self._blocks[block] = after
        else:
            self._blocks.pop(block, None)

    def _grow(self, size: int) -> None:
        """Add free slots up to this size."""
        spare = size - self.size
        if not spare:
            return
        self._own_uuids().extend([None] * spare)
        self.names.extend([""] * spare)
        for name, column in list(vars(self).items()):
            if isinstance(column, np.ndarray):
                empty = -1 if name in _ABSENT_IS_NEGATIVE else 0
                setattr(self, name, longer(column, spare, empty))
            elif isinstance(column, NameColumn | InventoryColumns):
                column.grow(spare)
        self._free = [*range(size - 1, self.size - 1, -1), *self._free]
        self.size = size

    # -- bulk --------------------------------------------------------------------------------

    def _load_providers(self, rows: CloudRows) -> None:
        count = len(rows.providers)
        self._grow(count)
        self._free = []
        if not count:
            return
        columns = zip(*rows.providers, strict=True)
        ids, uuids, revisions, parents, roots, names, generations, modified = columns
        self.index_of = dict(zip(ids, range(count), strict=True))
        self.index_of_uuid = dict(zip(uuids, range(count), strict=True))
        self.uuids, self.names = list(uuids), list(names)
        self.ids[:] = ids
        self.revisions[:] = revisions
        self.generations[:] = generations
        self.modified[:] = modified
        self.keys[:] = np.frombuffer(b"".join(map(_order_digest, uuids)), ">u8")
        find = self.index_of.get
        self.parents[:] = [find(parent, -1) for parent in parents]
        self.roots[:] = [find(root, own) for own, root in enumerate(roots)]
        self._mend_links()
        order = np.argsort(self.ids, kind="stable")
        blocks = self.ids[order] // BLOCK
        firsts = np.flatnonzero(np.diff(blocks, prepend=blocks[0] - 1))
        parts = (
            blocks[firsts].tolist(),
            np.diff(firsts, append=count).tolist(),
            np.add.reduceat(self.ids[order], firsts).tolist(),
            np.add.reduceat(self.revisions[order], firsts).tolist(),
        )
        self._blocks = {block: BlockDigest(*sums) for block, *sums in zip(*parts, strict=True)}

    def _indexes(self, provider_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the provider index of each id, -1 for unknown ones."""
        order = np.argsort(self.ids)
        ids = self.ids[order]
        places = np.minimum(np.searchsorted(ids, provider_ids), len(ids) - 1)
        return np.where(ids[places] == provider_ids, order[places], -1)


def _order_digest(uuid: str) -> bytes:
    return blake2b(uuid.encode(), digest_size=8).digest()

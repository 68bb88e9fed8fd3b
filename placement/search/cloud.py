"""All providers as a search needs them, by columns over a dense provider index.

Threads: a ``Cloud`` has no lock of its own. ``replace`` works in place, so the owner holds one lock
around each of (refresh), and (search and everything that reads its result with this cloud, i.e.
rendering). Provider indexes are reused after a removal: outside the lock an index means nothing.

Names (classes, traits) and aggregate uuids are the keys; no database id but the provider's is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement.search.class_column import LARGEST_AMOUNT as LARGEST_AMOUNT
from placement.search.class_column import ClassColumn
from placement.search.index_set import Indexes, IndexSet, Mask
from placement.search.inventory_table import Held, Terms, capacities, distinct, held_of, table_of
from placement.search.records import CloudRows, Inventory, ProviderRecord, Stock, Table
from placement.search.structure import Forest, Sharing

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"
BLOCK = 256
"""Provider ids per digest block: about the square root of a large cloud."""

TREE_BITS = 24
"""The size of a tree is less than two to the power of so many: of a cloud too, by its memory."""

MOST_UNUSED_NAMES = 1000
"""Tuples of names kept beyond two for each provider."""


class Digest(NamedTuple):
    """Count, sum of ids and sum of revisions of some providers."""

    providers: int = 0
    ids: int = 0
    revisions: int = 0


class Cloud:
    """All providers. See the module's docstring for the locking rule.

    Columns, all over provider index 0..size-1: ``ids`` (-1: free slot), ``revisions``, ``parents``
    and ``roots`` (provider indexes, -1: none), ``stamps`` (grows whenever the provider is replaced:
    a cache of rendered pieces compares it), ``generations``, ``modified``, ``uuids``, ``names``,
    ``traits`` (sorted tuple of names, shared between providers), ``aggregates`` (likewise) and
    ``inventories`` (tuple of ``Held``). ``kept_texts``: what those who show the providers keep
    beside them, by their own name; it goes with the cloud.
    """

    def __init__(self) -> None:
        self.size = 0
        self.uuids: list[str | None] = []
        self.names: list[str] = []
        self.traits: list[tuple[str, ...]] = []
        self.aggregates: list[tuple[str, ...]] = []
        self.inventories: list[tuple[Held, ...]] = []
        self.index_of: dict[int, int] = {}
        self.index_of_uuid: dict[str, int] = {}
        self.classes: dict[str, ClassColumn] = {}
        self.kept_texts: dict[str, Any] = {}
        self._ids = np.full(0, -1, np.int64)
        self._revisions = np.zeros(0, np.int64)
        self._parents = np.full(0, -1, np.int32)
        self._roots = np.full(0, -1, np.int32)
        self._keys = np.zeros(0, np.uint64)
        self._stamps = np.zeros(0, np.int64)
        self._generations = np.zeros(0, np.int64)
        self._modified = np.zeros(0, np.int64)
        self._stamp = 0
        self._free: list[int] = []
        self._by_trait: dict[str, IndexSet] = {}
        self._by_aggregate: dict[str, IndexSet] = {}
        self._shared_names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._shared_terms: dict[Terms, Terms] = {}
        self._owner = object()
        self._is_lent = False
        self._uuids_are_lent = False
        self._blocks: dict[int, Digest] = {}
        self._forest: Forest | None = None
        self._sharing: Sharing | None = None

    # -- what a search reads -----------------------------------------------------------------

    @property
    def ids(self) -> NDArray[np.int64]:
        """Provider ids, -1 in free slots."""
        return self._ids[: self.size]

    @property
    def revisions(self) -> NDArray[np.int64]:
        """Revisions as last loaded."""
        return self._revisions[: self.size]

    @property
    def parents(self) -> Indexes:
        """Index of the parent, -1 for roots."""
        return self._parents[: self.size]

    @property
    def roots(self) -> Indexes:
        """Index of the root of each provider's tree, -1 in free slots."""
        return self._roots[: self.size]

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Hash of each provider's uuid: the stable order of trees and of their members."""
        return self._keys[: self.size]

    @property
    def stamps(self) -> NDArray[np.int64]:
        """Number of the change that last replaced each provider."""
        return self._stamps[: self.size]

    def tree_stamps(self, roots: Indexes) -> NDArray[np.int64]:
        """Return for each of these trees a number that no other state of the tree had or will have.

        Who joins a tree or changes in it is stamped later than all that was; who leaves, and nothing else,
        makes it smaller.
        """
        if not self.forest.nested:
            return self.stamps[roots] << TREE_BITS | 1
        members, counts = self.forest.trees(roots)
        latest = np.maximum.reduceat(self.stamps[members], np.cumsum(counts) - counts)
        return latest << TREE_BITS | counts

    @property
    def generations(self) -> NDArray[np.int64]:
        """Generations as last loaded."""
        return self._generations[: self.size]

    @property
    def modified(self) -> NDArray[np.int64]:
        """When each provider was last modified, in seconds since the epoch; 0 if nobody knows."""
        return self._modified[: self.size]

    @property
    def forest(self) -> Forest:
        """The trees in order, rebuilt after a change of shape."""
        if self._forest is None:
            self._forest = Forest(self.roots, self.keys)
        return self._forest

    @property
    def sharing(self) -> Sharing:
        """Who shares with whom, rebuilt after a change of shape, aggregates or sharing traits."""
        if self._sharing is None:
            sharers = self._by_trait.get(SHARING_TRAIT, IndexSet()).indexes(self.size)
            self._sharing = Sharing(
                sharers,
                self.roots,
                self.aggregates.__getitem__,
                self._by_aggregate.__getitem__,
                self.keys,
            )
        return self._sharing

    def has_trait(self, name: str) -> bool:
        """Tell whether some provider has the trait."""
        return name in self._by_trait

    def has_class(self, name: str) -> bool:
        """Tell whether some provider has inventory of the class."""
        return name in self.classes

    def with_trait(self, name: str) -> Mask:
        """Return a fresh mask of the providers that have the trait."""
        return self._by_trait.get(name, _NOBODY).mask(self.size)

    def in_aggregate(self, aggregate_uuid: str) -> Mask:
        """Return a fresh mask of the aggregate's direct members."""
        return self._by_aggregate.get(aggregate_uuid, _NOBODY).mask(self.size)

    def room(self, name: str) -> Indexes:
        """Return the ``ClassColumn.room`` column of a class that some provider has."""
        return self.classes[name].room[: self.size]

    def lasting_uuids(self) -> Sequence[str | None]:
        """Return the uuids by index as they are now, for whoever gives the lock back before using them.

        Costs nothing: who comes and goes afterwards is written into a copy.
        """
        self._uuids_are_lent = True
        return self.uuids

    # -- what the loader compares ------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.index_of)

    def block_digests(self) -> Mapping[int, Digest]:
        """Return the digests by ``provider id // BLOCK``; blocks without providers are absent."""
        return self._blocks

    def block_revisions(self, block: int) -> dict[int, int]:
        """Return revision by id of the providers of one block."""
        ids = range(block * BLOCK, (block + 1) * BLOCK)
        held = ((provider_id, self.index_of.get(provider_id)) for provider_id in ids)
        return {i: int(self._revisions[index]) for i, index in held if index is not None}

    # -- copies ------------------------------------------------------------------------------

    def snapshot(self) -> Cloud:
        """Return a cloud of the same content: what changes in one of the two stays out of the other.

        Costs nothing but what is changed afterwards: both share everything, and whoever changes
        first copies the columns over all providers, and of classes, traits and aggregates those
        that the change touches.
        """
        twin = copy(self)
        self._is_lent = twin._is_lent = True
        self._owner, twin._owner = object(), object()
        return twin

    def with_sharing(self, sharing: Sharing) -> Cloud:
        """Return a cloud of the same content in which others share."""
        twin = self.snapshot()
        twin._sharing = sharing
        return twin

    def _take_back(self) -> None:
        """Make what every change writes one's own."""
        if not self._is_lent:
            return
        self._is_lent = False
        for name, value in list(vars(self).items()):
            if isinstance(value, list | dict | np.ndarray) and name not in _SHARED_FOR_GOOD:
                setattr(self, name, value.copy())

    def _own_class(self, name: str) -> ClassColumn:
        column = self.classes.get(name)
        if column is None:
            column = self.classes[name] = ClassColumn(len(self._ids), self._owner)
        elif column.owner is not self._owner:
            column = self.classes[name] = column.copy(self._owner)
        return column

    def _own_set(self, by_name: dict[str, IndexSet], name: str) -> IndexSet:
        members = by_name.get(name)
        if members is None:
            members = by_name[name] = IndexSet(self._owner)
        elif members.owner is not self._owner:
            members = by_name[name] = members.copy(self._owner)
        return members

    def _own_uuids(self) -> list[str | None]:
        if self._uuids_are_lent:
            self.uuids, self._uuids_are_lent = self.uuids.copy(), False
        return self.uuids

    # -- change ------------------------------------------------------------------------------

    def use(self, index: int, amounts: Mapping[str, int]) -> None:
        """Count so much more of one provider as used; less, if negative.

        For copies that ask what would be: no revision moves. Classes that it has not are left out.
        """
        self._take_back()
        held = []
        for name, capacity, used, terms in self.inventories[index]:
            if name in amounts:
                used += amounts[name]
                self._own_class(name).set_free(index, capacity - used, terms[3])
            held.append((name, capacity, used, terms))
        self.inventories[index] = tuple(held)

    def ignore_units(self, name: str) -> None:
        """Take min_unit and step_size of a class as 1 everywhere."""
        self._take_back()
        self._own_class(name).drop_units()

    def set_rooms(self, name: str, indexes: Indexes, rooms: Indexes) -> None:
        """Say how much of a class some providers can still take, by columns; nothing but searches sees it."""
        self._take_back()
        self._own_class(name).room[indexes] = rooms

    def replace(self, records: Iterable[ProviderRecord], removed: Iterable[int] = ()) -> None:
        """Remove providers by id, then store the given ones whole, new or not.

        Costs some 20 us a record. A parent or root must be in the cloud or among the records.
        Searches must not run meanwhile (see the module's docstring).
        """
        self._take_back()
        self._stamp += 1
        for provider_id in removed:
            self._remove(provider_id)
        changes = list(records)
        indexes = [self._place(record.provider_id, record.uuid) for record in changes]
        for index, record in zip(indexes, changes, strict=True):
            self._store(index, record)

    def restock(self, stocks: Iterable[Stock]) -> None:
        """Store inventories and usage of providers of which nothing else has changed.

        Costs some 10 us each. See ``replace``.
        """
        self._take_back()
        self._stamp += 1
        for stock in stocks:
            index = self.index_of[stock.provider_id]
            self._store_versions(index, stock)
            self._store_inventories(index, stock.inventories)

    @classmethod
    def load(cls, rows: CloudRows) -> Cloud:
        """Build a cloud from database rows in bulk (section "Search" of the architecture)."""
        cloud = cls()
        cloud._load_providers(rows)
        if cloud.size:
            cloud._load_inventories(rows)
            for pairs, names, by_name, lists in (
                (rows.traits, rows.trait_names, cloud._by_trait, cloud.traits),
                (rows.aggregates, rows.aggregate_uuids, cloud._by_aggregate, cloud.aggregates),
            ):
                cloud._load_names(pairs, names, by_name, lists)
        return cloud

    # -- one record --------------------------------------------------------------------------

    def _place(self, provider_id: int, uuid: str) -> int:
        index = self.index_of.get(provider_id)
        if index is None:
            index = self._free.pop() if self._free else self.size
            if index == self.size:
                self._grow(index + 1)
            self.index_of[provider_id] = index
            self._ids[index] = provider_id
            self._revisions[index] = 0
            self._count_in_block(provider_id, 1, 0)
        if self.uuids[index] != uuid:
            self._forget_uuid(index)
            self.index_of_uuid[uuid] = index
            self._own_uuids()[index] = uuid
            self._keys[index] = int.from_bytes(_order_digest(uuid))
            self._forest = self._sharing = None
        return index

    def _forget_uuid(self, index: int) -> None:
        uuid = self.uuids[index]
        if uuid is not None and self.index_of_uuid.get(uuid) == index:
            del self.index_of_uuid[uuid]
        self._own_uuids()[index] = None

    def _store_versions(self, index: int, record: ProviderRecord | Stock) -> None:
        self._count_in_block(record.provider_id, 0, record.revision - int(self._revisions[index]))
        self._revisions[index] = record.revision
        self._stamps[index] = self._stamp
        self._generations[index] = record.generation
        self._modified[index] = record.modified

    def _store(self, index: int, record: ProviderRecord) -> None:
        self._store_versions(index, record)
        self.names[index] = record.name
        parent = self.index_of.get(record.parent_id, -1) if record.parent_id is not None else -1
        root = self.index_of.get(record.root_id, index)
        if (self._parents[index], self._roots[index]) != (parent, root):
            self._parents[index], self._roots[index] = parent, root
            self._forest = self._sharing = None
        self._store_inventories(index, record.inventories)
        self._store_names(index, record.traits, self._by_trait, self.traits)
        self._store_names(index, record.aggregates, self._by_aggregate, self.aggregates)

    def _store_inventories(self, index: int, inventories: Mapping[str, Inventory]) -> None:
        before = {held[0] for held in self.inventories[index]}
        for name in before - inventories.keys():
            column = self._own_class(name)
            column.drop(index)
            column.members -= 1
            if not column.members:
                del self.classes[name]
        for name, inventory in inventories.items():
            column = self._own_class(name)
            column.members += name not in before
            column.set(index, inventory)
        self.inventories[index] = tuple(
            (name, inventory.capacity, inventory.used, self._share_terms(_terms(inventory)))
            for name, inventory in sorted(inventories.items())
        )

    def _store_names(
        self,
        index: int,
        names: Iterable[str],
        by_name: dict[str, IndexSet],
        lists: list[tuple[str, ...]],
    ) -> None:
        new = self._share(tuple(sorted(names)))
        old = lists[index]
        if new == old:
            return
        for name in set(old).difference(new):
            members = self._own_set(by_name, name)
            members.discard(index)
            if not members:
                del by_name[name]
        for name in set(new).difference(old):
            self._own_set(by_name, name).add(index)
        lists[index] = new
        if lists is self.aggregates or (SHARING_TRAIT in old) != (SHARING_TRAIT in new):
            self._sharing = None

    def _remove(self, provider_id: int) -> None:
        index = self.index_of.pop(provider_id, None)
        if index is None:
            return
        self._count_in_block(provider_id, -1, -int(self._revisions[index]))
        self._forget_uuid(index)
        self.names[index] = ""
        self._store_inventories(index, {})
        self._store_names(index, (), self._by_trait, self.traits)
        self._store_names(index, (), self._by_aggregate, self.aggregates)
        self._ids[index] = self._parents[index] = self._roots[index] = -1
        self._stamps[index] = self._stamp
        self._free.append(index)
        self._forest = self._sharing = None

    def _count_in_block(self, provider_id: int, count: int, revisions: int) -> None:
        block = provider_id // BLOCK
        before = self._blocks.get(block, Digest())
        after = Digest(
            before.providers + count, before.ids + count * provider_id, before.revisions + revisions
        )
        if after.providers:
            self._blocks[block] = after
        else:
            self._blocks.pop(block, None)

    def _share(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return one object for equal tuples; forget those that nobody may use any more."""
        if len(self._shared_names) > 2 * self.size + MOST_UNUSED_NAMES:
            self._shared_names = {held: held for held in (*self.traits, *self.aggregates)}
        return self._shared_names.setdefault(names, names)

    def _share_terms(self, terms: Terms) -> Terms:
        """Return one object for equal terms; forget those that nobody may use any more."""
        if len(self._shared_terms) > 2 * self.size + MOST_UNUSED_NAMES:
            inventories = chain.from_iterable(self.inventories)
            self._shared_terms = {held[3]: held[3] for held in inventories}
        return self._shared_terms.setdefault(terms, terms)

    def _grow(self, size: int) -> None:
        for lists in (self.traits, self.aggregates, self.inventories):
            lists.extend([()] * (size - self.size))
        self._own_uuids().extend([None] * (size - self.size))
        self.names.extend([""] * (size - self.size))
        self.size = size
        spare = max(size - len(self._ids), 0)
        if not spare:
            return
        spare += size // 8
        self._ids = _longer(self._ids, spare, -1)
        self._revisions = _longer(self._revisions, spare, 0)
        self._parents = _longer(self._parents, spare, -1)
        self._roots = _longer(self._roots, spare, -1)
        self._keys = _longer(self._keys, spare, 0)
        self._stamps = _longer(self._stamps, spare, 0)
        self._generations = _longer(self._generations, spare, 0)
        self._modified = _longer(self._modified, spare, 0)
        for column in self.classes.values():
            column.room = _longer(column.room, spare, 0)

    # -- bulk --------------------------------------------------------------------------------

    def _load_providers(self, rows: CloudRows) -> None:
        count = len(rows.providers)
        self._grow(count)
        if not count:
            return
        columns = zip(*rows.providers, strict=True)
        ids, uuids, revisions, parents, roots, names, generations, modified = columns
        self.index_of = dict(zip(ids, range(count), strict=True))
        self.index_of_uuid = dict(zip(uuids, range(count), strict=True))
        self.uuids, self.names = list(uuids), list(names)
        self._ids[:count] = ids
        self._revisions[:count] = revisions
        self._generations[:count] = generations
        self._modified[:count] = modified
        self._keys[:count] = np.frombuffer(b"".join(map(_order_digest, uuids)), ">u8")
        find = self.index_of.get
        self._parents[:count] = [find(parent, -1) for parent in parents]
        self._roots[:count] = [find(root, own) for own, root in enumerate(roots)]
        order = np.argsort(self.ids, kind="stable")
        blocks = self.ids[order] // BLOCK
        firsts = np.flatnonzero(np.diff(blocks, prepend=blocks[0] - 1))
        parts = (
            blocks[firsts].tolist(),
            np.diff(firsts, append=count).tolist(),
            np.add.reduceat(self.ids[order], firsts).tolist(),
            np.add.reduceat(self.revisions[order], firsts).tolist(),
        )
        self._blocks = {block: Digest(*sums) for block, *sums in zip(*parts, strict=True)}

    def _load_inventories(self, rows: CloudRows) -> None:
        table = table_of(rows.inventories)
        providers = self._indexes(table["provider"])
        table, providers = table[providers >= 0], providers[providers >= 0]
        offered = capacities(table)
        free = np.trunc(np.clip(offered, -(2.0**62), 2.0**62)).astype(np.int64) - table["used"]
        room = np.clip(np.minimum(free, table["max"]), 0, LARGEST_AMOUNT)
        for number in np.unique(table["class"]).tolist():
            mine = table["class"] == number
            column = self._own_class(rows.class_names[number])
            column.room[providers[mine]] = room[mine]
            column.members = int(np.count_nonzero(mine))
            odd = mine & ((table["min"] > 1) | (table["step"] > 1))
            for index, low, step in zip(
                providers[odd].tolist(),
                table["min"][odd].tolist(),
                table["step"][odd].tolist(),
                strict=True,
            ):
                column.set_units(index, (max(low, 1), max(step, 1)))
        self._load_held(table, providers, rows.class_names)

    def _load_held(
        self, table: NDArray[Any], providers: NDArray[np.int64], names: Mapping[int, str]
    ) -> None:
        """Give each provider its tuple of ``Held``; rows that say the same become one object.

        Most do: of a million providers, hosts with 15 devices each, a sixth of the time of the first picture
        and of its memory.
        """
        first, kind = distinct(table)
        held = held_of(table[first], names, self._shared_terms.setdefault)
        alone = [(one,) for one in held]
        order = np.argsort(providers, kind="stable")
        owners, starts = np.unique(providers[order], return_index=True)
        numbers, edges = kind[order].tolist(), pairwise([*starts.tolist(), len(order)])
        for index, (low, high) in zip(owners.tolist(), edges, strict=True):
            if high - low == 1:
                self.inventories[index] = alone[numbers[low]]
            else:
                mine = [held[number] for number in numbers[low:high]]
                self.inventories[index] = tuple(sorted(mine))

    def _load_names(
        self,
        pairs: Table,
        names: Mapping[int, str],
        by_name: dict[str, IndexSet],
        lists: list[tuple[str, ...]],
    ) -> None:
        if isinstance(pairs, np.ndarray):
            flat = pairs.ravel()
        else:
            flat = np.fromiter(chain.from_iterable(pairs), np.int64)
        if not len(flat):
            return
        used_numbers, numbers = np.unique(flat[1::2], return_inverse=True)
        words = [names[number] for number in used_numbers.tolist()]
        ranks = np.argsort(np.argsort(words))
        words.sort()
        providers = self._indexes(flat[0::2])
        ranked = ranks[numbers][providers >= 0]
        providers = providers[providers >= 0]
        order = np.argsort(providers * len(words) + ranked)
        providers, ranked = providers[order].astype(np.int32), ranked[order]
        self._load_lists(providers, ranked, words, lists)
        by_rank = np.argsort(ranked, kind="stable")
        edges = np.searchsorted(ranked[by_rank], np.arange(len(words) + 1)).tolist()
        for word, (low, high) in zip(words, pairwise(edges), strict=True):
            if low < high:
                self._own_set(by_name, word).add_many(providers[by_rank[low:high]])

    def _load_lists(
        self,
        providers: Indexes,
        ranked: NDArray[np.int64],
        words: list[str],
        lists: list[tuple[str, ...]],
    ) -> None:
        """Give each provider its tuple of names; equal sets of names become one tuple."""
        owners, starts = np.unique(providers, return_index=True)
        raw, width = ranked.tobytes(), ranked.itemsize
        known: dict[bytes, tuple[str, ...]] = {}
        edges = pairwise([*(starts * width).tolist(), len(raw)])
        for index, (low, high) in zip(owners.tolist(), edges, strict=True):
            key = raw[low:high]
            found = known.get(key)
            if found is None:
                ranks = np.frombuffer(key, ranked.dtype).tolist()
                found = known[key] = self._share(tuple([words[rank] for rank in ranks]))
            lists[index] = found

    def _indexes(self, provider_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the provider index of each id, -1 for unknown ones."""
        order = np.argsort(self.ids)
        ids = self.ids[order]
        places = np.minimum(np.searchsorted(ids, provider_ids), len(ids) - 1)
        return np.where(ids[places] == provider_ids, order[places], -1)


_NOBODY = IndexSet()


_SHARED_FOR_GOOD = ("_shared_names", "_shared_terms")
"""Each holds equal values once, whoever uses them."""


def _terms(inventory: Inventory) -> Terms:
    return (
        inventory.total,
        inventory.reserved,
        inventory.min_unit,
        inventory.max_unit,
        inventory.step_size,
        inventory.allocation_ratio,
    )


def _order_digest(uuid: str) -> bytes:
    return blake2b(uuid.encode(), digest_size=8).digest()


def _longer(column: NDArray[Any], spare: int, value: int) -> NDArray[Any]:
    return np.concatenate([column, np.full(spare, value, column.dtype)])

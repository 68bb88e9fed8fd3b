"""The slow-changing parts of a cloud: the order of its trees, and which providers share with which trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement.search.index_set import Indexes, IndexSet, Mask

HashKeys = NDArray[np.uint64]

MIX = np.uint64(0x9E3779B97F4A7C15)


def hash_rows(columns: list[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return a hash of each row of these columns, equal for equal rows."""
    code = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        code = (code ^ column.view(np.uint64)) * MIX
        code ^= code >> np.uint64(31)
    return code


def longer(column: NDArray[Any], spare: int, value: int) -> NDArray[Any]:
    """Return the column extended by this value, repeated."""
    return np.concatenate([column, np.full(spare, value, column.dtype)])


def ranges(starts: Indexes, counts: Indexes) -> NDArray[np.int64]:
    """Return the numbers start, start+1, … of each range, one range after another."""
    total = int(counts.sum())
    begins = np.cumsum(counts) - counts
    return np.arange(total) + np.repeat(starts - begins, counts)


class Forest:
    """The trees in their stable order (section 6.4): by a hash of the provider's uuid.

    ``members``: all providers, tree by tree in the order of ``roots``, within a tree by hash; the tree of
    ``roots[i]`` is ``members[start[i]:start[i] + count[i]]``. ``place[r]`` is that i for a root r.
    ``nested``: whether any provider is not a root. ``alive``: the slots with a provider.
    """

    def __init__(self, root: Indexes, keys: HashKeys) -> None:
        size = len(root)
        self.alive: Mask = root >= 0
        alive = np.flatnonzero(self.alive)
        is_root = root[alive] == alive
        unsorted = alive[is_root]
        self.roots: Indexes = unsorted[np.argsort(keys[unsorted])].astype(np.int32)
        self.nested = not bool(is_root.all())
        self.place: Indexes = np.full(size, -1, np.int32)
        self.place[self.roots] = np.arange(len(self.roots), dtype=np.int32)
        if self.nested:
            order = np.lexsort((keys[alive], self.place[root[alive]]))
            self.members: Indexes = alive[order].astype(np.int32)
            self.count = np.bincount(self.place[root[alive]], minlength=len(self.roots))
        else:
            self.members = self.roots
            self.count = np.ones(len(self.roots), np.int64)
        self.start = np.cumsum(self.count) - self.count
        self.is_root: Mask = self.place >= 0

    def trees(self, roots: Indexes) -> tuple[Indexes, NDArray[np.int64]]:
        """Return the members of the given trees one after another, and the size of each."""
        if not self.nested:
            return roots, np.ones(len(roots), np.int64)
        places = self.place[roots]
        counts = self.count[places]
        return self.members[ranges(self.start[places], counts)], counts

    def tree(self, root: int) -> Indexes:
        """Return the members of one tree."""
        place = self.place[root]
        start = self.start[place]
        return self.members[start : start + self.count[place]]


class Sharing:
    """The sharing providers (``sharers``) and the trees that reach them (section 5.2)."""

    def __init__(
        self,
        sharers: Indexes,
        root: Indexes,
        aggregates_of: Callable[[int], Iterable[str]],
        members_of: Callable[[str], IndexSet],
        keys: HashKeys,
    ) -> None:
        self._root = root
        self.sharers = sharers
        size = len(root)
        in_order = sharers[np.argsort(keys[sharers])]
        self.mask: Mask = np.zeros(size, np.bool_)
        self.mask[sharers] = True
        numbers: dict[str, int] = {}
        self._by_aggregate: list[list[int]] = []
        pairs: list[tuple[int, int]] = []
        for provider in in_order.tolist():
            for aggregate in aggregates_of(provider):
                number = numbers.setdefault(aggregate, len(numbers))
                if number == len(self._by_aggregate):
                    self._by_aggregate.append([])
                self._by_aggregate[number].append(provider)
                pairs.append((provider, number))
        self._sharer, self._sharer_aggregate = np.array(pairs, np.int32).reshape(-1, 2).T
        self._order = {provider: rank for rank, provider in enumerate(in_order.tolist())}
        # Trees and their aggregates, as pairs in the order of the trees.
        tree_parts = [np.unique(root[members_of(name).indexes(size)]) for name in numbers]
        lengths = [len(part) for part in tree_parts]
        trees: Indexes = np.concatenate([np.zeros(0, np.int32), *tree_parts])
        by_tree = np.argsort(trees, kind="stable")
        self._tree: Indexes = trees[by_tree]
        self._aggregate = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[by_tree]
        self._sets: dict[bytes, tuple[int, ...]] = {}
        self._away: dict[int, tuple[int, ...]] = {}

    def mark_reached(self, providers: Mask) -> Mask:
        """Mark every root that reaches one of these sharing providers through an aggregate."""
        roots = np.zeros(len(self._root), np.bool_)
        hit = np.zeros(len(self._by_aggregate), np.bool_)
        hit[self._sharer_aggregate[providers[self._sharer]]] = True
        roots[self._tree[hit[self._aggregate]]] = True
        return roots

    def away(self, anchor: int) -> tuple[int, ...]:
        """Return reach(anchor) without the anchor's own tree; trees of equal aggregates share the tuple."""
        found = self._away.get(anchor)
        if found is not None:
            return found
        low, high = np.searchsorted(self._tree, [anchor, anchor + 1])
        connected = self._aggregate[low:high]
        key = connected.tobytes()
        everyone = self._sets.get(key)
        if everyone is None:
            union = {p for number in connected.tolist() for p in self._by_aggregate[number]}
            # Threads that read at the same time get the same tuple.
            everyone = self._sets.setdefault(key, tuple(sorted(union, key=self._order.__getitem__)))
        if any(self._root[provider] == anchor for provider in everyone):
            everyone = tuple(p for p in everyone if self._root[p] != anchor)
        self._away[anchor] = everyone
        return everyone

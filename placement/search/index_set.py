"""Sets of provider indexes: a Python set while small, a packed bitmap once large."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Indexes = NDArray[np.integer[Any]]

FEW = 128
"""The size above which a set (60 bytes a member) costs more than a bitmap of 100,000 bits."""


class IndexSet:
    """The providers that have one trait or belong to one aggregate."""

    __slots__ = ("_bits", "_count", "_few", "owner")

    def __init__(self, owner: object = None) -> None:
        self.owner = owner
        """The owner, which can change the set in place (see ``Cloud.snapshot``)."""
        self._few: set[int] | None = set()
        self._bits: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, index: int) -> bool:
        if self._few is not None:
            return index in self._few
        byte = index >> 3
        return byte < len(self._bits) and bool(self._bits[byte] >> (index & 7) & 1)

    def copy(self, owner: object) -> IndexSet:
        """Return a set of the same members that this owner can change."""
        copied = IndexSet(owner)
        copied._few = None if self._few is None else set(self._few)
        copied._bits = self._bits.copy()
        copied._count = self._count
        return copied

    def add(self, index: int) -> None:
        """Add one index; adding it twice changes nothing."""
        if index in self:
            return
        self._count += 1
        if self._few is None:
            missing = (index >> 3) + 1 - len(self._bits)
            if missing > 0:
                # The bitmap grows by a quarter more than needed, since otherwise each new provider would copy
                # it.
                spare = np.zeros(max(missing, len(self._bits) // 4), np.uint8)
                self._bits = np.concatenate([self._bits, spare])
            self._bits[index >> 3] |= 1 << (index & 7)
            return
        self._few.add(index)
        if len(self._few) > FEW:
            self._spread(np.fromiter(self._few, np.int32, len(self._few)))

    def add_many(self, indexes: Indexes) -> None:
        """Add distinct indexes to an empty set (the bulk load)."""
        self._count = len(indexes)
        if len(indexes) > FEW:
            self._spread(indexes)
        else:
            self._few = set(indexes.tolist())

    def discard(self, index: int) -> None:
        """Remove one index if it is a member."""
        if index not in self:
            return
        self._count -= 1
        if self._few is not None:
            self._few.discard(index)
        else:
            self._bits[index >> 3] &= ~np.uint8(1 << (index & 7))

    def mask(self, size: int) -> Mask:
        """Return a fresh bool array over provider indexes 0..size-1."""
        if self._few is None:
            found = np.unpackbits(self._bits, count=size, bitorder="little")
            return found.view(np.bool_)
        mask = np.zeros(size, np.bool_)
        if self._few:
            mask[list(self._few)] = True
        return mask

    def indexes(self, size: int) -> Indexes:
        """Return the members in ascending order."""
        if self._few is None:
            return np.flatnonzero(self.mask(size)).astype(np.int32)
        return np.array(sorted(self._few), np.int32)

    def _spread(self, indexes: Indexes) -> None:
        flags = np.zeros(int(indexes.max()) + 1, np.bool_)
        flags[indexes] = True
        self._bits = np.packbits(flags, bitorder="little")
        self._few = None

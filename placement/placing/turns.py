"""The order of trees while claims are placed (specification 09 section 2). Pure."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from placement.search.cloud import Cloud
from placement.search.index_set import Indexes, Mask

TreeOrder = Literal["any", "spread", "pack"]
"""The ``strategy`` of a request of claims."""

Keys = NDArray[np.float64]
"""The sort keys of trees, by position: the smallest is the best."""


class Ranking:
    """The ranking of the trees of a cloud for an order: in the beginning, and with later placements.

    ``_used`` and ``_all``: sums by class and root, for ``spread`` and ``pack``; ``_all`` is infinite without
    inventory.
    """

    def __init__(self, order: TreeOrder, cloud: Cloud, names: Iterable[str]) -> None:
        self.order = order
        self._size = cloud.size
        self._start, self._all = {}, {}
        if order != "any":
            for name, (used, all_of_it) in _sums(cloud, names).items():
                self._start[name] = used
                self._all[name] = np.where(all_of_it > 0, all_of_it, np.inf)
        self.begin()

    def begin(self) -> None:
        """Forget all placements."""
        self._placed: NDArray[np.int64] = np.zeros(self._size, np.int64)
        self._used = {name: used.copy() for name, used in self._start.items()}

    def use(self, root: int, amounts: Mapping[str, int], times: int) -> None:
        """Count the amounts taken from a provider of a tree, or with -1 returned to it."""
        self._placed[root] += times
        for name in amounts.keys() & self._used.keys():
            self._used[name][root] += times * amounts[name]

    def keys(self, roots: Indexes, positions: Indexes, names: Iterable[str]) -> Keys:
        """Return the sort keys of some trees by their roots; the smallest key is the best.

        :param names:

        the requested classes; the fullest of them counts.
        """
        of = roots[positions]
        if self.order == "any":
            # The order is by rounds: a tree that has taken a wish follows all trees that have taken fewer.
            return (positions + len(roots) * self._placed[of]).astype(np.float64)
        fullest: Keys = np.maximum.reduce(
            [self._used[name][of] / self._all[name][of] for name in names]
        )
        return -fullest if self.order == "pack" else fullest


def _sums(cloud: Cloud, names: Iterable[str]) -> dict[str, tuple[Keys, Keys]]:
    """Return for each class the used and total amounts, by root."""
    # The values are lists, which NumPy sums up at once.
    held: dict[str, tuple[list[int], list[int], list[int]]] = {n: ([], [], []) for n in names}
    for root, inventories in zip(cloud.roots.tolist(), cloud.inventories, strict=False):
        for name, capacity, used, _ in inventories:
            if name in held:
                roots, used_of, all_of = held[name]
                roots.append(root)
                used_of.append(used)
                all_of.append(capacity)
    sums = {}
    for name, (roots, *amounts) in held.items():
        at = np.array(roots, np.intp)
        used_sum, all_sum = (
            np.bincount(at, each, cloud.size).astype(np.float64) for each in amounts
        )
        sums[name] = used_sum, all_sum
    return sums


@dataclass(slots=True)
class Turns:
    """A queue of trees by position: the best is next, and a full one is not put back.

    ``keys``: the sort keys in the beginning, ``positions``: the trees in this order. ``new_keys``: the keys
    of trees that were put back. ``has_room``: by position; None as long as no search has failed.
    ``kept_out``: the groups whose rules excluded trees.
    """

    keys: Keys
    positions: Indexes
    cursor: int = 0
    again: list[tuple[float, int]] = field(default_factory=list)
    new_keys: dict[int, float] = field(default_factory=dict)
    has_room: Mask | None = None
    kept_out: set[str] = field(default_factory=set)

    @classmethod
    def from_keys(cls, keys: Keys) -> "Turns":
        """Return the trees of all positions in the order of these keys."""
        by_key = np.argsort(keys, kind="stable")
        return cls(keys[by_key], by_key)

    def next(self) -> int | None:
        """Take out the best tree, and return its position."""
        while self.cursor < len(self.keys) or self.again:
            key, position = self._next()
            # A tree may be there several times, with the keys that it had: the newest one counts.
            is_new = self.new_keys.get(position, key) == key
            if is_new and (self.has_room is None or self.has_room[position]):
                return position
        return None

    def _next(self) -> tuple[float, int]:
        if self.cursor < len(self.keys):
            first = float(self.keys[self.cursor]), int(self.positions[self.cursor])
            if not self.again or first < self.again[0]:
                self.cursor += 1
                return first
        return heapq.heappop(self.again)

    def put_back(self, keys: Keys, positions: Indexes) -> None:
        """Queue trees again, with their present keys."""
        for key, position in zip(keys.tolist(), positions.tolist(), strict=True):
            self.new_keys[position] = key
            heapq.heappush(self.again, (key, position))

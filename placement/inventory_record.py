"""The inventory record as a client sets it: the one list of its amounts, with the columns' bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_INT = 2147483647
"""The largest amount, and the largest ``max_unit``, that the columns hold on every database."""

MAX_RATIO = 3.40282e38


class InventoryRecord(NamedTuple):
    """The amounts of one inventory record (specification 02 section 4.1), in the order of the columns."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0

    @classmethod
    def parse(cls, texts: Sequence[str]) -> InventoryRecord:
        """Return the record with these texts as its amounts, in their order."""
        *whole, ratio = texts
        return cls._make([*map(int, whole), float(ratio)])

    @property
    def capacity(self) -> float:
        """Return the capacity, not rounded (specification 03 section 8)."""
        return (self.total - self.reserved) * self.allocation_ratio

    def admits(self, amount: int) -> bool:
        """Return whether one allocation may have this amount, regardless of free room."""
        # A step of 0, which only SQL by hand writes, counts as 1, as in the search.
        return self.min_unit <= amount <= self.max_unit and amount % max(self.step_size, 1) == 0

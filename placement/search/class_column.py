"""One resource class over all providers: how much each can still take."""

from __future__ import annotations

import numpy as np

from placement.search.index_set import Indexes
from placement.search.records import Inventory

LARGEST_AMOUNT = 2**31 - 1
"""No larger amount fits anywhere: max_unit is at most this (specification 02)."""


class ClassColumn:
    """One resource class over all providers.

    ``room[p]`` is min(icap - used, max_unit), at least 0, and 0 without inventory: the largest
    amount that p can still take. Amounts are whole numbers, so "used + n <= the real capacity" and
    "used + n <= its integer part" say the same (section 5.1) and one column serves both.
    ``units`` has (min_unit, step_size) of those providers where they are not (1, 1).
    """

    __slots__ = ("_columns", "members", "owner", "room", "units")

    def __init__(self, size: int, owner: object = None) -> None:
        self.owner = owner
        self.room: Indexes = np.zeros(size, np.int32)
        self.units: dict[int, tuple[int, int]] = {}
        self.members = 0
        self._columns: tuple[Indexes, Indexes, Indexes] | None = None

    def copy(self, owner: object) -> ClassColumn:
        """Return a column of the same content that somebody else may change."""
        copied = ClassColumn(0, owner)
        copied.room, copied.units = self.room.copy(), dict(self.units)
        copied.members, copied._columns = self.members, self._columns
        return copied

    def set_free(self, index: int, free: int, max_unit: int) -> None:
        """Store what is free of one provider's inventory."""
        self.room[index] = max(min(free, max_unit, LARGEST_AMOUNT), 0)

    def set(self, index: int, inventory: Inventory) -> None:
        """Store one provider's inventory."""
        self.set_free(index, inventory.capacity - inventory.used, inventory.max_unit)
        self.set_units(index, (max(inventory.min_unit, 1), max(inventory.step_size, 1)))

    def set_units(self, index: int, units: tuple[int, int]) -> None:
        """Store (min_unit, step_size) of one provider."""
        if units == (1, 1):
            if self.units.pop(index, None) is not None:
                self._columns = None
        elif self.units.get(index) != units:
            self.units[index] = units
            self._columns = None

    def drop_units(self) -> None:
        """Forget what tells min_unit and step_size from 1."""
        self.units, self._columns = {}, None

    def drop(self, index: int) -> None:
        """Forget one provider's inventory."""
        self.room[index] = 0
        self.set_units(index, (1, 1))

    def unit_columns(self) -> tuple[Indexes, Indexes, Indexes]:
        """Return provider, min_unit and step_size columns of the providers in ``units``."""
        if self._columns is None:
            columns = np.array([(p, *units) for p, units in self.units.items()], np.int32)
            providers, mins, steps = columns.reshape(-1, 3).T.copy()
            self._columns = providers, mins, steps
        return self._columns

"""The data of all providers, by provider, and by class, trait or aggregate.

Equal values share one object, since most of a million providers are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement.inventory_record import InventoryRecord
from placement.search.index_set import Indexes, IndexSet
from placement.search.records import UsedInventory
from placement.search.structure import hash_rows, longer

LARGEST_AMOUNT = 2**31 - 1
"""The largest amount that fits anywhere: max_unit never exceeds it (specification 02)."""

_FIELDS = ("class", *InventoryRecord._fields, "used")
_KINDS = {"allocation_ratio": "f8"}
_ROW = np.dtype([(name, _KINDS.get(name, "i8")) for name in ("provider", *_FIELDS)])

Terms = tuple[int | float, ...]
"""The fields of an ``InventoryRecord``; alike inventories share one."""

Held = tuple[str, int, int, Terms]
"""(class, capacity, used, terms): the values in the summaries (section 4.3), and their reasons. These are
plain tuples: unlike named ones, the garbage collector stops visiting them.
"""


@lru_cache(maxsize=2**16)
def _one_object(value: Any) -> Any:
    """Return one object for equal values, from a cache of the last 65,536."""
    return value


class ClassColumn:
    """One resource class over all providers.

    ``room[p]``: the largest amount that p can still take, min(integer capacity - used, max_unit), at least
    0. ``units``: (min_unit, step_size) of the providers where these are not (1, 1).
    """

    __slots__ = ("_unit_columns", "members", "owner", "room", "units")

    def __init__(self, size: int, owner: object) -> None:
        self.owner = owner
        self.room: Indexes = np.zeros(size, np.int32)
        self.units: dict[int, tuple[int, int]] = {}
        self.members = 0
        self._unit_columns: tuple[Indexes, Indexes, Indexes] | None = None

    def copy(self, owner: object) -> ClassColumn:
        """Return a column of the same content that this owner can change."""
        copied = ClassColumn(0, owner)
        copied.room, copied.units = self.room.copy(), dict(self.units)
        copied.members, copied._unit_columns = self.members, self._unit_columns
        return copied

    def set_free(self, index: int, free: int, max_unit: int) -> None:
        """Store the free amount of one provider's inventory."""
        self.room[index] = max(min(free, max_unit, LARGEST_AMOUNT), 0)

    def set_units(self, index: int, min_unit: int, step_size: int) -> None:
        """Store the units of one provider, at least 1 each."""
        # A dictionary is used, since units other than 1 are rare: columns would cost eight bytes for each
        # provider and class, and a pass over them in each search.
        units = max(min_unit, 1), max(step_size, 1)
        if units != self.units.get(index, (1, 1)):
            self._unit_columns = None
            if units == (1, 1):
                del self.units[index]
            else:
                self.units[index] = units

    def drop_units(self) -> None:
        """Set all units to 1."""
        self.units, self._unit_columns = {}, None

    def unit_columns(self) -> tuple[Indexes, Indexes, Indexes]:
        """Return provider, min_unit and step_size columns of the providers in ``units``."""
        if self._unit_columns is None:
            # By hand SQLite takes a unit of 64 bits; no request asks for so much.
            columns = np.array([(p, *units) for p, units in self.units.items()], np.int64)
            bounds = np.iinfo(np.int32)
            narrow = columns.clip(bounds.min, bounds.max).astype(np.int32)
            providers, mins, steps = narrow.reshape(-1, 3).T.copy()
            self._unit_columns = providers, mins, steps
        return self._unit_columns


class InventoryColumns:
    """The inventories of all providers.

    ``held[p]``: the inventories of provider p. ``classes``: columns by name.
    """

    __slots__ = ("_owner", "classes", "held")

    def __init__(self, owner: object) -> None:
        self.held: list[tuple[Held, ...]] = []
        self.classes: dict[str, ClassColumn] = {}
        self._owner = owner

    def copy(self, owner: object) -> InventoryColumns:
        """Return columns of the same content that this owner can change; classes are copied on change."""
        copied = InventoryColumns(owner)
        copied.held, copied.classes = self.held.copy(), self.classes.copy()
        return copied

    def grow(self, spare: int) -> None:
        """Enlarge the columns by this many providers."""
        self.held.extend([()] * spare)
        # Columns without new values grow too, since masks of several classes are combined.
        for name in self.classes:
            column = self.own_class(name)
            column.room = longer(column.room, spare, 0)

    def own_class(self, name: str) -> ClassColumn:
        """Return the column of a class in a form that can be changed."""
        column = self.classes.get(name)
        if column is None:
            column = self.classes[name] = ClassColumn(len(self.held), self._owner)
        elif column.owner is not self._owner:
            column = self.classes[name] = column.copy(self._owner)
        return column

    def store(self, index: int, inventories: Mapping[str, UsedInventory]) -> None:
        """Store the inventories of one provider."""
        # A class without inventory is removed: ``Cloud.has_class`` must say that no provider has it.
        before = {held[0] for held in self.held[index]}
        for name in before - inventories.keys():
            column = self.own_class(name)
            column.set_free(index, 0, 0)
            column.set_units(index, 1, 1)
            column.members -= 1
            if not column.members:
                del self.classes[name]
        held: list[Held] = []
        for name, inventory in sorted(inventories.items()):
            record, capacity = inventory.record, inventory.capacity
            column = self.own_class(name)
            column.members += name not in before
            column.set_free(index, capacity - inventory.used, record.max_unit)
            column.set_units(index, record.min_unit, record.step_size)
            held.append((name, capacity, inventory.used, _one_object(tuple(record))))
        self.held[index] = tuple(held)

    def use(self, index: int, amounts: Mapping[str, int]) -> None:
        """Add to the used amount of one provider."""
        held = []
        for name, capacity, used, terms in self.held[index]:
            if name in amounts:
                used += amounts[name]
                max_unit = InventoryRecord._make(terms).max_unit
                self.own_class(name).set_free(index, capacity - used, max_unit)
            held.append((name, capacity, used, terms))
        self.held[index] = tuple(held)

    # -- bulk ------------------------------------------------------------------------------------

    def load(
        self, table: NDArray[Any], providers: NDArray[np.int64], names: Mapping[int, str]
    ) -> list[int]:
        """Store rows with the provider index of each; rows of index -1 are ignored.

        :returns: the classes without a name; their rows are ignored too.
        """
        table, providers = table[providers >= 0], providers[providers >= 0]
        numbers = np.unique(table["class"]).tolist()
        if lost := [number for number in numbers if number not in names]:
            known = ~np.isin(table["class"], lost)
            table, providers = table[known], providers[known]
        # The product can exceed any integer (a ratio of 1e30 is allowed), and casting it would give an
        # arbitrary, even negative number. The product is truncated as in ``UsedInventory.capacity``, before
        # the usage is subtracted.
        offered = _capacities(table)
        free = np.trunc(np.clip(offered, -(2.0**62), 2.0**62)).astype(np.int64) - table["used"]
        room = np.clip(np.minimum(free, table["max_unit"]), 0, LARGEST_AMOUNT)
        has_units = (table["min_unit"] > 1) | (table["step_size"] > 1)
        for number in numbers:
            if number not in names:
                continue
            mine = table["class"] == number
            column = self.own_class(names[number])
            column.room[providers[mine]] = room[mine]
            column.members = int(np.count_nonzero(mine))
            odd = mine & has_units
            units = (providers, table["min_unit"], table["step_size"])
            for index, low, step in zip(*(each[odd].tolist() for each in units), strict=True):
                column.set_units(index, low, step)
        self._load_held(table, providers, names)
        return lost

    def _load_held(
        self, table: NDArray[Any], providers: NDArray[np.int64], names: Mapping[int, str]
    ) -> None:
        """Give each provider its tuple of ``Held``; equal rows become one object.

        This saves a sixth of the time and memory of the first picture of a million providers.
        """
        # Each distinct row becomes one Python object, and each provider a tuple of such objects.
        first, kind = _find_distinct(table)
        kinds = table[first]
        columns = (
            kinds["class"].tolist(),
            _capacities(kinds).tolist(),
            kinds["used"].tolist(),
            zip(*(kinds[name].tolist() for name in InventoryRecord._fields), strict=True),
        )
        held: list[Held] = [
            (names[number], int(capacity), used, _one_object(terms))
            for number, capacity, used, terms in zip(*columns, strict=True)
        ]
        alone = [(one,) for one in held]
        order = np.argsort(providers, kind="stable")
        owners, starts = np.unique(providers[order], return_index=True)
        numbers, edges = kind[order].tolist(), pairwise([*starts.tolist(), len(order)])
        for index, (low, high) in zip(owners.tolist(), edges, strict=True):
            if high - low == 1:
                self.held[index] = alone[numbers[low]]
            else:
                mine = [held[number] for number in numbers[low:high]]
                self.held[index] = tuple(sorted(mine))


def table_of(rows: Sequence[Sequence[Any]]) -> NDArray[Any]:
    """Return the rows of ``CloudRows.inventories`` with named columns."""
    return np.array([tuple(row) for row in rows], _ROW)


def _capacities(table: NDArray[Any]) -> NDArray[np.float64]:
    """Return the capacity of each row, with its fraction."""
    offered: NDArray[np.float64] = (table["total"] - table["reserved"]) * table["allocation_ratio"]
    return offered


def _find_distinct(table: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows, ignoring providers, and for each row the number of its equal."""
    # The bits of floats are hashed as integers; the comparison below makes a hash sufficient.
    columns = [table[name].view(np.uint64) for name in _FIELDS]
    _, first, kind = np.unique(hash_rows(columns), return_index=True, return_inverse=True)
    if all(bool((column[first][kind] == column).all()) for column in columns):
        return first, kind
    # Two different rows have the same hash, so all rows are treated as distinct.
    return np.arange(len(table)), np.arange(len(table))


# -- names ---------------------------------------------------------------------------------------


class NameColumn:
    """The names of all providers. ``lists[p]``: the sorted names of provider p; equal ones are one tuple."""

    __slots__ = ("_by_name", "_owner", "lists")

    def __init__(self, owner: object) -> None:
        self.lists: list[tuple[str, ...]] = []
        self._owner = owner
        self._by_name: dict[str, IndexSet] = {}

    def copy(self, owner: object) -> NameColumn:
        """Return a column of the same content that this owner can change; sets are copied on change."""
        copied = NameColumn(owner)
        copied.lists, copied._by_name = self.lists.copy(), self._by_name.copy()
        return copied

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def members(self, name: str) -> IndexSet:
        """Return the providers that have the name, not to be changed."""
        return self._by_name.get(name, IndexSet())

    def grow(self, spare: int) -> None:
        """Enlarge the column by this many providers."""
        self.lists.extend([()] * spare)

    def store(self, index: int, names: Iterable[str]) -> set[str]:
        """Store the names of one provider; return the names that were added or removed."""
        new, old = tuple(sorted(names)), self.lists[index]
        if new == old:
            return set()
        self.lists[index] = _one_object(new)
        # Unchanged names are skipped, since changing a set of a snapshot copies it.
        for name in set(old).difference(new):
            members = self._own(name)
            members.discard(index)
            if not members:
                del self._by_name[name]
        for name in set(new).difference(old):
            self._own(name).add(index)
        return set(old).symmetric_difference(new)

    def _own(self, name: str) -> IndexSet:
        members = self._by_name.get(name)
        if members is None:
            members = self._by_name[name] = IndexSet(self._owner)
        elif members.owner is not self._owner:
            members = self._by_name[name] = members.copy(self._owner)
        return members

    # -- bulk ------------------------------------------------------------------------------------

    def load(
        self, providers: NDArray[np.int64], numbers: NDArray[np.int64], words: Mapping[int, str]
    ) -> list[int]:
        """Store pairs of provider index and number of a word; pairs of index -1 are ignored.

        :returns: the numbers without a word; their pairs are ignored too.
        """
        used_numbers, places = np.unique(numbers, return_inverse=True)
        if lost := [number for number in used_numbers.tolist() if number not in words]:
            known = ~np.isin(numbers, lost)
            self.load(providers[known], numbers[known], words)
            return lost
        names = [words[number] for number in used_numbers.tolist()]
        # Numbers are assigned in the order of the names, so that sorting numbers sorts names: a provider's
        # names are sorted without comparing texts for millions of pairs.
        ranks = np.argsort(np.argsort(names))
        names.sort()
        ranked = ranks[places][providers >= 0]
        providers = providers[providers >= 0]
        order = np.argsort(providers * len(names) + ranked)
        owners, ranked = providers[order].astype(np.int32), ranked[order]
        self._load_lists(owners, ranked, names)
        by_rank = np.argsort(ranked, kind="stable")
        edges = np.searchsorted(ranked[by_rank], np.arange(len(names) + 1)).tolist()
        for name, (low, high) in zip(names, pairwise(edges), strict=True):
            if low < high:
                self._own(name).add_many(owners[by_rank[low:high]])
        return []

    def _load_lists(self, owners: Indexes, ranked: NDArray[np.int64], names: list[str]) -> None:
        """Give each provider its tuple of names; equal sets of names become one tuple."""
        members, starts = np.unique(owners, return_index=True)
        raw, width = ranked.tobytes(), ranked.itemsize
        known: dict[bytes, tuple[str, ...]] = {}
        edges = pairwise([*(starts * width).tolist(), len(raw)])
        for index, (low, high) in zip(members.tolist(), edges, strict=True):
            # The key is the bytes of the numbers, so that equal sets of names are found without making a
            # tuple first.
            key = raw[low:high]
            found = known.get(key)
            if found is None:
                ranks = np.frombuffer(key, ranked.dtype).tolist()
                found = known[key] = _one_object(tuple([names[rank] for rank in ranks]))
            self.lists[index] = found

"""The inventories of a whole cloud as a table, from which it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement.search.records import Table

_FIELDS = ("class", "total", "reserved", "min", "max", "step", "ratio", "used")
_TERMS = ("total", "reserved", "min", "max", "step", "ratio")
_ROW = np.dtype(
    [("provider", "i8"), *((name, "f8" if name == "ratio" else "i8") for name in _FIELDS)]
)
_MIX = np.uint64(0x9E3779B97F4A7C15)

Terms = tuple[int, int, int, int, int, float]
"""(total, reserved, min_unit, max_unit, step_size, allocation_ratio); alike inventories share one."""

Held = tuple[str, int, int, Terms]
"""(class, capacity, used, terms): what the summaries show (section 4.3), and why it is so.

Plain tuples: unlike named ones, the garbage collector stops visiting them.
"""


def table_of(rows: Table) -> NDArray[Any]:
    """Return the rows of ``CloudRows.inventories`` with named columns."""
    if isinstance(rows, np.ndarray):
        return rows.astype(_ROW, copy=False)
    return np.array([tuple(row) for row in rows], _ROW)


def capacities(table: NDArray[Any]) -> NDArray[np.float64]:
    """Return what each row offers, with its fraction."""
    offered: NDArray[np.float64] = (table["total"] - table["reserved"]) * table["ratio"]
    return offered


def distinct(table: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows that differ in more than the provider, and for each row which of these it is like."""
    columns = [table[name].view(np.uint64) for name in _FIELDS]
    mixed = np.zeros(len(table), np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * _MIX
        mixed ^= mixed >> np.uint64(29)
    _, first, kind = np.unique(mixed, return_index=True, return_inverse=True)
    if all(bool((column[first][kind] == column).all()) for column in columns):
        return first, kind
    # Two that differ have come to the same number: then all are taken to differ.
    return np.arange(len(table)), np.arange(len(table))


def held_of(
    table: NDArray[Any], names: Mapping[int, str], share: Callable[[Terms, Terms], Terms]
) -> list[Held]:
    """Return what each row shows.

    :param share: returns one object for equal terms.
    """
    parts = zip(
        table["class"].tolist(),
        capacities(table).tolist(),
        table["used"].tolist(),
        zip(*(table[field].tolist() for field in _TERMS), strict=True),
        strict=True,
    )
    return [
        (names[number], int(amount), used, share(terms, terms))
        for number, amount, used, terms in parts
    ]

"""Lists of values in statements that are built and compiled once.

An IN list of its own length is a statement of its own; the expanding lists of SQLAlchemy share one
statement, whose text is put together again at every call. Here a list is filled up to the next of
a few sizes by repeating its last value, so that a handful of ready texts serve all usual lengths.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import BindParameter, ColumnElement, Table, bindparam, case, tuple_

T = TypeVar("T")

SIZES = (1, 2, 4, 8, 16, 32)
ANY_SIZE = 0
"""Longer lists are rare, and their texts would fill the caches: they expand at every call."""

MOST = 1000
"""Values of one statement that changes rows, and names of one kind in one that reads the ledger."""


def size_for(count: int) -> int:
    """Return the size that holds ``count`` values."""
    return next((size for size in SIZES if count <= size), ANY_SIZE)


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in lists that every database takes: PostgreSQL nests pairs, SQLite counts.

    Everyday requests make one batch.
    """
    for start in range(0, len(values), MOST):
        yield values[start : start + MOST]


def is_among(column: ColumnElement[Any], name: str, size: int) -> ColumnElement[bool]:
    """The column has one of the values bound under ``name``."""
    if size == ANY_SIZE:
        return column.in_(bindparam(name, expanding=True))
    if size == 1:
        return column == bindparam(f"{name}_0")
    return column.in_([bindparam(f"{name}_{index}") for index in range(size)])


def by_key(
    key: ColumnElement[int], column: ColumnElement[Any], keys: str, name: str, size: int
) -> ColumnElement[Any]:
    """Return, for the key bound at one place of ``keys``, what is bound at that place of ``name``.

    NULL for other keys. Not for ``ANY_SIZE``.
    """
    if size == 1:
        return bindparam(f"{name}_0", type_=column.type)
    pairs = [
        (key == bindparam(f"{keys}_{index}"), bindparam(f"{name}_{index}", type_=column.type))
        for index in range(size)
    ]
    return case(*pairs)


def bound(name: str, values: Sequence[Any], size: int) -> dict[str, Any]:
    """Return the parameters that bind the values, of which there is at least one."""
    if size == ANY_SIZE:
        return {name: list(values)}
    last = len(values) - 1
    return {f"{name}_{index}": values[min(index, last)] for index in range(size)}


def unmoved(table: Table, size: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The rows are still of the generations bound by :func:`as_read`.

    The ids stand alone as well: every engine finds them by the primary key, while MariaDB would
    scan the table for pairs, or for a computed value.
    """
    if size == ANY_SIZE:
        pairs: BindParameter[Any] = bindparam("pairs", expanding=True)
        same: ColumnElement[bool] = tuple_(table.c.id, table.c.generation).in_(pairs)
    else:
        same = table.c.generation == by_key(table.c.id, table.c.generation, "row", "old", size)
    return is_among(table.c.id, "row", size), same


def as_read(pairs: Sequence[tuple[int, int]]) -> tuple[int, dict[str, Any]]:
    """Return the size of :func:`unmoved` and its parameters.

    :param pairs: ids with the generations that were read.
    """
    size = size_for(len(pairs))
    parameters = bound("row", [id_ for id_, _ in pairs], size)
    if size == ANY_SIZE:
        return size, parameters | {"pairs": list(pairs)}
    return size, parameters | bound("old", [generation for _, generation in pairs], size)


def value_of(key: ColumnElement[int], values: Mapping[int, Any]) -> Any:
    """Return a value for each key, written once where all of them get the same."""
    different = set(values.values())
    return different.pop() if len(different) == 1 else case(values, value=key)

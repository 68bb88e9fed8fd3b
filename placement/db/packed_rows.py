"""All rows of a table as a few long texts, for a driver that reads every row and cell in Python.

A cloud of a million providers has four and a half million rows. PyMySQL takes 24 s of processor time for
them, and 0.6 for the same as such texts, from which they are made in 0.9; the server takes as long as
before. So the first picture takes less than half the time, and a quarter less memory while it is made. With
mysqlclient there would be nothing to gain.

A block is as many rows as surely fit into one text, by the id that they belong to. Rows come in no order.
Fractions stay columns of their own: their text is not exact inside of another.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Integer, Select, String, func, literal_column, select

from placement.db import packed_numbers
from placement.db.database import Access

DRIVERS = packed_numbers.DRIVERS

TEXT_BYTES = 1 << 20
"""The longest text; on MariaDB that is the default, on MySQL it is 1,024 bytes."""

SET_TEXT_BYTES = f"SET SESSION group_concat_max_len = {TEXT_BYTES}"

_COMMA: ColumnElement[str] = literal_column("','")
_EMPTY: ColumnElement[str] = literal_column("''")
_NULL: ColumnElement[str] = literal_column("'null'")
_BEGIN, _END = literal_column("'['", String), literal_column("']'", String)

_BYTES_OF_A_NUMBER = 21
_BYTES_OF_A_CHARACTER = 6


class Cut(Exception):
    """A text is not whole."""


def take(access: Access) -> bool:
    """Tell whether packed rows are worth while, and let the server send them."""
    if access.connection.dialect.driver not in DRIVERS:
        return False
    access.exec_driver_sql(SET_TEXT_BYTES)
    return True


class PackedColumns:
    """A statement for numbers that are never NULL, and what it reads as columns.

    :param key: of the provider, with whom no two rows agree in ``alike`` too.
    :param alike: columns that few values occur in; each combination is in rows of its own.
    :param others: columns of whole numbers.
    """

    def __init__(
        self,
        key: ColumnElement[int],
        alike: Sequence[ColumnElement[Any]],
        others: Sequence[ColumnElement[int]],
    ) -> None:
        self._alike, self._others = len(alike), len(others)
        ended = func.concat_ws(_COMMA, *others, _EMPTY)
        text = func.group_concat(ended.op("SEPARATOR")(_EMPTY))
        block = _block(key, len(others) * _BYTES_OF_A_NUMBER)
        self.statement: Select[Any] = select(*alike, func.count(), text).group_by(*alike, block)

    def unpack(self, rows: Sequence[Sequence[Any]]) -> list[NDArray[Any]]:
        """Return the columns, those that are alike before the others.

        :raises Cut:
        """
        if not rows:
            return [np.zeros(0, np.int64)] * (self._alike + self._others)
        *alike, counts, texts = zip(*rows, strict=True)
        parts = [self._numbers(text, count) for text, count in zip(texts, counts, strict=True)]
        return [
            *(np.repeat(np.array(values), counts) for values in alike),
            *np.concatenate(parts).reshape(-1, self._others).T,
        ]

    def _numbers(self, text: str | bytes, count: int) -> NDArray[np.int64]:
        # Bytes where EXISTS was among the columns: to MariaDB its result has no character set.
        whole = text.decode() if isinstance(text, bytes) else text
        # Text of another kind than numbers would be an error there.
        found = np.fromstring(whole, np.int64, sep=",")
        # Without the comma the last number could be another one.
        if len(found) != count * self._others or not whole.endswith(","):
            raise Cut(f"{len(whole)} bytes")
        return found


class PackedRecords:
    """A statement for whole numbers and texts of any kind, and what it reads as rows, with None for NULL.

    :param key: of which each row has another one.
    """

    def __init__(self, key: ColumnElement[int], columns: Sequence[ColumnElement[Any]]) -> None:
        width = sum(map(_most_bytes, columns))
        row = func.concat(_BEGIN, func.concat_ws(_COMMA, *map(_as_json, columns)), _END)
        text = func.group_concat(row)
        self.statement: Select[Any] = select(func.count(), text).group_by(_block(key, width))

    def unpack(self, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        """Return the rows.

        :raises Cut:
        """
        return list(chain.from_iterable(_records(*row) for row in rows))


def _records(count: int, text: str) -> list[Sequence[Any]]:
    try:
        found: list[Sequence[Any]] = orjson.loads(f"[{text}]")
    except ValueError as error:
        raise Cut(str(error)) from None
    if len(found) != count:
        raise Cut(f"{len(found)} of {count} rows")
    return found


def _as_json(column: ColumnElement[Any]) -> ColumnElement[str]:
    shown = column if isinstance(column.type, Integer) else func.json_quote(column)
    return func.coalesce(shown, _NULL)


def _most_bytes(column: ColumnElement[Any]) -> int:
    length = getattr(column.type, "length", None)
    return _BYTES_OF_A_NUMBER if length is None else length * _BYTES_OF_A_CHARACTER + len('"",')


def _block(key: ColumnElement[int], width: int) -> ColumnElement[int]:
    """As many successive ids as need no more than a text, a row for each."""
    rows = TEXT_BYTES // (width + len("[],"))
    return key.bitwise_rshift(rows.bit_length() - 1)

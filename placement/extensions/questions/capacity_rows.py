"""Statements on the regular records of how many more of each shape fitted (07 section 3.2).

Times are milliseconds since the epoch, by the clock of the database.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import bindparam, delete, or_, select

from placement.db.clock import NOW
from placement.db.database import Access, Transaction
from placement.db.statements import CompiledStatement
from placement.extensions.questions import tables

_records = tables.capacity_records

DAY_MS = 86_400_000
KEPT_MS = 365 * DAY_MS


class CapacityRecord(NamedTuple):
    """The number of placements at a time."""

    recorded_at: int
    placements: int


def add(tx: Transaction, placements: Mapping[str, int]) -> None:
    """Record the placements of each shape, and delete records that are older than a year or in the future.

    A wrong clock writes records in the future.
    """
    now = int(tx.value(_NOW))
    rows = [
        {"shape": shape, "recorded_at": now, "placements": count}
        for shape, count in placements.items()
    ]
    tx.insert_later(_records, rows)
    tx.change_later(_DELETE, {"before": now - KEPT_MS, "after": now})


def newest(access: Access, shape: str, most: int) -> list[CapacityRecord]:
    """Return the last records of a shape, oldest first. One statement."""
    rows = access.rows(_NEWEST, {"shape": shape, "most": most})
    return [CapacityRecord(int(at), int(count)) for at, count in rows][::-1]


_NOW = CompiledStatement(select(NOW))
_recorded_at = _records.c.recorded_at
_is_old = _recorded_at < bindparam("before", type_=_recorded_at.type)
_is_of_future = _recorded_at > bindparam("after", type_=_recorded_at.type)
_DELETE = CompiledStatement(delete(_records).where(or_(_is_old, _is_of_future)))
_NEWEST = CompiledStatement(
    select(_records.c.recorded_at, _records.c.placements)
    # The service does not write records before 1970 or in the future; such a row was written by hand.
    .where(_records.c.shape == bindparam("shape"), _recorded_at.between(0, NOW))
    .order_by(_records.c.recorded_at.desc())
    .limit(bindparam("most"))
)

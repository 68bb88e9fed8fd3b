"""Sequences of PostgreSQL that lag behind their tables, such as after a restore of rows alone.

A lagging sequence would give new rows ids that other rows have (:class:`placement.errors.SequenceBehind`).
"""

from typing import NamedTuple

from sqlalchemy import text

from placement.db import models
from placement.db.database import Access, Transaction


class LaggingSequence(NamedTuple):
    """A sequence that lags behind its table. ``name`` is quoted for SQL."""

    table: str
    name: str
    highest_id: int

    @property
    def remedy(self) -> str:
        """The statement that sets the sequence."""
        return f"SELECT setval({_as_text(self.name)}, {self.highest_id})"


_NAMES = text(
    " UNION ALL ".join(
        f"SELECT '{name}', pg_get_serial_sequence('{name}', 'id'),"
        f" has_sequence_privilege(pg_get_serial_sequence('{name}', 'id'), 'SELECT')"
        for name, table in models.whole_metadata().tables.items()
        # The service chooses the ids of resource classes itself (class_rows.py).
        if "id" in table.c and table is not models.resource_classes
    )
)


def find_lagging(access: Access) -> list[LaggingSequence]:
    """Return the lagging sequences; none on other databases. Two statements."""
    if access.dialect != "postgresql":
        return []
    compared = " UNION ALL ".join(
        f"SELECT '{table}', {_as_text(name)}, (SELECT max(id) FROM {table}),"  # noqa: S608
        f" ({_select_last(name, may_read)})"
        for table, name, may_read in access.rows(_NAMES)
        if name
    )
    rows = access.rows(text(compared))
    return [LaggingSequence(*row) for *row, last in rows if row[2] is not None and row[2] > last]


def _select_last(name: str, may_read: bool) -> str:
    if may_read:
        return f"SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM {name}"  # noqa: S608
    # The service only needs the right USAGE, with which this value is None for a sequence that was never
    # used.
    return f"SELECT coalesce(pg_sequence_last_value({_as_text(name)}::regclass), 0)"


def _as_text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def set_lagging(tx: Transaction) -> int:
    """Set the lagging sequences to the highest ids of their tables; return their number."""
    lagging = find_lagging(tx)
    for each in lagging:
        tx.rows(text(each.remedy))
    return len(lagging)

"""Sequences of PostgreSQL that stand behind their tables: a restore of rows alone leaves them there.

They would give new rows ids that other rows have (:class:`placement.errors.SequenceBehind`).
"""

from typing import NamedTuple

from sqlalchemy import text

from placement.db import models
from placement.db.database import Access, Transaction


class LaggingSequence(NamedTuple):
    """A sequence that stands behind. ``name`` is quoted as SQL needs it."""

    table: str
    name: str
    highest_id: int

    @property
    def remedy(self) -> str:
        """The statement that sets it."""
        return f"SELECT setval({_as_text(self.name)}, {self.highest_id})"


_NAMES = text(
    " UNION ALL ".join(
        f"SELECT '{name}', pg_get_serial_sequence('{name}', 'id'),"
        f" has_sequence_privilege(pg_get_serial_sequence('{name}', 'id'), 'SELECT')"
        for name, table in models.whole_metadata().tables.items()
        # The ids of resource classes are chosen (class_rows.py).
        if "id" in table.c and table is not models.resource_classes
    )
)


def find_lagging(access: Access) -> list[LaggingSequence]:
    """Return the sequences that stand behind; none on other databases. Two statements."""
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
    # The right USAGE is all that the service needs: with it this is None for a sequence that was never used.
    return f"SELECT coalesce(pg_sequence_last_value({_as_text(name)}::regclass), 0)"


def _as_text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def set_lagging(tx: Transaction) -> int:
    """Set the sequences that stand behind to the highest ids of their tables; return how many."""
    lagging = find_lagging(tx)
    for each in lagging:
        tx.rows(text(each.remedy))
    return len(lagging)

"""Values that cannot be read, or stepped, in columns of this service that a write steps or an answer shows.

Each line of ``ABSURD`` writes one of them into the struck half of the cloud of ``tests.support.damage``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update

from placement.db import models
from placement.db.database import Database
from tests.support.damage import ROWS, STRUCK, unguarded

NUMBERS = {
    "provider_changes.mark": (2**63 - 1, 2**62, 2**62 - 1, -1, -(2**63)),
    "inventories.used": (2**63 - 1, 2**62, -1, -(2**62)),
    "inventories.step_size": (0, -1),
    "owner_usages.used": (2**62, -1, -(2**62)),
}
"""Numbers that no write brings there, by column. Those of generations and revisions are left alone."""

TEXTS = {
    "provider_changes.recent": (";;;", ":;", ";1:1", "1:x;", "0:5;", "-1:5;", "9" * 30 + ":1;",
                                "1:" + "9" * 30 + ";"),
    "history.state_before": ("{", "[]", "5", "[" * 2000, '{"a": "\\ud800"}', '{"a": 1' + "0" * 30 + "}"),
    "history.state_after": ("", "NaN", '{"a": NaN}', '{"a":' * 300 + "1" + "}" * 300),
}  # fmt: skip
"""Texts that cannot be read, by the column that holds a text of ours."""


@dataclass(frozen=True)
class Absurd:
    """A value that is written into all rows of a table that are of the struck half.

    With an entry of the log its mark moves, so that running services look at what it says.
    """

    table: str
    column: str
    value: Any

    def __str__(self) -> str:
        return f"{self.table}.{self.column}={str(self.value)[:20]}"

    def apply(self, db: Database, *, again: bool = False) -> None:
        """Do it, as a program does that the database does not stop.

        :param again: to a row that may be gone.
        """
        table = models.whole_metadata().tables[self.table]
        row = ROWS.get(self.table) or {"uuid": STRUCK.uuid("root")}
        if self.table == "history":
            # One row: its id is of one.
            row = {**row, "provider_uuid": STRUCK.uuid("root")}
        if self.table == "provider_changes":
            # Any of them may be the slot of the next write.
            row = {}
        values = {self.column: self.value}
        if "updated_at" in table.c:
            values["updated_at"] = table.c.updated_at
        if self.column == "recent":
            # So that it is looked at.
            values["mark"] = table.c.mark + 1
        with unguarded(db) as connection:
            own = [table.c[name] == value for name, value in row.items()]
            done = connection.execute(update(table).where(*own).values(values))
            assert again or done.rowcount >= 1, f"{self} has struck nothing"


def _lines() -> Iterator[Absurd]:
    values: dict[str, Sequence[Any]] = {**TEXTS, **NUMBERS}
    for name, given in values.items():
        table, _, column = name.partition(".")
        yield from (Absurd(table, column, value) for value in given)


ABSURD = tuple(_lines())
"""The least and the greatest number of each column, and texts that cannot be read."""

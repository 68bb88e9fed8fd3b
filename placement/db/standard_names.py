"""The standard traits and resource classes of the installed libraries (specification 06 section 7.5)."""

from functools import partial
from typing import Any, NamedTuple

import os_resource_classes
import os_traits
from sqlalchemy import Table, select

from placement.db import models
from placement.db.database import Access, Database, Transaction, stale_if_refused
from placement.db.schema import SchemaError
from placement.printable import escape_unprintable

_classes = models.resource_classes


def synchronise(database: Database) -> None:
    """Insert the missing standard names; nothing is renamed or removed.

    Several processes can do this at once: one that meets a row of another begins again. Three statements if
    nothing is missing.

    :raises SchemaError: the id of a missing standard class is taken.
    """
    require_free_ids(database)
    for table in (models.traits, _classes):
        if database.read(partial(_find_missing, table=table)):
            database.write(partial(_insert, table=table))


def require_free_ids(database: Database) -> None:
    """Check that every standard class has its id, or can be inserted with it. One statement.

    :raises SchemaError: a class of another name has the id; the text has the statement that renames it.
    """
    taken = [each for each in database.read(find_misplaced) if each.own_id is None]
    if taken:
        raise SchemaError(
            f"{'; '.join(each.text for each in taken)}. If these classes were renamed by hand, rename them "
            f"back: {' '.join(each.remedy for each in taken)}"
        )


class MisplacedClass(NamedTuple):
    """A standard class whose id another class has.

    :param holder: the name of the class that has the id.
    :param own_id: the id that the standard class has instead; None without a row.
    """

    id: int
    name: str
    holder: str
    own_id: int | None

    @property
    def text(self) -> str:
        """What is wrong, without a full stop."""
        if self.own_id is not None:
            return f"the standard resource class {self.name} has the id {self.own_id}, not {self.id}"
        return (
            f"the id {self.id} of the standard resource class {self.name} is taken by the class "
            f"{escape_unprintable(self.holder)}"
        )

    @property
    def remedy(self) -> str:
        """The statement that renames a class back; none is safe if the standard name has another id."""
        if self.own_id is not None:
            return ""
        return f"UPDATE resource_classes SET name = '{self.name}' WHERE id = {self.id};"  # noqa: S608


def find_misplaced(access: Access) -> list[MisplacedClass]:
    """Return the standard classes whose ids others have. A class under another id whose own is free works."""
    names: dict[int, str] = dict(access.rows(select(_classes.c.id, _classes.c.name)))
    ids = {name: id_ for id_, name in names.items()}
    return [
        MisplacedClass(id_, name, names[id_], ids.get(name))
        for id_, name in enumerate(os_resource_classes.STANDARDS)
        if names.get(id_, name) != name
    ]


def describe_misplaced(access: Access) -> list[str]:
    """Return one line for each standard class whose id another has, for ``db check``."""
    return [f"{each.text}: {each.remedy}" if each.remedy else each.text for each in find_misplaced(access)]


def _find_missing(access: Access, table: Table) -> list[dict[str, Any]]:
    """Return the rows to insert. The id of a standard class is its position in the library's list, from 0."""
    present = set(access.column(select(table.c.name)))
    rows: list[dict[str, Any]] = [{"name": name} for name in os_traits.get_traits()]
    if table is _classes:
        rows = [{"id": id_, "name": name} for id_, name in enumerate(os_resource_classes.STANDARDS)]
    return [row for row in rows if row["name"] not in present]


def _insert(tx: Transaction, table: Table) -> None:
    created_at = models.now()
    rows = [row | {"created_at": created_at} for row in _find_missing(tx, table)]
    gives_ids = table is _classes
    with stale_if_refused(f"another process filled {table.name}", gives_ids=gives_ids):
        tx.insert(table, rows)

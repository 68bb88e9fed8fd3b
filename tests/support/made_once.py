"""Print the statements that are made once, when modules are imported, as each kind of database has them."""

import gc
import importlib
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from sqlalchemy.dialects import mysql, postgresql, sqlite

from placement.db.statements import CompiledStatement, DriverText

DIALECTS: dict[str, Any] = {
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
    "sqlite": sqlite.dialect,
}


def import_all() -> None:
    """Import everything that makes statements."""
    for package in ("placement.db", "placement.objects", "placement.cmd"):
        path = importlib.import_module(package).__path__
        for each in pkgutil.iter_modules(path, f"{package}."):
            importlib.import_module(each.name)


def compiled(kind: str) -> Iterator[str]:
    """Yield the statements for a kind of database; some are of one kind only."""
    dialect = DIALECTS[kind]()
    for each in gc.get_objects():
        if isinstance(each, CompiledStatement):
            sizes = dict.fromkeys(each._lists, 1)
            try:
                yield DriverText(each.statement, dialect, sizes=sizes).text
            except KeyError:
                continue


if __name__ == "__main__":
    import_all()
    # A dialect that has no server yet leaves out the casts that MySQL has since 8.0.17.
    warnings.filterwarnings("ignore", "Datatype FLOAT does not support CAST")
    json.dump({kind: list(compiled(kind)) for kind in DIALECTS}, sys.stdout)

"""The kinds of database, and the expressions that they spell differently. MariaDB counts as MySQL."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

MYSQL = ("mysql", "mariadb")
"""The names that SQLAlchemy has for the dialect."""


# READ COMMITTED for writes (MySQL: set at connect): rows on which a check depends are locked before they are
# read, and a statement that waited for a lock must see the holder's commit.
BEGIN_WRITE = {
    # A plain BEGIN is not enough: SQLite refuses the first write of a transaction that has read if another
    # has written meanwhile (SQLITE_BUSY_SNAPSHOT), and no busy_timeout helps.
    "sqlite": ("BEGIN IMMEDIATE",),
    # READ WRITE is left out, so that a standby or a read-only database reports itself.
    "postgresql": ("BEGIN ISOLATION LEVEL READ COMMITTED",),
    "mysql": ("START TRANSACTION",),
}
BEGIN_SNAPSHOT = {
    "sqlite": ("BEGIN",),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    # Without the word SESSION the level is set for this transaction alone. At READ COMMITTED, the level set
    # at connect, MySQL ignores WITH CONSISTENT SNAPSHOT, and each statement would see its own state.
    "mysql": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}


def kind(bind: Connection | Engine | SQLCompiler) -> str:
    """Return sqlite, postgresql or mysql."""
    name = bind.dialect.name
    return "mysql" if name in MYSQL else name


class DialectText(FunctionElement[Any]):
    """An expression that each kind of database spells in its own way.

    :param spelling: by kind, with ``{}`` or ``{0}`` in the places of the arguments.
    """

    inherit_cache = False

    def __init__(
        self, spelling: Mapping[str, str], *arguments: ColumnElement[Any], type_: Any = None
    ) -> None:
        super().__init__(*arguments)
        self.spelling = spelling
        if type_ is not None:
            self.type = type_


@compiles(DialectText)
def _compile_dialect_text(element: DialectText, compiler: SQLCompiler, **options: Any) -> str:
    arguments = [compiler.process(each, **options) for each in element.clauses]
    return element.spelling[kind(compiler)].format(*arguments)

"""The kinds of database, and what they spell differently. MariaDB counts as MySQL."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

MYSQL = ("mysql", "mariadb")
"""The names that SQLAlchemy has for the dialect."""


def kind(bind: Connection | Engine | SQLCompiler) -> str:
    """Return sqlite, postgresql or mysql."""
    name = bind.dialect.name
    return "mysql" if name in MYSQL else name


class Spelled(FunctionElement[Any]):
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


@compiles(Spelled)
def _compile_spelled(element: Spelled, compiler: SQLCompiler, **options: Any) -> str:
    arguments = [compiler.process(each, **options) for each in element.clauses]
    return element.spelling[kind(compiler)].format(*arguments)

"""Names can have any character: the service speaks UTF-8 with every database, even if its URL says otherwise.

A database that keeps text in another character set cannot hold every name. The service uses it nevertheless:
:func:`find_narrow` warns the operator, and :func:`find_unstorable` finds the name that a statement failed to
store.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Engine, exc, text
from sqlalchemy.engine import URL

from placement.db import dialects, driver_errors

_PARAMETERS = {"postgresql": ["client_encoding"], "mysql": ["charset", "use_unicode"]}
_ARGUMENTS = {"postgresql": {"client_encoding": "UTF8"}, "mysql": {"charset": "utf8mb4"}}

_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4", "unicode"})
_IN_OPTIONS = re.compile(r"client[-_]encoding\s*=\s*(\w+)", re.IGNORECASE)

_NARROW_COLUMNS = text(
    "SELECT table_name, column_name, character_set_name FROM information_schema.columns"
    " WHERE table_schema = DATABASE() AND character_set_name <> 'utf8mb4'"
    " AND (table_name, column_name) IN (('resource_providers', 'name'), ('projects', 'external_id'),"
    " ('users', 'external_id')) ORDER BY table_name"
)
"""Columns of MySQL for names that clients choose. Other names are ASCII."""

_CHARACTER = re.compile(r"0x([0-9a-f]{2})")


def take(url: URL) -> tuple[URL, dict[str, str]]:
    """Return the URL without its parameters for character sets, and the driver's arguments for UTF-8."""
    backend = _backend(url)
    return url.difference_update_query(_PARAMETERS.get(backend, [])), _ARGUMENTS.get(backend, {})


def _backend(url: URL) -> str:
    name = url.get_backend_name()
    return "mysql" if name in dialects.MYSQL else name


def find_unused(url: URL) -> list[str]:
    """Return a sentence for each character set in the URL that is not used."""
    # use_unicode does not name a character set.
    given = {"client_encoding", "charset"}.intersection(_PARAMETERS.get(_backend(url), []), url.query)
    asked = [(name, str(url.query[name])) for name in sorted(given)]
    # SQLAlchemy returns several parameters of one name as a tuple.
    options = url.query.get("options", "") if _backend(url) == "postgresql" else ""
    joined = options if isinstance(options, str) else " ".join(options)
    asked += [("options=-cclient_encoding", each) for each in _IN_OPTIONS.findall(joined)]
    return [
        f"{name}={value} in the URL of the database is not used: the service speaks UTF-8 with it, so"
        " that names may have any character. Take the parameter out of [placement_database]/connection"
        " or connection_parameters."
        for name, value in asked
        if re.sub("[-_]", "", value).lower() not in _UTF8
    ]


def find_narrow(engine: Engine) -> list[str]:
    """Ask a database which names it cannot hold; return a sentence, or None if it can hold all."""
    kind = dialects.kind(engine)
    if kind == "sqlite":
        return []
    with engine.connect() as connection:
        if kind == "postgresql":
            encoding = connection.scalar(text("SHOW server_encoding"))
            if encoding == "UTF8":
                return []
            return [
                f"The database has the encoding {encoding}, which cannot hold every name; a request with"
                " another name is answered with 400. Make a database with the encoding UTF8 (createdb"
                " --encoding=UTF8 --template=template0), move the tables with pg_dump and change"
                " [placement_database]/connection."
            ]
        found = connection.execute(_NARROW_COLUMNS).all()
    return [
        f"The column {column} of the table {table} has the character set {name}, which cannot hold every"
        " name; a request with another name is answered with 400. Run ALTER TABLE"
        f" {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE with the collation of the other tables."
        for table, column, name in found
    ]


def find_unstorable(error: exc.DBAPIError) -> str | None:
    """Return the name that the database could not hold, so that the statement failed."""
    if not driver_errors.is_unstorable(error):
        return None
    names = [name for name in _texts(error.params) if not name.isascii()]
    # PostgreSQL's message contains the bytes of the first such character, in every language.
    character = bytes.fromhex("".join(_CHARACTER.findall(str(error.orig)))).decode(errors="ignore")
    return next((name for name in names if character in name), None)


def _texts(parameters: Any) -> Iterator[str]:
    """Yield the texts among the parameters of one statement or of several."""
    if isinstance(parameters, str):
        yield parameters
    elif isinstance(parameters, (Mapping, list, tuple)):
        inner = parameters.values() if isinstance(parameters, Mapping) else parameters
        for each in inner:
            yield from _texts(each)

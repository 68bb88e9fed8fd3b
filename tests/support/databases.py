"""Scratch databases on the real engines.

SQLite is always there. A PostgreSQL and a MariaDB server are used where PLACEMENT_TEST_POSTGRESQL and
PLACEMENT_TEST_MYSQL name them (SQLAlchemy URLs of an account that may create databases). Under CI=true both
must be there: what is not named answers on this machine without a password.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from placement.db import schema, standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.effort import CI

KINDS = ("sqlite", "postgresql", "mysql")

ROUTES = {
    "sqlite": ("sqlite", "sqlite"),
    "postgresql": ("postgresql", "postgresql+psycopg2"),
    "postgresql-alone": ("postgresql", "postgresql+psycopg2"),
    "pymysql": ("mysql", "mysql+pymysql"),
    "mysqlclient": ("mysql", "mysql+mysqldb"),
    "pymysql-alone": ("mysql", "mysql+pymysql"),
}
"""What is sent differs by these: kind of database and driver. ``-alone``: each statement is a message of its
own, as for a node of Galera."""

_LOCAL = {
    "postgresql": (
        "postgresql+psycopg2://root@127.0.0.1/postgres",
        "postgresql+psycopg2://postgres@127.0.0.1/postgres",
    ),
    "mysql": ("mysql+pymysql://root@127.0.0.1/mysql",),
}
_VARIABLE = {"postgresql": "PLACEMENT_TEST_POSTGRESQL", "mysql": "PLACEMENT_TEST_MYSQL"}


@contextlib.contextmanager
def _admin_connection(url: str) -> Iterator[sqlalchemy.Connection]:
    engine = sqlalchemy.create_engine(
        url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool
    )
    with engine.connect() as connection:
        yield connection


@functools.cache
def admin_url(kind: str) -> str | None:
    """Return the URL of a server of this kind that lets us create databases, or None."""
    named = os.environ.get(_VARIABLE[kind])
    for url in (named,) if named else _LOCAL[kind] if CI else ():
        try:
            with _admin_connection(url) as connection:
                connection.exec_driver_sql("SELECT 1")
        except Exception as error:
            if named:
                # A typing error must not look like a machine without a server.
                raise RuntimeError(
                    f"{_VARIABLE[kind]} names a server that fails: {error}"
                ) from error
            continue
        return url
    return None


def available(kind: str) -> bool:
    """Say whether databases of this kind can be made here."""
    return kind == "sqlite" or admin_url(kind) is not None


def require(kind: str) -> None:
    """Skip the test where no server of this kind is named; fail it where that does not answer."""
    if available(kind):
        return
    variable = _VARIABLE[kind]
    if CI or os.environ.get(variable):
        pytest.fail(f"there is no {kind} server where {variable} says, or CI needs one")
    pytest.skip(f"{kind}: {variable}={_LOCAL[kind][0]} names a server")


@contextlib.contextmanager
def scratch_route(
    route: str, revision: str | None = None, *, named: bool = False
) -> Iterator[str]:
    """Make a database, yield the URL that leads to it by one of ``ROUTES``, and drop it.

    :param revision: of :func:`scratch_database`, like ``named``.
    """
    kind, driver = ROUTES[route]
    if route == "mysqlclient" and importlib.util.find_spec("MySQLdb") is None:
        if CI:
            pytest.fail("CI needs mysqlclient")
        pytest.skip("mysqlclient is not installed")
    with scratch_database(kind, revision, named=named) as given:
        url = sqlalchemy.make_url(given).set(drivername=driver)
        if route.endswith("-alone"):
            url = url.update_query_dict({"multi_statements": "0"})
        yield url.render_as_string(hide_password=False)


@contextlib.contextmanager
def opened(url: str, **options: Any) -> Iterator[Database]:
    """Open a database, and close its connections in the end.

    Left to the garbage collector, a socket may end with a warning, which fails whatever test runs then.

    :param options: of :func:`make_engine`.
    """
    database = Database(make_engine(url, **options))
    try:
        yield database
    finally:
        database.dispose()


@contextlib.contextmanager
def synced(kind: str, **options: Any) -> Iterator[Database]:
    """Make a database as ``placement-manage db sync`` leaves it, open it, and drop it.

    :param kind: or one of ``ROUTES``.
    :param options: of :class:`Database`.
    """
    scratch = scratch_route if kind in ROUTES else scratch_database
    with scratch(kind, schema.HEAD, named=True) as url:
        database = Database(make_engine(url), **options)
        try:
            yield database
        finally:
            database.dispose()


@contextlib.contextmanager
def scratch_database(
    kind: str, revision: str | None = None, *, named: bool = False, character_set: str = ""
) -> Iterator[str]:
    """Make a database, yield its SQLAlchemy URL, and drop it.

    :param revision: of its schema, copied from a database that this process migrates once; None: it is empty.
    :param character_set: of the database, instead of the server's; on PostgreSQL it then begins empty.
    :param named: with the standard traits and resource classes.
    """
    require(kind)
    template = _template(kind, revision, named) if revision else None
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="placement-") as folder:
            file = Path(folder) / "placement.sqlite"
            if template:
                shutil.copy(template, file)
            yield f"sqlite:///{file}"
        return
    url = admin_url(kind)
    assert url is not None
    name = f"placement_{uuid.uuid4().hex[:12]}"
    with _admin_connection(url) as connection:
        copied = f" TEMPLATE {template}" if template and kind == "postgresql" else ""
        encoded = {
            "postgresql": f" TEMPLATE template0 LOCALE 'C' ENCODING '{character_set}'",
            "mysql": f" CHARACTER SET {character_set}",
        }
        made_so = encoded[kind] if character_set else copied
        connection.exec_driver_sql(f"CREATE DATABASE {name}{made_so}")
        if kind == "postgresql":
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
        elif template:
            _copy_tables(connection, template, name)
    try:
        made = sqlalchemy.make_url(url).set(database=name)
        yield made.render_as_string(hide_password=False)
    finally:
        with _admin_connection(url) as connection:
            force = " WITH (FORCE)" if kind == "postgresql" else ""
            connection.exec_driver_sql(f"DROP DATABASE {name}{force}")


_TEMPLATES: dict[tuple[str, str, bool], str] = {}
"""The copied databases, by kind, revision and names: a file, or a name on the server. Dropped at exit."""


def _template(kind: str, revision: str, named: bool) -> str:
    """Return the database with this schema, made from the newest older one; with names, from the nameless."""
    if (kind, revision, named) not in _TEMPLATES:
        *older, newest = schema.REVISIONS[: schema.REVISIONS.index(revision) + 1]
        known = [each for each in older if (kind, each, False) in _TEMPLATES]
        scratch = scratch_database(kind, newest if named else known[-1] if known else None)
        url = scratch.__enter__()
        atexit.register(scratch.__exit__, None, None, None)
        with opened(url) as database:
            if named:
                standard_names.synchronise(database)
            else:
                schema.sync(database, target=revision)
        _TEMPLATES[kind, revision, named] = sqlalchemy.make_url(url).database or ""
    return _TEMPLATES[kind, revision, named]


@functools.cache
def _definitions(url: str, template: str) -> dict[str, str]:
    """Return the statement that makes each table of a database of MariaDB."""
    with _admin_connection(url) as connection:
        names = connection.exec_driver_sql(f"SHOW TABLES FROM {template}").scalars().all()
        return {
            name: connection.exec_driver_sql(f"SHOW CREATE TABLE {template}.{name}").one()[1]
            for name in names
        }


def _copy_tables(connection: sqlalchemy.Connection, template: str, name: str) -> None:
    """Fill an empty database of MariaDB with the tables of another, and their rows."""
    url = admin_url("mysql")
    assert url is not None
    connection.exec_driver_sql(f"USE {name}")
    connection.exec_driver_sql(
        "SET SESSION foreign_key_checks = 0, sql_mode = 'TRADITIONAL,NO_AUTO_VALUE_ON_ZERO'"
    )
    for table, definition in _definitions(url, template).items():
        connection.exec_driver_sql(definition.replace("%", "%%"))
        connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM {template}.{table}")

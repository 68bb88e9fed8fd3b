"""Scratch databases on the real engines.

SQLite is always there. A PostgreSQL, and a MariaDB or MySQL, are used where PLACEMENT_TEST_POSTGRESQL and
PLACEMENT_TEST_MYSQL name them (SQLAlchemy URLs of an account that may create databases). Under CI=true both
must be there: what is not named answers on this machine without a password. The kind of MariaDB and MySQL is
mysql; :func:`is_mariadb` says which it is.
"""

import atexit
import contextlib
import fcntl
import functools
import importlib.util
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy

from placement.db import schema, standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.effort import CI, TEMPLATES

T = TypeVar("T")
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

MAIN_ROUTES = ("sqlite", "postgresql", "pymysql")
"""One for each kind of database. The others send it the same statements in another way."""

MAIN_SERVERS = [route for route in MAIN_ROUTES if route != "sqlite"]

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


@functools.cache
def is_mariadb() -> bool:
    """Say whether the server of the kind mysql is a MariaDB, not a MySQL; skip where there is none."""
    require("mysql")
    url = admin_url("mysql")
    assert url is not None
    with _admin_connection(url) as connection:
        return bool(connection.dialect.is_mariadb)


def require_mariadb(what: str) -> None:
    """Skip the test on MySQL, for want of something that MariaDB has."""
    if not is_mariadb():
        pytest.skip(f"MySQL has not {what}")


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
def scratch_route(route: str, revision: str | None = None, *, named: bool = False) -> Iterator[str]:
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

    :param revision: of its schema, copied from a database that is migrated once; None: it is empty.
    :param character_set: of the database, instead of the server's; on PostgreSQL it then begins empty.
    :param named: with the standard traits and resource classes.
    """
    require(kind)
    template = _template(kind, revision, named) if revision else None
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="placement-") as folder:
            yield _copied_file(template, Path(folder) / "placement.sqlite")
        return
    url = _made(kind, template, character_set)
    try:
        yield url
    finally:
        _drop(kind, url)


def synced_file(file: Path) -> None:
    """Make a database of SQLite as ``placement-manage db sync`` leaves it."""
    _copied_file(_template("sqlite", schema.HEAD, named=True), file)


def _copied_file(template: str | None, file: Path) -> str:
    """Copy a file of SQLite, if there is one; return the URL of the copy."""
    if template:
        shutil.copy(template, file)
    return f"sqlite:///{file}"


def _made(kind: str, template: str | None, character_set: str = "") -> str:
    """Make a database on a server, a copy of another if that is named; return its URL."""
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
            copy_tables(connection, template, name)
    made = sqlalchemy.make_url(url).set(database=name)
    return made.render_as_string(hide_password=False)


def _drop(kind: str, url: str) -> None:
    admin = admin_url(kind)
    assert admin is not None
    with _admin_connection(admin) as connection:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        connection.exec_driver_sql(f"DROP DATABASE {sqlalchemy.make_url(url).database}{force}")


_UNTIL_EXIT = contextlib.ExitStack()
atexit.register(_UNTIL_EXIT.close)


def until_exit(made: contextlib.AbstractContextManager[T]) -> T:
    """Enter a context that is left when the process ends.

    It is held here too: a child that multiprocessing forks forgets what is to be done at its end (Python
    3.13), and would leave each context that nothing else refers to: that of its parent.
    """
    return _UNTIL_EXIT.enter_context(made)


@functools.cache
def _templates() -> Path:
    """Return the folder that names the copied databases by a file for each, and holds those of SQLite.

    All processes of a run of tests have the same one, which tests/conftest.py makes, and removes in the
    end. Without it a process has its own.
    """
    if TEMPLATES not in os.environ:
        os.environ[TEMPLATES] = tempfile.mkdtemp(prefix="placement-templates-")
        atexit.register(drop_templates, Path(os.environ[TEMPLATES]))
    return Path(os.environ[TEMPLATES])


def drop_templates(folder: Path) -> None:
    """Drop the databases that were copied, and remove the folder that names them."""
    for kind in KINDS[1:]:
        for named in folder.glob(f"{kind}-*.url"):
            _drop(kind, named.read_text())
    shutil.rmtree(folder)


def _template(kind: str, revision: str, named: bool) -> str:
    """Return the database with this schema, made from the newest older one; with names, from the nameless.

    The process that wants it first makes it, while others that want it wait.
    """
    key = f"{kind}-{revision}{'-named' if named else ''}"
    told = _templates() / f"{key}.url"
    with told.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            *older, newest = schema.REVISIONS[: schema.REVISIONS.index(revision) + 1]
            known = [each for each in older if (_templates() / f"{kind}-{each}.url").exists()]
            base = newest if named else known[-1] if known else None
            template = _template(kind, base, False) if base else None
            file = told.with_suffix(".sqlite")
            url = _copied_file(template, file) if kind == "sqlite" else _made(kind, template)
            with opened(url) as database:
                if named:
                    standard_names.synchronise(database)
                else:
                    schema.sync(database, target=revision)
            # Who looks without the lock sees it whole or not at all.
            told.with_suffix(".new").write_text(url)
            told.with_suffix(".new").rename(told)
    return sqlalchemy.make_url(told.read_text()).database or ""


def copy_tables(connection: sqlalchemy.Connection, template: str, name: str) -> None:
    """Fill an empty database of MariaDB with the tables of another, and their rows."""
    connection.exec_driver_sql(f"USE {name}")
    connection.exec_driver_sql(
        "SET SESSION foreign_key_checks = 0, sql_mode = 'TRADITIONAL,NO_AUTO_VALUE_ON_ZERO'"
    )
    for table in connection.exec_driver_sql(f"SHOW TABLES FROM {template}").scalars().all():
        _, made_by = connection.exec_driver_sql(f"SHOW CREATE TABLE {template}.{table}").one()
        connection.exec_driver_sql(made_by.replace("%", "%%"))
        connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM {template}.{table}")

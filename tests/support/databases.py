"""Scratch databases on the real engines.

SQLite is always there. A PostgreSQL and a MariaDB server are used where PLACEMENT_TEST_POSTGRESQL and
PLACEMENT_TEST_MYSQL name them (SQLAlchemy URLs of an account that may create databases), or where one
answers on this machine without a password. Under CI=true both must be there.
"""

import contextlib
import functools
import importlib.util
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from placement.db.database import Database
from placement.db.engine import make_engine

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


def _admin_engine(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool
    )


@functools.cache
def admin_url(kind: str) -> str | None:
    """Return the URL of a server of this kind that lets us create databases, or None."""
    named = os.environ.get(_VARIABLE[kind])
    for url in (named,) if named else _LOCAL[kind]:
        try:
            with _admin_engine(url).connect() as connection:
                connection.exec_driver_sql("SELECT 1")
        except Exception:
            continue
        return url
    return None


def available(kind: str) -> bool:
    """Say whether databases of this kind can be made here."""
    return kind == "sqlite" or admin_url(kind) is not None


def require(kind: str) -> None:
    """Skip the test where there is no server of this kind; fail it where there must be one."""
    if available(kind):
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI needs a {kind} server: see {_VARIABLE[kind]}")
    pytest.skip(f"no {kind} server here: see {_VARIABLE[kind]}")


@contextlib.contextmanager
def scratch_route(route: str) -> Iterator[str]:
    """Make an empty database, yield the URL that leads to it by one of ``ROUTES``, and drop it."""
    kind, driver = ROUTES[route]
    if route == "mysqlclient" and importlib.util.find_spec("MySQLdb") is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs mysqlclient")
        pytest.skip("mysqlclient is not installed")
    with scratch_database(kind) as given:
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
def scratch_database(kind: str) -> Iterator[str]:
    """Make an empty database, yield its SQLAlchemy URL, and drop it."""
    require(kind)
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="placement-") as folder:
            yield f"sqlite:///{Path(folder) / 'placement.sqlite'}"
        return
    url = admin_url(kind)
    assert url is not None
    name = f"placement_{uuid.uuid4().hex[:12]}"
    engine = _admin_engine(url)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
        if kind == "postgresql":
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
    try:
        made = sqlalchemy.make_url(url).set(database=name)
        yield made.render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            force = " WITH (FORCE)" if kind == "postgresql" else ""
            connection.exec_driver_sql(f"DROP DATABASE {name}{force}")

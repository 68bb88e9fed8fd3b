"""Scratch databases for the servers we start, made new and dropped at the end."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import create_engine, make_url
from sqlalchemy.engine import URL

from placement.db.engine import with_default_driver

ADMINISTRATION = {
    "postgresql": "postgresql://postgres@127.0.0.1:5432/postgres",
    "mysql": "mysql://root@127.0.0.1:3306/mysql",
}

# What decides how long a commit takes, and so belongs beside every figure.
SETTINGS = {
    "postgresql": "SELECT version() AS version, current_setting('synchronous_commit') AS"
    " synchronous_commit, current_setting('fsync') AS fsync,"
    " current_setting('shared_buffers') AS shared_buffers",
    "mysql": "SELECT version() AS version, @@innodb_flush_log_at_trx_commit AS"
    " flush_log_at_trx_commit, @@innodb_buffer_pool_size AS buffer_pool, @@log_bin AS log_bin",
    "sqlite": "SELECT sqlite_version() AS version",
}


@contextmanager
def scratch(kind: str, administration: str | None = None, name: str = "bench") -> Iterator[str]:
    """Make an empty database of that kind; yield its SQLAlchemy URL; drop it.

    :param administration: URL that may create databases; the local server's by default.
    :param name: part of its name, for a process that makes several.
    """
    if kind == "sqlite":
        directory = tempfile.mkdtemp(prefix="placement-bench-")
        try:
            yield f"sqlite:///{directory}/placement.sqlite"
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return
    url = with_default_driver(make_url(administration or ADMINISTRATION[kind]))
    name = f"placement_{name}_{os.getpid()}"
    _administer(url, f"DROP DATABASE IF EXISTS {name}")
    _administer(url, f"CREATE DATABASE {name}")
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        _administer(url, f"DROP DATABASE IF EXISTS {name}{force}")


def _administer(url: URL, statement: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    finally:
        engine.dispose()


def settings(url: str) -> dict[str, Any]:
    """Return version and durability settings of the database, for the record."""
    engine = create_engine(with_default_driver(make_url(url)))
    try:
        with engine.connect() as connection:
            row = connection.exec_driver_sql(SETTINGS[engine.dialect.name]).mappings().one()
            found = dict(row) | {"driver": engine.dialect.driver}
    finally:
        engine.dispose()
    return found

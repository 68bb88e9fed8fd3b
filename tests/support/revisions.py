"""Fixtures of several folders: a database of each kind, empty or at a revision."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from placement.db import schema
from placement.db.database import Database
from tests.support.databases import opened, scratch_database

KINDS = {
    "sqlite": pytest.param("sqlite"),
    "postgresql": pytest.param("postgresql", marks=pytest.mark.postgresql),
    "mysql": pytest.param("mysql", marks=pytest.mark.mysql),
}


def on(*kinds: str) -> pytest.MarkDecorator:
    """Let a test have databases of these kinds only."""
    return pytest.mark.parametrize("kind", [KINDS[kind] for kind in kinds])


def at(*revisions: str) -> pytest.MarkDecorator:
    """Let a test begin with a database at each of these revisions."""
    return pytest.mark.parametrize("revision", revisions)


AT_HEAD = at(schema.HEAD)


@pytest.fixture(params=KINDS.values())
def kind(request: pytest.FixtureRequest) -> str:
    """SQLite, PostgreSQL or MariaDB."""
    return str(request.param)


@pytest.fixture
def revision() -> str | None:
    """The revision that the database begins with: none, unless the test is marked by :func:`at`."""
    return None


@pytest.fixture
def url(kind: str, revision: str | None) -> Iterator[str]:
    """The URL of a database without rows: empty, or at the revision."""
    with scratch_database(kind, revision) as made:
        yield made


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The database under the URL."""
    with opened(url) as found:
        yield found


def execute(database: Database, *statements: str) -> None:
    """Execute statements, each in a transaction of its own."""
    with database.engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@pytest.fixture
def synced() -> Iterator[str]:
    """The URL of an SQLite file with the schema and no rows."""
    with scratch_database("sqlite", schema.HEAD) as made:
        yield made


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'placement.sqlite'}"

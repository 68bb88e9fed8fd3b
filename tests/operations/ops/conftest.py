"""A database of each kind, empty or at a revision, and the commands of the service."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placement.db import schema
from placement.db.database import Database
from tests.support.commands import Forked
from tests.support.databases import opened, scratch_database

KINDS = {
    "sqlite": pytest.param("sqlite"),
    "postgresql": pytest.param("postgresql", marks=pytest.mark.postgresql),
    "mysql": pytest.param("mysql", marks=pytest.mark.mysql),
}

Command = Callable[..., "subprocess.CompletedProcess[str]"]


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
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which no configuration is found by chance."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**inherited, "HOME": str(tmp_path), "PYTHONWARNINGS": "ignore", "COLUMNS": "120"}


@pytest.fixture
def command(environment: dict[str, str]) -> Command:
    """Run a console script: ``command("placement-manage", "db", "sync", url=url)``."""

    def run(
        program: str, *arguments: str, url: str | None = None, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        named = {"OS_PLACEMENT_DATABASE__CONNECTION": url} if url else {}
        return Forked(program, *arguments, environment={**environment, **named, **more}).wait()

    return run


START = """
import gc
from placement.wsgi.api import application
print("COLLECTABLE", len(gc.get_objects()))
import webob
status = webob.Request.blank("/").get_response(application).status_int
print("STARTED", status)
"""
START_LINE = ("-c", START, "--config-file", "/no/option/of/ours", "--bogus")
"""What starts the application; its command line means nothing to us."""

SYNC = {"OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true"}


def of_start(environment: dict[str, str], url: str | None, **more: str) -> dict[str, str]:
    """Return the environment of a start on this database."""
    named = {"OS_PLACEMENT_DATABASE__CONNECTION": url} if url else {}
    common = {"OS_API__AUTH_STRATEGY": "noauth2", "OS_PLACEMENT_DATABASE__MAX_RETRIES": "0"}
    return {**environment, **common, **named, **more}


@pytest.fixture
def start(environment: dict[str, str]) -> Command:
    """Import the application in a new process: ``start(url, OS_DEFAULT__DEBUG="true")``."""

    def run(url: str | None = None, **more: str) -> "subprocess.CompletedProcess[str]":
        return Forked(*START_LINE, environment=of_start(environment, url, **more)).wait()

    return run


def critical(result: "subprocess.CompletedProcess[str]") -> str:
    """Return the one line that says why there is no application."""
    assert result.returncode == 1
    log = (result.stdout + result.stderr).splitlines()
    (line,) = [line for line in log if "The service does not start: " in line]
    return line


@pytest.fixture
def synced() -> Iterator[str]:
    """The URL of an SQLite file with the schema and no rows."""
    with scratch_database("sqlite", schema.HEAD) as made:
        yield made


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'placement.sqlite'}"

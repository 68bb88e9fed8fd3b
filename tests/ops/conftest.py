"""A database of each kind, empty, and the commands of the service."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.databases import scratch_database

MARKS = {"postgresql": [pytest.mark.postgresql], "mysql": [pytest.mark.mysql], "sqlite": []}

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=[pytest.param(kind, marks=MARKS[kind]) for kind in MARKS])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database."""
    with scratch_database(request.param) as made:
        yield made


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The empty database."""
    opened = Database(make_engine(url))
    yield opened
    opened.dispose()


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
        return subprocess.run(
            [str(Path(sys.executable).parent / program), *arguments],
            env={**environment, **named, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'placement.sqlite'}"

"""Fixtures of several folders: the programs of the service, in an environment that configures nothing."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Forked

Command = Callable[..., "subprocess.CompletedProcess[str]"]


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

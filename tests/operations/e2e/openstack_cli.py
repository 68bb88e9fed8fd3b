"""The real ``openstack`` command with osc-placement, forked for each line; the live pages start it."""

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import distributions
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.commands import FORKS, be
from tests.support.deployment import PROGRAMS
from tests.support.processes import require_program


def admin_token_environment(url: str) -> dict[str, str]:
    """Return the environment of a client that shows a fixed token to a fixed endpoint."""
    return {
        "OS_AUTH_TYPE": "admin_token",
        "OS_ENDPOINT": url,
        "OS_TOKEN": "admin",
        "OS_PLACEMENT_API_VERSION": "1.39",
    }


class Shell:
    """Runs commands and keeps a transcript of what was typed and printed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        require_program("openstack", str(PROGRAMS))
        kept = {name: text for name, text in os.environ.items() if not name.startswith("OS_")}
        self.environment = {**kept, **environment, "COLUMNS": "160"}
        self.transcript: list[str] = []

    def _run(self, line: str, *more: str) -> subprocess.CompletedProcess[str]:
        words = [*shlex.split(line), *more]
        with tempfile.TemporaryDirectory(prefix="placement-command-") as folder:
            outputs = f"{folder}/stdout", f"{folder}/stderr"
            _forker().send((words, self.environment, outputs))
            code = _forker().recv()
            return subprocess.CompletedProcess(words, code, *(Path(each).read_text() for each in outputs))

    def run(self, line: str) -> str:
        """Run ``openstack ...``, which must succeed, and return what it prints."""
        done = self._run(line)
        self.transcript.append(f"$ {line}\n{done.stdout}")
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, line: str) -> Any:
        """Run a command for its result as JSON; not part of the transcript."""
        done = self._run(line, "-f", "json")
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def fail(self, line: str) -> str:
        """Run a command that must fail; return its message."""
        done = self._run(line)
        self.transcript.append(f"$ {line}\n{done.stderr}")
        assert done.returncode != 0, f"{line}\n{done.stdout}"
        return done.stderr


@cache
def _forker() -> Connection:
    """Return the way to a process that has loaded what the commands load, and forks for each of them.

    A command takes a twentieth of a second of the processor so, and a whole one with what it loads.
    """
    ours, its_own = FORKS.Pipe()
    FORKS.Process(target=_fork_commands, args=(its_own,), daemon=True).start()
    return ours


def _fork_commands(asked: Connection) -> None:
    """Run commands one after another, until nobody asks for more."""
    from osc_placement.resources.resource_provider import ListResourceProvider
    from stevedore import ExtensionManager

    for group in {each.group for found in distributions() for each in found.entry_points}:
        if group.startswith(("openstack.", "cliff.", "keystoneauth1.")):
            ExtensionManager(group)
    # Its help names its package, which is looked for in all that are installed.
    ListResourceProvider(None, None).get_parser("")
    while True:
        words, environment, outputs = asked.recv()
        child = os.fork()
        if child == 0:
            be(words, environment, outputs)
        asked.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

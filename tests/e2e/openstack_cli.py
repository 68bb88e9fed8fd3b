"""The real ``openstack`` command with osc-placement, forked for each line; the live pages start it."""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.support.commands import Forked
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
        return Forked(*shlex.split(line), *more, environment=self.environment).wait()

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

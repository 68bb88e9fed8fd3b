"""The steps of a page that shows what somebody else's tool does: files that it writes, commands that it runs.

A file is a block whose caption is its path. A command is a line of a block of ``sh``.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import deployment
from tests.support.commands import Forked
from tests.support.processes import PATIENCE, Process, require_program, wait_until

ANSWERS_S = 60


@dataclass(frozen=True)
class Step:
    """A file or a command.

    :param path: of the file; empty for a command.
    """

    path: str
    text: str


def steps(page: str, tool: str, step: str) -> list[Step]:
    """Return the steps under a heading of the second level (``~``) under one of the first (``-``).

    :raises KeyError: there is no such heading.
    """
    under = _sections(_sections(page, "-")[tool], "~")[step]
    found = []
    block = r"^\.\. code-block:: (\w+)\n(?: {3}:caption: (\S+)\n)?\n((?: {3}.*\n|\n)+)"
    for language, path, indented in re.findall(block, under, re.M):
        text = re.sub(r"^ {3}", "", indented, flags=re.M).strip() + "\n"
        if path:
            found.append(Step(path, text))
        elif language == "sh":
            found += [Step("", line) for line in text.splitlines()]
    return found


def _sections(text: str, line: str) -> dict[str, str]:
    """Return the texts under the headings that are underlined so, by heading."""
    parts = re.split(rf"^(\S.*)\n{re.escape(line)}{{3,}}\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@dataclass
class Stage:
    """Where the steps are taken: a folder stands for the root of the machine.

    :param folder: every path that begins with one of ``roots`` is in there.
    :param environment: added to that of the test.
    :param words: what stands on the page, and what it is here.
    :param left_out: commands that begin so are not run.
    :param modules: of Apache.
    :param forks: the programs of the service are those that run the tests, and are forked.
    """

    page: str
    folder: Path
    environment: Mapping[str, str]
    roots: tuple[str, ...]
    words: dict[str, str]
    left_out: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    forks: bool = True
    taken: list[str] = field(default_factory=list)
    server: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def take(self, tool: str, step: str, between: Callable[[], object] = lambda: None) -> None:
        """Take the steps under a heading.

        A server takes the place of the one before it, and what follows is repeated until it succeeds.

        :param between: called after each command, and after a server's start once it answers.
        """
        starts = False
        for each in steps(self.page, tool, step):
            if each.path:
                self._write(each)
                continue
            if each.text.startswith(self.left_out or ("\0",)):
                continue
            self.taken.append(each.text)
            command = self.here(each.text)
            if each.text.startswith("uwsgi "):
                self._start_uwsgi(command)
                starts = True
            elif each.text == "systemctl reload apache2":
                self._start_apache()
                starts = True
            elif starts:
                wait_until(command, lambda: self.ran(command).returncode == 0, ANSWERS_S)  # noqa: B023
                starts = False
            else:
                self.run(command)
            if not starts:
                between()

    def run(self, command: str) -> str:
        """Run a command of this machine, which must succeed; return what it printed on both streams."""
        done = self.ran(command)
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    def ran(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of this machine; stderr is in its ``stdout``."""
        environment = {**os.environ, **self.environment}
        if self.forks and re.fullmatch(r"placement-[\w -]+", command):
            done = Forked(*command.split(), environment=environment).wait()
            done.stdout += done.stderr
            return done
        return subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300 * PATIENCE,
        )

    def here(self, text: str) -> str:
        """Return a text of the page with the words and paths of this machine; their folders are made."""
        for shown, real in self.words.items():
            text = text.replace(shown, real)
        roots = "|".join(map(re.escape, self.roots))
        path = rf"(?<![\w./])(?:{roots})(?:/[\w./*-]*)?(?![\w-])"
        return re.sub(path, lambda shown: self._path(shown[0]), text)

    def _path(self, shown: str) -> str:
        path = self.folder / shown.lstrip("/")
        for each in reversed(path.relative_to(self.folder).parents[:-1]):
            (self.folder / each).mkdir(exist_ok=True)
            # The servers run as users of their own.
            (self.folder / each).chmod(0o777)
        return f"{path}/" if shown.endswith("/") else str(path)

    def _write(self, step: Step) -> None:
        """Add to a file."""
        with Path(self._path(step.path)).open("a") as file:
            file.write(self.here(step.text) + "\n")

    def _start_uwsgi(self, command: str) -> None:
        self.server.close()
        program, *words = command.split()
        if self.forks:
            words.append(f"--shared-import={deployment.MODULES}")
        path = self.environment.get("PATH", "")
        self.server.enter_context(
            Process(
                "uwsgi",
                [require_program(program, *path.split(os.pathsep)), *words],
                folder=self.folder,
                environment=self.environment,
            )
        )

    def _start_apache(self) -> None:
        files = sorted((self.folder / "etc/apache2/sites-enabled").iterdir())
        text = "".join(each.read_text() for each in files)
        site = deployment.apache(self.folder, dict(self.environment), text, *self.modules)
        self.words["http://127.0.0.1/placement"] = self.server.enter_context(site).url

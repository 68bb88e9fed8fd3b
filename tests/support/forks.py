"""Servers that are forked from a process which has imported the service, beside those that are started.

A forked server takes a tenth of a second of the processor before it serves, a started one a whole second. All
that one process forks have one seed of hashes: where the order in which servers go through a set may matter,
one of them is started.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.support.commands import SERVICE, be
from tests.support.databases import until_exit
from tests.support.processes import Process

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).parent / "placement-api"
PR_SET_PDEATHSIG = 1


class Forker:
    """A process that has imported the service.

    :param package: the folder of another release of it.
    """

    def __init__(self, package: Path | None = None) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-c", "from tests.support import forks; forks.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Looked through in this order.
            cwd=package or ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def __enter__(self) -> "Forker":
        return self

    def __exit__(self, *_: object) -> None:
        # It ends when there is nothing more to read, and what it has forked ends with it.
        self._popen.communicate()

    def fork(self, **wanted: object) -> "Fork":
        """Return a new process, which leads a group of its own. What is wanted: see :func:`serve`."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        print(json.dumps(wanted), file=self._popen.stdin, flush=True)
        return Fork(int(self._popen.stdout.readline()))


class Fork:
    """What :class:`Process` uses of a ``Popen``. Nobody is told how it ended."""

    returncode = "nobody knows how"

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def poll(self) -> str | None:
        """Return None while it runs."""
        return self.returncode if select.select([self._descriptor], [], [], 0)[0] else None

    def wait(self, timeout_s: float) -> None:
        """Wait for its end."""
        if not select.select([self._descriptor], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired("a forked process", timeout_s)

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)


class ForkedProcess(Process):
    """One of our programs in a process of its own, its output in a file."""

    def __init__(
        self,
        name: str,
        program: str,
        *arguments: object,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        forker: Forker | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.popen = (forker or _this_release()).fork(
            command=[program, *map(str, arguments)],
            environment={**os.environ, **(environment or {})},
            folder=str(folder),
            log=str(self.log),
        )


def placement_api(
    name: str,
    *arguments: object,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    started: bool = False,
) -> Process:
    """Run ``placement-api``.

    :param started: as an operator does, with a seed of hashes of its own.
    """
    if started:
        command = [str(PROGRAM), *map(str, arguments)]
        return Process(name, command, folder=folder, environment=environment)
    return ForkedProcess(name, PROGRAM.name, *arguments, folder=folder, environment=environment)


@cache
def _this_release() -> Forker:
    return until_exit(Forker())


def serve() -> None:
    """Fork a process for each line, which writes its id once it leads its group."""
    for module in SERVICE:
        import_module(module)
    for line in sys.stdin:
        with contextlib.suppress(ChildProcessError):
            # The tests hold descriptors of those that have ended.
            while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                pass
        if not os.fork():
            wanted = json.loads(line)
            os.setsid()
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            print(os.getpid(), flush=True)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.chdir(wanted["folder"])
            be(wanted["command"], wanted["environment"], (wanted["log"],) * 2)

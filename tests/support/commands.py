"""Programs in processes of their own, forked from one that has imported what they need.

A command takes a tenth of a second of the processor so, and a whole one with its imports. What begins here
begins where ``main()`` is called; ``tests/cmd/test_cmd_programs.py`` starts each program as an
operator does.
"""

import atexit
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from placement.cmd.completion import MODULES
from tests.support.processes import PATIENCE

SERVICE = (
    "alembic.command",
    "keystonemiddleware.auth_token",
    "psycopg2",
    "pymysql",
    "placement.deploy",
    "placement.cmd.api",
    "placement.cmd.manage",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "sqlalchemy.dialects.sqlite",
)
"""What the service and its commands import."""

STOPPING = """
import importlib, itertools, os, signal, sys
from placement.cmd import manage
module, name, *arguments = sys.argv[1:]
owner, calls = importlib.import_module(module), itertools.count(1)
real = getattr(owner, name)
def stopping(*given, **more):
    done = real(*given, **more)
    if next(calls) == 3:
        os.kill(os.getpid(), signal.SIGSTOP)
    return done
setattr(owner, name, stopping)
sys.exit(manage.run(arguments))
"""
"""``placement-manage``, which stops after the third call of a function of its own."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        __name__,
        *SERVICE,
        "openstackclient.shell",
        "osc_placement.plugin",
        "placement.cmd.compare",
        "placement.cmd.migrate_inventory",
        "placement.cmd.status",
        "placement.cmd.tree",
    ]
)


class Forked:
    """A console script, or a text of Python, that runs beside the test.

    :param program: the name of a console script of ours; ``openstack``; or ``-c``: the first argument is
        the text.
    :param environment: all of its variables.
    :param stderr: a file or terminal that takes it, and is not read.
    """

    def __init__(
        self,
        program: str,
        *arguments: str,
        environment: Mapping[str, str],
        stderr: str | None = None,
    ) -> None:
        self._said = Path(tempfile.mkdtemp(prefix="placement-command-"))
        atexit.register(shutil.rmtree, self._said, ignore_errors=True)
        self._command = [program, *arguments]
        outputs = (str(self._said / "stdout"), stderr or str(self._said / "stderr"))
        self._process = FORKS.Process(target=be, args=(self._command, dict(environment), outputs))
        self._process.start()

    @property
    def runs(self) -> bool:
        """False once it has ended."""
        return self._process.exitcode is None

    def printed(self) -> str:
        """Return what it has printed so far, but for errors."""
        file = self._said / "stdout"
        return file.read_text() if file.exists() else ""

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()

    def wait(self, timeout_s: float = 120.0) -> "subprocess.CompletedProcess[str]":
        """Return its exit code and what it has printed.

        :raises subprocess.TimeoutExpired: it took longer, and was killed.
        """
        self._process.join(timeout_s * PATIENCE)
        if self._process.exitcode is None:
            self._process.kill()
            raise subprocess.TimeoutExpired(self._command, timeout_s)
        said = [
            file.read_text() if (file := self._said / name).exists() else ""
            for name in ("stdout", "stderr")
        ]
        shutil.rmtree(self._said)
        return subprocess.CompletedProcess(self._command, self._process.exitcode, *said)


def be(command: Sequence[str], environment: Mapping[str, str], outputs: tuple[str, str]) -> None:
    """Be the program, in a new process."""
    os.environ.clear()
    os.environ.update(environment)
    warnings.resetwarnings()
    warnings.simplefilter(environment.get("PYTHONWARNINGS", "default"))  # type: ignore[arg-type]
    for number, name in enumerate(outputs, start=1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOCTTY, 0o600), number)
    program, *arguments = command
    if program == "-c":
        text, *arguments = arguments
        sys.argv = ["-c", *arguments]
        exec(text, {"__name__": "__main__"})
        return
    sys.argv = [program, *arguments]
    module = "openstackclient.shell" if program == "openstack" else f"placement.cmd.{MODULES[program]}"
    sys.exit(import_module(module).main())


STAND_IN = """\
#!{python} -IS
import _socket, json, os, sys
door = _socket.socket(_socket.AF_UNIX)
door.connect({door!r})
sent = os.getpid(), [{program!r}, *sys.argv[1:]], dict(os.environ), os.getcwd()
door.send(json.dumps(sent).encode() + b"\\n")
os._exit(door.recv(1)[0])
"""


@contextlib.contextmanager
def forked_for_shells(folder: Path, *programs: str) -> Iterator[Path]:
    """Make a folder for the front of ``PATH``: its programs are forked, and have the shell's streams."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            process = FORKS.Process(target=_be_instead, args=json.loads(self.rfile.readline()))
            process.start()
            process.join()
            assert process.exitcode is not None
            self.wfile.write(bytes([process.exitcode % 256]))

    place, door = folder / "programs", str(folder / "door")
    place.mkdir()
    for program in programs:
        stand_in = place / program
        stand_in.write_text(STAND_IN.format(python=sys.executable, door=door, program=program))
        stand_in.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(door, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield place
        finally:
            server.shutdown()
            thread.join()


def _be_instead(
    pid: int, command: Sequence[str], environment: dict[str, str], folder: str
) -> None:
    """Be the program for a process that waits for its end."""
    streams = [f"/proc/{pid}/fd/{number}" for number in range(3)]
    os.dup2(os.open(streams[0], os.O_RDONLY), 0)
    os.chdir(folder)
    be(command, environment, (streams[1], streams[2]))


def kill_in_third(url: str, function: str, *arguments: str) -> None:
    """Run ``placement-manage db``, and kill it inside the third transaction that calls a function."""
    module, _, name = function.rpartition(".")
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPING, module, name, "db", *arguments], env=naming(url)
    )
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), f"it ended before: {status}"
    process.kill()
    process.wait()


def naming(url: str) -> dict[str, str]:
    """Return this environment with the URL of the service's database."""
    return {**os.environ, "OS_PLACEMENT_DATABASE__CONNECTION": url}

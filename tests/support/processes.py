"""Real processes for tests: start, wait until they answer, freeze, kill, stop; nothing outlives pytest."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.network import HERE, Machine

POLL_S = 0.05


def patience() -> float:
    """Return how many times as long the load of the machine lets everything take now."""
    return min(1.0 + os.getloadavg()[0] / (os.cpu_count() or 1), 10.0)


PATIENCE = float(os.environ.get("PLACEMENT_TEST_PATIENCE") or patience())
"""Every deadline of the tests is that many times as long: for a machine that is busy with other things.

Unless it is given, it is what the load says when the tests begin: so many want each processor beside them. A
wait for another process also looks at the load when it begins.
"""

ENDS_S = 120 * PATIENCE
"""By then a command or a request has ended that takes a few seconds on a machine that does nothing else."""


def wait_until(what: str, is_true: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Ask again and again until the answer is true; fail with ``what`` after ``timeout_s``."""
    timeout_s *= max(PATIENCE, patience())
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        # The other side is another process: there is nothing to wait on but the clock.
        time.sleep(POLL_S)


def lacking(what: str) -> None:
    """Skip the test for want of a program; fail it in CI, where everything must be there."""
    if os.environ.get("CI"):
        pytest.fail(f"CI needs {what}: see .ci/install")
    pytest.skip(f"{what} is not installed here: see .ci/install")


def require_program(name: str, *elsewhere: str) -> str:
    """Return the path of a program, looked up in PATH, the sbin beside each bin of it, and ``elsewhere``."""
    places = os.environ.get("PATH", "").split(os.pathsep)
    places += [f"{place.removesuffix('bin')}sbin" for place in places if place.endswith("/bin")]
    found = shutil.which(name, path=os.pathsep.join([*places, *elsewhere]))
    if found is None:
        lacking(f"the program {name}")
        raise AssertionError
    return found


def free_ports(count: int) -> list[int]:
    """Return that many TCP ports on which nobody listens.

    They lie below those that the system gives to outgoing connections (on Linux from 32,768 on): until the
    server listens, no client of another test can be given one. Each process of a run has its own ports, since
    another may be given a port before the server listens. They are drawn from the system: Hypothesis seeds
    ``random`` alike in every process.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = 10_000 + worker + workers * secrets.randbelow(22_768 // workers)
            each = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                each.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def free_port() -> int:
    """Return one TCP port on which nobody listens."""
    return free_ports(1)[0]


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Say whether somebody accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def answers(url: str) -> bool:
    """Say whether an HTTP server answers under the URL, with whatever status below 500."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as refusal:
        return refusal.code < 500
    except OSError:
        return False


def ran(
    command: Sequence[str | Path], *, check: bool = False, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; return what it printed, and how it ended.

    :param check: fail the test with what it printed, if it fails.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@contextlib.contextmanager
def public_folder(prefix: str, under: str | None = None) -> Iterator[Path]:
    """Make a temporary folder that other users may enter (pytest's own may not be), and remove it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=under))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_user(user: str | None) -> list[str]:
    """Return the words before a command that run it as ``user`` if we are root, and kill it with us.

    The kernel ties the command to the thread that starts it: start from the main thread.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    words = [setpriv, "--pdeathsig", "KILL"]
    if user is not None and os.geteuid() == 0:
        words += ["--reuid", user, "--regid", user, "--init-groups"]
    return words


class Process:
    """One started command with its children, its output in a file.

    :param name: for messages and the name of the log.
    :param user: run as this user if we are root.
    :param machine: where it runs.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        machine: Machine = HERE,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as output:
            self.popen = subprocess.Popen(
                [*machine.enter, *as_user(user), *map(str, command)],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the command (not of its children)."""
        return self.popen.pid

    @property
    def runs(self) -> bool:
        """False once the command has ended."""
        return self.popen.poll() is None

    def output(self, last: int = 4000) -> str:
        """Return the last characters of what it has printed."""
        return self.log.read_text(errors="replace")[-last:]

    def wait_until(
        self, what: str, is_true: Callable[[], object], timeout_s: float = 30.0
    ) -> "Process":
        """Wait for a fact about this process; fail with its output if it ends first or is too slow."""

        def true_or_dead() -> object:
            if not self.runs:
                raise AssertionError(
                    f"{self.name} ended ({self.popen.returncode}) before {what}:\n{self.output()}"
                )
            return is_true()

        try:
            wait_until(what, true_or_dead, timeout_s)
        except AssertionError as failure:
            raise AssertionError(f"{self.name}: {failure}\n{self.output()}") from None
        return self

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command alone."""
        self.popen.send_signal(number)

    def send_all(self, number: signal.Signals) -> None:
        """Send a signal to the command and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, number)

    def kill(self) -> None:
        """End it and its children at once, like a power cut."""
        # A stopped child would not notice that its parent is gone.
        self._send_children(signal.SIGKILL)
        self.send_all(signal.SIGKILL)
        self.popen.wait(10 * PATIENCE)

    def freeze(self) -> None:
        """Stop it and its children where they are, and wait until they stand still."""
        self.send_all(signal.SIGSTOP)
        self._send_children(signal.SIGSTOP)
        wait_until(f"{self.name} stands still", self._stands_still)

    def thaw(self) -> None:
        """Let it go on."""
        self._send_children(signal.SIGCONT)
        self.send_all(signal.SIGCONT)

    def _stands_still(self) -> bool:
        """Say whether every thread has stopped: one that runs goes on for a moment after the signal."""
        try:
            stats = [
                stat.read_text()
                for process in (self.pid, *self._children())
                for stat in Path(f"/proc/{process}/task").glob("*/stat")
            ]
        except OSError:
            # A thread has ended since it was listed.
            return False
        return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in stats)

    def _send_children(self, number: signal.Signals) -> None:
        """Send a signal to those that lead groups of their own, as PostgreSQL's do."""
        for child in self._children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def _children(self) -> list[int]:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
            return [int(child) for child in children.read_text().split()]
        return []

    def stop(self, timeout_s: float = 20.0, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end; kill what does not."""
        if self.runs:
            self.thaw()
            self.send(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(timeout_s)
        # Children may outlive a command that ended by itself.
        self.send_all(signal.SIGKILL)
        self.popen.wait(10 * PATIENCE)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Startable:
    """What is started, frozen, killed and started again: one process at the most at a time."""

    process: Process | None = None

    @property
    def running(self) -> Process:
        """The process, which must have been started."""
        assert self.process is not None
        return self.process

    def kill(self) -> None:
        """SIGKILL, if it was started."""
        if self.process is not None:
            self.process.kill()

    def freeze(self) -> None:
        """SIGSTOP: its kernel goes on to take connections."""
        self.running.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        self.running.thaw()

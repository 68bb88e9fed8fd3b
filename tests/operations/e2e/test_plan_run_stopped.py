"""Ctrl-C, a kill and a terminal of ``openstack placement plan run``, as a process of its own."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.operations.e2e.test_plan_run import (
    HOST,
    OTHER,
    SERVER,
    STOPPED,
    UNKNOWN,
    World,
    world,
)
from tests.support.commands import Forked
from tests.support.deployment import PROGRAMS
from tests.support.processes import ENDS_S, wait_until

pytestmark = pytest.mark.deploy
__all__ = ["world"]

RUN = ["placement", "plan", "run", "--empty", "host-1"]
MIGRATION = UNKNOWN
STOPPING = "Stopping: no more steps begin."


def _heed_signals() -> None:
    """Undo what a shell does that starts CI in the background, or by nohup: all below it ignore these."""
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


class Command:
    """``plan run`` beside the test, started as from a shell."""

    def __init__(self, world: World, folder: Path, *more: str) -> None:
        self.said = folder / "stderr"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [PROGRAMS / "openstack", *RUN, *more],
                env=world.shell.environment,
                stdout=subprocess.DEVNULL,
                stderr=said,
                preexec_fn=_heed_signals,
            )

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt(self, which: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(which)

    def wait_for(self, words: str) -> None:
        wait_until(words, lambda: words in self.said.read_text(), ENDS_S)

    def end(self) -> str:
        """Wait for its end, which is a failure; return what it has said."""
        assert self.process.wait(ENDS_S) == 1
        return self.said.read_text()


class SlowNova:
    """Steps of this Nova end when the test says so.

    ``asked``: how often was asked for a server that moves.
    """

    def __init__(self, world: World) -> None:
        self.nova, self.asked = world.nova, 0
        self.nova.when_acted, self.nova.when_asked = self._begin, self._count

    def _begin(self, server: dict[str, Any]) -> None:
        server["status"] = "MIGRATING"

    def _count(self, path: str, _: object) -> None:
        self.asked += any(path.endswith(f"/servers/{uuid}") for uuid in (SERVER, STOPPED))

    def finish(self) -> None:
        """Let what is under way end, and all that follows end at once."""
        self.nova.when_acted = lambda server: None
        for server in self.nova.servers:
            if server["status"] == "MIGRATING":
                server["status"] = "ACTIVE"


@pytest.fixture
def slow(world: World) -> SlowNova:
    """Both servers run, so that each step is one request."""
    for server in world.nova.servers:
        server["status"] = "ACTIVE"
    return SlowNova(world)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_interrupt_waits_for_the_step_under_way(
    world: World, slow: SlowNova, tmp_path: Path, which: signal.Signals
) -> None:
    """It says what is done and what is left; the same command goes on from there."""
    with Command(world, tmp_path) as command:
        wait_until("a step is under way", lambda: world.nova.actions, ENDS_S)
        command.interrupt(which)
        command.wait_for(STOPPING)
        before = slow.asked
        wait_until("it goes on to ask", lambda: slow.asked > before + 1, ENDS_S)
        assert command.process.poll() is None
        slow.finish()
        said = command.end()

    ((moved, _, _),) = world.nova.actions
    (left,) = {SERVER, STOPPED} - {moved}
    assert f"1 of 2: {moved} from host-1 to host-2: live migration\n" in said
    assert "it was told to stop; run it again to continue" in said
    assert "Done: 1 step. Left of the last plan: 1." in said
    assert f"Left: {left}\n" in said
    assert "under way: " not in said
    assert said.count(STOPPING) == 1
    assert "Done: 1 step, and the goal holds." in world.shell.run(" ".join(["openstack", *RUN]))
    assert [uuid for uuid, _, _ in world.nova.actions] == [moved, left]


def test_the_second_interrupt_ends_at_once(world: World, slow: SlowNova, tmp_path: Path) -> None:
    """What is under way goes on in Nova, and is named; the same command goes on once it has ended."""
    with Command(world, tmp_path, "--parallel", "2") as command:
        wait_until("two steps are under way", lambda: len(world.nova.actions) == 2, ENDS_S)
        command.interrupt()
        command.wait_for(STOPPING)
        command.interrupt()
        said = command.end()

    assert {server["status"] for server in world.nova.servers} == {"MIGRATING"}
    assert "Done: 0 steps. Left of the last plan: 2." in said
    for uuid in (SERVER, STOPPED):
        assert f"May still be under way: {uuid}\n" in said
    assert said.count(STOPPING) == 1
    slow.finish()
    assert "Done: 0 steps, and the goal holds." in world.shell.run(" ".join(["openstack", *RUN]))


@pytest.mark.parametrize("silent", ["/servers/detail", "/servers/[-0-9a-f]{36}"])
def test_the_second_interrupt_ends_where_nova_is_silent(
    world: World, tmp_path: Path, silent: str
) -> None:
    """While it plans, or while it waits for a step."""
    reached, over = threading.Event(), threading.Event()

    def say_nothing(path: str, _: object) -> None:
        if re.search(f"{silent}$", path):
            reached.set()
            over.wait(ENDS_S)

    world.nova.when_asked = say_nothing
    try:
        with Command(world, tmp_path) as command:
            assert reached.wait(ENDS_S)
            command.interrupt()
            command.wait_for(STOPPING)
            command.interrupt()
            said = command.end()
    finally:
        over.set()
    assert "it was told to stop" in said
    assert "Done: 0 steps" in said


def test_a_kill_leaves_a_migration_that_somebody_has_to_confirm(
    world: World, tmp_path: Path
) -> None:
    """The next run names it with the command for that, and confirms nothing: it may be an operator's own."""
    world.shell.run(f"openstack resource provider allocation delete {SERVER}")
    world.nova.servers[:1] = []
    migration = {
        "uuid": MIGRATION,
        "instance_uuid": STOPPED,
        "migration_type": "migration",
        "status": "finished",
        "source_node": "host-1",
        "dest_node": "host-2",
    }

    def hold_the_source(server: dict[str, Any]) -> None:
        """Do what Nova does; the command is killed before it has the answer."""
        world.claim(MIGRATION, HOST)
        world.nova.migrations.append(migration)
        command.process.kill()

    world.nova.when_acted = hold_the_source
    with Command(world, tmp_path) as command:
        assert command.process.wait(ENDS_S) == -signal.SIGKILL

    run = " ".join(["openstack", *RUN])
    for said in (world.shell.fail(run), world.shell.fail(run.replace("host-1", "host-2"))):
        (confirm,) = set(re.findall(r"openstack server resize confirm [-0-9a-f]{36}", said))
        assert f"openstack server resize revert {STOPPED}" in said
        assert "Stays: " in said
    assert [action for _, action, _ in world.nova.actions] == ["migrate"]

    def free_the_source(server: dict[str, Any]) -> None:
        world.nova.migrations[0]["status"] = "confirmed"
        assert world.site.send("DELETE", f"/allocations/{MIGRATION}").status == 204

    world.nova.when_acted = free_the_source
    world.shell.run(confirm)
    assert [action for _, action, _ in world.nova.actions] == ["migrate", "confirmResize"]
    assert "Done: 0 steps, and the goal holds." in world.shell.run(run)


@pytest.mark.parametrize(
    ("columns", "server"), [(100, "[-0-9a-f]{36}: "), (40, "")], ids=["wide", "narrow"]
)
def test_a_bar_on_a_terminal_and_lines_elsewhere(
    world: World, tmp_path: Path, columns: int, server: str
) -> None:
    """The bar is drawn over, and is gone at the end; a pipe has nothing but whole lines."""
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, columns))
    drawn: list[bytes] = []
    reading = threading.Thread(target=lambda: drawn.extend(_read_all(terminal)))
    reading.start()
    environment = world.shell.environment
    shown = Forked("openstack", *RUN, environment=environment, stderr=os.ttyname(end)).wait()
    os.close(end)
    reading.join(ENDS_S)
    os.close(terminal)
    assert (shown.returncode, shown.stdout) == (0, "Done: 2 steps, and the goal holds.\n")
    written = b"".join(drawn).decode()
    bar = rf"{server}\[(#*)\.*\] (\d/2 steps)"
    drawn_over = set(re.findall(rf"\r\x1b\[K{bar}(?=\r)", written))
    assert drawn_over == {("", "0/2 steps"), ("#" * 10, "1/2 steps"), ("#" * 20, "2/2 steps")}
    assert written.endswith("\r\x1b[K")
    told = re.sub(rf"\r\x1b\[K(({bar}|0 steps)(?=\r))?", "", written).splitlines()

    for server in (SERVER, STOPPED):
        world.claim(server, OTHER)
    back = [*RUN[:-1], "host-2"]
    plain = Forked("openstack", *back, environment=environment).wait()

    assert plain.returncode == 0
    assert "\x1b" not in plain.stderr
    assert "\r" not in plain.stderr
    lines = plain.stderr.splitlines()
    assert len(lines) == len(told) == 4
    assert [_without_names(line) for line in lines] == [_without_names(line) for line in told]
    assert re.fullmatch(
        rf"1 of 2: ({SERVER}|{STOPPED}) from host-2 to host-1: (live|cold) migration.*", lines[2]
    )


def _read_all(terminal: int) -> Iterator[bytes]:
    """Yield what is written until the other end is closed."""
    with contextlib.suppress(OSError):
        while text := os.read(terminal, 10_000):
            yield text


def _without_names(line: str) -> str:
    """Return a line in which the order of the servers, and the direction, make no difference."""
    line = re.sub(r"[0-9a-f-]{36}|host-\d", "X", line)
    return re.sub("(live migration|cold migration, confirmed)", "W", line)

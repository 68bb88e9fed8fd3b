"""Run the commands of pages against a real service and write their output into the pages.

In the pages named in ``STORIES`` every ``.. code-block:: sh`` is run by bash, all pages of a story in
one shell with a service of its own on an empty database. What a block prints stands in the
``.. code-block:: text`` (or ``json``) right after it; a block that prints nothing has none. ::

    python -m docs._tools.live_pages          # write the output into the pages

A test compares the pages with the output of this module. The addresses that readers use
(``http://127.0.0.1:8778``, ``/etc/placement``, ``/var/log/placement``) stand for those of the run, and the
folder of the run has the ``.venv``, ``var`` and ``examples`` of a checkout after ``tools/serve``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
SWITCH = ("howto/switch-over.rst",)
README = ("../README.rst",)
OUTLOOK = ("tutorial/drain.rst", "howto/capacity.rst")
HOLD = ("tutorial/hold.rst",)
HISTORY = ("howto/who-took-it.rst",)
ROOM = ("howto/make-room.rst",)
STORIES = (
    ("tutorial/five-minute-tour.rst",),
    (
        "tutorial/first-cloud.rst",
        "tutorial/first-claim.rst",
        "tutorial/nested-and-shared.rst",
        "tutorial/reshape.rst",
    ),
    README,
    OUTLOOK,
    ("howto/no-candidates.rst",),
    ("provider-trees.rst",),
    HOLD,
    ("howto/claim-eight-or-none.rst",),
    ROOM,
    ("howto/conflicts.rst", "howto/over-capacity.rst", "howto/health.rst"),
    ("howto/large-cloud.rst",),
    HISTORY,
    SWITCH,
)

SHOWN_URL = "http://127.0.0.1:8778"
SHOWN_FOLDER = "/etc/placement"
SHOWN_LOG = "/var/log/placement/placement.log"
LOG = "placement.log"
START_S = 30
COMMAND_S = 60
INDENT = "   "
HEX = "[0-9a-f]"
VOLATILE = (
    # Progress that a command prints only where it takes long.
    (r"(?m)^[a-z ]+: \d+ of \d+ rows(\n|\Z)", ""),
    (f"req-{HEX}{{8}}(-{HEX}{{4}}){{3}}-{HEX}{{12}}", "req-0f4a9ab5-0a2e-4f0b-a2a0-5c9d3c1f7d11"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+", "2026-11-21 12:00:00.000 4711"),
    (r"since \d{4}-\d\d-\d\d( +\|\n\|)? +\d\d:\d\d:\d\d(\.\d+)?", "since 2026-11-21 12:00:00"),
    (r"((?:\| +\d+ ){4})\| +\d+\.\d \| +\d+\.\d \|", r"\1|           4.0 |           3.0 |"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-11-21T12:05:00.000Z"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-11-21T12:00:00Z"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-11-21 12:00:00"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "Sat, 21 Nov 2026 12:00:00 GMT"),
)
END = "=== end of block ==="


class StoryFailed(Exception):
    """A command could not be run, or printed what no block shows."""


@dataclass(frozen=True)
class Block:
    """A command of a page and the lines that show its output.

    :param command: the lines of the shell.
    :param first: index of the line after the command's last.
    :param last: index after the last line of the output; ``first`` if there is none.
    :param language: of the output block.
    """

    command: str
    first: int
    last: int
    language: str


# -- pages -------------------------------------------------------------------------------------


def blocks(lines: list[str]) -> Iterator[Block]:
    """Return the commands of a page in order."""
    index = 0
    while index < len(lines):
        if lines[index] != ".. code-block:: sh":
            index += 1
            continue
        end = _end(lines, index + 1)
        command = _dedented(lines[index + 1 : end])
        follower = _next_text(lines, end)
        found = re.fullmatch(r"\.\. code-block:: (text|json)", lines[follower])
        last = _end(lines, follower + 1) if found else end
        yield Block(command, end, last, found[1] if found else "")
        index = last


def _end(lines: list[str], index: int) -> int:
    """Return the index after the last indented line from ``index`` on."""
    end = index
    for place in range(index, len(lines)):
        if lines[place].startswith(INDENT):
            end = place + 1
        elif lines[place]:
            break
    return end


def _next_text(lines: list[str], index: int) -> int:
    while index < len(lines) - 1 and not lines[index]:
        index += 1
    return min(index, len(lines) - 1)


def _dedented(lines: list[str]) -> str:
    return "\n".join(line.removeprefix(INDENT) for line in lines).strip("\n")


def rewritten(text: str, shell: "Shell") -> str:
    """Return a page with each command's output replaced by what the command has just printed.

    :raises StoryFailed: a command prints something and no block follows it, or the reverse.
    """
    lines = text.split("\n")
    made: list[str] = []
    done = 0
    for block in blocks(lines):
        printed = shell.run(block.command)
        made += lines[done : block.first]
        done = block.last
        if bool(printed) != bool(block.language):
            raise StoryFailed(f"{block.command}\nprinted:\n{printed}")
        if printed:
            made += ["", f".. code-block:: {block.language}", ""]
            made += [f"{INDENT}{line}".rstrip() for line in printed.split("\n")]
    return "\n".join(made + lines[done:])


# -- running -----------------------------------------------------------------------------------


class Shell:
    """One bash whose commands reach a service of their own.

    :param folder: stands for ``/etc/placement``.
    :param url: of the service.
    :param variables: of the shell; those of :func:`environment` if None.
    :param shown: further words of this run, each with what stands for it on the page.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        variables: dict[str, str] | None = None,
        shown: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._shown = (
            *shown,
            (url, SHOWN_URL),
            (f"{folder}/{LOG}", SHOWN_LOG),
            (str(folder), SHOWN_FOLDER),
        )
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(folder) if variables is None else variables,
            cwd=folder,
        )

    def run(self, command: str) -> str:
        """Return what the command prints on both streams."""
        for real, shown in self._shown:
            command = command.replace(shown, real)
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\necho; echo '{END}'\n")
        self._bash.stdin.flush()
        printed = []
        for line in self._bash.stdout:
            if line.rstrip("\n") == END:
                break
            printed.append(line)
        else:
            raise StoryFailed(f"bash ended in: {command}")
        text = settled("".join(printed).strip("\n"))
        for real, shown in self._shown:
            text = text.replace(real, shown)
        return text

    def close(self) -> None:
        """End the shell."""
        self._bash.communicate("exit\n", timeout=COMMAND_S)


def settled(text: str) -> str:
    """Return the output with fixed words in place of values that differ from run to run."""
    for pattern, word in VOLATILE:
        text = re.sub(pattern, word, text)
    return text


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of shell and service: this interpreter's commands, one configuration."""
    commands = Path(sys.executable).parent
    return {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(DOCS.parent),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "OS_PLACEMENT_CONFIG_DIR": str(folder),
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{folder}/var/placement.sqlite",
        "OS_API__AUTH_STRATEGY": "noauth2",
        "OS_INSIGHT__ENABLED": "true",
        "COLUMNS": "80",
        "OS_OSLO_POLICY__POLICY_FILE": str(DOCS.parent / "tools" / "trial-policy.yaml"),
    }


@contextmanager
def service(shapes: str = "", options: str = "") -> Iterator[Shell]:
    """Start the service on an empty database and yield a shell that reaches it.

    :param shapes: the content of its ``[insight]/shapes_file``.
    :param options: lines more of ``[insight]``.
    """
    folder = Path(tempfile.mkdtemp(prefix="placement-docs-"))
    try:
        (folder / "var").mkdir()
        (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
        (folder / "examples").symlink_to(DOCS.parent / "examples")
        (folder / "placement.conf").write_text(
            "[DEFAULT]\nuse_stderr = false\nlog_options = false\n"
            f"log_file = {folder}/{LOG}\n"
            # What a page shows is whole, however busy the machine is.
            "[api]\nsearch_deadline = 0\n"
            "[placement_database]\nsync_on_startup = true\nsqlite_synchronous = false\n"
            + f"[insight]\n{options}"
            + (f"shapes_file = {folder}/shapes.yaml\n" if shapes else "")
        )
        if shapes:
            (folder / "shapes.yaml").write_text(shapes)
        with _server(folder) as url:
            shell = Shell(folder, url)
            try:
                yield shell
            finally:
                shell.close()
    finally:
        shutil.rmtree(folder)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    code = "import sys; from placement.cmd.api import run; sys.exit(run(sys.argv[1:]))"
    server = subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(folder),
        cwd=folder,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"listens on (\S+)", server.stdout.readline())
        if found is None:
            raise StoryFailed("the service did not start")
        yield found[1]
    finally:
        server.terminate()
        server.communicate(timeout=START_S)


@contextmanager
def two_machines() -> Iterator[Shell]:
    """Run the tests' stand-in for the OpenStack service on two machines; yield a shell that reaches them."""
    # Only here: the pages are also built where there are no tests.
    from tests.support import machines

    with tempfile.TemporaryDirectory(prefix="placement-docs-") as folder:
        url = f"sqlite:///{folder}/placement.sqlite"
        with machines.running(url, url, f"sqlite:///{folder}/copy.sqlite") as (shell, _):
            yield shell


@contextmanager
def with_shapes() -> Iterator[Shell]:
    """Run a service with the shapes of the page, and the records of a month that it says it has."""
    page = (DOCS / OUTLOOK[-1]).read_text()
    lines = page[page.index(".. code-block:: yaml") :].split("\n")
    shapes = _dedented(lines[1 : _end(lines, 1)])
    with service(shapes) as shell:
        shell.run(MONTH)
        yield shell


MONTH = """python3 -c '
import sqlite3, time
with sqlite3.connect("var/placement.sqlite") as database:
    database.executemany(
        "INSERT INTO capacity_records VALUES (?, ?, ?)",
        [("large", int(time.time() * 1000) - day * 86400000, 2294 + 2 * day) for day in range(30, 0, -1)],
    )
'"""
"""Each day two fewer of them."""



@contextmanager
def with_clock() -> Iterator[Shell]:
    """Run a service whose holds come nearer to their end where the page waits."""
    with service() as shell:
        shell.run(SLEEP)
        yield shell


def with_history() -> AbstractContextManager[Shell]:
    """Run a service that keeps what was written."""
    return service(options="history_days = 30\n")


SLEEP = """sleep() { python3 -c '
import sqlite3, sys
with sqlite3.connect("var/placement.sqlite") as database:
    database.execute("UPDATE consumer_holds SET expires_at = expires_at - 1000 * ?", sys.argv[1:])
' "$1"; }"""

def readme_clone() -> AbstractContextManager[Shell]:
    """Begin in an empty folder, into which README clones this repository."""
    from docs._tools import empty_clone

    return empty_clone.empty_clone()


STAGES = {
    README: readme_clone,
    SWITCH: two_machines,
    OUTLOOK: with_shapes,
    HOLD: with_clock,
    HISTORY: with_history,
}
"""Stories that do not run on one service with an empty database."""


def stage(story: tuple[str, ...]) -> AbstractContextManager[Shell]:
    """Return what runs the commands of a story."""
    return STAGES.get(story, service)()


def pages() -> Iterator[tuple[Path, str]]:
    """Return every page of every story as it should be."""
    for story in STORIES:
        with stage(story) as shell:
            for name in story:
                path = DOCS / name
                yield path, rewritten(path.read_text(), shell)


def main() -> None:
    """Write the pages."""
    for path, text in pages():
        path.write_text(text)


if __name__ == "__main__":
    main()

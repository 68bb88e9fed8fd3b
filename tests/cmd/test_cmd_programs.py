"""Each program starts as an operator starts it: from its script, in an interpreter of its own."""

import re
import signal
import socket
import subprocess
import sys
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from placement.cmd.completion import MODULES
from placement.version import VERSION
from tests.support.processes import PATIENCE, ran
from tests.support.programs import Command

PROGRAMS = Path(sys.executable).parent


def start(environment: dict[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    return ran([PROGRAMS / command[0], *command[1:]], env=environment)


@pytest.mark.parametrize("program", MODULES)
def test_each_program_starts(environment: dict[str, str], program: str) -> None:
    result = start(environment, program, "--help")

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: {program}")


@pytest.mark.parametrize("program", MODULES)
def test_version_of_each_program(
    environment: dict[str, str], command: Command, program: str
) -> None:
    """Alone it costs no library; among other words it is an option of the program's own parser."""
    alone = start(environment | {"PYTHONPROFILEIMPORTTIME": "1"}, program, "--version")
    imported = re.findall(r"\| +([a-z0-9_]+)(?:\.\S+)?$", alone.stderr, re.MULTILINE)

    assert (alone.returncode, alone.stdout) == (0, f"{VERSION}\n")
    assert "placement" in imported
    assert not {"sqlalchemy", "oslo_config", "argparse", "keystoneauth1", "yaml"} & set(imported)
    assert command(program, "--version", "--version").stdout == f"{VERSION}\n"


def test_every_program_begins_where_the_version_is_known() -> None:
    """An entry point that leads past it would load everything for ``--version``."""
    programs = entry_points(group="console_scripts").select(module="placement.cmd.entry_points")
    modules = {program.name: program.attr for program in programs}

    assert modules | {"placement-api": "api"} == MODULES


def test_a_program_that_fails_says_so(environment: dict[str, str], sqlite_url: str) -> None:
    """In one line, with its exit code, as everything that the other tests run in forked processes."""
    named = {"OS_PLACEMENT_DATABASE__CONNECTION": sqlite_url}

    result = start(environment | named, "placement-status", "upgrade", "check")

    assert (result.returncode, result.stdout) == (255, "")
    assert result.stderr.startswith("placement-status: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        "placement-tree export --all {identity}",
        "placement-compare {url} {url} {identity}",
        "placement-manage --config-file {file} db version",
        "placement-migrate-compute-inventory --config-file {file} --driver file",
    ],
)
def test_a_program_that_is_interrupted_says_so_in_a_line(
    environment: dict[str, str], tmp_path: Path, words: str
) -> None:
    """At once, although what it asks does not answer; the exit code is that of shells."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60 * PATIENCE)
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        tree = tmp_path / "tree.yaml"
        tree.write_text("placement_tree: 1\nproviders: []\n")
        file = tmp_path / "placement.conf"
        file.write_text(
            f"[placement_database]\nconnection = postgresql://{place}/x\n[tree_driver]\ntree_file = {tree}\n"
        )
        url = f"http://{place}"
        identity = f"--os-auth-type admin_token --os-token admin --os-endpoint {url}"
        program, *arguments = words.format(url=url, identity=identity, file=file).split()
        with subprocess.Popen(
            [PROGRAMS / program, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that starts CI in the background lets all that it starts ignore this signal.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        ) as running:
            try:
                asked, _ = silent.accept()
                running.send_signal(signal.SIGINT)
                said = running.communicate(timeout=60 * PATIENCE)
                asked.close()
            finally:
                running.kill()

    assert (running.returncode, *said) == (130, "", "Interrupted.\n")


def test_a_program_whose_output_nobody_reads_ends_without_a_word(
    environment: dict[str, str], synced: str
) -> None:
    """As ``placement-manage db check | head -1`` lets it; the exit code is that of shells."""
    named = {"OS_PLACEMENT_DATABASE__CONNECTION": synced}
    with subprocess.Popen(
        [PROGRAMS / "placement-manage", "db", "check"],
        env=environment | named,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()

    assert (running.wait(), said) == (141, "")


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (">/dev/full", 1, "{}: the output cannot be written: No space left on device\n"),
        (">&-", 0, ""),
    ],
)
@pytest.mark.parametrize(
    "command",
    ["placement-manage db check", "placement-manage db check --json", "placement-status upgrade check"],
)
def test_an_output_that_cannot_be_written(
    environment: dict[str, str], synced: str, command: str, output: str, code: int, said: str
) -> None:
    """A full disk is told; a program without an output does what it does."""
    named = {"OS_PLACEMENT_DATABASE__CONNECTION": synced}
    done = subprocess.run(
        f"{PROGRAMS}/{command} {output}",
        shell=True, env=environment | named, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (code, said.format(command.split()[0]))

"""Completion of the commands' words, in a real bash."""

import sys
from pathlib import Path

import pytest

from placement.cmd import manage
from placement.cmd.completion import MODULES
from tests.support.processes import ran, require_program
from tests.support.programs import Command

ASK = """
source "$1"; shift
words() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); }}
words {line} "{last}"
$(complete -p {program} | sed 's/.* -F //; s/ .*//')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command prints, in a file."""
    path = tmp_path_factory.mktemp("completion") / "placement"
    with path.open("w") as output, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", output)
        assert manage.run(["--shell_completion", "bash"]) == 0
    return path


def completed(script: Path, line: str, last: str = "") -> set[str]:
    """Return what bash offers for the word ``last`` after the words ``line``."""
    program = line.split()[0]
    asked = ASK.format(line=line, last=last, program=program)
    done = ran([require_program("bash"), "-euc", asked, "bash", script], check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "last", "expected"),
    [
        ("placement-manage", "d", {"db"}),
        ("placement-manage db", "s", {"scrub", "stamp", "sync"}),
        ("placement-manage --config-file x db sync", "--", {"--finish", "--stopped", "--help"}),
        ("placement-manage config check --before", "", {"start", "reload"}),
        ("placement-status upgrade", "ch", {"check"}),
        ("placement-tree apply", "--al", {"--allow-reshape"}),
        ("placement-tree diff --color", "", {"auto", "always", "never"}),
        ("placement-compare", "--at", {"--at-once"}),
        ("placement-migrate-compute-inventory", "--dr", {"--driver"}),
    ],
)
def test_words_are_completed(script: Path, line: str, last: str, expected: set[str]) -> None:
    assert completed(script, line, last) == expected


def test_every_command_is_completed(script: Path) -> None:
    for program in MODULES:
        assert "--help" in completed(script, program, "--h"), program


@pytest.mark.parametrize("program", MODULES)
def test_each_command_prints_it(command: Command, script: Path, program: str) -> None:
    """The option that oslo.config adds answered with an error: it does not find its templates."""
    bash, zsh = (command(program, "--shell_completion", shell) for shell in ("bash", "zsh"))

    assert (bash.returncode, bash.stderr, bash.stdout) == (0, "", script.read_text())
    assert (zsh.returncode, zsh.stderr) == (0, "")
    assert zsh.stdout.startswith("autoload -U +X compinit && compinit\n#compdef placement-api\n")
    for each in MODULES:
        assert f" -N {each}\n" in zsh.stdout


def test_without_the_library_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert manage.run(["--shell_completion", "bash"]) == 1
    assert "pip install shtab" in capsys.readouterr().err

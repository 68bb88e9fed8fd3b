"""What is said outside ``docs/``, in packages, units and examples, is so."""

import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.commands import Forked
from tests.support.processes import ran

ROOT = Path(__file__).parents[2]
PLACES = (
    *("debian", "etc", "tools", "examples", "Containerfile", "compose.yaml"),
    *("README.rst", "CONTRIBUTING.rst", "SECURITY.rst"),
)
PROGRAMS = ("placement-manage", "placement-status")
WORD = r" --?[a-z][\w-]*(?:=\S+)?| (?!placement)[a-z_]+\b(?![/.])"
COMMAND = re.compile(rf"\b({'|'.join(PROGRAMS)})((?:{WORD})+)")
SOURCE = re.compile(
    r"(?<![/\w])(?:docs|etc|tools|examples)/[\w/-]+\.(?:rst|md|py|ini|yaml)\b(?!\.\w)"
)
STOPPED = re.compile(
    r"\b(?:systemctl stop|stop (?:the|all|every|placement))\b[^.]{0,60}\bdb sync\b(?! --stopped)",
    re.I,
)
"""An advice to stop the service before the schema is upgraded."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of each file that the repository keeps there."""
    for name in ran(["git", "ls-files", *PLACES], cwd=ROOT).stdout.splitlines():
        content = (ROOT / name).read_bytes()
        if b"\0" not in content:
            # A command may go on in the next line.
            yield name, re.sub(r" *\\\n\s*|\n\s*# ", " ", content.decode())


@cache
def help_of(program: str, *words: str) -> str:
    """Return the help of a command, which is empty if there is no such command."""
    done = Forked(program, *words, "--help", environment=os.environ).wait()
    return done.stdout if done.returncode == 0 else ""


def named() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return file, program and words of every command that is named."""
    return sorted(
        {
            (name, found[1], tuple(shlex.split(found[2])))
            for name, text in texts()
            for found in COMMAND.finditer(text)
        }
    )


def find_fault(program: str, words: tuple[str, ...]) -> str:
    """Return what of a command does not exist, nothing if all of it does."""
    actions: tuple[str, ...] = ()
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("-"):
            if option not in help_of(program, *actions):
                return option
        elif re.search(rf"^ +{word}\b|[{{,]{word}[,}}]", help_of(program, *actions), re.M):
            actions += (word,)
        else:
            # The sentence goes on, or it is the value of an option; but what comes first is a command.
            return "" if actions else word
    return ""


def test_every_command_that_is_named_exists() -> None:
    found = named()
    assert {program for _, program, _ in found} == set(PROGRAMS)
    assert [each for each in found if find_fault(*each[1:])] == []


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("db", "sync"), ""),
        (("db", "sync", "--finish"), ""),
        (("db", "sync", "--nothing"), "--nothing"),
        (("audit", "--from-nova", "each"), ""),
        (("nothing",), "nothing"),
    ],
)
def test_a_command_that_does_not_exist_is_found(words: tuple[str, ...], fault: str) -> None:
    assert find_fault("placement-manage", words) == fault


def test_nobody_is_told_to_stop_the_service_for_an_upgrade() -> None:
    """docs/howto/upgrade.rst: the schema first, while the service serves, then the workers."""
    assert [name for name, text in texts() if STOPPED.search(text)] == []
    assert STOPPED.search('Then run "systemctl stop placement", "placement-manage db sync"')


def test_pages_and_files_that_are_named_exist() -> None:
    missing = []
    for name, text in texts():
        pages = re.findall(r"\bhtml/((?:howto|tutorial|concepts|reference)/[\w-]+)\.html", text)
        sources = SOURCE.findall(text)
        missing += [(name, each) for each in pages if not (ROOT / f"docs/{each}.rst").exists()]
        missing += [(name, each) for each in sources if not (ROOT / each).exists()]
    assert missing == []


def test_every_unit_that_is_named_comes_with_the_package() -> None:
    rules = (ROOT / "debian/rules").read_text()
    for unit in (ROOT / "etc/systemd").glob("placement-*"):
        kind = unit.stem.removeprefix("placement-")
        assert f"{kind}{unit.suffix}" in rules
        assert f"dh_installsystemd --name={unit.stem} --no-enable --no-start" in rules
        assert f"{unit.stem}.timer" in (ROOT / "debian/README.Debian").read_text()

"""A command that a command prints means the same to a shell, whatever the names in it are."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import adapter, session

from placement.client.comparison.question import ComparedQuestion, QuestionKind
from placement.client.comparison.side import Side
from placement.client.nova_moves import MoveKind
from placement.client.osc.nova_steps import word_commands

NAMES = (
    "host-1",
    "b; touch x #",
    "two words",
    "$(touch x)",
    "`touch x`",
    "$HOME",
    "it's",
    '"',
    "\\",
    "a\nb",
    "\x1b[2J\x1b]0;x\x07'\\1",
    "\u202e\u00e41\x85",
    "*",
    "--wait",
    "& touch x &",
    "> x",
)

WORDS = {
    *(
        "--os-compute-api-version",
        "2.56",
        "server",
        "migrate",
        "--live-migration",
        "--wait",
        "migration",
    ),
    *("confirm", "show", "-f", "value", "-c", "status", "unshelve", "shelve"),
}
"""What the commands consist of, but for names."""

Words = Callable[[str], list[str]]


@pytest.fixture
def read_by_a_shell(tmp_path: Path) -> Words:
    """Run a command in a shell in which every program only says what it was given."""
    for program in ("openstack", "curl"):
        stub = tmp_path / program
        stub.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        stub.chmod(0o755)
    there = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "/"}

    def read(command: str) -> list[str]:
        assert command.isprintable()
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            cwd=tmp_path,
            env=there,
            check=True,
            text=True,
        )
        assert {each.name for each in tmp_path.iterdir()} == {"curl", "openstack"}
        return done.stdout.split("\0")[:-1]

    return read


@pytest.mark.parametrize("name", NAMES)
def test_names_of_hosts_are_words_to_the_shell(read_by_a_shell: Words, name: str) -> None:
    """However the server moves: the first command, and those after it."""
    for way, paused in (
        (MoveKind.LIVE, False),
        (MoveKind.LIVE, True),
        (MoveKind.COLD, False),
        (MoveKind.SHELVED, False),
    ):
        mover: Any = SimpleNamespace(
            name_host=lambda step: name,
            find_way=lambda step, way=way: way,
            is_paused=lambda step, paused=paused: paused,
        )
        words = read_by_a_shell(word_commands(mover, {"consumer_uuid": name}))
        assert words.count(f"--host={name}") == 1
        assert set(words) - {f"--host={name}", name} <= WORDS
        assert words[-1] == name or words[-1] == name.rstrip("\n")
    mover = SimpleNamespace(find_way=lambda step: MoveKind.DELETE)
    assert read_by_a_shell(word_commands(mover, {"remove": name}))[-1] == name


@pytest.mark.parametrize("name", NAMES)
def test_urls_of_differences_are_words_to_the_shell(read_by_a_shell: Words, name: str) -> None:
    """The addresses of the two sides, and what a log has for a query, are anybody's."""
    made = adapter.Adapter(session.Session(), endpoint_override=f"http://host/{name}")
    path = f"/allocation_candidates?resources={name}"
    command = Side("OLD", made).curl(ComparedQuestion(QuestionKind.SEARCHES, path, "1.39"))
    assert read_by_a_shell(command)[-1] == f"http://host/{name}{path}"

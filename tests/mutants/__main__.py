"""``python -m tests.mutants [--count N] [--seed S] [--only MODULE#NUMBER ...] [MODULE ...]``.

Changes one line of a copy of this tree at a time, runs the tests of its module, and says which changes
no test has noticed. Without ``--count`` all are tried, which takes a night.
"""

import argparse
import ast
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.mutants.changes import changes, mutant
from tests.support.affected import Tree

PACKAGES = (
    *("db", "objects", "placing", "search"),
    *(f"extensions/{name}" for name in ("claims", "plans", "questions")),
)
"""The packages whose modules are changed."""

WHOLE = ("gabbits/test_gabbi.py", "objects/test_ledger_model.py", "extensions/claims/test_claims_model.py")
"""What tries everything, after the tests that are named after the module."""

COPIED = (
    "benchmarks",
    "bin",
    "docs",
    "etc",
    "examples",
    "placement",
    "tests",
    "pyproject.toml",
    "setup.cfg",
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "_build", "*.pyc")
NO_TESTS = 5
"""What pytest returns where it finds none."""

NO_PROGRAM = 99
"""The exit code where the module cannot even be imported. That counts neither way."""

ELSEWHERE = "postgresql or mysql or mysqlclient or pymysql"
STAGES = (f"not ({ELSEWHERE})", ELSEWHERE)
"""Words by which pytest chooses tests: SQLite finds most, and sooner."""

SLOWER = 5
"""Tests that take so many times as long as without a change have noticed it."""


class Mutant(NamedTuple):
    """One change of one module."""

    module: str
    number: int
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.module}#{self.number} line {self.line}: {self.what}"


def mutants(modules: Iterable[str]) -> Iterator[Mutant]:
    """Yield all mutants of the modules."""
    for module in modules:
        tree = ast.parse(Path(module).read_text())
        for number, change in enumerate(changes(tree)):
            yield Mutant(module, number, change.line, change.what)


def modules_of_packages() -> list[str]:
    """Return the modules that are changed if none are named, without migrations."""
    return [str(file) for name in PACKAGES for file in sorted(Path("placement", name).glob("*.py"))]


def tests_of(module: str, tree: Tree) -> list[str]:
    """Return the tests that are named after a module, or else after what imports it, and ``WHOLE``."""
    named = tree.named_after({module}) or tree.named_after(tree.importers_of(module))
    return [*sorted(named), *(f"tests/{name}" for name in WHOLE)]


class Arena:
    """Runs tests in the current folder, a copy, in children of this process.

    The first run tells which libraries the tests need. They are imported here then, which takes longer than
    most tests, and each child begins with them.
    """

    def __init__(self, files: Sequence[str], stages: Sequence[str]) -> None:
        self._files = files
        self._stages = stages
        began = time.monotonic()
        read, write = os.pipe()
        if self._run(None, stages[0], tell=write) != 0:
            raise SystemExit(f"the tests fail without a change: {' '.join(files)}")
        os.close(write)
        with os.fdopen(read) as told:
            for name in json.load(told):
                with suppress(Exception):
                    importlib.import_module(name)
        self._limit_s = SLOWER * (time.monotonic() - began)

    def outcome(self, one: Mutant) -> tuple[str, str]:
        """Return ``killed``, ``survived`` or ``no program``, and which test has noticed."""
        file = Path(one.module)
        whole = file.read_text()
        try:
            file.write_text(mutant(whole, one.number))
            for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
                compiled.unlink()
            for stage in self._stages:
                code = self._run(self._limit_s if stage == STAGES[0] else None, stage, one.module)
                if code == NO_PROGRAM:
                    return "no program", ""
                if code not in (0, NO_TESTS):
                    return "killed", "too slow" if code is None else _first_failed()
            return "survived", ""
        finally:
            file.write_text(whole)

    def _run(
        self, limit_s: float | None, stage: str, module: str = "", tell: int | None = None
    ) -> int | None:
        """Return what pytest returns, None after the limit."""
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(self._tested(stage, module, tell))
        deadline = time.monotonic() + (limit_s or 1e9)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
            time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status)

    def _tested(self, stage: str, module: str, tell: int | None) -> int:
        sys.dont_write_bytecode = bool(module)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        with Path("mutant.log").open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            try:
                importlib.import_module(module.removesuffix(".py").replace("/", ".") or "placement")
            except Exception:
                return NO_PROGRAM
            import pytest

            known = "ignore::pytest.PytestAssertRewriteWarning"
            code = pytest.main(["-x", "-q", "-k", stage, "-W", known, *self._files])
        if tell is not None:
            own = {"placement", "tests", "docs", "benchmarks", "__main__", "__mp_main__"}
            names = [name for name in sys.modules if name.partition(".")[0] not in own]
            with os.fdopen(tell, "w") as told:
                json.dump(names, told)
        return int(code)


def _first_failed() -> str:
    """Return the test that the log of the tests names first as failed."""
    log = Path("mutant.log").read_text(errors="replace").splitlines()
    named = (line.split(maxsplit=2) for line in log if line.startswith(("FAILED ", "ERROR ")))
    # A log that pytest shows says ERROR too.
    return next((f"[{words[1]}]" for words in named if words[1].startswith("tests/")), "")


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """Return the mutants to try."""
    given = [name.rpartition("#") for name in options.only]
    every = list(
        mutants(options.modules or dict.fromkeys(m for m, *_ in given) or modules_of_packages())
    )
    if given:
        named = {(module, int(number)) for module, _, number in given}
        return [one for one in every if one[:2] in named]
    count = min(options.count or len(every), len(every))
    return sorted(random.Random(options.seed).sample(every, count))


def try_all(options: argparse.Namespace) -> Counter[str]:
    """Try the mutants module by module; say what becomes of each."""
    counts, tree = Counter[str](), Tree()
    stages = STAGES[:1] if options.sqlite else STAGES
    for module, own in groupby(chosen(options), lambda one: one.module):
        arena = Arena(options.tests or tests_of(module, tree), stages)
        for one in own:
            outcome, noticed_by = arena.outcome(one)
            counts[outcome] += 1
            print(f"{outcome:10} {one} {noticed_by}".rstrip(), flush=True)
    return counts


def main() -> None:
    """Make a copy and go there, or, in it, try the mutants and print the score."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("modules", nargs="*", help="such as placement/db/transport.py; all")
    parser.add_argument("--count", type=int, help="so many, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], help="these, as they are printed")
    parser.add_argument("--tests", nargs="+", help="instead of those of the module")
    parser.add_argument("--sqlite", action="store_true", help="leave the other databases out")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.here:
        with tempfile.TemporaryDirectory(prefix="placement-mutants-") as folder:
            for name in filter(os.path.exists, COPIED):
                copy = shutil.copytree if Path(name).is_dir() else shutil.copy
                copy(
                    name,
                    f"{folder}/{name}",
                    **({"ignore": LEFT_OUT} if Path(name).is_dir() else {}),
                )
            command = [sys.executable, "-m", "tests.mutants", "--here", *sys.argv[1:]]
            environment = {**os.environ, "PYTHONPATH": folder}
            sys.exit(subprocess.run(command, cwd=folder, env=environment, check=False).returncode)
    counts = try_all(options)
    tried = counts["killed"] + counts["survived"]
    print(f"{counts['killed']} of {tried} were noticed, {counts['no program']} were no programs")


if __name__ == "__main__":
    main()

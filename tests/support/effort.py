"""How much is tried: a part by default, every proof in CI, and what takes minutes in the long mode."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

CI = bool(os.environ.get("CI"))
LONG = bool(os.environ.get("PLACEMENT_TEST_LONG"))
FULL = LONG or bool(os.environ.get("PLACEMENT_TEST_FULL"))

TEMPLATES = "PLACEMENT_TEST_TEMPLATES"
"""The variable that names the folder by which the processes of a run share the databases they copy."""

DRAWN_BY = "PLACEMENT_TEST_DRAWN_BY"
"""The variable that names the seed of a run: a number from which every random case of the run follows."""

SEED_BY_HAND = "58"
"""The seed of every run by hand: who changes a line and runs the suite again tries the same cases again."""

MARKS_OF_CI = ("ci", "deploy", "galera")
ONLY_IN_CI = "proofs of CI: CI=true runs them, and so does naming their file or folder"
ONLY_IN_LONG_MODE = "proofs that take minutes: PLACEMENT_TEST_LONG=1 runs them"
OF_LONG = 2 if CI else 3
"""In CI and by hand, one of so many tests is tried of each file that takes long."""
NOT_DRAWN = "for the full run, as others of what takes long were drawn; naming their file runs them too"
SEEDS = "two thirds of the random examples: CI=true runs them"


def examples(count: int) -> int:
    """Return how many of so many random examples are tried: a third by default, all in CI."""
    return count if CI or LONG else -(-count // 3)


def draw(items: list[pytest.Item], of: int, seed: int) -> list[pytest.Item]:
    """Return one of so many tests of each file, at least one, in their order."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    drawn = random.Random(seed)
    kept = {
        item for file in files.values() for item in drawn.sample(file, -(-len(file) // of))
    }
    return [item for item in items if item in kept]


def run_seed() -> str:
    """Return the seed of the run: the one that is set, a new one in CI, always the same one by hand."""
    drawn = str(random.SystemRandom().randrange(2**31)) if CI or LONG else SEED_BY_HAND
    return os.environ.setdefault(DRAWN_BY, drawn)


def drawn_by_run(what: str = "") -> random.Random:
    """Return a source that draws the same in all processes of a run, and in another run with its seed.

    :param what: the name of what draws, so that two tests do not draw the same.
    """
    return random.Random(f"{run_seed()} {what}")


def in_one_process(what: str, *params: str) -> list[Any]:
    """Return the parameters of a fixture; one process of the tests runs all that use one of these."""
    return [pytest.param(each, marks=pytest.mark.xdist_group(f"{what} {each}")) for each in params]


def left_out(item: pytest.Item) -> str | None:
    """Return why a test is not run now, from its marks; None if it is."""
    if item.get_closest_marker("long") and not LONG:
        return ONLY_IN_LONG_MODE
    if not (CI or LONG or _is_named(item)) and any(map(item.get_closest_marker, MARKS_OF_CI)):
        return ONLY_IN_CI
    return None


def chooses(config: pytest.Config) -> bool:
    """Say whether the command line chooses tests itself: a file, a folder, words, or one of so many."""
    named = (Path(each.partition("::")[0]).resolve() for each in config.args)
    if not all(each in (config.rootpath, config.rootpath / "tests") for each in named):
        return True
    words = ("keyword", "markexpr", "drawn", "deselect", "ignore", "ignore_glob", "lf", "stepwise")
    return any(getattr(config.option, word, None) for word in words)


def _is_named(item: pytest.Item) -> bool:
    """Say whether the command line names the file of the test, or a folder of it in ``tests``."""
    here, tests = item.config.invocation_params.dir, item.config.rootpath / "tests"
    named = {Path(here, each.partition("::")[0]).resolve() for each in item.config.args}
    return any(tests in each.parents and item.path.is_relative_to(each) for each in named)

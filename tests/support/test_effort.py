"""What is left for CI runs in CI, in the long mode, and where the command line names it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import hypothesis
import pytest

from tests.support import effort

ROOT = Path(__file__).parents[2]
FILE = "tests/docs/test_docs.py"
DRAWN = effort.CI or effort.LONG
"""What the fixture below hides from the tests: the cases of this run are drawn by its seed."""


class Collected(NamedTuple):
    """What is asked of a test that may be drawn."""

    path: Path
    number: int


def reason(*arguments: str, mark: str = "ci") -> str | None:
    """Return why a test of ``FILE`` is left out under this command line."""
    given = SimpleNamespace(dir=ROOT)
    config = SimpleNamespace(invocation_params=given, rootpath=ROOT, args=list(arguments))
    item = SimpleNamespace(path=ROOT / FILE, config=config, get_closest_marker=mark.__eq__)
    return effort.left_out(item)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "CI", False)
    monkeypatch.setattr(effort, "LONG", False)


@pytest.mark.parametrize("named", [FILE, f"{FILE}::test_a", "tests/docs", "tests/docs/"])
def test_what_is_named_runs(named: str) -> None:
    assert reason(named) is None


@pytest.mark.parametrize("named", ["tests", ".", "tests/web", "tests/docs/test_citations.py"])
def test_the_rest_of_ci_is_left_out_and_says_so(named: str) -> None:
    assert {reason(named, mark=mark) for mark in ("ci", "deploy", "galera")} == {effort.ONLY_IN_CI}


def test_ci_leaves_out_only_what_takes_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "CI", True)

    assert {reason("tests", mark=mark) for mark in ("ci", "deploy", "galera", "none")} == {None}
    assert reason("tests", mark="long") == effort.ONLY_IN_LONG_MODE
    assert effort.examples(300) == 300


def test_a_third_of_the_examples_by_hand() -> None:
    assert [effort.examples(count) for count in (1, 3, 4, 300)] == [1, 1, 2, 100]


def test_the_same_seed_draws_the_same_of_each_file() -> None:
    items: list[Any] = [Collected(Path(file), number) for file in "ab" for number in range(9)]

    drawn = effort.draw(items, 4, seed=7)

    assert [each.path.name for each in drawn] == ["a"] * 3 + ["b"] * 3
    assert drawn == sorted(drawn)
    assert drawn == effort.draw(items, 4, seed=7)
    assert any(drawn != effort.draw(items, 4, seed) for seed in range(8))


@pytest.mark.parametrize("in_ci", [False, True])
def test_runs_by_hand_try_the_same_cases_and_runs_of_ci_new_ones(
    monkeypatch: pytest.MonkeyPatch, in_ci: bool
) -> None:
    """Hypothesis follows: its profile by hand, and the seed of the run in CI."""
    monkeypatch.setattr(effort, "CI", in_ci)
    drawn = set()
    for _ in range(3):
        monkeypatch.delenv(effort.DRAWN_BY, raising=False)
        drawn.add(effort.drawn_by_run("a test").random())
        assert effort.drawn_by_run("a test").random() in drawn
        assert effort.drawn_by_run("another test").random() not in drawn

    assert len(drawn) == (3 if in_ci else 1)


def test_hypothesis_repeats_its_cases(request: pytest.FixtureRequest) -> None:
    """By hand each run has the same ones; a run in CI those of the seed that its head shows."""
    by_seed = request.config.getoption("hypothesis_seed") is not None
    assert hypothesis.settings.default.derandomize is not DRAWN
    assert by_seed or not DRAWN

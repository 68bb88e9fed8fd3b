"""Which SciPy proves plans, and when it is loaded (specification 10 section 4.1)."""

import sys
from collections.abc import Iterator
from importlib import metadata

import pytest

from placement.extensions.plans.planning import solver
from placement.search.work import Work


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Let the process not know yet what it has."""
    solver.load_solver.cache_clear()
    yield
    solver.load_solver.cache_clear()


def test_a_solver_that_is_too_old_counts_as_missing_and_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metadata, "version", {"scipy": "1.14.1"}.__getitem__)

    assert not solver.load_solver()
    assert not solver.load_solver()

    (line,) = caplog.messages
    assert line == "SciPy 1.14.1 is too old to prove plans, and is not used: install 1.15 or newer"


def test_without_a_solver_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An extra that is not installed is no fault."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)

    assert not solver.load_solver()
    assert caplog.messages == []


@pytest.mark.parametrize("version", ["1.15.0", "1.15.0rc1", "1.18.1", "2.0"])
def test_a_solver_that_is_new_enough_is_loaded(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", {"scipy": version}.__getitem__)

    assert solver.load_solver()
    assert "scipy.optimize" in sys.modules


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1.0, 1e9])
def test_costs_of_any_size_are_told_apart(unit: float) -> None:
    """Costs are scaled, since the solver takes what is below a millionth for nothing."""
    rows = solver.Rows()
    dear, cheap = rows.column(3 * unit, 1.0), rows.column(unit, 1.0)
    rows.row({dear: 1.0, cheap: 1.0}, 1.0, 1.0)

    solved = rows.solve(Work())

    assert list(solved.values) == [0, 1]
    assert solved.bound == pytest.approx(unit, rel=1e-6, abs=0.0)

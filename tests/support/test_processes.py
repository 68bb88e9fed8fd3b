"""The ports of the tests' own servers."""

import random

import pytest

from tests.support.processes import free_ports


def test_a_seed_of_python_gives_no_two_tests_the_same_ports() -> None:
    """Hypothesis seeds ``random`` alike in every process, and a port is free until its server listens."""
    drawn = []
    for _ in range(2):
        random.seed(0)
        drawn.append(free_ports(3))

    assert drawn[0] != drawn[1]


def test_no_two_processes_of_a_run_are_given_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has those that leave its own number as the rest."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    for worker in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        assert {(port - 10_000) % 3 for port in free_ports(20)} == {worker}

"""Numbers for the processes of a server, by which they share files (specification 07 section 6)."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import multiprocess

from placement.extensions.metrics.metrics import Metrics, ProcessSlots


def in_child(work: Callable[[], int]) -> int:
    """Return the small number that a forked child of this process comes to; 99 after an error."""
    child = os.fork()
    if child == 0:
        number = 99
        try:
            number = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_living_processes_have_different_numbers(tmp_path: Path) -> None:
    """A forked child does not share its parent's; the next child takes that of the dead one."""
    taken: list[int] = []
    slots = ProcessSlots(tmp_path / "made", taken.append)

    assert slots.mine() == slots.mine() == 0
    assert in_child(slots.mine) == 1
    assert in_child(slots.mine) == 1
    assert slots.mine() == 0
    assert taken == [0]


def test_numbers_of_the_dead_are_known(tmp_path: Path) -> None:
    """However they ended; looking gives no living process's number away, the own one included."""
    slots = ProcessSlots(tmp_path, lambda number: None)
    slots.mine()
    assert slots.find_abandoned() == []

    in_child(slots.mine)

    assert slots.find_abandoned() == [1]
    assert in_child(slots.mine) == 1, "0 is still taken"


def test_a_forked_child_counts_in_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From nothing; the child after it continues its files, so that no count is lost."""
    monkeypatch.setattr("prometheus_client.values.ValueClass", None)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")

    def play() -> int:
        # In a child itself: nothing but the end of a process closes the files.
        Metrics(tmp_path, ())
        registry = prometheus_client.CollectorRegistry()
        counter = prometheus_client.Counter("requests", "Requests.", registry=registry)
        counter.inc(5)

        def count() -> int:
            counter.inc()
            return 0

        assert [in_child(count), in_child(count)] == [0, 0]

        counter.inc()
        assert {file.name for file in tmp_path.glob("counter_*")} == {"counter_0.db", "counter_1.db"}
        shared = prometheus_client.CollectorRegistry()
        multiprocess.MultiProcessCollector(shared, str(tmp_path))
        assert shared.get_sample_value("requests_total") == 5 + 2 + 1
        return 0

    assert in_child(play) == 0

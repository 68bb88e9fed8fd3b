"""Numbers of several processes, in the library's files (specification 07 section 6)."""

import os
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client.mmap_dict import MmapedDict

from placement.web.shared_values import SharedHistogram, SharedValue, SharedValues

MANY = 1000
"""Values that do not fit into a file as it begins."""


@pytest.fixture
def values(tmp_path: Path) -> Iterator[SharedValues]:
    opened = SharedValues(tmp_path, lambda number: None)
    yield opened
    opened.close()


def made(values: SharedValues, name: str, **more: str) -> SharedValue:
    kind = "gauge" if more else "counter"
    return values.make(kind, "requests", "requests_total", ["route"], [name], "Requests.", **more)


def stored(file: Path) -> list[float]:
    """Return what the library reads from a file."""
    return [value for _, value, _, _ in MmapedDict.read_all_values_from_file(str(file))]


def test_the_library_reads_what_is_added(values: SharedValues, tmp_path: Path) -> None:
    value = made(values, "/")
    gauge = made(values, "/", multiprocess_mode="livesum")

    value.inc(2)
    value.inc(0.5)
    gauge.set(7)
    gauge.inc(-1)

    assert value.get() == 2.5
    assert gauge.get() == 6
    assert stored(tmp_path / "counter_0.db") == [2.5]
    assert stored(tmp_path / "gauge_livesum_0.db") == [6]


def test_a_histogram_counts_as_the_library_s_does(
    values: SharedValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket has what is at most its bound, the last one all that is larger."""
    monkeypatch.setattr("prometheus_client.values.ValueClass", values.make)
    registry = prometheus_client.CollectorRegistry()
    ours, theirs = (
        prometheus_client.Histogram(name, name, buckets=(0.1, 1, 10), registry=registry)
        for name in ("ours", "theirs")
    )
    for amount in (0.1, 0.5, 1, 7, 10, 11, 1e9):
        SharedHistogram(ours).observe(amount)
        theirs.observe(amount)

    text = prometheus_client.generate_latest(registry).decode()
    of_ours, of_theirs = (
        [line.replace(name, "") for line in text.splitlines() if line.startswith(f"{name}_bucket")]
        + [line.replace(name, "") for line in text.splitlines() if line.startswith(f"{name}_sum")]
        for name in ("ours", "theirs")
    )
    assert of_ours == of_theirs
    assert '_bucket{le="1.0"} 3.0' in of_ours


def test_a_file_that_grows_loses_nothing(values: SharedValues, tmp_path: Path) -> None:
    series = [made(values, f"/{number:060}") for number in range(MANY)]

    for number, value in enumerate(series):
        value.inc(number)

    assert stored(tmp_path / "counter_0.db") == list(range(MANY))


def test_a_forked_child_counts_in_files_of_its_own(values: SharedValues, tmp_path: Path) -> None:
    """From nothing; and whoever comes after it goes on where it ended."""
    value = made(values, "/")
    value.inc(5)
    for _ in range(2):
        child = os.fork()
        if child == 0:
            values.reopen()
            value.inc(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    assert stored(tmp_path / "counter_0.db") == [5]
    assert stored(tmp_path / "counter_1.db") == [2]

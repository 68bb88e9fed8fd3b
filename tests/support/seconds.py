"""How long each group of tests took in the last full run, by which the next begins with the longest.

Two processors wait for each other at the end if the longest group is the last.
"""

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.affected import ROOT, SECONDS, recorded

LONG_S = 5
"""By hand not all tests are tried of what takes longer than this in the full run."""


def unit(nodeid: str) -> str:
    """Return the group of a test, which pytest-xdist writes behind its name, or else its file."""
    file, _, name = nodeid.partition("::")
    mark = name.rfind("@")
    return name[mark + 1 :] if mark > name.rfind("]") else file


def longest_first(items: list[pytest.Item]) -> None:
    """Bring the tests of the longest groups to the front; those of a group or a file stay together."""
    seconds: dict[str, float] = recorded().get("seconds_by_group", {})
    whole: dict[str, float] = {}
    for item in items:
        # What is new may be long.
        whole.setdefault(unit(item.nodeid), seconds.get(unit(item.nodeid), float("inf")))
    if seconds:
        items.sort(key=lambda item: -whole[unit(item.nodeid)])


def of_what_takes_long(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests whose group took more than ``LONG_S`` in the last full run."""
    seconds = recorded().get("seconds_by_group", {})
    return [item for item in items if seconds.get(unit(item.nodeid), 0) > LONG_S]


class Recorder:
    """Adds up what the tests of a full run take, and writes it for the next."""

    def __init__(self, commit: str, file: Path = ROOT / SECONDS) -> None:
        self._commit, self._file = commit, file
        self._began = datetime.now(UTC)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what one step of a test took."""
        self._seconds[unit(report.nodeid)] += report.duration
        self._passed += report.when == "call" and report.passed

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, unless a test has failed: changes are compared with the last green run."""
        if exitstatus != pytest.ExitCode.OK or not self._passed:
            return
        ended = datetime.now(UTC)
        by_length = sorted(self._seconds.items(), key=lambda each: (-each[1], each[0]))
        told = {
            "commit": self._commit,
            "date": f"{ended:%Y-%m-%d}",
            "seconds": round((ended - self._began).total_seconds()),
            "passed": self._passed,
            "seconds_by_group": {name: round(took, 1) for name, took in by_length},
        }
        self._file.write_text(json.dumps(told, indent=1) + "\n")

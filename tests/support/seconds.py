"""How long each group of tests took in the last full run, by which the next begins with the longest.

Two processors wait for each other at the end if the longest group is the last.
"""

import json
import subprocess
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.affected import ROOT, SECONDS, recorded


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


class Recorder:
    """Adds up what the tests of a full run take, and writes it for the next."""

    def __init__(self, file: Path = ROOT / SECONDS) -> None:
        self._file = file
        self._began = datetime.now(UTC)
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what one step of a test took."""
        self._seconds[unit(report.nodeid)] += report.duration
        self._passed += report.when == "call" and report.passed

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, unless a test has failed: changes are compared with the last green run."""
        if exitstatus != pytest.ExitCode.OK:
            return
        ended = datetime.now(UTC)
        head = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, check=True, text=True
        )
        by_length = sorted(self._seconds.items(), key=lambda each: (-each[1], each[0]))
        told = {
            "commit": head.stdout.strip(),
            "date": f"{ended:%Y-%m-%d}",
            "seconds": round((ended - self._began).total_seconds()),
            "passed": self._passed,
            "seconds_by_group": {name: round(took, 1) for name, took in by_length},
        }
        self._file.write_text(json.dumps(told, indent=1) + "\n")

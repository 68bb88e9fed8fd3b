"""The short version of ``python -m tests.proofs.year``: every event once, on every database.

``PLACEMENT_FAULT_SECONDS`` (default 0, and 40 in the long mode) and ``PLACEMENT_SEED`` are the command's
options; the report with its seed is printed.
"""

import os
import random

import pytest

from tests.proofs.faults.servers import KINDS
from tests.proofs.year import clock
from tests.proofs.year.requests import KIND
from tests.support.effort import LONG

SECONDS = float(os.environ.get("PLACEMENT_FAULT_SECONDS", 40 if LONG else 0))
SEED = int(os.environ.get("PLACEMENT_SEED", "0")) or random.randrange(1, 2**31)
ELSEWHERE = (*clock.OF_RELEASES, "other service")
"""Tests of their own are about these events, which take longer than the others together."""
EVENTS = {"sqlite": 14, "postgresql": 22, "mysql": 22}
NOT_EVERYWHERE = {"disk full": 1, "Keystone": 2}
"""Of these, those that need a user or a program that this machine may lack."""
GRANTED = ("nova: allocations 204", "claimer: claims 200", "agent: stock 200", "operator: plan 200")


def _is_written(what: str) -> bool:
    """Return whether a count of the report is of an acknowledged write: ``client: kind status``."""
    kind, _, status = what.partition(": ")[2].rpartition(" ")
    return kind in KIND and bool(KIND[kind].undo) and status.startswith("20")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "sqlite" else pytest.mark.ci) for kind in sorted(KINDS)]
)
def test_every_promise_is_kept_whatever_happens(kind: str) -> None:
    report = clock.run(kind, SECONDS, SEED, without=() if LONG else ELSEWHERE)

    report.require_kept()
    written = sum(number for what, number in report.counts.items() if _is_written(what))
    assert written > 100, f"only {written} writes got through"
    assert min(report.counts[each] for each in GRANTED) > 0, report.counts
    left_out = sum(n for what, n in NOT_EVERYWHERE.items() if what in " ".join(report.left_out))
    assert len(report.faults) >= EVENTS[kind] - left_out
    assert all(report.faults.values()), report.faults

"""Releases follow one another under load, and no request fails (specification 06 section 7.6).

PLACEMENT_ROLLING_SECONDS (default 0, and 120 in the long mode) is how long workers go back and forth between
releases; ``python -m tests.proofs.races.rolling_upgrade`` goes on for as long as it is told to.
"""

import os

import pytest

from tests.proofs.races import rolling_upgrade
from tests.support.effort import LONG, drawn_by_run

SECONDS = float(os.environ.get("PLACEMENT_ROLLING_SECONDS", 120 if LONG else 0))


@pytest.mark.ci
@pytest.mark.timeout(1800 + SECONDS)
@pytest.mark.xdist_group("releases")  # each is imported once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mysql"])
def test_no_request_fails_while_releases_follow_one_another(kind: str) -> None:
    with rolling_upgrade.upgrades(kind, drawn_by_run(__name__).randrange(10**9)) as made:
        report = made.run(SECONDS)

    report.require_kept()
    assert min(report.swaps.values()) >= rolling_upgrade.MACHINES
    # Claims and their end, and reshapes.
    assert min(report.counts[each] for each in ("PUT 204", "DELETE 204", "POST 204")) > 0

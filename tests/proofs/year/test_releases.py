"""Releases follow one another while clients write, and no request fails (specification 06 section 7.6)."""

import pytest

from tests.proofs.year import releases
from tests.support.effort import LONG, drawn_by_run

SECONDS = 120.0 if LONG else 0.0
WRITTEN = ("nova: allocations 204", "nova: released 204", "agent: reshape 204")


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("releases")  # each is imported once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mysql"])
def test_no_request_fails_while_releases_follow_one_another(kind: str) -> None:
    report = releases.run(kind, SECONDS, drawn_by_run(__name__).randrange(10**9))

    report.require_kept()
    assert min(report.counts[each] for each in WRITTEN) > 0
    started = [report.counts[f"workers of the release: {name}"] for name in releases.HEADS]
    assert min(started) >= releases.MACHINES

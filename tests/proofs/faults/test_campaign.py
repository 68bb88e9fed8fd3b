"""The short version of ``python -m tests.proofs.faults``: every fault once, on every database.

PROMISE 1, 3 to 5, 7 and 8. ``PLACEMENT_FAULT_SECONDS`` (default 0, and 40 in the long mode) and
``PLACEMENT_SEED`` as the command's options; the report with its seed is printed.
"""

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from placement.db import schema
from tests.proofs.faults import campaign
from tests.proofs.faults.gangs import LONG_S, SHORT_S, Gang
from tests.proofs.faults.servers import KINDS, PostgreSQL, server
from tests.support.databases import opened
from tests.support.effort import LONG
from tests.support.service import Service, configure

SECONDS = float(os.environ.get("PLACEMENT_FAULT_SECONDS", 40 if LONG else 0))
SEED = int(os.environ.get("PLACEMENT_SEED", "0")) or random.randrange(1, 2**31)
FAULTS = {"sqlite": 4, "postgresql": 12, "mysql": 12}
PROVIDER = {"name": "a"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "sqlite" else pytest.mark.ci) for kind in sorted(KINDS)]
)
def test_faults_break_no_promise(kind: str) -> None:
    report = campaign.run(kind, SECONDS, SEED)

    report.require_kept()
    written = report.counts["PUT 204"]
    assert written > 100, f"only {written} writes got through"
    assert report.counts["gangs granted"]
    assert report.counts["plans carried out"]
    assert len(report.faults) >= FAULTS[kind] - ("disk full" in " ".join(report.left_out))
    assert all(report.faults.values()), report.faults


@pytest.fixture
def standby() -> Iterator[Service]:
    """The service on a PostgreSQL server that is in recovery: a cluster failed over without us."""
    with server("postgresql") as made:
        assert isinstance(made, PostgreSQL)
        url = made.url(made.port)
        with opened(url) as db:
            schema.sync(db)
            service = Service(configure("sqlite", placement_database__connection=url), db)
            made.become_standby()
            yield service


@pytest.mark.ci
def test_a_standby_serves_reads_and_says_that_it_takes_no_writes(standby: Service) -> None:
    """It is 503, not 500: another server may take them."""
    refused = standby.request("POST", "/resource_providers", json=PROVIDER, version="1.39")

    assert refused.status_int == 503, refused.text
    assert "takes no writes" in refused.json["errors"][0]["detail"]
    assert standby.request("GET", "/resource_providers").status_int == 200


GANG = {"a": (1, {"host": {"VCPU": 2}}), "b": (1, {"host": {"VCPU": 2}})}
KEPT = {uuid: (2, held) for uuid, (_, held) in GANG.items()}
GONE = dict.fromkeys(GANG, (None, {}))
HALF = {"a": GANG["a"], "b": GONE["b"]}


@pytest.mark.parametrize(
    ("hold_s", "confirmed", "right"),
    [
        (None, False, [GANG]),
        (LONG_S, False, [GANG]),
        (LONG_S, None, [GANG, KEPT]),
        (LONG_S, True, [KEPT]),
        (SHORT_S, False, [GANG, GONE, HALF]),
        (SHORT_S, None, [GANG, KEPT, GONE, HALF]),
        (SHORT_S, True, [KEPT]),
    ],
)
def test_the_book_of_gangs_finds_what_must_not_be(
    hold_s: int | None, confirmed: bool | None, right: list[Any]
) -> None:
    gang = Gang([*GANG], hold_s, GANG, confirmed)

    mixed = {"a": GANG["a"], "b": KEPT["b"]}
    found = [each for each in (GANG, KEPT, GONE, HALF, mixed) if gang.may_be(each)]
    assert found == right

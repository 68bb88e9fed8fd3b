"""Short rounds of random writes through several servers on each database (PROMISE 3).

PLACEMENT_SEED repeats what the clients of a failure drew; ``python -m tests.proofs.histories`` runs for long.
"""

import os
import random

import pytest

from tests.proofs.histories import campaign
from tests.proofs.histories.clients import History
from tests.support.client import Answer
from tests.support.databases import KINDS
from tests.support.racing import emptied_arena, in_arenas
from tests.support.registers import seen_at


@pytest.mark.parametrize("kind", in_arenas(*KINDS))
def test_generations_are_linearizable(kind: str) -> None:
    """Of every provider and every consumer, whatever writes meet."""
    seed = int(os.environ.get("PLACEMENT_SEED") or random.randrange(1, 2**31))
    print(f"PLACEMENT_SEED={seed}")
    with emptied_arena(kind) as place:
        report = campaign.run(place, kind, seed, seconds=0, clients=6, requests=40)
    report.require_kept()
    assert report.requests >= 240


def test_what_is_wrong_with_a_history_is_told() -> None:
    """An error of the service, and a generation that nobody made."""
    history = History.empty(random.Random(7))
    name = history.providers[0]
    history.note("GET", 0.0, Answer(500, "oops"), {}, "GET /")
    history.note("GET", 1.0, Answer(200, "{}"), {name: seen_at(5)}, "GET /there")

    history.judge()

    assert len(history.violations) == 2
    assert "500" in history.violations[0]
    assert history.violations[1].startswith(name)
    assert "GET /there" in history.violations[1]

"""Short rounds of random writes through several servers on each database (PROMISE 3).

PLACEMENT_SEED repeats what the clients of a failure drew. ``tests.proofs.year --contended`` runs for long.
"""

import os
import random

import pytest

from tests.proofs.histories import campaign
from tests.support.databases import KINDS
from tests.support.racing import emptied_arena, in_arenas


@pytest.mark.parametrize("kind", in_arenas(*KINDS))
def test_generations_are_linearizable(kind: str) -> None:
    """Of every provider and every consumer, whatever writes meet."""
    seed = int(os.environ.get("PLACEMENT_SEED") or random.randrange(1, 2**31))
    print(f"PLACEMENT_SEED={seed}")
    with emptied_arena(kind) as place:
        report = campaign.run(place, 0, seed, clients=6, requests=40)
    report.require_kept()
    assert report.operations >= 240

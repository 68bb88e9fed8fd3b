"""The OpenStack service and ours write to one database at the same moment (specification 06 section 13.1).

PLACEMENT_RACE_ROUNDS (default 2) multiplies the number of writes of each writer;
``python -m tests.proofs.races.coexistence`` goes on for as long as it is told to.
"""

import os
from collections.abc import Iterator

import pytest

from tests.proofs.races import coexistence
from tests.support.effort import drawn_by_run
from tests.support.racing import Arena, emptied_arena, in_arenas

WRITES = 30 * int(os.environ.get("PLACEMENT_RACE_ROUNDS", "2"))


@pytest.fixture(params=in_arenas("sqlite", "postgresql", "mysql"))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three of our servers on a database that is shared with the old service."""
    with emptied_arena(request.param) as made:
        coexistence.prepare(made, coexistence.old_url(made))
        yield made


def test_no_grant_is_too_much_while_both_write(place: Arena) -> None:
    """At every moment no host holds more than it has, and all answers are the ledger's."""
    url, seed = coexistence.old_url(place), drawn_by_run(__name__).randrange(10**9)

    coexistence.play(place, [url, url], coexistence.Length(writes=WRITES), seed).require_kept()

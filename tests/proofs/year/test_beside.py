"""The OpenStack service writes beside three servers of ours (specification 06 section 13.1)."""

from collections.abc import Iterator

import pytest

from tests.proofs.year import beside
from tests.proofs.year.other_service import url_of
from tests.support.effort import LONG, drawn_by_run
from tests.support.racing import Arena, emptied_arena, in_arenas

ACTS = 600 if LONG else 11


@pytest.fixture(params=in_arenas("sqlite", "postgresql", "mysql"))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with emptied_arena(request.param) as made:
        yield made


def test_every_promise_is_kept_while_both_write(place: Arena) -> None:
    """At every moment no host holds more than it has, and all answers are the ledger's."""
    url, seed = url_of(place.db), drawn_by_run(__name__).randrange(10**9)

    beside.play(place, [url, url], seed, ACTS).require_kept()

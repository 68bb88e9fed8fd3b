"""The history, replayed from nothing, is the ledger: after random writes of every kind, by several at once.

PROMISE 4 and 14, and specification 07 section 11.
"""

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.proofs.replay.ledger import read_ledger, require_whole
from tests.proofs.replay.writes import RandomWriter
from tests.support.clock import let_holds_end
from tests.support.databases import KINDS, synced
from tests.support.effort import LONG, drawn_by_run
from tests.support.service import Service, configure

WRITES = 10_000 if LONG else 300
WRITERS = 3
LOOK_EVERY = 100
SEED = int(os.environ.get("PLACEMENT_REPLAY_SEED") or drawn_by_run(__name__).randrange(10**6))
"""Of the requests; how the threads meet is up to the machine."""


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service on a database of its own, for some threads write it."""
    with synced(request.param) as db:
        conf = configure(
            request.param,
            placement_database__connection=db.engine.url.render_as_string(hide_password=False),
            insight__enabled=True,
            insight__history_days=30.0,
        )
        yield Service(conf, db)


def test_the_history_makes_the_ledger(service: Service) -> None:
    print(f"PLACEMENT_REPLAY_SEED={SEED}")

    def end_holds() -> None:
        let_holds_end(service.db)

    seeds = itertools.count(SEED)
    writers = [RandomWriter(next(seeds), service, end_holds) for _ in range(WRITERS)]

    def write(writer: RandomWriter) -> None:
        for _ in range(LOOK_EVERY // WRITERS):
            writer.write()

    writers[0].write_first()
    had_all = False
    with ThreadPoolExecutor(WRITERS) as threads:
        for _ in range(WRITES // LOOK_EVERY):
            list(threads.map(write, writers))
            require_whole(service.db)
            had_all |= all(read_ledger(service.db).values())
    succeeded = sum(writer.succeeded for writer in writers)
    # A history of refusals, or of an empty ledger, would prove nothing. The last writes may have emptied it.
    assert succeeded > WRITES / 3
    assert had_all
    print(f"{succeeded} of {WRITES} writes succeeded")

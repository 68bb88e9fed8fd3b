"""The machine of all writes of the ledger again, over HTTP, each request through the next of three workers.

What one worker wrote every other must show. PLACEMENT_HTTP_EXAMPLES (default 2) says how many sequences are
tried, PLACEMENT_HTTP_DATABASE (default sqlite) on what. Hypothesis prints the sequence of a failure, shrunk.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, settings

from tests.objects.test_ledger_model import Ledger
from tests.support.client import Answer
from tests.support.racing import Arena, emptied_arena

EXAMPLES = int(os.environ.get("PLACEMENT_HTTP_EXAMPLES", "2"))
KIND = os.environ.get("PLACEMENT_HTTP_DATABASE", "sqlite")
WORKERS = 3
STEPS = 20


class Workers:
    """Several workers in turn, in the place of the application."""

    def __init__(self, place: Arena) -> None:
        self.db = place.db
        self._turns = itertools.cycle(place.clients(WORKERS))

    def send(self, *given: Any) -> Answer:
        """Send a request through the next worker."""
        return next(self._turns).send(*given)


@contextlib.contextmanager
def workers() -> Iterator[Workers]:
    """Yield the workers on an empty database."""
    with emptied_arena(KIND) as place:
        yield Workers(place)


class LedgerOverHttp(Ledger):
    """The service is several processes."""

    serve = staticmethod(workers)


LedgerOverHttp.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
test_every_worker_does_what_the_model_does = LedgerOverHttp.TestCase

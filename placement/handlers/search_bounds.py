"""How much one request may search: the same bound for candidates and for all that insight answers."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

from placement import telemetry
from placement.search.work import Work
from placement.web.request import Request

LOG = logging.getLogger(__name__)


@contextmanager
def bounded(request: Request) -> Iterator[Work]:
    """Give a request the work that it may spend; that the deadline ended it is logged and counted."""
    deadline_s = request.conf.api.search_deadline
    work = Work(remaining_s=Countdown(deadline_s or inf).remaining_s)
    try:
        yield work
    finally:
        if work.timed_out:
            telemetry.current().deadlines += 1
            LOG.warning(
                "The search was ended by [api]search_deadline, %g s, after %d placements were tried",
                deadline_s,
                work.done,
            )


class Countdown:
    """So many seconds, from the first question how many are left: reading the picture does not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_s: float | None = None

    def remaining_s(self) -> float:
        """Return the seconds that are left; below 0 when they are over."""
        now = monotonic()
        if self._ends_s is None:
            self._ends_s = now + self._seconds
        return self._ends_s - now

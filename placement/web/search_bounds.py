"""The bounds of one request's searches, equal for candidates and for everything under ``/-/``."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

from placement import errors, telemetry
from placement.objects.allocation_candidate import SearchGivenUp
from placement.search.work import Work, WorkEnded
from placement.web import hang_up
from placement.web.request import Request

LOG = logging.getLogger(__name__)


class ClientGone(errors.Unavailable):
    """The client has hung up, so the search was ended. No client reads this error."""

    reason = "search_given_up"
    code = "placement.search_given_up"
    text = "The client has hung up; the search was ended."


@contextmanager
def bound_search(request: Request) -> Iterator[Work]:
    """Give a request its budget; log and count an end by the deadline.

    :raises ClientGone: in the block, at the first check of the time after the client has hung up.
    """
    deadline_s = request.conf.api.search_deadline
    has_hung_up = hang_up.make_detector(request.environ)
    work = Work(remaining_s=Countdown(deadline_s or inf, has_hung_up).remaining_s)
    try:
        yield work
    except ClientGone:
        LOG.info("The client has hung up; its search ended after %d placements", work.done)
        raise
    finally:
        if work.timed_out:
            telemetry.SEARCH_DEADLINES.count()
            LOG.warning(
                "The search was ended by [api]search_deadline, %g s, after %d placements were tried",
                deadline_s,
                work.done,
            )


@contextmanager
def bound_reading(request: Request) -> Iterator[Work]:
    """Bound the time for reading many queries, separately from the search.

    :raises SearchGivenUp: ``Work.go_on`` was called after the time had ended.
    """
    with bound_search(request) as work:
        try:
            yield work
        except WorkEnded:
            raise SearchGivenUp(hardest="") from None


CONNECTION_EVERY_S = 0.05
"""How often a search checks its connection. Each check lends the interpreter to another thread, if one is
quick enough to take it, and restarts the time after which a thread may demand it. With a check at every
step a small search next to a hard one waited 100 to 220 ms in one of a hundred cases, in some runs one of
twenty; now it waits 5 to 15 ms.
"""


class Countdown:
    """The remaining seconds, counted from the first call, so that reading the picture does not count.

    The countdown also checks whether the client has hung up, at most every ``CONNECTION_EVERY_S``.
    """

    def __init__(self, seconds: float, has_hung_up: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._has_hung_up = has_hung_up
        self._ends_s: float | None = None
        self._looks_s = 0.0

    def remaining_s(self) -> float:
        """Return the remaining seconds; negative after the end.

        :raises ClientGone: the client has hung up
        """
        now = monotonic()
        if now >= self._looks_s:
            self._looks_s = now + CONNECTION_EVERY_S
            if self._has_hung_up():
                raise ClientGone
        if self._ends_s is None:
            self._ends_s = now + self._seconds
        return self._ends_s - now

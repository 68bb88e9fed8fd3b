"""The bad days of PostgreSQL with a synchronous standby, each under the clients of a year.

``python -m tests.proofs.year --database standby --seconds N --seed S``.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.proofs.faults.campaign import FaultReport
from tests.proofs.faults.standby import Member, pair, url_of
from tests.proofs.year.sites import OPTIONS, SiteCrew, soak
from tests.support import deployment

SHORT = "&statement_timeout=2&read_timeout=6"
FAULT_S = 3.0


def promote(crew: SiteCrew, new: Member) -> float:
    """Promote the standby; return when the last client was refused after that."""
    new.promote()
    promoted = time.monotonic()
    crew.wait_for_progress()
    return crew.refused_since(promoted)


@dataclass
class Pair:
    """Two servers of which one is the primary."""

    primary: Member
    standby: Member

    def exchange(self) -> None:
        """The standby has taken over; the old primary, which must be dead, follows it."""
        self.primary, self.standby = self.standby, self.primary
        self.standby.rewind(self.primary)
        self.primary.require_standby()


Day = Callable[[Pair, SiteCrew], float]
"""Does it, and returns how long clients were refused after there was a primary that could commit."""


def primary_killed(running: Pair, crew: SiteCrew) -> float:
    """SIGKILL, and the standby is promoted."""
    running.standby.require_none()
    running.primary.kill()
    refused_s = promote(crew, running.standby)
    running.exchange()
    return refused_s


def primary_frozen(running: Pair, crew: SiteCrew) -> float:
    """SIGSTOP: it goes on to accept connections and never answers. It is fenced after the promotion."""
    old = running.primary
    running.standby.require_none()
    old.freeze()
    refused_s = promote(crew, running.standby)
    old.kill()
    running.exchange()
    return refused_s


def primary_restarted(running: Pair, crew: SiteCrew) -> float:
    """SIGKILL, and it comes back as what it was."""
    running.primary.kill()
    running.primary.start()
    return _streams(running, crew)


def standby_restarted(running: Pair, crew: SiteCrew) -> float:
    """SIGKILL; nothing can be committed until it is back."""
    running.standby.kill()
    time.sleep(FAULT_S)
    running.standby.start()
    return _streams(running, crew)


def standby_frozen(running: Pair, crew: SiteCrew) -> float:
    """SIGSTOP for a while."""
    running.standby.freeze()
    time.sleep(FAULT_S)
    running.standby.thaw()
    return _streams(running, crew)


def _streams(running: Pair, crew: SiteCrew) -> float:
    running.standby.wait_streaming(running.primary)
    return crew.wait_calm()


DAYS: dict[str, Day] = {
    "primary killed": primary_killed,
    "primary frozen": primary_frozen,
    "primary restarted": primary_restarted,
    "standby restarted": standby_restarted,
    "standby frozen": standby_frozen,
}


def run(seconds: float, seed: int) -> FaultReport:
    """Live through days for so long; everything it starts ends with it."""
    with pair() as (one, two), deployment.several([url_of(one, two, more=SHORT)] * 2, **OPTIONS) as served:
        one.require_standby()
        running, crew = Pair(one, two), SiteCrew(served, seed)
        days = {name: functools.partial(day, running) for name, day in DAYS.items()}
        pids = {f"service {n}": site.master.pid for n, site in enumerate(served)}
        return soak(
            "PostgreSQL with a synchronous standby",
            crew, days, lambda: crew.check(url_of(running.primary)), lambda: pids, seconds,
        )  # fmt: skip

"""The bad days of PostgreSQL with a synchronous standby, each under claims without pause.

``python -m tests.proofs.faults --database standby --seconds N --seed S``.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.proofs.faults.standby import Member, pair, url_of
from tests.support import deployment
from tests.support.days import Lived, Soak, soak
from tests.support.deployment import Site
from tests.support.ledger import RECOVERS_S, Ledger, some_hosts
from tests.support.processes import PATIENCE

SHORT = "&statement_timeout=2&read_timeout=6"
FAULT_S = 3.0


def promote(ledger: Ledger, new: Member) -> float:
    """Promote the standby; return when the last client was refused after that."""
    new.promote()
    promoted = time.monotonic()
    ledger.wait_for_progress()
    return ledger.refused_since(promoted)


def fail_over(ledger: Ledger, old: Member, new: Member) -> float:
    """Kill the primary and promote the standby; return when the last client was refused after that."""
    old.kill()
    if new.process is None or not new.process.runs:
        new.start()
    return promote(ledger, new)


@dataclass
class Pair:
    """Two servers of which one is the primary, and who serves them."""

    primary: Member
    standby: Member
    sites: list[Site]

    def exchange(self) -> None:
        """The standby has taken over; the old primary, which must be dead, follows it."""
        self.primary, self.standby = self.standby, self.primary
        self.standby.rewind(self.primary)
        self.primary.require_standby()


Day = Callable[[Pair, Ledger], float]
"""Does it, and returns how long clients were refused after there was a primary that could commit."""


def primary_killed(running: Pair, ledger: Ledger) -> float:
    """SIGKILL, and the standby is promoted."""
    running.standby.require_none()
    refused_s = fail_over(ledger, running.primary, running.standby)
    running.exchange()
    return refused_s


def primary_frozen(running: Pair, ledger: Ledger) -> float:
    """SIGSTOP: it goes on to accept connections and never answers. It is fenced after the promotion."""
    old = running.primary
    running.standby.require_none()
    old.freeze()
    refused_s = promote(ledger, running.standby)
    old.kill()
    running.exchange()
    return refused_s


def primary_restarted(running: Pair, ledger: Ledger) -> float:
    """SIGKILL, and it comes back as what it was."""
    running.primary.kill()
    running.primary.start()
    return _streams(running, ledger)


def standby_restarted(running: Pair, ledger: Ledger) -> float:
    """SIGKILL; nothing can be committed until it is back."""
    running.standby.kill()
    time.sleep(FAULT_S)
    running.standby.start()
    return _streams(running, ledger)


def standby_frozen(running: Pair, ledger: Ledger) -> float:
    """SIGSTOP for a while."""
    running.standby.freeze()
    time.sleep(FAULT_S)
    running.standby.thaw()
    return _streams(running, ledger)


def _streams(running: Pair, ledger: Ledger) -> float:
    running.standby.wait_streaming(running.primary)
    began = time.monotonic()
    ledger.wait_for_progress()
    return ledger.wait_calm(began)


DAYS: dict[str, Day] = {
    "primary killed": primary_killed,
    "primary frozen": primary_frozen,
    "primary restarted": primary_restarted,
    "standby restarted": standby_restarted,
    "standby frozen": standby_frozen,
}


def live(running: Pair, day: str, seed: int) -> Lived:
    """Live through one day; return what it was like.

    :raises AssertionError: a promise was broken, or refusals did not end in time.
    """
    hosts = some_hosts(running.sites[0])
    began = time.monotonic()
    with Ledger(running.sites, hosts, seed) as ledger:
        ledger.wait_for_progress()
        refused_s = DAYS[day](running, ledger)
        assert refused_s < RECOVERS_S * PATIENCE, f"clients were refused for {refused_s:.1f} s"
    ledger.check(url_of(running.primary))
    return Lived.under(ledger, day, time.monotonic() - began, refused_s)


def run(seconds: float, seed: int) -> Soak:
    """Live through days for so long; everything it starts ends with it."""
    with pair() as (one, two), deployment.several([url_of(one, two, more=SHORT)] * 2) as served:
        one.require_standby()
        running = Pair(one, two, served)
        days = dict.fromkeys(DAYS, functools.partial(live, running))
        pids = {f"service {n}": site.master.pid for n, site in enumerate(served)}
        return soak("PostgreSQL with a synchronous standby", days, lambda: pids, seconds, seed)

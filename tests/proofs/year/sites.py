"""A crew of which each client goes to one server only, and how long it was refused there.

It is for topologies: a standby, a cluster, balancers. What happens to one of them is a *day*.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from placement.db import invariants
from tests.proofs.faults.campaign import FaultReport
from tests.proofs.year.crew import Crew, find_differences, find_wrong
from tests.proofs.year.player import Asked, OverHTTP
from tests.support.book import Book
from tests.support.campaign import take_turns
from tests.support.client import NOTHING, Answer
from tests.support.databases import opened
from tests.support.deployment import Site
from tests.support.load import Caller, settle
from tests.support.processes import PATIENCE, wait_until

KINDS = ("claimer", "agent", "operator")
"""What the second client of a site is, in turn; the first is a Nova."""
OPTIONS = {"OS_INSIGHT__ENABLED": "true", "OS_INSIGHT__HISTORY_DAYS": "30"}
"""Variables of the environment with which a server serves all that the clients ask for."""
RECOVERS_S = 15
CALM_S = 3
SOME = 5
"""Acknowledged writes that show that a site serves."""
TOLD = "connection to the database was lost while the change was being committed"
"""In an answer of unknown outcome that needs no ``Retry-After``."""


class AtSite(OverHTTP):
    """The way to one site. ``report``: hears of each answer."""

    def __init__(self, site: Site, report: Callable[[Asked, Answer], None]) -> None:
        super().__init__([site.url], random.Random())
        self._report = report

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request."""
        answer = super().deliver(asked, token)
        self._report(asked, answer)
        return answer


class SiteCrew(Crew):
    """Two clients at each site, and a mirror that asks all sites in turn.

    ``acknowledged``: writes, by site. ``refused``: the moment of each answer that was 503.
    ``is_restarting``: sites are restarted; else no answer at all breaks a promise.
    """

    ENDS_S = 150.0

    def __init__(self, sites: Sequence[Site], seed: int) -> None:
        self.sites, self.is_restarting = sites, False
        self.acknowledged = [0] * len(sites)
        self.refused: list[float] = []
        self._lock = threading.Lock()
        names = [name for n in range(len(sites)) for name in ("nova", KINDS[n % len(KINDS)])]
        book = Book()
        owner = random.Random(seed).randrange(2**20) * 2 * len(names)
        super().__init__(Caller(sites, book), book, names, self._way, seed, owner=owner)

    def _way(self, number: int) -> AtSite:
        place = number // 2

        def report(asked: Asked, answer: Answer) -> None:
            with self._lock:
                self.acknowledged[place] += asked.method != "GET" and answer.status in (200, 201, 204)
                if answer.status == 503 and not answer.is_given_up:
                    self.refused.append(time.monotonic())
            if answer.status == NOTHING and not self.is_restarting:
                self.book.blame(f"{asked}: no answer: {answer.text}")
            told = TOLD in answer.text or "Retry-After" in answer.headers
            if answer.status == 503 and not told:
                self.book.blame(f"{asked} was refused without Retry-After: {answer}")

        return AtSite(self.sites[place], report)

    def wait_for_progress(self, places: Sequence[int] = (), within_s: float = RECOVERS_S + 15) -> None:
        """Wait until each of these sites (all) has acknowledged some more writes.

        :raises AssertionError: that takes too long, or a promise is broken.
        """
        wanted = places or range(len(self.sites))
        before = list(self.acknowledged)
        wait_until(
            f"sites {list(wanted)} acknowledge writes",
            lambda: (
                self.book.violations
                or all(self.acknowledged[place] > before[place] + SOME for place in wanted)
            ),
            within_s,
        )
        assert not self.book.violations, self.book.violations[:5]

    def wait_calm(self) -> float:
        """Wait until no client was refused for ``CALM_S``; return how long from now that took to begin.

        :raises AssertionError: it did not begin within ``RECOVERS_S``.
        """
        moment = time.monotonic()
        self.wait_for_progress()
        wait_until(
            "no client is refused any more",
            lambda: time.monotonic() - moment - self.refused_since(moment) > CALM_S,
            RECOVERS_S + CALM_S,
        )
        return self.refused_since(moment)

    def refused_since(self, moment: float) -> float:
        """Return how many seconds after the moment (of ``time.monotonic``) the last refusal came."""
        with self._lock:
            return max([0.0, *(each - moment for each in self.refused)])

    def check(self, url: str, *others: str) -> None:
        """Hold the database of each URL against the books.

        :param url: of a server that takes writes: it is scrubbed as well.
        :raises AssertionError: a promise was broken.
        """
        settle([self.follower])
        with opened(url, patient=True) as db:
            for what in find_wrong(db, self.sites, self.actors, self.authors, is_recorded=True):
                self.book.blame(what)
        for other in others:
            with opened(other, patient=True) as db:
                for what in find_differences(db, (), self.actors):
                    self.book.blame(f"{other}: {what}")
                assert invariants.violations(db) == []
        assert not self.book.violations, self.book.violations[:5]


def soak(
    topology: str,
    crew: SiteCrew,
    days: Mapping[str, Callable[[SiteCrew], float]],
    check: Callable[[], None],
    pids: Callable[[], Mapping[str, int]],
    seconds: float,
) -> FaultReport:
    """Live through days in random order for so long, each of them once before any comes twice.

    :param days: by name; each returns for how long clients were refused after it could be served.
    :param check: holds what is there against the books, after each day.
    :param pids: the processes that serve, by name.
    """
    report = FaultReport(topology, crew.seed, crew.book.counts, crew.book.violations)
    report.faults = dict.fromkeys(days, 0)

    def live(day: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {day}", flush=True)
        refused_s = live_through(crew, day, days[day], check)
        report.faults[day] += 1
        report.recovery_s[day] = max(refused_s, report.recovery_s.get(day, 0.0))

    take_turns(report, days, live, random.Random(crew.seed), seconds, pids)
    return report


def live_through(
    crew: SiteCrew, name: str, day: Callable[[SiteCrew], float], check: Callable[[], None]
) -> float:
    """Live through one day under load; return for how long clients were refused after it could be served.

    :raises AssertionError: a promise was broken, or refusals did not end in time.
    """
    crew.is_restarting = name.startswith("services")
    with crew.at_work():
        crew.wait_for_progress()
        refused_s = day(crew)
        assert refused_s < RECOVERS_S * PATIENCE, f"clients were refused for {refused_s:.1f} s"
    check()
    return refused_s

"""Claims through every site, and what was acknowledged compared with what is there."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self

from sqlalchemy import select

from placement.db import invariants, models
from placement.db.database import Database
from tests.support import bodies
from tests.support.bodies import Sets
from tests.support.book import Book, ConsumerPage
from tests.support.client import NOTHING, Answer, Sender
from tests.support.databases import opened
from tests.support.deployment import Site
from tests.support.load import Actor, Caller, acting
from tests.support.processes import PATIENCE, wait_until
from tests.support.world import World

RECOVERS_S = 15
CALM_S = 3
REST_S = 0.01
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 64}
TOLD = "connection to the database was lost while the change was being committed"
"""In an answer of unknown outcome that needs no ``Retry-After``."""


def some_hosts(sender: Sender, count: int = 5) -> list[str]:
    """Make hosts with room for all claims; return their uuids."""
    world = World(sender)
    return [world.host(VCPU=10**6, MEMORY_MB=10**8) for _ in range(count)]


class Claimer(Actor):
    """Claims on two hosts at once for a new consumer, and now and then gives all of one back."""

    def __init__(self, *given: Any, ledger: "Ledger", place: int) -> None:
        super().__init__(*given)
        self.ledger, self.place = ledger, place
        self.pages: list[ConsumerPage] = []
        self.living: list[ConsumerPage] = []

    def act(self) -> None:
        if self.ledger.steady:
            # Without a rest the clients take the processors from what is reloaded.
            self.stopping.wait(REST_S)
            path = f"/resource_providers/{self.ledger.hosts[0]}/usages"
            self._send(None, {}, "GET", path)
        if self.living and self.random.random() < 0.3:
            page = self.living.pop(self.random.randrange(len(self.living)))
            self._send(page, {}, "DELETE", f"/allocations/{page.uuid}")
            return
        page = ConsumerPage(self.new_uuid(), self.book)
        self.pages.append(page)
        sets = dict.fromkeys(self.random.sample(self.ledger.hosts, 2), AMOUNTS)
        body = bodies.entry(sets, None)
        if self._send(page, sets, "PUT", f"/allocations/{page.uuid}", body):
            self.living.append(page)

    def _send(
        self, page: ConsumerPage | None, sets: Sets, method: str, path: str, body: Any = None
    ) -> bool:
        """Return whether a write was acknowledged."""
        began = time.monotonic()
        answer = self.caller.send(method, path, body)
        expected = self.ledger.judge(method, answer, time.monotonic() - began)
        if answer.status == NOTHING:
            # It is being started again.
            self.stopping.wait(0.2)
        if page is None:
            return False
        applied = page.answered(answer, sets)
        if not expected and not answer.lost:
            page.open.append((page.generation, sets))
        self.ledger.acknowledged[self.place] += applied
        return applied


class Ledger:
    """Clients that claim on two hosts at once, and now and then give back, through every site.

    ``refused`` has the moment of each answer that was 503, ``slowest_s`` what the longest took.

    :param restarting: sites are restarted meanwhile: no answer at all is an error like another.
    :param steady: nothing happens that could excuse a refusal; the clients read, and rest, too.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        hosts: list[str],
        seed: int,
        *,
        clients: int = 2,
        restarting: bool = False,
        steady: bool = False,
    ) -> None:
        self.sites, self.hosts, self.steady = sites, hosts, steady
        self.book = Book()
        self.unexpected: list[str] = []
        self.refused: list[float] = []
        self.slowest_s = 0.0
        self.acknowledged = [0] * len(sites)
        self._restarting = restarting
        self._lock = threading.Lock()
        self._acting = ExitStack()
        self._clients = [self._client(n % len(sites), n, seed) for n in range(clients * len(sites))]

    def _client(self, place: int, number: int, seed: int) -> Claimer:
        caller = Caller([self.sites[place]], self.book)
        given = (f"claimer {number}", caller, self.book, str(seed))
        return Claimer(*given, ledger=self, place=place)

    @property
    def pages(self) -> Iterator[ConsumerPage]:
        """What is known of each consumer that there was."""
        return (page for client in self._clients for page in client.pages)

    @property
    def present(self) -> set[str]:
        """The consumers whose claims were acknowledged."""
        return {page.uuid for page in self.pages if page.sets and not page.open}

    @property
    def absent(self) -> set[str]:
        """Those that were given back, or refused."""
        return {page.uuid for page in self.pages if not page.sets and not page.open}

    def judge(self, method: str, answer: Answer, took_s: float) -> bool:
        """Return whether an answer may be given; remember it if not."""
        status = answer.status
        told_when = TOLD in answer.text or "Retry-After" in answer.headers
        expected = status in (200, 204) or (not self.steady and status == 409)
        expected |= not self.steady and status == 503 and told_when
        expected |= self._restarting and status == NOTHING
        with self._lock:
            self.slowest_s = max(self.slowest_s, took_s)
            if status == 503:
                self.refused.append(time.monotonic())
            if not expected:
                self.unexpected.append(f"{method} {status} {answer.text} {answer.headers}")
        return expected

    def wait_for_progress(
        self, places: list[int] | None = None, within_s: float = RECOVERS_S + 15
    ) -> None:
        """Wait until each of these sites (all) has acknowledged some more writes."""
        wanted = list(range(len(self.sites))) if places is None else places
        before = list(self.acknowledged)
        wait_until(
            f"sites {wanted} acknowledge writes",
            lambda: all(self.acknowledged[place] > before[place] + 5 for place in wanted),
            within_s,
        )

    def wait_calm(self, moment: float) -> float:
        """Wait until no client was refused for ``CALM_S``; return how long after the moment that began.

        :raises AssertionError: refusals went on for longer than ``RECOVERS_S`` after it.
        """
        wait_until(
            "no client is refused any more",
            lambda: time.monotonic() - moment - self.refused_since(moment) > CALM_S,
            RECOVERS_S + CALM_S,
        )
        lasted_s = self.refused_since(moment)
        assert lasted_s < RECOVERS_S * PATIENCE, f"clients were refused for {lasted_s:.1f} s"
        return lasted_s

    def refused_since(self, moment: float) -> float:
        """Return how many seconds after the moment (of ``time.monotonic``) the last refusal came."""
        with self._lock:
            return max([0.0, *(each - moment for each in self.refused)])

    def __enter__(self) -> Self:
        self._acting.enter_context(acting(self._clients))
        return self

    def __exit__(self, *_: object) -> None:
        self._acting.close()

    def _stored(self, db: Database) -> dict[str, tuple[int, dict[str, dict[str, int]]]]:
        """Return generation and sets of each consumer that holds something on our hosts."""
        rows, consumers = models.allocations, models.consumers
        providers, classes = models.resource_providers, models.resource_classes
        held = (providers.c.uuid, classes.c.name, rows.c.used)
        query = (
            select(rows.c.consumer_id, consumers.c.generation, *held)
            .join(providers, providers.c.id == rows.c.resource_provider_id)
            .join(classes, classes.c.id == rows.c.resource_class_id)
            .join(consumers, consumers.c.uuid == rows.c.consumer_id)
            .where(providers.c.uuid.in_(self.hosts))
        )
        found: dict[str, tuple[int, dict[str, dict[str, int]]]] = {}
        stored = db.read(lambda c: c.connection.execute(query).all())
        for uuid, generation, host, name, used in stored:
            found.setdefault(uuid, (generation, {}))[1].setdefault(host, {})[name] = used
        return found

    def _logged_errors(self) -> set[str]:
        """Return what the services say about the errors that they did not expect."""
        found = set()
        for site in self.sites:
            for line in site.master.log.read_text().splitlines():
                if "sqlalchemy.exc." in line:
                    found.add(line.partition("sqlalchemy.exc.")[2][:300])
        return found

    def check(self, url: str) -> None:
        """Compare what was acknowledged with what is there, in the database of this URL."""
        assert not self.book.violations, self.book.violations[:5]
        assert not self.unexpected, [*self.unexpected[:5], *self._logged_errors()]
        stored = self._whole(url)
        for page in self.pages:
            page.read(*stored.pop(page.uuid, (None, {})))
        assert not stored, "claims of none of the clients"

    def whole(self, url: str) -> set[str]:
        """Return the consumers that are there, each of which is so as a whole; no invariant is broken."""
        return set(self._whole(url))

    def _whole(self, url: str) -> dict[str, tuple[int, dict[str, dict[str, int]]]]:
        with opened(url, patient=True) as db:
            stored = self._stored(db)
            for held in stored.values():
                assert (held[0], list(held[1].values())) == (1, [AMOUNTS] * 2), "by half, or twice"
            assert invariants.violations(db) == []
        return stored

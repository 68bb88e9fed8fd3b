"""Claims without pause through every site, and the books of what was acknowledged."""

import random
import threading
import time
import uuid
from typing import Any, Self

import requests
from sqlalchemy import func, select

from placement.db import invariants, models
from placement.db.database import Database
from tests.deploy.conversation import HEADERS
from tests.support.databases import opened
from tests.support.deployment import Site
from tests.support.processes import PATIENCE, wait_until

RECOVERS_S = 15
CALM_S = 3
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 64}
UNKNOWN = "connection to the database was lost while the change was being committed"


class Ledger:
    """Threads that claim on two hosts at once, and now and then give back, through every site.

    ``present`` and ``absent`` hold what was acknowledged, ``unknown`` what ended in an error. ``refused``
    has the moment of each answer that was 503, ``slowest_s`` what the longest took.

    :param restarting: sites are restarted meanwhile: no answer at all is an error like another.
    """

    def __init__(
        self, sites: list[Site], hosts: list[str], seed: int, *, restarting: bool = False
    ) -> None:
        self.sites, self.hosts = sites, hosts
        self.present: set[str] = set()
        self.absent: set[str] = set()
        self.unknown: set[str] = set()
        self.unexpected: list[str] = []
        self.refused: list[float] = []
        self.slowest_s = 0.0
        self.acknowledged = [0] * len(sites)
        self._restarting = restarting
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(
                target=self._run, args=(place % len(sites), random.Random(seed + place))
            )
            for place in range(2 * len(sites))
        ]

    def _run(self, place: int, dice: random.Random) -> None:
        mine: list[str] = []
        with requests.Session() as session:
            session.headers.update(HEADERS)
            while not self._ended.is_set():
                if mine and dice.random() < 0.3:
                    consumer, wanted = mine.pop(dice.randrange(len(mine))), self.absent
                    done = self._send(session, place, "DELETE", consumer, None)
                else:
                    consumer, wanted = (
                        str(uuid.UUID(int=dice.getrandbits(128), version=4)),
                        self.present,
                    )
                    done = self._send(session, place, "PUT", consumer, self._claim(dice))
                    if done:
                        mine.append(consumer)
                self._record(consumer, wanted if done else self.unknown, place)

    def _claim(self, dice: random.Random) -> dict[str, Any]:
        return {
            "allocations": {
                host: {"resources": AMOUNTS} for host in dice.sample(self.hosts, 2)
            },
            "project_id": "p", "user_id": "u",
            "consumer_generation": None, "consumer_type": "INSTANCE",
        }  # fmt: skip

    def _send(
        self, session: requests.Session, place: int, method: str, consumer: str, body: Any
    ) -> bool:
        """Return whether the write was acknowledged; remember answers that nobody may give."""
        url = f"{self.sites[place].url}/allocations/{consumer}"
        began = time.monotonic()
        try:
            answer = session.request(method, url, json=body, timeout=120)
        except requests.ConnectionError as error:
            if not self._restarting:
                self.unexpected.append(f"{method} {error}")
            # It is being started again.
            self._ended.wait(0.2)
            return False
        self._judge(method, answer, time.monotonic() - began)
        return answer.status_code == 204

    def _judge(self, method: str, answer: requests.Response, took_s: float) -> None:
        status = answer.status_code
        told_when = UNKNOWN in answer.text or "Retry-After" in answer.headers
        with self._lock:
            self.slowest_s = max(self.slowest_s, took_s)
            if status == 503:
                self.refused.append(time.monotonic())
            if status not in (204, 409, 503) or (status == 503 and not told_when):
                self.unexpected.append(f"{method} {status} {answer.text} {answer.headers}")

    def _record(self, consumer: str, where: set[str], place: int) -> None:
        with self._lock:
            for known in (self.present, self.absent, self.unknown):
                known.discard(consumer)
            where.add(consumer)
            self.acknowledged[place] += where is not self.unknown

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
        """Wait until nobody has been refused for ``CALM_S``; return how long after the moment that began.

        :raises AssertionError: refusals went on for longer than ``RECOVERS_S`` after it.
        """
        wait_until(
            "nobody is refused any more",
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
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _stored(self, db: Database) -> Any:
        """Return consumer, number of rows and sum of amounts of what lies on our hosts."""
        rows, providers = models.allocations, models.resource_providers
        query = (
            select(rows.c.consumer_id, func.count(), func.sum(rows.c.used))
            .join(providers, providers.c.id == rows.c.resource_provider_id)
            .where(providers.c.uuid.in_(self.hosts))
            .group_by(rows.c.consumer_id)
        )
        return db.read(lambda c: c.connection.execute(query).all())

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
        assert not self.unexpected, [*self.unexpected[:5], *self._logged_errors()]
        stored = self.whole(url)
        assert self.present <= stored, "an acknowledged claim is lost"
        assert not self.absent & stored, "an acknowledged deletion is undone"
        assert stored <= self.present | self.unknown

    def whole(self, url: str) -> set[str]:
        """Return the consumers that are there, each of which is so as a whole; no invariant is broken."""
        with opened(url, patient=True) as db:
            stored = {row[0]: (row[1], int(row[2])) for row in self._stored(db)}
            assert set(stored.values()) <= {(4, 2 * sum(AMOUNTS.values()))}, "by half, or twice"
            assert invariants.violations(db) == []
        return set(stored)

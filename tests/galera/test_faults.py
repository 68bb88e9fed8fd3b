"""Claims through all nodes while one is killed, frozen, cut off, and comes back.

Nothing acknowledged is lost, nothing is doubled, no counter is off, and the service recovers by
itself. Claims whose answer was an error may have happened or not, but not by half.
"""

import random
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
import requests
from sqlalchemy import func, select

from placement.db import invariants, models
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.deploy.conversation import HEADERS, call, create_provider
from tests.galera.arena import PATIENCE, READ_YOUR_WRITES, make_schema, rotated, servers, url_of
from tests.support.deployment import Site
from tests.support.galera import Cluster, Node
from tests.support.processes import wait_until

DATABASE = "faults"
RECOVERS_S = 15
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 64}


class Ledger:
    """Threads that claim on two hosts at once, and now and then give back, through every site.

    ``present`` and ``absent`` hold what was acknowledged, ``unknown`` what ended in an error.
    """

    def __init__(self, sites: list[Site], hosts: list[str], seed: int) -> None:
        self.sites, self.hosts = sites, hosts
        self.present: set[str] = set()
        self.absent: set[str] = set()
        self.unknown: set[str] = set()
        self.unexpected: list[str] = []
        self.acknowledged = [0] * len(sites)
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
        answer = session.request(method, url, json=body, timeout=120)
        if answer.status_code not in (204, 409, 503):
            self.unexpected.append(f"{method} {answer.status_code} {answer.text}")
        return answer.status_code == 204

    def _record(self, consumer: str, where: set[str], place: int) -> None:
        with self._lock:
            for known in (self.present, self.absent, self.unknown):
                known.discard(consumer)
            where.add(consumer)
            self.acknowledged[place] += where is not self.unknown

    def wait_for_progress(self, places: list[int]) -> None:
        """Wait until each of these sites has acknowledged some more writes."""
        before = list(self.acknowledged)
        wait_until(
            f"sites {places} acknowledge writes",
            lambda: all(self.acknowledged[place] > before[place] + 5 for place in places),
            RECOVERS_S + 15,
        )

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
        return db.read(lambda c: c.execute(query).all())

    def _logged_errors(self) -> set[str]:
        """Return what the services say about the errors that they did not expect."""
        found = set()
        for site in self.sites:
            for line in site.master.log.read_text().splitlines():
                if "sqlalchemy.exc." in line:
                    found.add(line.partition("sqlalchemy.exc.")[2][:300])
        return found

    def check(self, db: Database) -> None:
        """Compare what was acknowledged with what is there."""
        assert not self.unexpected, [*self.unexpected[:5], *self._logged_errors()]
        stored = {row[0]: (row[1], int(row[2])) for row in self._stored(db)}
        assert self.present <= stored.keys(), "an acknowledged claim is lost"
        assert not self.absent & stored.keys(), "an acknowledged deletion is undone"
        assert stored.keys() <= self.present | self.unknown
        whole = (4, 2 * sum(AMOUNTS.values()))
        assert set(stored.values()) <= {whole}, "a claim is there by half or twice"
        assert invariants.violations(db) == []


def kill(node: Node) -> None:
    node.kill()
    node.wait_given_up()


def rejoin(node: Node) -> None:
    node.rejoin()


def freeze(node: Node) -> None:
    node.freeze()
    node.wait_given_up()


def thaw(node: Node) -> None:
    node.thaw()


def cut_off(node: Node) -> None:
    node.cut_off()
    wait_until("it notices", lambda: node.status("wsrep_ready") == "OFF")


def reconnect(node: Node) -> None:
    node.reconnect()


@pytest.fixture(scope="module")
def service(running_cluster: Cluster) -> Iterator[list[Site]]:
    """Three servers that fail over from node to node, and one that knows node 1 only."""
    running_cluster.wait_complete()
    make_schema(running_cluster, DATABASE)
    nodes = running_cluster.nodes
    preferences = [*(rotated(nodes, first) for first in range(3)), [nodes[1]]]
    urls = [url_of(each, DATABASE, READ_YOUR_WRITES, PATIENCE) for each in preferences]
    with servers(urls) as sites:
        yield sites


@pytest.mark.parametrize(
    ("fault", "repair"), [(kill, rejoin), (freeze, thaw), (cut_off, reconnect)]
)
def test_a_node_goes_and_comes_back_under_load(
    cluster: Cluster,
    service: list[Site],
    fault: Callable[[Node], None],
    repair: Callable[[Node], None],
) -> None:
    hosts = [
        create_provider(service[0], f"{fault.__name__}-{n}", VCPU=100_000, MEMORY_MB=10**7)["uuid"]
        for n in range(5)
    ]
    victim = cluster.nodes[1]
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    with Ledger(service, hosts, seed) as ledger:
        ledger.wait_for_progress([0, 1, 2, 3])
        fault(victim)
        ledger.wait_for_progress([0, 1, 2])
        repair(victim)
        cluster.wait_complete()
        ledger.wait_for_progress([0, 1, 2, 3])
    for node in cluster.nodes:
        ledger.check(Database(make_engine(url_of([node], DATABASE, READ_YOUR_WRITES))))
    usages = [
        call(site, "GET", f"/resource_providers/{hosts[0]}/usages").json() for site in service
    ]
    assert all(each == usages[0] for each in usages)

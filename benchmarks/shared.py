"""Searches on a database that the OpenStack service writes to as well, in this process, without HTTP.

    python -m benchmarks.shared [--database mysql] [--cloud flat-10k-busy5] [--rounds 20]

For each search the median wall time and processor time of this process: after nothing, after a claim of this
service, after what a claim of the other service writes; and the same when the coexistence is over.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import cast

from sqlalchemy import Connection, create_engine, make_url, text

from benchmarks import bulk
from benchmarks.clouds import CLAIM, Cloud, cloud_named
from benchmarks.databases import scratch
from benchmarks.statements import Requests, entry
from benchmarks.target import Target
from placement.db import schema
from placement.db.database import Database
from placement.db.engine import make_engine, with_default_driver
from placement.objects import coexistence

QUESTIONS = ("in_tree", "no host fits", "three classes, limit=10")


class Writers:
    """Writes between the searches; each claim goes to another host."""

    def __init__(self, url: str, cloud: Cloud, requests: Requests) -> None:
        self._engine = create_engine(with_default_driver(make_url(url)))
        self._cloud, self._requests, self._number = cloud, requests, 0

    def nothing(self) -> None:
        """Write nothing."""

    def ours(self) -> None:
        """Claim on one host with this service."""
        body = entry({self._next_host(): CLAIM}, None)
        self._requests.send("PUT", f"/allocations/{uuid.uuid4()}", body)

    def theirs(self) -> None:
        """Write what the other service writes at a claim on one host."""
        with self._engine.begin() as tx:
            self._claim(tx, self._next_host())

    def _next_host(self) -> str:
        self._number += 1
        return self._cloud.host_uuid(self._number * 37 % self._cloud.hosts)

    def _claim(self, tx: Connection, host: str) -> None:
        given = {"host": host, "consumer": str(uuid.uuid4())}
        tx.execute(
            text(
                "INSERT INTO consumers (uuid, project_id, user_id, generation)"
                " SELECT :consumer, MIN(project_id), MIN(user_id), 1 FROM consumers"
            ),
            given,
        )
        for name, amount in CLAIM.items():
            tx.execute(
                text(
                    "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
                    " SELECT p.id, :consumer, c.id, :amount FROM resource_providers p, resource_classes c"
                    " WHERE p.uuid = :host AND c.name = :name"
                ),
                given | {"name": name, "amount": amount},
            )
        tx.execute(
            text("UPDATE resource_providers SET generation = generation + 1 WHERE uuid = :host"),
            given,
        )

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def measured(requests: Requests, query: str, write: Callable[[], None], rounds: int) -> str:
    """Return the medians of a search that follows a write, in milliseconds."""
    walls, processors = [], []
    for _ in range(rounds):
        write()
        wall, processor = time.perf_counter(), time.process_time()
        requests.send("GET", f"/allocation_candidates?{query}")
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return f"{median(walls) * 1000:7.1f} {median(processors) * 1000:7.1f}"


def measure(url: str, cloud: Cloud, rounds: int) -> None:
    """Load the cloud and print the table."""
    db = Database(make_engine(url))
    schema.sync(db)
    requests = Requests(db)
    # Only these two are used by the loader.
    target = cast("Target", SimpleNamespace(database=url, send=requests.send))
    _load(target, requests, cloud)
    writers = Writers(url, cloud, requests)
    print(f"{'search':26}{'after':10}{'shared: wall  CPU':>18}{'alone: wall  CPU':>18}   (ms)")
    coexistence.release(db)
    asked = [question for question in cloud.questions if question.name in QUESTIONS]
    writes = (writers.nothing, writers.ours, writers.theirs)
    requests.send("GET", f"/allocation_candidates?{asked[0].query}")
    shared = {
        (question.name, write.__name__): measured(requests, question.query, write, rounds)
        for question in asked
        for write in writes
    }
    coexistence.finish(db)
    requests.send("GET", f"/allocation_candidates?{asked[0].query}")
    for question in asked:
        for write in writes:
            alone = ""
            if write != writers.theirs:
                alone = measured(requests, question.query, write, rounds)
            shown = shared[question.name, write.__name__]
            print(f"{question.name:26}{write.__name__:10}   {shown}   {alone}")
    writers.close()
    db.dispose()


def _load(target: Target, requests: Requests, cloud: Cloud) -> None:
    traits, classes = cloud.names()
    for name in traits:
        requests.send("PUT", f"/traits/{name}")
    for name in classes:
        requests.send("PUT", f"/resource_classes/{name}")
    engine = create_engine(with_default_driver(make_url(target.database or "")))
    bulk.insert_cloud(engine, cloud)
    engine.dispose()


def main() -> int:
    """Print the times on one database."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared")
    parser.add_argument("--database", choices=("mysql", "postgresql", "sqlite"), default="mysql")
    parser.add_argument("--cloud", default="flat-10k-busy5")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with scratch(options.database) as url:
        measure(url, cloud_named(options.cloud), options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Questions on a database that the OpenStack service writes to as well, without HTTP.

    python -m benchmarks.shared [--database mysql] [--cloud flat-10k-busy] [--rounds 20] [--against CHECKOUT]

For each question the processor time of the service and of its connections in the database, in milliseconds,
the median of some rounds: after nothing, and after what a claim of the other service writes. With another
checkout of this service both ask in turns; its processes have no other packages than this one. The time of
the database is read from /proc, so the server is on this machine.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import NamedTuple, cast

from sqlalchemy import Connection, create_engine, make_url, text

from benchmarks import bulk
from benchmarks.clouds import CLAIM, Cloud, cloud_named
from benchmarks.databases import scratch
from benchmarks.statements import Requests
from benchmarks.target import Target
from placement.db import schema
from placement.db.coexistence import takeover
from placement.db.database import Database
from placement.db.engine import make_engine, with_default_driver

ROOT = Path(__file__).parents[1]
QUESTIONS = (
    "in_tree",
    "no host fits",
    "three classes, limit=10",
    "three classes, limit=1000",
    "required traits, limit=1000",
)
THREADS = {
    # One process, or thread, serves a connection.
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database()",
    "mysql": "SELECT tid FROM information_schema.processlist WHERE db = database()",
    "sqlite": None,
}


class Cost(NamedTuple):
    """Milliseconds of processor time: of the service, and of its connections in the database."""

    service: float
    database: float


class OtherService:
    """Writes what the other service writes at a claim; each on another host."""

    def __init__(self, url: str, cloud: Cloud) -> None:
        self._engine = create_engine(with_default_driver(make_url(url)))
        self._cloud, self._number = cloud, 0

    def claim(self) -> None:
        """Claim on the next host."""
        self._number += 1
        host = self._cloud.host_uuid(self._number * 37 % self._cloud.hosts)
        with self._engine.begin() as tx:
            self._claim(tx, host)

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
        """Close the connection."""
        self._engine.dispose()


def database_ns(connection: Connection) -> int:
    """Return the processor time that the server's threads for this database have had."""
    statement = THREADS[connection.dialect.name]
    threads = connection.scalars(text(statement)).all() if statement else ()
    files = (Path(f"/proc/{each}/task/{each}/schedstat") for each in threads)
    return sum(int(file.read_text().split()[0]) for file in files if file.exists())


def answer(url: str) -> None:
    """Answer the paths of standard input with their costs, one a line. In a process of its own."""
    db = Database(make_engine(url))
    requests = Requests(db)
    watcher = create_engine(with_default_driver(make_url(url)), isolation_level="AUTOCOMMIT")
    with watcher.connect() as connection:
        for line in sys.stdin:
            before = database_ns(connection)
            begun = time.process_time_ns()
            requests.send("GET", line.strip())
            service = time.process_time_ns() - begun
            # What the watcher itself needs is in both figures, and small.
            spent = database_ns(connection) - before
            print(json.dumps([service / 1e6, spent / 1e6]), flush=True)


class Asker:
    """A process with the service of a checkout."""

    def __init__(self, checkout: Path, url: str) -> None:
        words = [sys.executable, str(Path(__file__).resolve()), "--answer", url]
        # The package of the checkout, whichever this environment has.
        environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, path: str) -> Cost:
        """Return what a question costs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(path + "\n")
        self._process.stdin.flush()
        return Cost(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def questions(cloud: Cloud) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each question."""
    for question in cloud.questions:
        if question.name in QUESTIONS:
            yield question.name, f"/allocation_candidates?{question.query}"
    host, consumer = cloud.host_uuid(1), cloud.consumers_of(1)[0]
    yield "a provider", f"/resource_providers/{host}"
    yield "usages of a provider", f"/resource_providers/{host}/usages"
    yield "allocations of a provider", f"/resource_providers/{host}/allocations"
    yield "allocations of a consumer", f"/allocations/{consumer.uuid}"
    yield "usages of a project", f"/usages?project_id={consumer.project}"


def measure(url: str, cloud: Cloud, rounds: int, against: Path | None) -> None:
    """Print the table of a database that is loaded and shared."""
    askers = [Asker(each, url) for each in ([against] if against else []) + [ROOT]]
    other = OtherService(url, cloud)
    columns = " ".join(f"{name:>21}" for name in ["that checkout", "this one"][-len(askers) :])
    print(f"{'service, database':28}{'after':10}{columns}")
    for name, path in questions(cloud):
        for after in ("nothing", "a claim"):
            for asker in askers:
                asker.ask(path)
            costs: list[list[Cost]] = [[] for _ in askers]
            for _ in range(rounds):
                if after == "a claim":
                    other.claim()
                for asker, of_asker in zip(askers, costs, strict=True):
                    of_asker.append(asker.ask(path))
            print(f"{name:28}{after:10}{shown(costs)}", flush=True)
    for asker in askers:
        asker.close()
    other.close()


def shown(costs: Sequence[Sequence[Cost]]) -> str:
    """Return the medians, and how many times less the last one is than the first."""
    medians = [Cost(*map(median, zip(*each, strict=True))) for each in costs]
    text = " ".join(f"{each.service:9.1f} + {each.database:8.1f} " for each in medians)
    return text + (f"  x{sum(medians[0]) / sum(medians[-1]):.1f}" if len(medians) > 1 else "")


@contextmanager
def shared_database(kind: str, cloud: Cloud) -> Iterator[str]:
    """Yield the URL of a database with the cloud, to which the other service may write."""
    with scratch(kind) as url:
        db = Database(make_engine(url))
        schema.sync(db)
        requests = Requests(db)
        # Only these two are used by the loader.
        target = cast("Target", SimpleNamespace(database=url, send=requests.send))
        load(target, requests, cloud)
        takeover.release(db)
        db.dispose()
        yield url


def load(target: Target, requests: Requests, cloud: Cloud) -> None:
    """Make the names of a cloud, and insert its rows."""
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
    parser.add_argument("--cloud", default="flat-10k-busy")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--against", type=Path, help="another checkout, asked in turns with this one"
    )
    parser.add_argument("--loaded", help="the URL of a database that has the cloud and is shared")
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer(options.answer)
        return 0
    cloud = cloud_named(options.cloud)
    if options.loaded:
        measure(options.loaded, cloud, options.rounds, options.against)
        return 0
    with shared_database(options.database, cloud) as url:
        measure(url, cloud, options.rounds, options.against)
    return 0


if __name__ == "__main__":
    sys.exit(main())

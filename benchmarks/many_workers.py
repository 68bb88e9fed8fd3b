"""Many worker processes on one database, and small reads while a worker is brought up to date.

    python -m benchmarks.many_workers --server postgresql --workers 1,8

Makes a scratch database with the cloud. For each number of workers it starts uWSGI, lets clients boot
(a search with ``limit=1000``, and the claim of one of its answers), and prints boots a second, and the
statements of a search as the service's log counts them: one where nothing has changed since the worker's
last search, more where it reads what has. Then, with one worker, it reads the inventories of hosts drawn at
random: at rest, beside a search five times a second, and with ``--changed`` hosts changed before
each of these searches.
"""

import argparse
import contextlib
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median

from sqlalchemy import create_engine, make_url, select

from benchmarks import bulk, clients, databases, servers
from benchmarks.clouds import THREE, Cloud, cloud_named
from benchmarks.scenarios import fetching
from benchmarks.target import Target, negotiate
from benchmarks.writes import boots
from placement.db import models, provider_rows
from placement.db.database import Transaction
from placement.db.engine import with_default_driver

SEARCHES_PER_S = 5.0
COUNTED = re.compile(r"GET /allocation_candidates.* (\d+) statements")
READ = fetching(lambda cloud, draw: f"{_host(cloud, draw.randrange(cloud.hosts))}/inventories")
SEARCH = fetching(lambda _cloud, _draw: f"/allocation_candidates?{THREE}&limit=10")


def _host(cloud: Cloud, number: int) -> str:
    return f"/resource_providers/{cloud.host_uuid(number)}"


@contextlib.contextmanager
def served(url: str, workers: int, log: Path, **variables: str) -> Iterator[Target]:
    """Start so many workers on the database."""
    environment = servers.environment(url) | variables
    template = servers.Template("uwsgi", workers)
    with servers.running(template, servers.SERVICE, environment, log) as server:
        target = negotiate(
            "service",
            server.url,
            {"X-Auth-Token": "admin"},
            pids=(server.process.pid,),
            database=url,
        )
        yield target


def _warm_up(target: Target, cloud: Cloud, workers: int, number: int) -> None:
    """Let every worker read its first picture: who connects anew finds another one, sooner or later."""
    for _ in range(workers):
        clients.run(target, SEARCH(target, cloud), clients=number, operations=2)


def report_boots(
    url: str, cloud: Cloud, workers: int, log: Path, options: argparse.Namespace
) -> None:
    """Print boots a second, then the statements of searches in a second run that logs them."""
    with served(url, workers, log) as target:
        _warm_up(target, cloud, workers, options.clients)
        make = boots(target, cloud)
        found = clients.run(target, make, clients=options.clients, seconds=options.seconds)
    with served(url, workers, log, OS_API__SLOW_REQUEST_S="0.000001") as target:
        _warm_up(target, cloud, workers, options.clients)
        log.write_text("")
        make = boots(target, cloud)
        clients.run(target, make, clients=options.clients, seconds=options.seconds)
    counts = [int(count) for count in COUNTED.findall(log.read_text(errors="replace"))]
    print(
        f"{workers} workers: {found.per_second:.0f} boots/s, median {found.median_ms:.1f} ms,"
        f" p99 {found.p99_ms:.1f} ms, {found.failures} failed; statements of {len(counts)} searches:"
        f" median {median(counts):.0f}, mean {mean(counts):.2f}",
        flush=True,
    )


def report_reads(url: str, cloud: Cloud, log: Path, options: argparse.Namespace) -> None:
    """Print the latency of a small read while its only worker has this and that to do beside."""
    with served(url, 1, log) as target:
        make = READ(target, cloud)
        search = SEARCH(target, cloud)
        clients.run(target, search, operations=2)

        def told(what: str) -> None:
            found = clients.run(target, make, clients=2, seconds=options.seconds)
            print(
                f"small reads {what}: median {found.median_ms:.2f} ms, p99 {found.p99_ms:.2f} ms,"
                f" {found.failures} failed",
                flush=True,
            )

        told("at rest")
        with clients.beside(target, search, SEARCHES_PER_S, clients=1):
            told(f"beside {SEARCHES_PER_S:.0f} searches/s")
        with (
            changing(url, options.changed),
            clients.beside(target, search, SEARCHES_PER_S, clients=1) as beside,
        ):
            told(f"while each search reads {options.changed} changed hosts")
        print(
            f"the searches meanwhile: median {beside[0].median_ms:.0f} ms, {beside[0].failures} failed"
        )


@contextlib.contextmanager
def changing(url: str, number: int) -> Iterator[None]:
    """Let so many providers have changed, again and again, while the body runs."""
    engine = create_engine(with_default_driver(make_url(url)))
    with engine.connect() as connection:
        query = select(models.resource_providers.c.id).limit(number)
        ids = list(connection.execute(query).scalars())
    stop = threading.Event()

    def change() -> None:
        while not stop.wait(1 / SEARCHES_PER_S):
            with engine.begin() as connection:
                provider_rows.touch(Transaction(connection), ids)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        engine.dispose()


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_workers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--server", choices=("postgresql", "mysql"), default="postgresql")
    parser.add_argument("--cloud", default="flat-10k")
    parser.add_argument("--workers", default="1,8", help="numbers of processes (1,8)")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--changed", type=int, default=2_000, help="hosts (2000)")
    options = parser.parse_args(arguments)
    cloud = cloud_named(options.cloud)
    with databases.scratch(options.server) as url, tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        with served(url, 1, log) as target:
            bulk.load(target, cloud)
        for workers in options.workers.split(","):
            report_boots(url, cloud, int(workers), log, options)
        report_reads(url, cloud, log, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

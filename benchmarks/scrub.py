"""How long a scrub takes to go through a cloud, stretch by stretch, and so in which time at which share.

    python -m benchmarks.scrub postgresql --hosts 10000 --consumers 7
    python -m benchmarks.scrub postgresql --beside 120

A round with every stretch at once, as the scrubber takes it, so with its row of the database: wall time,
processor time, and for each stage the rows, the time of its parts, and the largest part. Or requests to two
applications in turns, one with the scrub and one without it: the processor time of a request with what
follows its answer, and the time by the clock until the answer is there.
"""

import argparse
import io
import itertools
import json
import os
import statistics
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import column, create_engine, func, select, text

from benchmarks import bulk, databases
from benchmarks.clients import percentile
from benchmarks.clouds import Cloud, cloud_named, uuid_of
from benchmarks.inside import application_on
from placement.db import models, schema, scrub, scrub_rows, standard_names
from placement.db.database import Database, Transaction
from placement.db.engine import make_engine
from placement.objects import scrubber

SHARE = 0.5


def main() -> int:
    """Make the cloud, and go through it some times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("sqlite", "postgresql", "mysql"))
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--consumers", type=int, default=7, help="of each host, with 3 allocations each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=float, metavar="SECONDS", help="of each kind of request")
    given = parser.parse_args()
    cloud = replace(
        cloud_named("flat-10k-busy"), name="scrub", hosts=given.hosts, consumers_per_host=given.consumers
    )
    with databases.scratch(given.kind, name="scrub") as url:
        db = Database(make_engine(url))
        fill(db, cloud)
        print(f"{given.kind}: {cloud.hosts} hosts, {cloud.ledger} allocations; {databases.settings(url)}")
        for number in range(given.rounds):
            # The first one notes the digests, which a load by SQL leaves out.
            print(f"round {number}: {measure_round(db)}")
        db.dispose()
        if given.beside:
            compare_beside(url, cloud, given.beside)
    return 0


def fill(db: Database, cloud: Cloud) -> None:
    """Insert the cloud."""
    schema.sync(db)
    standard_names.synchronise(db)
    traits, classes = cloud.names()
    for table, names in ((models.traits, traits), (models.resource_classes, classes)):
        rows = [{"name": name} for name in names]
        db.write(lambda tx, table=table, rows=rows: tx.insert_missing(table, rows) if rows else 0)  # type: ignore[misc]
    engine = create_engine(db.engine.url)
    bulk.insert_cloud(engine, cloud)
    engine.dispose()


def measure_round(db: Database) -> str:
    """Go through everything once as the workers do; say what it took.

    By the clock, and the processor time of this process and of what serves its connection: on a machine with
    nothing else to do the first is about the sum of the others.
    """
    walls: defaultdict[str, list[float]] = defaultdict(list)
    processors: defaultdict[str, float] = defaultdict(float)
    rows: defaultdict[str, int] = defaultdict(int)
    go_on, database_s = scrub.Stage.go_on, _find_processor(db)

    def timed(stage: scrub.Stage, *args: Any, **named: Any) -> scrub.Part:
        began, used = time.perf_counter(), database_s()
        part = go_on(stage, *args, **named)
        walls[stage.name].append(time.perf_counter() - began)
        processors[stage.name] += database_s() - used
        rows[stage.name] += part.rows
        return part

    one, stretches, rounds = scrubber.Scrubber(db, SHARE), 0, _rounds(db)
    scrub.Stage.go_on = timed  # type: ignore[method-assign]
    wall = here = there = 0.0
    try:
        while _rounds(db) == rounds:
            db.write(_make_due)
            # Without what this benchmark asks by itself.
            began, used, used_there = time.perf_counter(), time.process_time(), database_s()
            one.go_on()
            wall += time.perf_counter() - began
            here += time.process_time() - used
            there += database_s() - used_there
            stretches += 1
    finally:
        scrub.Stage.go_on = go_on  # type: ignore[method-assign]
    stages = "; ".join(
        f"{name} {rows[name]} rows in {processors[name]:.3f} s, {len(each)} parts of at most"
        f" {max(each) * 1000:.0f} ms by the clock"
        for name, each in walls.items()
    )
    return (
        f"{wall:.3f} s by the clock in {stretches} stretches, processor {here:.3f} s here and {there:.3f} s"
        f" in the database: {100 * (here + there) / SHARE:.0f} s at {SHARE} %. {stages}"
    )


def _rounds(db: Database) -> int:
    look = db.read(scrub_rows.read_progress)
    return look.progress.rounds if look else 0


def _find_processor(db: Database) -> Callable[[], float]:
    """Return what tells the processor time, in seconds, of the process or thread of our connection."""
    if db.dialect == "sqlite":
        return lambda: 0.0
    if db.dialect == "postgresql":
        task = db.read(lambda reader: reader.value(select(func.pg_backend_pid())))
    else:
        own = text("SELECT tid FROM information_schema.processlist WHERE id = connection_id()")
        task = db.read(lambda reader: reader.value(own.columns(column("tid"))))
    (path,) = Path("/proc").glob(f"[0-9]*/task/{task}/schedstat")
    # Nanoseconds are the first of its numbers.
    return lambda: int(path.read_text().split()[0]) / 1e9


class Player:
    """An application in this process, with a share for the scrub, to which requests are sent."""

    def __init__(self, url: str, cloud: Cloud, share: float) -> None:
        os.environ["OS_PLACEMENT_DATABASE__SCRUB_SHARE"] = str(share)
        self._application, _ = application_on(url)
        # Not with the hosts that the other one writes.
        self._hosts = itertools.cycle(
            uuid_of(cloud.name, "host", number) for number in range(int(share > 0), cloud.hosts, 2)
        )
        self._pair = [(str(uuid.uuid4()), next(self._hosts)) for _ in range(2)]
        for consumer, host in self._pair:
            self._send("PUT", f"/allocations/{consumer}", _entry(host, None))
        self._generation = 1

    def _send(self, method: str, path: str, body: Any = None) -> tuple[float, float]:
        """Return the processor time and the time until the answer, in milliseconds."""
        began, used = time.perf_counter(), time.process_time()
        content = json.dumps(body).encode()
        environ = {
            **{"REQUEST_METHOD": method, "SCRIPT_NAME": "", "SERVER_NAME": "inside", "SERVER_PORT": "80"},
            **{"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "inside", "REMOTE_ADDR": "127.0.0.1"},
            **{"PATH_INFO": path.partition("?")[0], "QUERY_STRING": path.partition("?")[2]},
            **{"wsgi.url_scheme": "http", "wsgi.version": (1, 0), "wsgi.errors": sys.stderr},
            **{"wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False},
            "wsgi.input": io.BytesIO(content if body else b""),
            "CONTENT_LENGTH": str(len(content) if body else 0),
            "CONTENT_TYPE": "application/json",
            "HTTP_X_AUTH_TOKEN": "admin",
            "HTTP_OPENSTACK_API_VERSION": "placement 1.39",
        }
        seen: list[str] = []
        pieces = self._application(environ, lambda status, *_: seen.append(status))
        for _ in pieces:
            pass
        answered = time.perf_counter() - began
        getattr(pieces, "close", lambda: None)()
        assert seen[0][:3] in ("200", "204"), seen
        return 1e3 * (time.process_time() - used), 1e3 * answered

    def claim(self) -> tuple[float, float]:
        """Claim for a new consumer."""
        return self._send("PUT", f"/allocations/{uuid.uuid4()}", _entry(next(self._hosts), None))

    def swap(self) -> tuple[float, float]:
        """Let two consumers change places."""
        (one, first), (other, second) = self._pair
        self._pair = [(one, second), (other, first)]
        body = {consumer: _entry(host, self._generation) for consumer, host in self._pair}
        self._generation += 1
        return self._send("POST", "/allocations", body)

    def search(self) -> tuple[float, float]:
        """Search for ten candidates."""
        return self._send("GET", f"/allocation_candidates?resources={ASKED}&limit=10")

    def read(self) -> tuple[float, float]:
        """Read the usage of a provider."""
        return self._send("GET", f"/resource_providers/{next(self._hosts)}/usages")


ASKED = "VCPU:1,MEMORY_MB:1"


def _entry(host: str, generation: int | None) -> dict[str, Any]:
    return {
        "allocations": {host: {"resources": {"VCPU": 1, "MEMORY_MB": 1}}},
        **{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"},
        "consumer_generation": generation,
    }


def compare_beside(url: str, cloud: Cloud, seconds: float) -> None:
    """Send requests in turns, and say how the two applications differ."""
    off, on = (Player(url, cloud, share) for share in (0.0, SHARE))
    print(f"load {os.getloadavg()[0]:.1f}; the scrub on by off")
    for name in ("claim", "swap", "search", "read"):
        times: dict[Player, list[tuple[float, float]]] = {off: [], on: []}
        end_s = time.monotonic() + seconds
        for number in itertools.count():
            if time.monotonic() > end_s:
                break
            for player in (off, on) if number % 2 else (on, off):
                times[player].append(getattr(player, name)())
        processor, clock = (
            [[each[part] for each in times[player]] for player in (off, on)] for part in (0, 1)
        )
        print(
            f"{name:<7} {len(times[on])} each; processor, mean {_ratio(processor, statistics.fmean)},"
            f" median {_ratio(processor, statistics.median)};"
            f" clock, median {_ratio(clock, statistics.median)}, 99 % {_ratio(clock, _tail)}",
            flush=True,
        )


def _tail(times: list[float]) -> float:
    return percentile(sorted(times), 0.99)


def _ratio(sides: list[list[float]], figure: Callable[[list[float]], float]) -> str:
    off, on = map(figure, sides)
    return f"{off:.3f} to {on:.3f} ms ({on / off:.3f})"


def _make_due(tx: Transaction) -> None:
    tx.change(models.scrub.update().values(due_at=0))


if __name__ == "__main__":
    sys.exit(main())

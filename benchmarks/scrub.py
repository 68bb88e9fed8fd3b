"""How long a scrub takes to go through a cloud, stretch by stretch, and so in which time at which share.

    python -m benchmarks.scrub postgresql --hosts 10000 --consumers 7

A round with every stretch at once, as the scrubber takes it, so with its row of the database: wall time,
processor time, and for each stage the rows, the time of its parts, and the largest part.
"""

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import column, create_engine, func, select, text

from benchmarks import bulk, databases
from benchmarks.clouds import Cloud, cloud_named
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
    began, here, there = time.perf_counter(), time.process_time(), database_s()
    try:
        while _rounds(db) == rounds:
            db.write(_make_due)
            one.go_on()
            stretches += 1
    finally:
        scrub.Stage.go_on = go_on  # type: ignore[method-assign]
    wall = time.perf_counter() - began
    here, there = time.process_time() - here, database_s() - there
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
    look = db.read(scrub_rows.look)
    return look.progress.rounds if look else 0


def _find_processor(db: Database) -> Callable[[], float]:
    """Return what tells the processor time, in seconds, of the process or thread of our connection."""
    if db.dialect == "sqlite":
        return lambda: 0.0
    if db.dialect == "postgresql":
        pid = task = db.read(lambda reader: reader.value(select(func.pg_backend_pid())))
    else:
        own = text("SELECT tid FROM information_schema.processlist WHERE id = connection_id()")
        task = db.read(lambda reader: reader.value(own.columns(column("tid"))))
        pid = subprocess.check_output(["pidof", "mariadbd"], text=True).split()[0]
    # Nanoseconds are the first of its numbers.
    path = Path(f"/proc/{pid}/task/{task}/schedstat")
    return lambda: int(path.read_text().split()[0]) / 1e9


def _make_due(tx: Transaction) -> None:
    tx.change(models.scrub.update().values(due_at=0))


if __name__ == "__main__":
    sys.exit(main())

"""How long a scrub takes to go through a cloud, stretch by stretch, and so in which time at which share.

    python -m benchmarks.scrub postgresql --hosts 10000 --consumers 7

A round with every stretch at once, as the scrubber takes it, so with its row of the database: wall time,
processor time, and for each stage the rows, the time of its parts, and the largest part.
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, func, select

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

    Wall time, and the processor time of this process and, on PostgreSQL, of its connection's: on a machine
    with nothing else to do the first is about the sum of the others.
    """
    times: defaultdict[str, list[float]] = defaultdict(list)
    rows: defaultdict[str, int] = defaultdict(int)
    go_on = scrub.Stage.go_on

    def timed(stage: scrub.Stage, *args: Any, **named: Any) -> scrub.Part:
        began = time.perf_counter()
        part = go_on(stage, *args, **named)
        times[stage.name].append(time.perf_counter() - began)
        rows[stage.name] += part.rows
        return part

    one, stretches, rounds = scrubber.Scrubber(db, SHARE), 0, _rounds(db)
    scrub.Stage.go_on = timed  # type: ignore[method-assign]
    began, processor = time.perf_counter(), _processor_s(db)
    try:
        while _rounds(db) == rounds:
            db.write(_make_due)
            one.go_on()
            stretches += 1
    finally:
        scrub.Stage.go_on = go_on  # type: ignore[method-assign]
    wall = time.perf_counter() - began
    used = [after - before for after, before in zip(_processor_s(db), processor, strict=True)]
    busy = sum(used) if used[1] else wall
    stages = "; ".join(
        f"{name} {rows[name]} rows in {sum(each):.3f} s, {len(each)} parts of at most"
        f" {max(each) * 1000:.0f} ms"
        for name, each in times.items()
    )
    return (
        f"{wall:.3f} s in {stretches} stretches, processor {used[0]:.3f} s here and {used[1]:.3f} s in the"
        f" database: {100 * busy / SHARE:.0f} s at {SHARE} %. {stages}"
    )


def _rounds(db: Database) -> int:
    look = db.read(scrub_rows.look)
    return look.progress.rounds if look else 0


def _processor_s(db: Database) -> tuple[float, float]:
    """Return the processor time of this process, and of the one that serves its connection, where known."""
    if db.dialect != "postgresql":
        return time.process_time(), 0.0
    pid = db.read(lambda reader: reader.value(select(func.pg_backend_pid())))
    # After the name, which may have spaces: the 14th and 15th fields of proc(5).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time(), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _make_due(tx: Transaction) -> None:
    tx.change(models.scrub.update().values(due_at=0))


if __name__ == "__main__":
    sys.exit(main())

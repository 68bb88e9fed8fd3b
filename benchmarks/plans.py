"""How long plans take on a large cloud, how often they are minimal, and what small reads beside them pay.

    python -m benchmarks.plans --database postgresql --hosts 1000
    python -m benchmarks.plans --database postgresql --hosts 10000

A service on a scratch database: hosts of 44 cores, each fourth with a child of 4 GPUs, and six servers a
host, placed at random. Questions are drawn at random: a large server, with GPUs or without, fits once or
several times; a host, or any few, are empty. Of the answers it prints the time and the processor time of
the service, how many were minimal, how far the bound was off, and the largest memory. Meanwhile another
connection reads the usages of a provider again and again, as it did before alone.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import create_engine, make_url

from benchmarks import bulk
from benchmarks.clients import percentile
from benchmarks.clouds import Cloud, Consumer, Provider, uuid_of
from benchmarks.databases import scratch, settings
from benchmarks.servers import SERVICE, Template, environment, running
from benchmarks.target import Target, cpu_seconds, expect, negotiate, processes
from placement.db.engine import with_default_driver

STOCK = {"VCPU": 44, "MEMORY_MB": 147_456, "DISK_GB": 2_000}
CARDS = 4
CARD_EVERY = 4
"""Every so many hosts have GPUs."""
FLAVORS = (
    (1, 2048, 0), (2, 4096, 0), (4, 8192, 0), (8, 16384, 0), (16, 65536, 0),
    (2, 4096, 1), (4, 8192, 1), (8, 32768, 2),
)  # fmt: skip
TRIES = 50
ALONE_S = 5.0
TWO_GPUS = "resources=VCPU:8,MEMORY_MB:16384&resources_GPU=VGPU:2"


@dataclass(frozen=True)
class Filled(Cloud):
    """A cloud whose hosts are filled at random; the same seed fills it the same way."""

    per_host: int = 6
    seed: int = 1

    @cached_property
    def held(self) -> list[list[tuple[int, int, int]]]:
        """What the servers of each host hold: cores, memory and GPUs."""
        draw, count = Random(self.seed), self.hosts * self.per_host
        free = [
            [STOCK["VCPU"], STOCK["MEMORY_MB"], CARDS if _has_cards(n) else 0]
            for n in range(self.hosts)
        ]
        with_cards = list(range(0, self.hosts, CARD_EVERY))
        found: list[list[tuple[int, int, int]]] = [[] for _ in range(self.hosts)]
        for _ in range(count):
            flavor = draw.choice(FLAVORS if draw.random() < 0.5 else FLAVORS[:5])
            for _ in range(TRIES):
                host = draw.choice(with_cards) if flavor[2] else draw.randrange(self.hosts)
                if all(room >= amount for room, amount in zip(free[host], flavor, strict=True)):
                    free[host] = [
                        room - amount for room, amount in zip(free[host], flavor, strict=True)
                    ]
                    found[host].append(flavor)
                    break
        return found

    def consumers_of(self, number: int) -> list[Consumer]:
        """Return the servers of a host."""
        host, card = self.host_uuid(number), uuid_of(self.name, "card", number)
        found = []
        for place, (cores, memory, gpus) in enumerate(self.held[number]):
            amounts = {host: {"VCPU": cores, "MEMORY_MB": memory, "DISK_GB": 20}}
            if gpus:
                amounts[card] = {"VGPU": gpus}
            found.append(Consumer(uuid_of(self.name, "server", number, place), "p", "u", amounts))
        return found


def _has_cards(number: int) -> bool:
    return number % CARD_EVERY == 0


def _tree(cloud: str, number: int) -> list[Provider]:
    host = uuid_of(cloud, "host", number)
    found = [
        Provider(host, f"{cloud}-{number}", {name: _stock(total) for name, total in STOCK.items()})
    ]
    if _has_cards(number):
        card = uuid_of(cloud, "card", number)
        found.append(Provider(card, f"{cloud}-{number}-card", {"VGPU": _stock(CARDS)}, parent=host))
    return found


def _stock(total: int) -> dict[str, float]:
    return {
        "total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1,
        "allocation_ratio": 1.0,
    }  # fmt: skip


# -- questions -----------------------------------------------------------------------------------


def draw_goal(cloud: Cloud, draw: Random) -> tuple[str, dict[str, Any]]:
    """Return a goal, and what kind it is of."""
    match draw.randrange(5):
        case 0 | 1:
            gpus, cores = draw.choice((2, 3, 4)), draw.choice((8, 16, 24))
            query = f"resources=VCPU:{cores},MEMORY_MB:{cores * 2048}&resources_GPU=VGPU:{gpus}"
            return "GPUs fit", {"place": query, "times": draw.choice((1, 2, 5))}
        case 2:
            cores = draw.choice((36, 40, 44))
            query = f"resources=VCPU:{cores},MEMORY_MB:{cores * 3072}"
            return "a whole host fits", {"place": query, "times": draw.choice((1, 2, 5))}
        case 3:
            trees = [cloud.host_uuid(draw.randrange(cloud.hosts))]
            return "a host is empty", {"empty": {"trees": trees}}
    return "any are empty", {"empty": {"count": cloud.hosts // 200 + draw.randrange(1, 6)}}


@dataclass
class Told:
    """What was told of questions of one kind."""

    seconds: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, status: int, body: Any, seconds: float, processor_s: float) -> None:
        """Add an answer."""
        self.seconds.append(seconds)
        self.processor_s.append(processor_s)
        if status == 200:
            self.off.append(body["cost"] - body["lower_bound"])
            self.steps.append(len(body["steps"]))
            self.outcomes["minimal" if body["minimal"] else "bounded"] += 1
        else:
            error = body["errors"][0]
            self.outcomes["no plan" if error.get("exact") else error["code"]] += 1

    def words(self) -> str:
        """Return a line."""
        said = (
            f"{len(self.seconds)} asked, {_spread(self.seconds)}, processor {_spread(self.processor_s)}; "
            + ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        )
        if self.off:
            near = sum(off <= 2 + 1e-6 for off in self.off)
            said += (
                f"; {near} of {len(self.off)} at most two moves off, {max(self.off):.1f} at the most;"
                f" {statistics.median(self.steps):.0f} steps (at most {max(self.steps)})"
            )
        return said


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s (at most {max(seconds):.2f})"


# -- running -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _service(options: argparse.Namespace, cloud: Cloud) -> Iterator[Target]:
    with (
        scratch(options.database, name="plans") as database,
        tempfile.TemporaryDirectory() as folder,
    ):
        variables = environment(database) | {
            "OS_INSIGHT__ENABLED": "true",
            "OS_API__SEARCH_DEADLINE": str(options.deadline),
        }
        template = Template(options.template, options.workers, options.threads)
        with running(template, SERVICE, variables, Path(folder) / "log") as server:
            engine = create_engine(with_default_driver(make_url(database)))
            bulk.insert_cloud(engine, cloud)
            engine.dispose()
            print(
                f"{options.database}: {settings(database)}; load {os.getloadavg()[0]:.0f}",
                flush=True,
            )
            headers = {"X-Auth-Token": "admin"}
            yield negotiate(
                "service", server.url, headers, pids=(server.process.pid,), database=database
            )


def _ask(target: Target, goal: dict[str, Any], told: Told) -> None:
    processor_s = cpu_seconds(target)
    with target.connect() as connection:
        began = time.perf_counter()
        answer = expect(
            connection.exchange("POST", "/-/plans", json.dumps({"goal": goal}).encode()),
            200,
            409,
            503,
        )
        seconds = time.perf_counter() - began
    told.add(answer.status, json.loads(answer.body), seconds, cpu_seconds(target) - processor_s)


@contextlib.contextmanager
def _reading(target: Target, path: str, times_s: list[float]) -> Iterator[None]:
    """Read something small again and again meanwhile."""
    over = threading.Event()

    def read() -> None:
        with target.connect() as connection:
            while not over.is_set():
                began = time.perf_counter()
                expect(connection.exchange("GET", path), 200)
                times_s.append(time.perf_counter() - began)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()


def _peak_mib(target: Target) -> float:
    """Return the largest memory that a serving process ever had."""
    peaks = []
    for process in processes(target):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        peaks.append(
            next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
        )
    return max(peaks)


def _milliseconds(times_s: list[float]) -> str:
    found = [1000 * percentile(sorted(times_s), part) for part in (0.5, 0.95, 0.99)]
    return " / ".join(f"{each:.1f}" for each in found)


def main() -> int:
    """Ask, and print what was told."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plans", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--database", choices=("sqlite", "postgresql", "mysql"), default="postgresql"
    )
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--per-host", type=int, default=6, help="servers")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--deadline", type=float, default=5.0, help="[api]/search_deadline, seconds"
    )
    parser.add_argument("--template", default="placement-api")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    cloud = Filled("plans", options.hosts, _tree, (), per_host=options.per_host, seed=options.seed)
    draw, told = Random(options.seed), dict[str, Told]()
    with _service(options, cloud) as target:
        path = f"/resource_providers/{cloud.host_uuid(0)}/usages"
        first, alone, beside = Told(), list[float](), list[float]()
        _ask(target, {"place": TWO_GPUS}, first)
        print(f"first plan of the worker: {first.words()}", flush=True)
        before = _peak_mib(target)
        with _reading(target, path, alone):
            time.sleep(ALONE_S)
        with _reading(target, path, beside):
            for _ in range(options.questions):
                kind, goal = draw_goal(cloud, draw)
                for name in (kind, "all"):
                    told.setdefault(name, Told())
                one = Told()
                _ask(target, goal, one)
                _merge(told[kind], one)
                _merge(told["all"], one)
        for kind, each in sorted(told.items()):
            print(f"{kind}: {each.words()}")
        print(
            f"small read, ms at 50, 95, 99 of 100: alone {_milliseconds(alone)},"
            f" beside {_milliseconds(beside)}"
        )
        print(
            f"memory at the most: {before:.0f} MiB after the first plan, {_peak_mib(target):.0f} in the end"
        )
    return 0


def _merge(told: Told, one: Told) -> None:
    for name in ("seconds", "processor_s", "off", "steps"):
        getattr(told, name).extend(getattr(one, name))
    told.outcomes += one.outcomes


if __name__ == "__main__":
    sys.exit(main())

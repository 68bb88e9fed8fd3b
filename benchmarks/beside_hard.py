"""A small search beside each hard question: ``python -m benchmarks.beside_hard --template uwsgi``.

150 hosts of 12 devices with 8 SRIOV_NET_VF and 4 VGPU, of which 26 groups take nearly everything. One process
of uWSGI or placement-api; the database is a SQLite file. For each question: how long it takes alone, its
status, and how much longer a small search takes while the question is asked again and again, than alone in
the same run.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from sqlalchemy import create_engine

from benchmarks import bulk
from benchmarks.clouds import Cloud, Provider, uuid_of
from benchmarks.connection import Connection
from benchmarks.servers import SERVICE, Template, environment, running

HOSTS, DEVICES, GROUPS = 150, 12, 26
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
TRAITS = ("HW_NIC_SRIOV", "HW_NIC_MULTIQUEUE", "HW_NIC_VMDQ", "HW_NIC_OFFLOAD_TSO")
SMALL = "/allocation_candidates?resources=VCPU:1&limit=1"
PATIENCE_S = 600.0


class Question(NamedTuple):
    """A hard request; ``body``: of a POST, None for a GET."""

    path: str
    body: bytes | None = None


def _tree(cloud: str, number: int) -> list[Provider]:
    host, random = uuid_of(cloud, "host", number), Random(number)
    devices = [
        Provider(
            uuid_of(cloud, "device", number, device),
            f"{cloud}-{number}-{device}",
            {"SRIOV_NET_VF": _all(8), "VGPU": _all(4)},
            parent=host,
            traits=tuple(trait for trait in TRAITS if random.random() < 0.4),
        )
        for device in range(DEVICES)
    ]
    return [Provider(host, f"{cloud}-{number}", {"VCPU": _all(64)}), *devices]


def _all(total: int) -> dict[str, float]:
    bounds = {"reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1}
    return {"total": total, "allocation_ratio": 1.0, **bounds}


def groups(seed: int) -> str:
    """Return the 26 groups as a query: nine with conditions, half with VGPU too."""
    random = Random(seed)
    parts = ["group_policy=none", "limit=1"]
    for number in range(GROUPS):
        amounts = f"SRIOV_NET_VF:{random.randint(2, 5)}"
        if random.random() < 0.5:
            amounts += f",VGPU:{random.randint(1, 2)}"
        parts.append(f"resources_{number}={amounts}")
        if number < 9:
            one, other = random.sample(TRAITS, 2)
            condition = random.choice((one, f"!{one}", f"in:{one},{other}"))
            parts.append(f"required_{number}={condition}")
    return "&".join(parts)


def questions(seed: int) -> dict[str, Question]:
    """Return the hard requests by name."""
    hard = groups(seed)
    pair = "resources=VCPU:1&resources_A=VGPU:1&group_policy=isolate&same_subtree=_A"
    return {
        "26 groups": Question(f"/allocation_candidates?{hard}"),
        "explain 26 groups": Question(f"/-/explain?{hard}"),
        "capacity, 26 groups": Question(f"/-/capacity?{hard.replace('&limit=1', '')}"),
        "capacity, isolate": Question(f"/-/capacity?{pair}"),
        "what-if, isolate": _what_if(pair),
        "what-if, 26 groups": _what_if(hard.replace("&limit=1", "")),
    }


def _what_if(query: str) -> Question:
    return Question("/-/what-if", json.dumps({"changes": [], "query": query}).encode())


def _ask(connection: Connection, question: Question) -> tuple[int, bytes]:
    method = "GET" if question.body is None else "POST"
    answer = connection.exchange(method, question.path, question.body)
    return answer.status, answer.body


def _repeat(url: str, question: Question, begun: Event, ended: Event) -> None:
    """In a process of its own, which takes no part of the small client's time."""
    with Connection(url, HEADERS, PATIENCE_S) as connection:
        while not ended.is_set():
            begun.set()
            _ask(connection, question)


def _small(url: str, goes_on: Callable[[int], bool]) -> list[float]:
    """Return the milliseconds of small searches, one after another."""
    times: list[float] = []
    with Connection(url, HEADERS, PATIENCE_S) as connection:
        while goes_on(len(times)):
            before = time.perf_counter()
            status, _ = _ask(connection, Question(SMALL))
            times.append((time.perf_counter() - before) * 1000)
            assert status == 200
    return times


def _told(times: list[float]) -> str:
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    return f"p50 {p50:6.1f}  p95 {p95:6.1f}  p99 {p99:6.1f}  most {max(times):6.1f} ms"


def _measure(url: str, question: Question, seconds: float) -> str:
    with Connection(url, HEADERS, PATIENCE_S) as connection:
        before = time.perf_counter()
        status, body = _ask(connection, question)
        took_s = time.perf_counter() - before
    complete = json.loads(body).get("complete") if question.path.startswith("/-/") else None
    spawning = multiprocessing.get_context("spawn")
    begun, ended = spawning.Event(), spawning.Event()
    asker = spawning.Process(target=_repeat, args=(url, question, begun, ended))
    asker.start()
    begun.wait()
    end = time.monotonic() + seconds
    times = _small(url, lambda _: time.monotonic() < end)
    ended.set()
    asker.join()
    outcome = f"{status}" if complete is None else f"{status}, complete: {json.dumps(complete)}"
    return f"{_told(times)}   ({took_s:.2f} s alone, {outcome})"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_hard")
    parser.add_argument("--template", default="uwsgi", choices=("uwsgi", "placement-api"))
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each question")
    parser.add_argument("--seed", type=int, default=0, help="of the 26 groups")
    parser.add_argument("--only", default="", help="questions whose name contains this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        database = f"sqlite:///{name}/placement.sqlite"
        variables = environment(database) | {"OS_INSIGHT__ENABLED": "true"}
        template = Template(options.template, threads=options.threads)
        with running(template, SERVICE, variables, Path(name) / "log") as server:
            engine = create_engine(database)
            bulk.insert_cloud(engine, Cloud("hard", HOSTS, _tree, ()))
            engine.dispose()
            _small(server.url, lambda done: done < 50)
            print(f"{'a small search alone':<28}{_told(_small(server.url, lambda n: n < 500))}")
            for what, question in questions(options.seed).items():
                if options.only in what:
                    found = _measure(server.url, question, options.seconds)
                    print(f"{'beside ' + what:<28}{found}", flush=True)


if __name__ == "__main__":
    main()

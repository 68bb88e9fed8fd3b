"""Claims decided by the service beside the two-request dance: ``python -m benchmarks.claims``.

The dance asks for candidates, takes one of them at random, claims it, and takes another after a 409. Both are
measured in one run, in turns. Boots: how many servers a second, by so many clients. Gang: seconds for 100
servers in one request, and by 100 dances one after another. Last room: clients race for what is left of
a cloud that is 95 % full, until it is full; refusals of requests that had room count.
"""

import argparse
import contextlib
import json
import random
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url

from benchmarks import bulk
from benchmarks.clouds import Cloud, Provider, uuid_of
from benchmarks.connection import Connection
from benchmarks.databases import scratch
from benchmarks.servers import SERVICE, TEMPLATES, Template, environment, running
from placement.db.engine import with_default_driver

HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": "placement 1.39",
    "Accept": "application/json",
}
QUERY = "resources=VCPU:2,MEMORY_MB:2048,DISK_GB:10"
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
GANG = 100
TURNS = 3

Boot = Callable[[Connection], int]
"""Boots one server; returns how many refusals that took, -1 if there is no room any more."""


def _tree(servers: int) -> Callable[[str, int], list[Provider]]:
    def tree(cloud: str, number: int) -> list[Provider]:
        stock = {
            name: {
                "total": servers * amount,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": servers * amount,
                "step_size": 1,
                "allocation_ratio": 1.0,
            }
            for name, amount in (("VCPU", 2), ("MEMORY_MB", 2048), ("DISK_GB", 10))
        }
        return [Provider(uuid_of(cloud, number), f"{cloud}-{number}", stock)]

    return tree


@contextlib.contextmanager
def _service(options: argparse.Namespace, hosts: int, servers: int) -> Iterator[str]:
    """Start a service on so many hosts with room for so many servers each; yield its URL."""
    with scratch(options.database) as database, tempfile.TemporaryDirectory() as folder:
        variables = environment(database) | {"OS_INSIGHT__ENABLED": "true"}
        template = Template(options.template, options.workers, options.threads)
        with running(template, SERVICE, variables, Path(folder) / "log") as server:
            engine = create_engine(with_default_driver(make_url(database)))
            bulk.insert_cloud(engine, Cloud("claims", hosts, _tree(servers), ()))
            engine.dispose()
            yield server.url


def _send(connection: Connection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    sent = None if body is None else json.dumps(body).encode()
    answer = connection.exchange(method, path, sent)
    return answer.status, answer.body


def _claims(count: int) -> dict[str, Any]:
    return {
        "claims": [
            {
                "consumer_uuid": str(uuid.uuid4()),
                "consumer_generation": None,
                "query": QUERY,
                **OWNER,
            }
            for _ in range(count)
        ]
    }


def _one_request(connection: Connection, count: int = 1) -> int:
    status, body = _send(connection, "POST", "/-/claims", _claims(count))
    if status == 409 and json.loads(body)["errors"][0]["code"] == "placement.no_candidate":
        return -1
    assert status == 200, body
    return 0


def _dance(limit: int) -> Boot:
    def boot(connection: Connection) -> int:
        refused = 0
        while True:
            _, body = _send(connection, "GET", f"/allocation_candidates?{QUERY}&limit={limit}")
            found = json.loads(body)["allocation_requests"]
            if not found:
                return -1
            for chosen in random.sample(found, min(len(found), 3)):
                claim = {"allocations": chosen["allocations"], "consumer_generation": None, **OWNER}
                status, body = _send(connection, "PUT", f"/allocations/{uuid.uuid4()}", claim)
                if status == 204:
                    return refused
                assert status == 409, body
                refused += 1

    return boot


def _by_clients(url: str, clients: int, work: Callable[[Connection], tuple[int, int]]) -> Any:
    """Let clients work at once; return seconds, and the sums of what they return."""
    results: list[tuple[int, int]] = []

    def client() -> None:
        with Connection(url, HEADERS) as connection:
            results.append(work(connection))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - begun
    assert len(results) == clients
    return took_s, *map(sum, zip(*results, strict=True))


def _rate(url: str, boot: Boot, clients: int, seconds: float) -> tuple[float, int]:
    def work(connection: Connection) -> tuple[int, int]:
        end, done, refusals = time.perf_counter() + seconds, 0, 0
        while time.perf_counter() < end:
            refused = boot(connection)
            assert refused >= 0, "the cloud is full"
            done, refusals = done + 1, refusals + refused
        return done, refusals

    took_s, done, refused = _by_clients(url, clients, work)
    return done / took_s, refused


def _fill(url: str, boot: Boot, clients: int) -> tuple[float, int]:
    def work(connection: Connection) -> tuple[int, int]:
        done = refusals = 0
        while (refused := boot(connection)) >= 0:
            done, refusals = done + 1, refusals + refused
        return done, refusals

    took_s, done, refused = _by_clients(url, clients, work)
    return done / took_s, refused


def _boots(options: argparse.Namespace, ways: dict[str, Boot]) -> None:
    with _service(options, options.hosts, 1000) as url:
        for clients in options.clients:
            rates: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(TURNS):
                for way, boot in ways.items():
                    rates[way].append(_rate(url, boot, clients, options.seconds)[0])
            for way, found in rates.items():
                told = f"boots, {clients} clients, {way}"
                print(f"{told:<48}{statistics.median(found):8.0f} a second", flush=True)
        _gang(url, ways)


def _gang(url: str, ways: dict[str, Boot]) -> None:
    with Connection(url, HEADERS) as connection:
        times: dict[str, list[float]] = {"one request": [], **{way: [] for way in list(ways)[1:]}}
        for _ in range(TURNS):
            for way, taken in times.items():
                begun = time.perf_counter()
                if way == "one request":
                    _one_request(connection, GANG)
                else:
                    for _ in range(GANG):
                        ways[way](connection)
                taken.append(time.perf_counter() - begun)
        for way, taken in times.items():
            told = f"gang of {GANG}, {way}"
            print(f"{told:<48}{statistics.median(taken) * 1000:8.0f} ms", flush=True)


def _last_room(options: argparse.Namespace, ways: dict[str, Boot]) -> None:
    """Fill a cloud to 95 %, and then race for the rest."""
    hosts = options.hosts // 10
    for way, boot in ways.items():
        with _service(options, hosts, 20) as url:
            with Connection(url, HEADERS) as connection:
                for _ in range(hosts * 19 // 1000):
                    _one_request(connection, 1000)
            rate, refused = _fill(url, boot, 16)
        told = f"last 5 % of {hosts} hosts, 16 clients, {way}"
        print(f"{told:<48}{rate:8.0f} a second, {refused} refusals", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims")
    parser.add_argument("--database", default="sqlite", choices=("sqlite", "postgresql", "mysql"))
    parser.add_argument("--template", default="uwsgi", choices=sorted(TEMPLATES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=16, help="of each worker")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--limits", type=int, nargs="*", default=[10, 1000], help="of the dances")
    options = parser.parse_args()
    ways: dict[str, Boot] = {"one request": _one_request}
    ways |= {f"dance, limit={limit}": _dance(limit) for limit in options.limits}
    _boots(options, ways)
    _last_room(options, ways)


if __name__ == "__main__":
    main()

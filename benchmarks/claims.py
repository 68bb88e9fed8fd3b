"""Claims decided by the service beside the two-request dance: ``python -m benchmarks.claims``.

The dance asks for candidates, takes one of them at random, claims it, and takes another after a 409, up to
three before it asks again. Both run on the same service, in turns; clients are processes. Boots: how many
servers a second, by so many clients. Gang: seconds for 100 servers in one request, and by 100 dances one
after another. Last room: clients race for what is left of a cloud that is 95 % full, until it is full; then
it is made free again for the next turn. The time of a boot has all that was refused on its way.

Of the turns the median is printed, with the processor time of the service per boot, and for the last room
also what was refused, or chosen again, in all turns.
"""

import argparse
import contextlib
import json
import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, select

from benchmarks import bulk
from benchmarks.clients import FORK, UNTIL_DONE, Maker, Measurement, Operation, run
from benchmarks.clouds import Cloud, Provider, uuid_of
from benchmarks.connection import Answer, Connection
from benchmarks.databases import scratch
from benchmarks.servers import SERVICE, TEMPLATES, Template, environment, running
from benchmarks.target import Target, expect, negotiate
from placement.db import models
from placement.db.engine import with_default_driver

CLAIM = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 10}
QUERY = "resources=" + ",".join(f"{name}:{amount}" for name, amount in CLAIM.items())
FULL, RACING = "full", "racing"
"""Projects: of what fills the cloud, and of those that race."""
GANG = 100
PART = 1000
"""Consumers of one request that fills or frees."""
ROOM = 20
"""Servers for which a host has room, where clients race for the last."""
RETRIES = "placement_claim_retries_total "

refusals = FORK.Value("q", 0)
"""Answers 409 to claims of what was a candidate just before."""

Boot = Callable[[Connection], Answer | None]
"""Boots one server; returns the last answer, None if there is no room any more."""


def make_tree(servers: int) -> Callable[[str, int], list[Provider]]:
    """Return what makes a host with room for so many servers."""

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
            for name, amount in CLAIM.items()
        }
        return [Provider(uuid_of(cloud, "host", number), f"{cloud}-{number}", stock)]

    return tree


@contextlib.contextmanager
def _service(options: argparse.Namespace, hosts: int, servers: int) -> Iterator[Target]:
    """Start a service on so many hosts with room for so many servers each."""
    with scratch(options.database) as database, tempfile.TemporaryDirectory() as folder:
        variables = environment(database) | {
            "OS_INSIGHT__ENABLED": "true",
            "OS_INSIGHT__METRICS_DIRECTORY": folder,
        }
        template = Template(options.template, options.workers, options.threads)
        with running(template, SERVICE, variables, Path(folder) / "log") as server:
            engine = create_engine(with_default_driver(make_url(database)))
            bulk.insert_cloud(engine, Cloud("claims", hosts, make_tree(servers), ()))
            engine.dispose()
            yield negotiate(
                "service",
                server.url,
                {"X-Auth-Token": "admin"},
                pids=(server.process.pid,),
                database=database,
            )


# -- the ways ------------------------------------------------------------------------------------


def post(connection: Connection, path: str, body: Any) -> Answer:
    """Send a body."""
    return connection.exchange("POST", path, json.dumps(body).encode())


def _owner(project: str) -> dict[str, str]:
    return {"project_id": project, "user_id": "u", "consumer_type": "INSTANCE"}


def claims_of(count: int, project: str) -> dict[str, Any]:
    """Return the body that claims for so many new consumers of a project."""
    new = {"consumer_generation": None, "query": QUERY, **_owner(project)}
    return {"claims": [{"consumer_uuid": str(uuid.uuid4()), **new} for _ in range(count)]}


def one_request(connection: Connection) -> Answer | None:
    """Boot by one request."""
    answer = expect(post(connection, "/-/claims", claims_of(1, RACING)), 200, 409)
    if answer.status == 200:
        return answer
    code = json.loads(answer.body)["errors"][0]["code"]
    assert code == "placement.no_candidate", code
    return None


def _dance(limit: int) -> Boot:
    def boot(connection: Connection) -> Answer | None:
        while True:
            answer = connection.exchange("GET", f"/allocation_candidates?{QUERY}&limit={limit}")
            found = json.loads(expect(answer, 200).body)["allocation_requests"]
            if not found:
                return None
            for chosen in random.sample(found, min(len(found), 3)):
                claim = {
                    "allocations": chosen["allocations"],
                    "consumer_generation": None,
                    **_owner(RACING),
                }
                path = f"/allocations/{uuid.uuid4()}"
                answer = connection.exchange("PUT", path, json.dumps(claim).encode())
                if expect(answer, 204, 409).status == 204:
                    return answer
                with refusals.get_lock():
                    refusals.value += 1

    return boot


def booting(boot: Boot) -> Maker:
    """Return the maker of clients that boot again and again."""

    def make(connection: Connection, client: int) -> Operation:
        random.seed()

        def operation(number: int) -> Answer:
            answer = boot(connection)
            if answer is None:
                raise StopIteration
            return answer

        return operation

    return make


# -- the measurements ----------------------------------------------------------------------------


def _print(what: str, way: str, runs: list[Measurement], more: str = "") -> None:
    rate = statistics.median(one.per_second for one in runs)
    cpu_ms = statistics.median(one.server_cpu_ms or 0.0 for one in runs)
    slow_ms = statistics.median(one.p99_ms for one in runs)
    told = f"{rate:7.0f} a second, p99 {slow_ms:5.0f} ms, {cpu_ms:5.2f} ms of processor{more}"
    print(f"{what + ', ' + way:<50}{told}", flush=True)


def _boots(options: argparse.Namespace, target: Target, ways: dict[str, Boot]) -> None:
    for clients in options.clients:
        runs: dict[str, list[Measurement]] = {way: [] for way in ways}
        for _ in range(options.turns):
            for way, boot in ways.items():
                measured = run(target, booting(boot), clients=clients, seconds=options.seconds)
                runs[way].append(measured)
        for way, found in runs.items():
            _print(f"boots, {clients} clients", way, found)


def _gang(options: argparse.Namespace, target: Target, ways: dict[str, Boot]) -> None:
    def gang(connection: Connection) -> None:
        expect(post(connection, "/-/claims", claims_of(GANG, RACING)), 200)

    def one_by_one(boot: Boot) -> Callable[[Connection], None]:
        return lambda connection: [boot(connection) for _ in range(GANG)] and None

    whole = {way: gang if way == "one request" else one_by_one(boot) for way, boot in ways.items()}
    times: dict[str, list[float]] = {way: [] for way in ways}
    with target.connect() as connection:
        for _ in range(options.turns):
            for way, work in whole.items():
                begun = time.perf_counter()
                work(connection)
                times[way].append(time.perf_counter() - begun)
    for way, taken in times.items():
        told = f"gang of {GANG}, {way}"
        print(f"{told:<50}{statistics.median(taken) * 1000:7.0f} ms", flush=True)


def _last_room(
    options: argparse.Namespace, target: Target, hosts: int, ways: dict[str, Boot]
) -> None:
    """Fill a cloud to 95 %, and let clients race for the rest, again and again."""
    room, clients = hosts * ROOM // 20, options.racing
    with target.connect() as connection:
        for _ in range(hosts * ROOM // PART - room // PART):
            expect(post(connection, "/-/claims", claims_of(PART, FULL)), 200)
    runs: dict[str, list[Measurement]] = {way: [] for way in ways}
    lost = dict.fromkeys(ways, 0)
    for _ in range(options.turns):
        for way, boot in ways.items():
            before = refusals.value, _retries(target)
            measured = run(target, booting(boot), clients=clients, operations=UNTIL_DONE)
            assert measured.operations == room, measured
            runs[way].append(measured)
            lost[way] += refusals.value - before[0] + _retries(target) - before[1]
            _free(target)
    for way, found in runs.items():
        verb = "chosen again" if way == "one request" else "refused"
        more = f", {lost[way]} times {verb}"
        _print(f"last 5 % of {hosts} hosts, {clients} clients", way, found, more)


def _retries(target: Target) -> int:
    """Return how often the service has chosen again."""
    with target.connect() as connection:
        lines = bytes(connection.exchange("GET", "/-/metrics").body).decode().splitlines()
    return int(sum(float(line.split()[-1]) for line in lines if line.startswith(RETRIES)))


def _free(target: Target) -> None:
    """Remove those that raced."""
    assert target.database is not None
    engine = create_engine(with_default_driver(make_url(target.database)))
    of_race = models.projects.c.id == models.consumers.c.project_id
    query = select(models.consumers.c.uuid).join_from(models.consumers, models.projects, of_race)
    with engine.connect() as reading:
        racing = reading.scalars(query.where(models.projects.c.external_id == RACING)).all()
    engine.dispose()
    nothing = {"allocations": {}, "consumer_generation": 1, **_owner(RACING)}
    with target.connect() as connection:
        for start in range(0, len(racing), PART):
            gone = dict.fromkeys(racing[start : start + PART], nothing)
            expect(post(connection, "/allocations", gone), 204)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims")
    parser.add_argument("--database", default="sqlite", choices=("sqlite", "postgresql", "mysql"))
    parser.add_argument("--template", default="uwsgi", choices=sorted(TEMPLATES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=16, help="of each worker")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--racing-hosts", type=int, nargs="*", default=[1000])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--racing", type=int, default=16, help="clients for the last room")
    parser.add_argument("--limits", type=int, nargs="*", default=[10, 1000], help="of the dances")
    options = parser.parse_args()
    ways: dict[str, Boot] = {"one request": one_request}
    ways |= {f"dance, limit={limit}": _dance(limit) for limit in options.limits}
    if options.hosts:
        with _service(options, options.hosts, 1000) as target:
            _boots(options, target, ways)
            _gang(options, target, ways)
    for hosts in options.racing_hosts:
        with _service(options, hosts, ROOM) as target:
            _last_room(options, target, hosts, ways)


if __name__ == "__main__":
    main()

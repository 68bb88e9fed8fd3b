"""Reshape a busy host live: how long a first start-up takes beside claims on the same tree.

``python -m benchmarks.reshape --server postgresql`` makes a scratch database, starts a server, gives a host
many consumers that all hold a VGPU on the root, and starts an agent whose driver moves the VGPU to
children, while boots ask for candidates on the host and claim them at a steady rate. Before each such
host it reshapes one without claims, so that both meet the machine in the same state. It prints the
seconds, attempts and requests of each start-up, and ends with 1 if one failed, a boot failed or a unit was
lost.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import requests
from keystoneauth1 import adapter, session

from benchmarks.connection import Answer, Connection
from benchmarks.databases import ADMINISTRATION, scratch
from benchmarks.servers import SERVICE, TEMPLATES, Template, environment, running
from placement.client.drivers.split import Node, NodePart, VgpuDriver
from placement.client.report import ReportClient
from placement.client.tracker import ResourceTracker

HEADERS = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "Accept": "application/json",
    "OpenStack-API-Version": "placement 1.30",
}
AT_ONCE = 100


def call(connection: Connection, method: str, path: str, body: Any = None) -> Answer:
    """Send a request at 1.30."""
    text = None if body is None else json.dumps(body).encode()
    return connection.exchange(method, path, text)


def claim_of(places: dict[str, Any]) -> dict[str, Any]:
    """Return the body that claims for a new consumer."""
    owner = {"project_id": "project", "user_id": "user", "consumer_generation": None}
    return {"allocations": places, **owner}


@dataclass
class Host:
    """A host whose root has everything, and who uses it."""

    name: str
    uuid: str
    gpus: int

    def create(self, connection: Connection, consumers: int) -> None:
        """Create the root with room for twice the consumers, and claim for all of them."""
        body = {"name": self.name, "uuid": self.uuid}
        made = call(connection, "POST", "/resource_providers", body)
        assert made.status == 200, (made.status, bytes(made.body)[:300])
        totals = {"VCPU": 100_000, "MEMORY_MB": 10_000_000, "VGPU": consumers * 2}
        inventories = {name: {"total": total} for name, total in totals.items()}
        body = {"resource_provider_generation": 0, "inventories": inventories}
        path = f"/resource_providers/{self.uuid}/inventories"
        assert call(connection, "PUT", path, body).status == 200
        resources = {"VCPU": 1, "MEMORY_MB": 100, "VGPU": 1}
        for start in range(0, consumers, AT_ONCE):
            claims = {
                str(uuid.uuid4()): claim_of({self.uuid: {"resources": resources}})
                for _ in range(start, min(start + AT_ONCE, consumers))
            }
            assert call(connection, "POST", "/allocations", claims).status == 204

    def driver(self, consumers: int) -> VgpuDriver:
        """Return the driver that wants the VGPU on children."""
        each = consumers * 2 // self.gpus
        parts = {
            f"gpu{n}": NodePart({"VGPU": {"total": each, "reserved": 0}}) for n in range(self.gpus)
        }
        return VgpuDriver({self.name: Node(self.uuid, parts)})


@dataclass
class Boots(threading.Thread):
    """Asks for candidates on the host and claims the first, so many times a second.

    Every so many boots wants a VGPU too, which has to move with the others.
    """

    connection: Connection
    host: Host
    per_second: float
    vgpu_every: int
    results: Counter[str] = field(default_factory=Counter)
    vgpus: int = 0

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Boot at fixed moments; one that is late follows at once."""
        begun, number = time.perf_counter(), 0
        while not self.ended.wait(max(0.0, begun + number / self.per_second - time.perf_counter())):
            number += 1
            self._boot(with_vgpu=number % self.vgpu_every == 0)

    def _boot(self, with_vgpu: bool) -> None:
        wanted = "VCPU:1,MEMORY_MB:100" + (",VGPU:1" if with_vgpu else "")
        path = f"/allocation_candidates?resources={wanted}&in_tree={self.host.uuid}&limit=10"
        get = partial(self.connection.exchange, "GET", path, None, "1.36")
        for _ in range(3):  # as a scheduler that is told 409
            found = json.loads(get().body)["allocation_requests"]
            if with_vgpu and not found:  # closed while it moves: another host's turn
                self.results["no VGPU"] += 1
                return
            for candidate in found:
                claim = claim_of(candidate["allocations"])
                answer = call(self.connection, "PUT", f"/allocations/{uuid.uuid4()}", claim)
                if answer.status == 204:
                    self.results["booted"] += 1
                    self.vgpus += with_vgpu
                    return
                self.results[f"answer {answer.status}"] += 1
        self.results["failed"] += 1


def used(connection: Connection, host: Host) -> dict[str, Counter[str]]:
    """Return what is used of each provider of the host's tree, by name."""
    path = f"/resource_providers?in_tree={host.uuid}"
    shown = json.loads(call(connection, "GET", path).body)["resource_providers"]
    return {
        one["name"]: Counter(
            json.loads(call(connection, "GET", f"/resource_providers/{one['uuid']}/usages").body)[
                "usages"
            ]
        )
        for one in shown
    }


def measure(url: str, options: argparse.Namespace, name: str, *, busy: bool) -> tuple[float, bool]:
    """Reshape one host, busy or not; return the seconds and whether everything is as it should be."""
    host = Host(name, str(uuid.uuid4()), options.gpus)
    with closing(Connection(url, HEADERS)) as mine, closing(Connection(url, HEADERS)) as theirs:
        host.create(mine, options.consumers)
        boots = Boots(theirs, host, options.claims_per_second, options.vgpu_every)
        requests_session = requests.Session()
        sent: Counter[str] = Counter()
        requests_session.hooks["response"].append(
            lambda answer, **_: sent.update([answer.request.path_url])
        )
        connection = adapter.Adapter(
            session.Session(session=requests_session),
            service_type="placement",
            endpoint_override=url,
            additional_headers={key: HEADERS[key] for key in ("X-Auth-Token", "X-Roles")},
        )
        client = ReportClient(connection, requests_at_once=options.requests_at_once)
        tracker = ResourceTracker(
            client, host.driver(options.consumers), reshape_timeout_s=options.timeout
        )
        if busy:
            boots.start()
        begun, trouble = time.perf_counter(), ""
        try:
            tracker.update_available_resource(None, startup=True)
        except Exception as error:
            trouble = str(error)
        seconds = time.perf_counter() - begun
        boots.ended.set()
        if busy:
            boots.join()
        requests_session.close()
        state = used(mine, host)
    root = state.pop(host.name)
    moved = sum(usages["VGPU"] for usages in state.values())
    whole = not trouble and root["VGPU"] == 0 and moved == options.consumers + boots.vgpus
    fine = whole and not boots.results["failed"]
    print(
        f"{host.name}: {seconds:.2f} s, {sent['/reshaper']} attempts, {sent.total()} requests;"
        f" boots meanwhile: {dict(boots.results)} {trouble}",
        flush=True,
    )
    return seconds, fine


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--server", choices=["sqlite", *ADMINISTRATION], default="sqlite")
    parser.add_argument("--template", choices=sorted(TEMPLATES), default="placement-api")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--compatible", action="store_true", help="without [insight]/enabled")
    parser.add_argument("--consumers", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--claims-per-second", type=float, default=20)
    parser.add_argument("--vgpu-every", type=int, default=5, help="boots of which one moves")
    parser.add_argument("--requests-at-once", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if anything went wrong."""
    options = parsed(arguments)
    template = Template(options.template, options.workers)
    with (
        scratch(options.server) as database,
        tempfile.TemporaryDirectory() as folder,
        running(
            template,
            SERVICE,
            environment(database) | {"OS_INSIGHT__ENABLED": str(not options.compatible).lower()},
            Path(folder) / "server.log",
        ) as server,
    ):
        pairs = [
            tuple(
                measure(server.url, options, f"{kind}{number}", busy=kind == "busy")
                for kind in ("quiet", "busy")
            )
            for number in range(options.runs)
        ]
    quiet, busy = ([seconds for seconds, _ in side] for side in zip(*pairs, strict=True))
    ratios = [one / other for one, other in zip(busy, quiet, strict=True)]
    done = sum(fine for _, (_, fine) in pairs)
    print(
        f"{options.server}: {options.consumers} consumers, {options.claims_per_second:g} claims/s:"
        f" {done} of {options.runs} done; median {statistics.median(busy):.2f} s, longest"
        f" {max(busy):.2f} s; without claims {statistics.median(quiet):.2f} s;"
        f" {statistics.median(ratios):.1f} times as long, at most {max(ratios):.1f}"
    )
    return 0 if all(fine for pair in pairs for _, fine in pair) else 1


if __name__ == "__main__":
    sys.exit(main())

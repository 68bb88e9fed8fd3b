"""What the metrics cost: the same requests with them and without, in turn, in one process.

    python -m benchmarks.metrics_cost [DATABASE]

DATABASE is the SQLAlchemy URL of an empty database; a scratch SQLite file if it is not given. Each round
sends the smallest read, a claim and a small search to both applications. The metrics are those of a server
with several processes, which share them through files. Printed are medians of CPU and wall time of a
request, and the median of what is added from round to round.
"""

import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import webob
from oslo_config import cfg

from placement import conf as configuration
from placement import db_api, deploy
from placement.conf import library_defaults

ROUNDS = 120
BATCH = 25
WARM_UP = 5
HOST = "1f000000-0000-4000-8000-000000000001"


def application(url: str, directory: str | None) -> Callable[..., Any]:
    """Return the service on the database, with metrics if there is a directory for them."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    conf.set_override("connection", url, group="placement_database")
    conf([], project="placement", default_config_files=[], default_config_dirs=[])
    conf.set_override("sync_on_startup", True, group="placement_database")
    conf.set_override("auth_strategy", "noauth2", group="api")
    conf.set_override("enabled", directory is not None, group="insight")
    conf.set_override("metrics_directory", directory, group="insight")
    return deploy.loadapp(conf, database=db_api.open_database(conf))


def call(app: Callable[..., Any], method: str, path: str, body: Any = None) -> None:
    sent = webob.Request.blank(path, method=method)
    sent.headers.update({"x-auth-token": "admin", "openstack-api-version": "placement 1.39"})
    if body is not None:
        sent.json = body
        sent.content_type = "application/json"
    answer = sent.get_response(app)
    assert answer.status_int < 300, answer.text


def claim() -> tuple[str, str, Any]:
    body = {
        "allocations": {HOST: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    return "PUT", f"/allocations/{uuid.uuid4()}", body


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = arguments[0] if arguments else f"sqlite:///{folder}/benchmark.sqlite"
        apps = {"off": application(url, None), "on": application(url, str(Path(folder, "metrics")))}
        call(apps["off"], "POST", "/resource_providers", {"name": "host", "uuid": HOST})
        stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 10**6}}}
        call(apps["off"], "PUT", f"/resource_providers/{HOST}/inventories", stock)
        for name, make in (
            ("smallest read", lambda: ("GET", "/traits/HW_CPU_X86_VMX")),
            ("claim", claim),
            ("search", lambda: ("GET", "/allocation_candidates?resources=VCPU:1")),
        ):
            report(name, apps, make)


def report(name: str, apps: dict[str, Any], make: Callable[[], tuple[Any, ...]]) -> None:
    """Measure both in turn and print a line; the first rounds warm up."""
    cpu: dict[str, list[float]] = {"off": [], "on": []}
    wall: dict[str, list[float]] = {"off": [], "on": []}
    for number in range(ROUNDS):
        for which in ("off", "on") if number % 2 else ("on", "off"):
            began = time.process_time(), time.perf_counter()
            for _ in range(BATCH):
                call(apps[which], *make())
            if number >= WARM_UP:
                cpu[which].append((time.process_time() - began[0]) / BATCH)
                wall[which].append((time.perf_counter() - began[1]) / BATCH)
    for kind, seen in (("CPU", cpu), ("wall", wall)):
        off, on = (median(seen[which]) * 1e6 for which in ("off", "on"))
        ratio = median(b / a for a, b in zip(seen["off"], seen["on"], strict=True))
        print(f"{name}, {kind}: {off:.0f} us off, {on:.0f} us on, {(ratio - 1) * 100:+.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])

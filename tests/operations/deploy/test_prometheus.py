"""Debian's Prometheus with the files that we ship, against the service under uWSGI with four workers."""

import contextlib
import json
import os
import signal
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import bodies, deployment
from tests.support.databases import scratch_database
from tests.support.processes import ENDS_S, Process, free_port, require_program, wait_until
from tests.support.world import World

pytestmark = pytest.mark.deploy

ETC = Path(__file__).resolve().parents[3] / "etc" / "prometheus"
HOST = "1f000000-0000-4000-8000-000000000001"
WORKERS = 4
READS = 400
SAMPLES = 12
PATIENCE_S = 60


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    url: str

    def value(self, query: str) -> float | None:
        """Return what a query gives that has one answer, None if it has none."""
        found = self._ask("query", query=query)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        """Return the names of the alerts that are red."""
        alerts = self._ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def _ask(self, what: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=ENDS_S) as answer:
            return json.load(answer)["data"]


@contextlib.contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Run Debian's Prometheus with our configuration, which it reads every second."""
    program = require_program("prometheus")
    text = (ETC / "prometheus.yml").read_text()
    for old, new in (("127.0.0.1:8778", target), (": 15s", ": 1s")):
        assert old in text
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    (folder / "placement.rules.yml").write_text((ETC / "placement.rules.yml").read_text())
    port = free_port()
    command = [
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with Process("prometheus", command, folder=folder, environment={}) as process:
        process.wait_until(
            "it is ready", lambda: "Server is ready" in process.log.read_text(), PATIENCE_S
        )
        yield Prometheus(f"http://127.0.0.1:{port}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[deployment.Site]:
    """The service under uWSGI; its processes share their numbers."""
    options = (
        f"[insight]\nenabled = true\npublic = metrics\nmetrics_directory = {tmp_path}/metrics\n"
    )
    with scratch_database("sqlite") as url:
        environment = deployment.prepare(tmp_path, url, options)
        with deployment.uwsgi(tmp_path, environment, http=True, processes=WORKERS) as running:
            yield running


def test_what_prometheus_reads_back_is_what_the_load_did(
    site: deployment.Site, tmp_path: Path
) -> None:
    """Counts are those of all workers together, also when one is killed; an over-full host is red."""
    # Reads of the host are counted below, so nothing may read it here.
    world = World(site)
    world.call("POST", "/resource_providers", {"name": "host", "uuid": HOST})
    world.call("PUT", f"/resource_providers/{HOST}/inventories", bodies.stock(0, {"VCPU": 8}))
    world.claim({HOST: {"VCPU": 6}})
    reads = 'placement_request_seconds_count{method="GET",route="/resource_providers/{uuid}"}'
    folder = tmp_path / "prometheus"
    folder.mkdir()

    with prometheus(folder, urllib.parse.urlsplit(site.url).netloc) as asked:
        read = f"/resource_providers/{HOST}"
        assert site.send("GET", read).status == 200
        wait_until("the first read is seen", lambda: asked.value(f"sum({reads})") == 1, PATIENCE_S)

        with ThreadPoolExecutor(8) as clients:
            statuses = list(clients.map(lambda _: site.send("GET", read).status, range(READS)))
        assert set(statuses) == {200}
        wait_until(
            "all reads are seen", lambda: asked.value(f"sum({reads})") == READS + 1, PATIENCE_S
        )
        # Prometheus extrapolates at either end of what it has, by no more than the time between two samples.
        samples = f"max(count_over_time({reads}[5m]))"
        wait_until("samples are there", lambda: (asked.value(samples) or 0) >= SAMPLES, PATIENCE_S)
        increase = asked.value(f"sum(increase({reads}[5m]))")
        assert increase is not None
        assert READS <= round(increase, 3) <= READS * (SAMPLES + 1) / (SAMPLES - 1)
        assert asked.value("placement_inventory_used{resource_class='VCPU'}") == 6
        files = {path.name for path in (tmp_path / "metrics").glob("histogram_*.db")}
        assert files == {f"histogram_{number}.db" for number in range(WORKERS)}
        assert asked.firing() == set()

        victim = min(site.workers())
        os.kill(victim, signal.SIGKILL)
        wait_until(
            "another worker serves in its place",
            lambda: len(site.workers()) == WORKERS and victim not in site.workers(),
            PATIENCE_S,
        )
        site.master.wait_until(
            "it is ready", lambda: site.master.log.read_text().count("ready in") > WORKERS, 60
        )
        assert site.send("GET", read).status == 200
        wait_until(
            "nothing is forgotten", lambda: asked.value(f"sum({reads})") == READS + 2, PATIENCE_S
        )
        assert asked.value(f"sum(resets({reads}[5m]))") == 0
        assert {path.name for path in (tmp_path / "metrics").glob("histogram_*.db")} == files

        body = bodies.stock(2, {"VCPU": 4})
        world.call("PUT", f"/resource_providers/{HOST}/inventories", body)
        wait_until("red", lambda: asked.firing() == {"PlacementOverCapacity"}, PATIENCE_S)

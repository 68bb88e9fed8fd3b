"""Draw the panels of the dashboard: ``python -m docs._tools.dashboard_picture [record]``.

With ``record``, which needs Debian's ``prometheus``, a service of its own works for three minutes under
``examples/boot_cloud.py``, and Prometheus' answers to the queries of ``etc/grafana/placement.json`` are
kept in ``docs/images/dashboard.json``. The picture ``docs/images/dashboard.png`` is drawn from that file.
Needs the extra ``benchmarks``.
"""

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import requests

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "etc" / "grafana" / "placement.json"
PROMETHEUS = ROOT / "etc" / "prometheus" / "prometheus.yml"
RECORDED = ROOT / "docs" / "images" / "dashboard.json"
PICTURE = ROOT / "docs" / "images" / "dashboard.png"
SECONDS = 180
STEP_S = 3
PORT = 19_090
SHAPES = """\
small: resources=VCPU:1,MEMORY_MB:2048,DISK_GB:20
large: resources=VCPU:8,MEMORY_MB:16384,DISK_GB:80&required=HW_NUMA_ROOT
gpu: resources_CPU=VCPU:8,MEMORY_MB:32768&resources_GPU=VGPU:4&same_subtree=_CPU,_GPU&group_policy=none
"""
BIG = "b1900000-0000-4000-8000-000000000001"
ROW_INCHES, COLUMN_INCHES = 0.29, 0.62
UNITS = {"reqps": "/s", "ops": "/s", "s": " s", "bytes": " B", "percentunit": ""}
COLOURS = ("#3b6fb6", "#d98b2b", "#4f9a6b", "#a5548f", "#7a7f87", "#b8473f", "#55a7b5", "#8d7a3f")

Series = list[tuple[str, list[list[float]]]]
"""Name of each line, and its points: seconds since the beginning, value."""


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, rows included."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


# ---- recording


@contextlib.contextmanager
def service(folder: str) -> Iterator[str]:
    """Yield the URL of a service that shows its metrics."""
    shapes = Path(folder, "shapes.yaml")
    shapes.write_text(SHAPES)
    settings = os.environ | {
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{folder}/cloud.sqlite",
        "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
        "OS_API__AUTH_STRATEGY": "noauth2",
        "OS_INSIGHT__ENABLED": "true",
        "OS_INSIGHT__PUBLIC": "metrics",
        "OS_INSIGHT__SHAPES_FILE": str(shapes),
        "OS_INSIGHT__SHAPES_INTERVAL": "15",
        # On a busy machine a scrape may fail then, and the next one shows whole counts.
        "OS_API__SEARCH_DEADLINE": "60",
        "OS_INSIGHT__SURVIVAL_INTERVAL": "15",
        "OS_DEFAULT__LOG_FILE": f"{folder}/log",
    }
    command = [sys.executable, ROOT / "bin" / "placement-api", "--port", "0"]
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"listens on (\S+)", process.stdout.readline())
            assert found, "the service does not start"
            yield found[1]
        finally:
            process.terminate()


@contextlib.contextmanager
def prometheus(folder: str, target: str) -> Iterator[None]:
    """Run Prometheus with our configuration, scraping every three seconds."""
    text = PROMETHEUS.read_text().replace("127.0.0.1:8778", target).replace(": 15s", ": 3s")
    Path(folder, "prometheus.yml").write_text(text)
    Path(folder, "placement.rules.yml").write_text(
        PROMETHEUS.with_name("placement.rules.yml").read_text()
    )
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{PORT}",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def boot(url: str, consumers: int) -> None:
    """Load the example cloud if it is not there, and boot consumers on it."""
    program = [sys.executable, str(ROOT / "examples" / "boot_cloud.py"), "--url", url]
    subprocess.run([*program, "--consumers", str(consumers)], stdout=subprocess.DEVNULL, check=False)


def load(url: str) -> None:
    """Boot during the whole recording, search for too much now and then; at last two hosts change.

    One with a server for which no other host is large enough comes, and one is made smaller than its use.
    """
    until = time.monotonic() + SECONDS
    headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}

    def boots() -> None:
        while time.monotonic() < until:
            boot(url, 60)

    schedulers = [threading.Thread(target=boots) for _ in range(2)]
    for each in schedulers:
        each.start()
    with requests.Session() as session:
        session.headers.update(headers)
        shrunk = False
        while time.monotonic() < until:
            session.get(f"{url}/allocation_candidates?resources=VCPU:4000")
            session.get(f"{url}/allocation_candidates?resources=VCPU:2&required=CUSTOM_NOWHERE")
            if not shrunk and until - time.monotonic() < SECONDS / 4:
                shrunk = shrink_fullest(session, url)
                add_big(session, url)
            time.sleep(2)
    for each in schedulers:
        each.join()


def shrink_fullest(session: requests.Session, url: str) -> bool:
    """Make the inventory of the first host in use smaller than its use."""
    for provider in session.get(f"{url}/resource_providers").json()["resource_providers"]:
        path = f"{url}/resource_providers/{provider['uuid']}"
        used = session.get(f"{path}/usages").json()["usages"].get("VCPU", 0)
        if used > 1:
            there = session.get(f"{path}/inventories").json()
            smaller = {
                "resource_provider_generation": there["resource_provider_generation"],
                "total": used - 1,
            }
            return session.put(f"{path}/inventories/VCPU", json=smaller).ok
    return False


def add_big(session: requests.Session, url: str) -> None:
    """Make a host that must not fail; again does nothing."""
    session.post(f"{url}/resource_providers", json={"name": "big", "uuid": BIG})
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 256}}}
    session.put(f"{url}/resource_providers/{BIG}/inventories", json=stock)
    server = {
        "allocations": {BIG: {"resources": {"VCPU": 200}}},
        "project_id": "database",
        "user_id": "alice",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    session.put(f"{url}/allocations/{BIG}", json=server)


def record() -> None:
    """Write Prometheus' answers to the queries of each panel to the file."""
    with (
        tempfile.TemporaryDirectory() as folder,
        service(folder) as url,
        prometheus(folder, urllib.parse.urlsplit(url).netloc),
    ):
        boot(url, 20)
        began = time.time()
        load(url)
        recorded = {
            panel["title"]: [line for target in panel["targets"] for line in ask(target, began)]
            for panel in panels()
            if panel["type"] != "row"
        }
    RECORDED.write_text(
        json.dumps(recorded, separators=(",", ":")).replace('"],[', '"],\n[') + "\n"
    )


def ask(target: dict[str, Any], began: float) -> Series:
    """Return the lines of a query of the dashboard, named by its legend."""
    query = target["expr"].replace("$job", "placement").replace("$__rate_interval", "20s")
    parameters = {
        "query": query,
        "start": str(began),
        "end": str(began + SECONDS),
        "step": str(STEP_S),
    }
    url = f"http://127.0.0.1:{PORT}/api/v1/query_range?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        found = json.load(answer)["data"]["result"]
    lines: Series = []
    for each in found:
        name = re.sub(
            r"{{(\w+)}}",
            lambda label, of=each: of["metric"].get(label[1], ""),
            target["legendFormat"],
        )
        points = [
            [round(at - began, 1), float(f"{float(value):.4g}")]
            for at, value in each["values"]
            if math.isfinite(float(value))
        ]
        if points:
            lines.append((name, points))
    return lines


# ---- drawing


def draw() -> None:
    """Draw all panels at their places in the dashboard."""
    recorded: dict[str, Series] = json.loads(RECORDED.read_text())
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels())
    mpl.rcParams.update(
        {"font.size": 7, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
        | {"grid.color": "#e6e8eb", "axes.edgecolor": "#b9bec5", "text.color": "#23272e"}
        | {"axes.prop_cycle": mpl.cycler(color=COLOURS), "axes.axisbelow": True}
    )
    width, height = 24 * COLUMN_INCHES, rows * ROW_INCHES
    figure = plt.figure(figsize=(width, height), dpi=110)
    for panel in panels():
        place = panel["gridPos"]
        left, top = place["x"] / 24, 1 - place["y"] / rows
        if panel["type"] == "row":
            figure.text(0.008, top - 0.8 / rows, panel["title"], fontsize=10, weight="bold")
            continue
        box = (
            left + 0.035,
            top - (place["h"] - 2.4) / rows,
            place["w"] / 24 - 0.05,
            (place["h"] - 3.6) / rows,
        )
        axes = figure.add_axes(box)
        axes.set_title(panel["title"], loc="left", fontsize=8, pad=4)
        {"timeseries": lines, "stat": number, "bargauge": bars}[panel["type"]](
            axes, recorded.get(panel["title"], []), panel
        )
    figure.savefig(PICTURE)
    plt.close(figure)


def lines(axes: Any, series: Series, panel: dict[str, Any]) -> None:
    """Draw lines over time, and their names below, the largest first."""
    unit = UNITS.get(panel["fieldConfig"]["defaults"].get("unit"), "")
    largest = sorted(series, key=lambda line: -max(value for _, value in line[1]))[: len(COLOURS)]
    for name, points in largest:
        axes.plot([at for at, _ in points], [value for _, value in points], label=name, lw=1.1)
    axes.set_xlim(0, SECONDS)
    axes.set_ylim(0, None if any(value for _, points in series for _, value in points) else 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{readable(value)}{unit}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{int(value) // 60}:{int(value) % 60:02}")
    axes.xaxis.set_major_locator(mpl.ticker.MultipleLocator(60))
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4))
    axes.tick_params(length=0)
    if largest:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.12),
            ncols=2 if len(largest) > 2 or max(len(name) for name, _ in largest) > 20 else 3,
            frameon=False,
            fontsize=5.5,
            handlelength=1,
            columnspacing=1,
        )
    else:
        axes.text(0.5, 0.5, "No data", transform=axes.transAxes, ha="center", color="#7a7f87")


def readable(value: float) -> str:
    """Return a number in a short readable form."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (size if letter != 'k' else 1e3):g}{letter}"
    return f"{value:.3g}"


def number(axes: Any, series: Series, panel: dict[str, Any]) -> None:
    """Write the last value in the colour of its threshold."""
    value = series[0][1][-1][1] if series else 0
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][
        -1
    ]
    axes.axis("off")
    colour = {"green": COLOURS[2], "red": COLOURS[5]}[colour]
    axes.text(0.5, 0.45, f"{value:g}", ha="center", va="center", fontsize=34, color=colour)


def bars(axes: Any, series: Series, panel: dict[str, Any]) -> None:
    """Draw a bar for the last value of each line."""
    del panel
    last = sorted((points[-1][1], name) for name, points in series)
    axes.barh(range(len(last)), [value for value, _ in last], height=0.6)
    for at, (value, name) in enumerate(last):
        axes.text(value + 0.01, at, f"{value:.0%}  {name}", va="center", fontsize=6)
    axes.set_yticks([])
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.tick_params(length=0)
    axes.grid(visible=False, axis="y")


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        record()
    draw()

"""Small requests beside the worst legal search: ``python -m benchmarks.beside_worst --searchers 1``.

500 hosts of 16 devices, 64 groups without a limit. One process of placement-api; its database is a
SQLite file unless ``--database`` names another, which must be empty. Prints the times of the small
requests, alone and beside the searches, and the memory of the process.
"""

import argparse
import contextlib
import http.client
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import requests
from sqlalchemy import create_engine, make_url

from benchmarks import bulk
from benchmarks.clouds import Cloud, Provider, uuid_of
from placement.db.engine import with_default_driver

HOSTS, DEVICES, UNITS, GROUPS = 500, 16, 8, 64
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
WORST = "&".join(f"resources{n}=VGPU:1" for n in range(1, GROUPS + 1)) + "&group_policy=none"
SMALL = {
    "a trait": "/traits/HW_CPU_X86_VMX",
    "a provider": "/resource_providers/" + uuid_of("worst", "host", 1),
    "its inventories": "/resource_providers/" + uuid_of("worst", "host", 1) + "/inventories",
    "one tree": "/resource_providers?in_tree=" + uuid_of("worst", "host", 1),
    "ten candidates": "/allocation_candidates?resources=VCPU:1&limit=10",
}


def _tree(cloud: str, number: int) -> list[Provider]:
    host = uuid_of(cloud, "host", number)
    return [
        Provider(host, f"{cloud}-{number}", {"VCPU": _all(64)}),
        *(
            Provider(
                uuid_of(cloud, "device", number, device),
                f"{cloud}-{number}-{device}",
                {"VGPU": _all(UNITS)},
                parent=host,
            )
            for device in range(DEVICES)
        ),
    ]


def _all(total: int) -> dict[str, float]:
    return {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


@contextlib.contextmanager
def serving(
    folder: Path, database: str, threads: int, settings: str = ""
) -> Iterator[tuple[str, int]]:
    """Yield the URL and the process id of placement-api on the cloud.

    :param settings: more of the configuration file.
    """
    (folder / "placement.conf").write_text(
        f"[DEFAULT]\nlog_file = {folder}/log\n[api]\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = {database}\nsync_on_startup = true\n{settings}"
    )
    code = "import sys; from placement.cmd.api import run; sys.exit(run(sys.argv[1:]))"
    arguments = ["--config-file", f"{folder}/placement.conf", "--port", "0"]
    command = [sys.executable, "-c", code, *arguments, "--threads", str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[0-9.:]+", process.stdout.readline())
        assert found is not None
        try:
            yield found[0], process.pid
        finally:
            process.kill()


def _memory_mib(process: int, row: str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(rf"{row}:\s+(\d+)", status)[0]) / 1024


def _search(url: str, ended: Event, counts: "Queue[int]") -> None:
    """In a process of its own: reading megabytes takes the processor, too."""
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=600)
    while not ended.is_set():
        connection.request("GET", f"/allocation_candidates?{WORST}", headers=HEADERS)
        with connection.getresponse() as answer:
            assert answer.status == 200
            counts.put(len(answer.read()))


def _small(url: str, seconds: float) -> None:
    """Print the times of each small request, sent one after another."""
    times: dict[str, list[float]] = {name: [] for name in SMALL}
    with requests.Session() as session:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, path in SMALL.items():
                begun = time.perf_counter()
                answer = session.get(url + path, headers=HEADERS, timeout=600)
                times[name].append((time.perf_counter() - begun) * 1000)
                assert answer.status_code in (200, 204), answer.text[:500]
    for name, found in times.items():
        p50, p99 = np.percentile(found, [50, 99])
        print(f"  {name:<16} {len(found):>6} times   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside_worst")
    parser.add_argument("--database", help="SQLAlchemy URL of an empty database")
    parser.add_argument("--threads", type=int, default=20)
    parser.add_argument("--searchers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        database = options.database or f"sqlite:///{name}/placement.sqlite"
        with serving(Path(name), database, options.threads) as (url, process):
            engine = create_engine(with_default_driver(make_url(database)))
            bulk.insert_cloud(engine, Cloud("worst", HOSTS, _tree, ()))
            engine.dispose()
            print("alone:")
            _small(url, options.seconds / 4)
            processes = multiprocessing.get_context("spawn")
            ended, counts = processes.Event(), processes.Queue()
            searchers = [
                processes.Process(target=_search, args=(url, ended, counts))
                for _ in range(options.searchers)
            ]
            for each in searchers:
                each.start()
            sizes = [counts.get()]
            print(f"beside {options.searchers} of the worst search:")
            _small(url, options.seconds)
            ended.set()
            for each in searchers:
                each.join()
            while not counts.empty():
                sizes.append(counts.get())
            print(f"  {len(sizes)} searches of {max(sizes) / 2**20:.1f} MiB at the most")
            peak, now = _memory_mib(process, "VmHWM"), _memory_mib(process, "VmRSS")
            print(f"memory: {peak:.0f} MiB at the most, {now:.0f} MiB afterwards")


if __name__ == "__main__":
    main()

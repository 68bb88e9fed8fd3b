"""Two checkouts side by side, by processor time: ``python -m benchmarks.turns OLD NEW``.

Each checkout has a process of its own, with the application in it and a database of the same cloud. They
take turns of some milliseconds, so that what else the machine does falls on both. What counts is the
processor time of these processes: that of SQLite is in it, that of a database server is not. Each line has
the lowest tenth of each side, in milliseconds for a request, their ratio, and the median of the ratios of
neighbouring turns.
"""

import argparse
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

QUERY = "resources=VCPU:1,MEMORY_MB:512,DISK_GB:5"
HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": "placement 1.39",
    "Accept": "application/json",
}
ROOM = {"VCPU": 1_000_000, "MEMORY_MB": 500_000_000, "DISK_GB": 5_000_000}
REQUESTS = {
    "search limit=10": 5,
    "search limit=1000": 2,
    "claim": 3,
    "usages of a provider": 10,
    "inventories of a provider": 10,
    "allocations of a consumer": 10,
}
"""In one turn."""


# -- one side: imports are those of its checkout ------------------------------------------------


class Player:
    """The application of one checkout, on a database that it fills."""

    def __init__(self, database: str, hosts: int) -> None:
        from benchmarks import bulk
        from benchmarks.clouds import Cloud, Provider, uuid_of
        from benchmarks.inside import Inside, application_on

        def tree(cloud: str, number: int) -> list[Provider]:
            stock = {
                name: {
                    "total": total,
                    "reserved": 0,
                    "min_unit": 1,
                    "max_unit": total,
                    "step_size": 1,
                    "allocation_ratio": 1.0,
                }
                for name, total in ROOM.items()
            }
            return [Provider(uuid_of(cloud, number), f"{cloud}-{number}", stock)]

        os.environ["OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP"] = "true"
        application, engine = application_on(database)
        bulk.insert_cloud(engine, Cloud("turns", hosts, tree, ()))
        self._connection = Inside(application, HEADERS)
        self._hosts = itertools.cycle([uuid_of("turns", number) for number in range(hosts)])
        self._consumer = str(uuid.uuid4())
        self._claim(self._consumer)

    def _send(self, method: str, path: str, body: bytes | None = None) -> None:
        answer = self._connection.exchange(method, path, body)
        assert answer.status in (200, 204), (method, path, answer)

    def _claim(self, consumer: str) -> None:
        body = (
            '{"allocations": {"%s": {"resources": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5}}}, '
            '"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null}'
        )
        self._send("PUT", f"/allocations/{consumer}", (body % next(self._hosts)).encode())

    def _act(self, name: str) -> None:
        match name.split():
            case ["search", limit]:
                self._send("GET", f"/allocation_candidates?{QUERY}&{limit}")
            case ["claim"]:
                self._claim(str(uuid.uuid4()))
            case ["allocations", *_]:
                self._send("GET", f"/allocations/{self._consumer}")
            case [what, *_]:
                self._send("GET", f"/resource_providers/{next(self._hosts)}/{what}")

    def play(self, name: str) -> float:
        """Do what is done in one turn; return the seconds of processor time for a request."""
        count = REQUESTS[name]
        begun = time.process_time()
        for _ in range(count):
            self._act(name)
        return (time.process_time() - begun) / count


def _serve(database: str, hosts: int) -> None:
    player = Player(database, hosts)
    print("ready", flush=True)
    for line in sys.stdin:
        print(player.play(line.strip()), flush=True)


# -- both --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _side(checkout: Path, database: str, hosts: int) -> Iterator[Callable[[str], float]]:
    """Start the process of a checkout; yield what lets it have a turn."""
    # Not the folder of this file: imports are those of the checkout.
    command = [sys.executable, "-P", __file__, "--player", database, "--hosts", str(hosts)]
    variables = os.environ | {"PYTHONPATH": str(checkout)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=checkout, env=variables, stdin=pipe, stdout=pipe, text=True
    ) as process:
        asked, told = process.stdin, process.stdout
        assert asked and told and told.readline() == "ready\n"

        def turn(name: str) -> float:
            asked.write(f"{name}\n")
            asked.flush()
            return float(told.readline())

        yield turn
        asked.close()


def compare(old: Path, new: Path, kind: str, hosts: int, turns: int) -> None:
    """Print what each request costs in either checkout."""
    from benchmarks.databases import scratch

    with contextlib.ExitStack() as stack:
        databases = [stack.enter_context(scratch(kind, name=side)) for side in ("old", "new")]
        before, after = (
            stack.enter_context(_side(checkout, database, hosts))
            for checkout, database in zip((old, new), databases, strict=True)
        )
        print(f"{kind}, load {os.getloadavg()[0]:.1f}, {turns} turns")
        for name in REQUESTS:
            pairs = []
            for number in range(turns + 2):
                sides = [before, after] if number % 2 else [after, before]
                taken = {side: side(name) for side in sides}
                pairs.append((taken[before], taken[after]))
            # The first are of caches that are empty.
            print(_line(name, pairs[2:]), flush=True)


def _line(name: str, pairs: list[tuple[float, float]]) -> str:
    old, new = (1e3 * statistics.quantiles(each, n=10)[0] for each in zip(*pairs, strict=True))
    ratio = statistics.median(after / before for before, after in pairs)
    return f"{name:<28} {old:8.3f} {new:8.3f} {new / old:6.3f}, of neighbours {ratio:6.3f}"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="OLD NEW")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "mysql"), default="sqlite")
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--player", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.player:
        _serve(chosen.player, chosen.hosts)
    else:
        old, new = (checkout.resolve() for checkout in chosen.checkouts)
        compare(old, new, chosen.database, chosen.hosts, chosen.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())

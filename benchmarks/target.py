"""An endpoint under measurement: where it is, what it speaks, which processes serve it."""

from dataclasses import dataclass, field
from typing import Any

import orjson
import psutil

from benchmarks.connection import Answer, Connection

NEWEST = (1, 39)
OLDEST = (1, 29)


class Unusable(Exception):
    """The endpoint cannot be measured; the message says why."""


@dataclass(frozen=True)
class Target:
    """One endpoint.

    :param name: heads the column of its results.
    :param headers: authentication and microversion, sent with every request.
    :param version: the microversion spoken.
    :param pids: processes whose children are the workers; none when they run elsewhere.
    :param database: SQLAlchemy URL of its database, for servers that we started.
    """

    name: str
    url: str
    headers: dict[str, str]
    version: tuple[int, int]
    pids: tuple[int, ...] = ()
    database: str | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def connect(self) -> Connection:
        """Return a new connection."""
        return Connection(self.url, self.headers)


def negotiate(
    name: str,
    url: str,
    headers: dict[str, str],
    *,
    wanted: tuple[int, int] = NEWEST,
    pids: tuple[int, ...] = (),
    database: str | None = None,
) -> Target:
    """Ask the endpoint which microversions it has, and take the newest that both sides know.

    :raises Unusable: no answer, another kind of service, or older than 1.29.
    """
    try:
        with Connection(url, headers) as connection:
            answer = connection.exchange("GET", "/")
        found = orjson.loads(answer.body)["versions"][0]
        newest = parse_version(found["max_version"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Unusable(f"{url} does not answer like a Placement service: {error!r}") from error
    version = min(wanted, newest)
    if version < OLDEST:
        raise Unusable(f"{url} speaks {newest[0]}.{newest[1]} at the most; 1.29 is needed")
    spoken = f"placement {version[0]}.{version[1]}"
    about = {"server": answer.header("Server"), "max_version": found["max_version"]}
    headers = {**headers, "OpenStack-API-Version": spoken, "Accept": "application/json"}
    return Target(name, url.rstrip("/"), headers, version, pids, database, about)


def parse_version(text: str) -> tuple[int, int]:
    """Return ``1.39`` as ``(1, 39)``."""
    major, minor = text.split(".")
    return int(major), int(minor)


def expect(answer: Answer, *statuses: int) -> Answer:
    """Return the answer if it has one of these statuses.

    :raises Unusable: it has another; the message quotes the answer.
    """
    if answer.status not in statuses:
        raise Unusable(f"expected {statuses}, got {answer.status}: {bytes(answer.body[:500])!r}")
    return answer


@dataclass(frozen=True)
class Memory:
    """Memory of the serving processes in MiB: resident, and proportional (shared pages divided)."""

    processes: int
    rss_mib: float
    pss_mib: float
    largest_pss_mib: float


def processes(target: Target) -> list[psutil.Process]:
    """Return the serving processes and their children."""
    found: dict[int, psutil.Process] = {}
    for pid in target.pids:
        try:
            parent = psutil.Process(pid)
            for process in (parent, *parent.children(recursive=True)):
                found[process.pid] = process
        except psutil.Error:
            continue
    return list(found.values())


def memory_of(target: Target) -> Memory | None:
    """Return the memory of the serving processes; None when they are not ours to see."""
    sizes = []
    for process in processes(target):
        try:
            sizes.append(process.memory_full_info())
        except psutil.Error:
            continue
    if not sizes:
        return None
    pss = [size.pss / 2**20 for size in sizes]
    return Memory(len(sizes), sum(size.rss for size in sizes) / 2**20, sum(pss), max(pss))


def cpu_seconds(target: Target) -> float:
    """Return the CPU time the serving processes have used so far."""
    total = 0.0
    for process in processes(target):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total

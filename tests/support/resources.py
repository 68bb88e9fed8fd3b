"""What processes hold: memory, file descriptors and connections."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import psutil


class Held(NamedTuple):
    """What one process holds. ``connections``: those that it has made itself."""

    rss_mib: float
    pss_mib: float
    descriptors: int
    connections: int


def held(pid: int) -> Held:
    """Look at a process."""
    process = psutil.Process(pid)
    memory, sockets = process.memory_full_info(), process.net_connections("tcp")
    listening = {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}
    made = {each.laddr.port for each in sockets if each.status == psutil.CONN_ESTABLISHED} - listening
    return Held(memory.rss / 2**20, memory.pss / 2**20, process.num_fds(), len(made))


class Gauge:
    """What named processes held when they were first looked at, and at last.

    A process that was started again begins anew.
    """

    def __init__(self) -> None:
        self._looks: dict[str, tuple[int, float, Held, Held]] = {}

    def look(self, pids: Mapping[str, int]) -> None:
        """Look at each process."""
        for name, pid in pids.items():
            now = held(pid)
            before, since, first, _ = self._looks.get(name, (0, 0.0, now, now))
            was = (since, first) if before == pid else (time.monotonic(), now)
            self._looks[name] = pid, *was, now

    def lines(self) -> list[str]:
        """Return the report for a person, a line for each process."""
        now = time.monotonic()
        return [
            f"{name}, over {now - since:.0f} s: RSS {first.rss_mib:.1f} -> {last.rss_mib:.1f} MiB,"
            f" PSS {first.pss_mib:.1f} -> {last.pss_mib:.1f} MiB,"
            f" file descriptors {first.descriptors} -> {last.descriptors},"
            f" connections {first.connections} -> {last.connections}"
            for name, (_, since, first, last) in self._looks.items()
        ]

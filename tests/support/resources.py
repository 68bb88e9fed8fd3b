"""What processes hold: memory, file descriptors and connections, as ``/proc`` tells of them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ESTABLISHED, LISTENS = "01", "0A"


@dataclass(frozen=True)
class Held:
    """What one process holds. ``connections``: those that it has made itself."""

    rss_mib: float
    pss_mib: float
    descriptors: int
    connections: int


def held(pid: int) -> Held:
    """Look at a process."""
    process = Path(f"/proc/{pid}")
    lines = (process / "smaps_rollup").read_text().splitlines()
    kib = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    files = _files(process)
    made = _connections(process, files)
    return Held(kib["Rss:"] / 1024, kib["Pss:"] / 1024, len(files), made)


def _files(process: Path) -> list[str]:
    found = []
    for each in (process / "fd").iterdir():
        try:
            found.append(str(each.readlink()))
        except FileNotFoundError:
            # Closed since the folder was read.
            continue
    return found


def _connections(process: Path, files: list[str]) -> int:
    """Count established connections whose own port is not one on which the process listens."""
    sockets = {each[len("socket:[") : -1] for each in files if each.startswith("socket:[")}
    listening, port_of = set(), {}
    for table in ("tcp", "tcp6"):
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            words = line.split()
            port, state, inode = words[1].rpartition(":")[2], words[3], words[9]
            if inode in sockets and state == LISTENS:
                listening.add(port)
            if inode in sockets and state == ESTABLISHED:
                # The table may name one twice when it changes meanwhile.
                port_of[inode] = port
    return sum(port not in listening for port in port_of.values())


class Gauge:
    """What named processes held when they were first looked at, and at last.

    A process that was started again begins anew.
    """

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._since: dict[str, float] = {}
        self.first: dict[str, Held] = {}
        self.last: dict[str, Held] = {}

    def look(self, pids: Mapping[str, int]) -> None:
        """Look at each process."""
        for name, pid in pids.items():
            self.last[name] = held(pid)
            if self._pids.get(name) != pid:
                self._pids[name] = pid
                self._since[name] = time.monotonic()
                self.first[name] = self.last[name]

    def lines(self) -> list[str]:
        """Return the report for a person, a line for each process."""
        now = time.monotonic()
        return [
            f"{name}, over {now - self._since[name]:.0f} s:"
            f" RSS {first.rss_mib:.1f} -> {last.rss_mib:.1f} MiB,"
            f" PSS {first.pss_mib:.1f} -> {last.pss_mib:.1f} MiB,"
            f" file descriptors {first.descriptors} -> {last.descriptors},"
            f" connections {first.connections} -> {last.connections}"
            for name, first in self.first.items()
            for last in (self.last[name],)
        ]

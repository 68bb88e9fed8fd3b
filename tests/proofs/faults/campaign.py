"""What can be done to a database and to the workers that serve from it, each for a while."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.proofs.faults.proxy import Proxy
from tests.proofs.faults.servers import Server, SQLite, server
from tests.support.book import Book
from tests.support.campaign import CampaignReport, Servers
from tests.support.client import Client
from tests.support.effort import LONG
from tests.support.load import Caller
from tests.support.processes import PATIENCE, public_folder, wait_until
from tests.support.world import World

WORKERS = 3
WRITTEN = ("200", "201", "204")
FAULT_S = 1.5
CUTS = 15
"""COMMITs that are cut at a time: some are of transactions that only read."""
PAUSE_S = 0.7 if LONG else 0.1
"""After the first write that succeeds again; longer pauses let more clients be in the middle of something."""
TIMEOUT_S = 10.0
"""Whoever asks the workers in turn gives an answer up after this time."""
RECOVERS_S = 20.0 * PATIENCE
"""After the fault is over (and a killed database answers again) a write succeeds within this time."""

SETTINGS = """\
[api]
auth_strategy = noauth2
[insight]
enabled = true
history_days = 30
metrics_per_consumer = true
[placement_database]
connection = {url}
sync_on_startup = true
retry_interval = 1
max_retries = -1
"""
SMALL_POOL = "max_pool_size = 1\nmax_overflow = 0\npool_timeout = 1\n"
"""For the last worker: under a slow database its threads run out of connections."""


@dataclass
class FaultReport(CampaignReport):
    """``faults``: how often each; ``recovery_s``: the longest time until a write succeeded after it."""

    faults: dict[str, int] = field(default_factory=dict)
    recovery_s: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        """Yield a line for each fault."""
        written = sum(n for what, n in self.counts.items() if what.split()[-1] in WRITTEN)
        yield f"{written} requests acknowledged"
        for name, times in sorted(self.faults.items()):
            yield f"{name}: {times} times, recovered within {self.recovery_s.get(name, 0):.1f} s"
        for each in self.left_out:
            yield f"left out: {each}"


class Faults:
    """One database, its proxy and the workers.

    The first worker is never killed: it shows what one holds after a long time. ``book``: of those who write
    meanwhile. ``caller``: asks the workers in turn.
    """

    def __init__(
        self, title: str, database: Server, proxy: Proxy | None, workers: Servers, seed: int
    ) -> None:
        self.database, self._proxy, self.workers = database, proxy, workers
        self.random = random.Random(seed)
        self.book = Book()
        self.report = FaultReport(title, seed, self.book.counts, self.book.violations)
        ways = [Client(port, kept=False, timeout_s=TIMEOUT_S) for port in workers.ports]
        self.caller = Caller(ways, self.book)
        self.probe = World(self.caller).host(VCPU=1)

    @property
    def proxy(self) -> Proxy:
        """What stands before a database that is not a file."""
        assert self._proxy is not None
        return self._proxy

    def play(self, name: str, fault: Callable[[], None]) -> None:
        """Let one fault happen, and wait until a write succeeds after it."""
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        path = f"/resource_providers/{self.probe}/aggregates"

        def works() -> bool:
            body = self.caller.sure(path)
            return self.caller.send("PUT", path, body).status == 200

        fault()
        began = time.monotonic()
        wait_until(f"a write succeeds after {name}", works, RECOVERS_S)
        took = time.monotonic() - began
        self.report.faults[name] += 1
        self.report.recovery_s[name] = max(took, self.report.recovery_s.get(name, 0.0))
        time.sleep(PAUSE_S)

    # Faults

    def faults(self) -> dict[str, Callable[[], None]]:
        """Return what can be done to this database, by name."""
        common = {"worker killed": self.kill_worker, "worker frozen": self.freeze_worker}
        disk = {"disk full": self.fill_disk}
        if not self.database.own_disk:
            self.report.left_out.append("disk full: needs root, for a file system of its own")
            disk.clear()
        if isinstance(self.database, SQLite):
            self.report.left_out.append("read-only: nothing stops root from writing a file")
            return common | disk | {"locked by another program": self.lock_file}
        moments = {
            f"cut {moment} COMMIT": lambda moment=moment: self.cut_commits(moment)
            for moment in ("before", "during", "after")
        }
        more: dict[str, Callable[[], None]] = {
            "database killed": self.kill_database,
            "connections cut": self.cut_all,
            "database refuses": self.refuse,
            "database silent": self.hold,
            "database slow": self.slow,
            "database read-only": self.read_only,
        }
        return common | disk | moments | more

    def kill_worker(self) -> None:
        """SIGKILL; its process manager starts it again."""
        port = self.random.choice(self.workers.ports[1:])
        self.workers.processes[port].kill()
        self.workers.start(port)

    def freeze_worker(self) -> None:
        """SIGSTOP for a while: clients wait, and others go past what it holds."""
        process = self.workers.processes[self.random.choice(self.workers.ports)]
        process.freeze()
        time.sleep(FAULT_S)
        process.thaw()

    def kill_database(self) -> None:
        """SIGKILL and start again."""
        self.database.kill()
        self.database.start()

    def fill_disk(self) -> None:
        """No room for anything, for a while."""
        self.database.fill_disk()
        time.sleep(FAULT_S)
        self.database.free_disk()

    def lock_file(self) -> None:
        """Somebody else holds the write lock for a while."""
        assert isinstance(self.database, SQLite)
        with contextlib.closing(self.database.lock()):
            time.sleep(FAULT_S)

    def cut_commits(self, moment: Any) -> None:
        """Cut the connections of the next COMMITs."""
        before = self.proxy.cuts
        self.proxy.traps = [moment] * CUTS
        wait_until("the COMMITs were cut", lambda: self.proxy.cuts >= before + CUTS)

    def cut_all(self) -> None:
        """Cut every connection, three times."""
        for _ in range(3):
            self.proxy.cut_all()
            time.sleep(FAULT_S / 5)

    def refuse(self) -> None:
        """No connection is to be had."""
        self.proxy.refuses = True
        self.proxy.cut_all()
        time.sleep(FAULT_S)
        self.proxy.flow()

    def hold(self) -> None:
        """The database neither answers nor hangs up."""
        self.proxy.hold()
        time.sleep(FAULT_S)
        self.proxy.flow()

    def slow(self) -> None:
        """Each statement takes a tenth of a second more: connections run out."""
        self.proxy.delay_s = 0.05
        time.sleep(2 * FAULT_S)
        self.proxy.flow()

    def read_only(self) -> None:
        """The server takes no writes."""
        self.database.read_only(True)
        time.sleep(FAULT_S)
        self.database.read_only(False)


@contextlib.contextmanager
def standing(kind: str) -> Iterator[tuple[Server, Proxy | None, Servers]]:
    """Start a database, a proxy before it if it is a server, and workers.

    The main thread only may do so.
    """
    assert threading.current_thread() is threading.main_thread()
    settings = [*[SETTINGS] * (WORKERS - 1), SETTINGS + SMALL_POOL]
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(server(kind))
        proxy = Proxy(database.port) if database.port else None
        if proxy is not None:
            stack.callback(proxy.close)
        folder = stack.enter_context(public_folder("placement-faults-workers-"))
        url = database.url(proxy.port if proxy else 0)
        workers = Servers(folder, [each.format(url=url) for each in settings])
        stack.callback(workers.stop)
        workers.start(*workers.ports)
        yield database, proxy, workers

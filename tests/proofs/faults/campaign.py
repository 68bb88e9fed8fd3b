"""Servers under load, one fault after another, and the books compared with the database at the end."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from placement.db import invariants, models
from placement.db.database import Database
from tests.proofs.faults.clients import CAPACITY, crew, servers
from tests.proofs.faults.gangs import Ganger
from tests.proofs.faults.planners import SHELF
from tests.proofs.faults.proxy import Proxy
from tests.proofs.faults.servers import Server, SQLite, server
from tests.support.book import Book
from tests.support.campaign import CampaignReport, Servers, take_turns
from tests.support.databases import opened
from tests.support.effort import LONG
from tests.support.load import Actor, Caller, Claimant, acting, settle
from tests.support.processes import PATIENCE, public_folder, wait_until
from tests.support.world import World

WORKERS = 3
WRITTEN = ("200", "201", "204")
HOSTS, RACK = 6, 4
"""Hosts that clients choose, and those among which the service does."""
FAULT_S = 1.5
PAUSE_S = 0.7 if LONG else 0.1
"""After the first write that succeeds again; longer pauses let more clients be in the middle of something."""
CLIENT_ENDS_S = 60.0 * PATIENCE
RECOVERS_S = 20.0 * PATIENCE
"""After the fault is over (and a killed database answers again) a write succeeds within this time."""

SETTINGS = """\
[api]
auth_strategy = noauth2
[insight]
enabled = true
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


class Campaign:
    """One database, its proxy, the workers and the clients.

    The first worker is never killed: it shows what one holds after a long time.
    """

    def __init__(self, database: Server, proxy: Proxy | None, workers: Servers, seed: int) -> None:
        self.database = database
        self._proxy = proxy
        self.workers = workers
        self.random = random.Random(seed)
        self.book = Book()
        self.report = FaultReport(database.kind, seed, self.book.counts, self.book.violations)
        # Errors before the campaign are failures; the probe's are expected.
        self.caller = Caller(servers(workers.ports), self.book)
        self.start_generations: dict[str, int] = {}
        self.actors: list[Actor] = crew(workers.ports, self.book, seed, self._world())

    @property
    def proxy(self) -> Proxy:
        """What stands before a database that is not a file."""
        assert self._proxy is not None
        return self._proxy

    def _world(self) -> dict[str, list[str]]:
        """Make hosts with room for ``CAPACITY`` of each class, and what the others need."""
        uuids = {
            "hosts": [f"10000000-0000-4000-8000-{n:012}" for n in range(HOSTS)],
            "pair": [f"20000000-0000-4000-8000-{n:012}" for n in range(2)],
            "exchange": ["30000000-0000-4000-8000-000000000000"],
            "probe": ["40000000-0000-4000-8000-000000000000"],
            "moved": ["50000000-0000-4000-8000-000000000000"],
            "rack": ["70000000-0000-4000-8000-000000000000"],
            "in rack": [f"71000000-0000-4000-8000-{n:012}" for n in range(RACK)],
            "shelves": [f"80000000-0000-4000-8000-{n:012}" for n in range(3)],
            "on shelves": [f"81000000-0000-4000-8000-{n:012}" for n in range(2)],
            "partners": [f"60000000-0000-4000-8000-{n:012}" for n in range(2)],
        }
        world = World(self.caller)
        both = {"VCPU": CAPACITY, "MEMORY_MB": CAPACITY}
        for each in uuids["hosts"]:
            world.host(each, **both)
        for each in uuids["in rack"]:
            world.provider(each, inventory=both, aggregates=uuids["rack"])
        for each in (uuids["pair"][0], uuids["exchange"][0], uuids["probe"][0]):
            world.host(each, VCPU=CAPACITY)
        world.host(uuids["pair"][1])
        world.claim({uuids["pair"][0]: {"VCPU": 2}}, uuids["moved"][0])
        for each in uuids["partners"]:
            world.claim({uuids["exchange"][0]: {"VCPU": CAPACITY // 2}}, each)
        self.caller.send("PUT", f"/resource_classes/{SHELF}")
        for each in uuids["shelves"]:
            # Room for plans that were not answered, and hold something until they are found.
            world.host(each, **{SHELF: 100})
        for each in uuids["on shelves"]:
            world.claim({uuids["shelves"][0]: {SHELF: 2}}, each)
        self.probe = uuids["probe"][0]
        self.start_generations = dict.fromkeys(uuids["hosts"], 1)
        return uuids

    def run(self, seconds: float) -> FaultReport:
        """Play faults for so long, each of them once at least, then settle and compare."""
        faults = self.faults()
        self.report.faults = dict.fromkeys(faults, 0)

        def serving() -> dict[str, int]:
            return {"worker": self.workers.processes[self.workers.ports[0]].pid}

        with acting(self.actors, CLIENT_ENDS_S):
            take_turns(
                self.report,
                faults,
                lambda name: self._one(name, faults[name]),
                self.random,
                seconds,
                serving,
            )
        self._finish()
        return self.report

    def _one(self, name: str, fault: Callable[[], None]) -> None:
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

    def _finish(self) -> None:
        # What a frozen or slow worker still has in hand happens now or never.
        self.workers.stop()
        self.workers.start(*self.workers.ports)
        settle(self.actors)
        with opened(self.database.url(self.database.port), patient=True) as db:
            self._compare_with(db)

    def _compare_with(self, db: Database) -> None:
        for found in invariants.check(db):
            # Nobody makes an inventory smaller here: nothing may be over.
            # Rows of groups that have ended go by and by.
            if found.count and found.invariant.name != "groups of consumers have members":
                self.book.blame(f"{found.invariant.name}: {found.count}, {found.examples}")
        ended = {
            each
            for actor in self.actors
            if isinstance(actor, Claimant | Ganger)
            for each in actor.ended
        }
        consumers = db.read(lambda c: c.connection.scalars(select(models.consumers.c.uuid)).all())
        for uuid in ended.intersection(consumers):
            self.book.blame(f"consumer {uuid} had given everything back, and is there")
        columns = models.resource_providers.c
        stored = select(columns.uuid, columns.generation)
        actual = dict(map(tuple, db.read(lambda c: c.connection.execute(stored).all())))
        for uuid, first in self.start_generations.items():
            known = first + self.book.steps[uuid]
            if actual[uuid] != known:
                self.book.blame(f"generation of {uuid} is {actual[uuid]}, by the books {known}")

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
        self.proxy.traps = [moment] * 5
        wait_until("five COMMITs were cut", lambda: self.proxy.cuts >= before + 5)

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
def standing(
    kind: str, settings: Sequence[str]
) -> Iterator[tuple[Server, Proxy | None, Servers]]:
    """Start a database, a proxy before it if it is a server, and a worker for each of the settings.

    :param settings: of each worker, with a place for the URL of the database.
    """
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


def run(kind: str, seconds: float, seed: int) -> FaultReport:
    """Run a campaign on a database of this kind; everything it starts ends with it."""
    assert threading.current_thread() is threading.main_thread()
    settings = [*[SETTINGS] * (WORKERS - 1), SETTINGS + SMALL_POOL]
    with standing(kind, settings) as (database, proxy, workers):
        return Campaign(database, proxy, workers, seed).run(seconds)

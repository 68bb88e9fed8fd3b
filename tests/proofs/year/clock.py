"""A year by the clock: many clients and real servers, one event after another, and quiet moments between.

Each client has consumers and providers of its own, which only it writes, so its book needs no other; all
claim on the same hosts. Servers, databases and what fails are those of ``tests.proofs.faults``.
"""

import contextlib
import http.client
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sqlalchemy import delete

from placement.db import models
from placement.db.coexistence import takeover
from tests.proofs.faults import campaign as faults
from tests.proofs.faults.clients import servers
from tests.proofs.faults.proxy import Proxy
from tests.proofs.faults.servers import Server
from tests.proofs.year.beside import other_actors
from tests.proofs.year.book import Broken
from tests.proofs.year.crew import YearActor, find_wrong, make_common, make_player
from tests.proofs.year.other_service import url_of
from tests.proofs.year.player import Asked, OverHTTP, Player
from tests.proofs.year.promises import scrub_all
from tests.proofs.year.releases import release
from tests.proofs.year.requests import KIND
from tests.support import book as support
from tests.support.campaign import CampaignReport, Servers, take_turns
from tests.support.client import Client
from tests.support.databases import opened
from tests.support.following import Follower
from tests.support.load import Caller, acting
from tests.support.processes import PATIENCE
from tests.support.watching import watching
from tests.support.world import World

CREW = (*["nova"] * 2, *["claimer"] * 5, "agent", "operator", "reader", "hostile")
ROUND_S = 60.0
STOPS_S = 1.0 + 2.0 * PATIENCE
"""A worker ends within this time after SIGTERM, also while a follower waits."""

COMMON, CAPACITY = 6, 60
RUSH = 12
BESIDE_S = 4.0
MORE = """\
[insight]
enabled = true
history_days = 30
metrics_per_consumer = true
"""
ALARM = "Something other than this service writes"
CLEARED = ("provider_changes", "owner_usages", "scrub")
"""Tables whose rows the service makes again."""


class Year(faults.Campaign):
    """The campaign of faults with the clients, the book and the promises of a year."""

    def __init__(self, database: Server, proxy: Proxy | None, workers: Servers, seed: int) -> None:
        self.database, self._proxy, self.workers = database, proxy, workers
        self.random = random.Random(seed)
        self.book = support.Book()
        title = f"a year on {database.kind}"
        self.report = faults.FaultReport(title, seed, self.book.counts, self.book.violations)
        self.caller = Caller(servers(workers.ports), self.book)
        self.authors: dict[str, tuple[str, str]] = {}
        self.damaged = False
        world = World(self.caller)
        common = make_common(world, COMMON, CAPACITY)
        self.probe = world.host(VCPU=1)
        self.common = common
        self.players = [self._player(number, name, common) for number, name in enumerate(CREW, 1)]
        self.year_actors: list[YearActor] = []

    def _player(self, number: int, name: str, common: list[str]) -> Player:
        way = OverHTTP(self.workers.ports, random.Random(f"{self.report.seed} way {number}"))
        return make_player(number, name, way, common, self.authors, self.report.seed)

    def run(self, seconds: float) -> faults.FaultReport:
        """Let events happen for so long, each at least once, with a quiet moment after each minute."""
        began = time.monotonic()
        left = self.faults()
        self.report.faults = dict.fromkeys(left, 0)
        unsure: list[set[str]] = [set() for _ in self.players]
        while not self.report.broken():
            self._round(unsure, min(ROUND_S, max(1.0, seconds - (time.monotonic() - began))))
            if time.monotonic() - began > seconds:
                break
        self.report.seconds = time.monotonic() - began
        return self.report

    def _round(self, unsure: list[set[str]], seconds: float) -> None:
        self.year_actors = []
        for player, lost in zip(self.players, unsure, strict=True):
            seed = str(self.random.random())
            actor = YearActor(player, f"{player.name} {player.names.owner}", self.caller, self.book, seed)
            actor.unsure = lost
            self.year_actors.append(actor)
        follower = Follower("follower", self.caller, self.book, "0")
        part = CampaignReport("round", self.report.seed, violations=self.book.violations)
        events = self.faults()
        with acting([*self.year_actors, follower], faults.CLIENT_ENDS_S):
            take_turns(
                part,
                events,
                lambda name: self._one(name, events[name]),
                self.random,
                seconds,
                lambda: {"worker": self.workers.processes[self.workers.ports[0]].pid},
            )
        self._quiet(follower)

    def _quiet(self, follower: Follower) -> None:
        """Ask for the promises while nobody writes; what a frozen worker has in hand happens before."""
        for port in self.workers.ports:
            self._follow(port)
        time.sleep(0.5)
        self._stop(*self.workers.ports)
        self.workers.start(*self.workers.ports)
        with contextlib.suppress(support.Violation):
            follower.settle()
        with opened(self.database.url(self.database.port), patient=True) as db:
            if self.damaged:
                scrub_all(db)
                self.damaged = False
            for what in find_wrong(db, (), self.year_actors, self.authors):
                self.book.blame(what)

    def _look_for_alarms(self, port: int) -> None:
        """Blame a worker that has said that the data is wrong."""
        text = self.workers.processes[port].log.read_text(errors="replace")
        if ALARM in text and not self.damaged:
            self.book.blame(next(line for line in text.splitlines() if ALARM in line)[:300])

    def faults(self) -> dict[str, Callable[[], None]]:
        """Return what can be done to this database and its workers, by name."""
        more = {"worker stopped": self.stop_worker, "table cleared": self.clear_table, "rush": self.rush}
        more["other service"] = self.write_beside
        more |= {f"worker of a release: {each}": partial(self.serve, each) for each in ("before", "next")}
        return super().faults() | more

    def stop_worker(self) -> None:
        """SIGTERM: the worker ends within a second, and another one takes its place."""
        port = self.random.choice(self.workers.ports[1:])
        self._stop(port)
        self.workers.start(port)

    def _stop(self, *ports: int) -> None:
        for port in ports:
            self._look_for_alarms(port)
            self.workers.processes[port].send(signal.SIGTERM)
        began = time.monotonic()
        for port in ports:
            self.workers.processes[port].popen.wait(60)
        took = time.monotonic() - began
        if took > STOPS_S:
            self.book.blame(f"15: {len(ports)} workers have taken {took:.1f} s to stop")

    def _follow(self, port: int) -> None:
        """Let a follower wait for a change, which does not come."""
        token = self.caller.sure("/-/changes")["next"]

        def wait() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                Client(port, kept=False).send("GET", f"/-/changes?since={token}&wait_s=30")

        threading.Thread(target=wait, daemon=True).start()

    def rush(self) -> None:
        """Many claims at once to one worker, which decides them together, and all is given back."""
        port = self.random.choice(self.workers.ports)
        number = self.random.randrange(1, 2**16)
        rushing = [self._player(256 * number + n, "claimer", self.common) for n in range(RUSH)]
        for player in rushing:
            player.way = OverHTTP([port], player.dice)

        def claim(player: Player) -> None:
            try:
                for _ in range(10):
                    player.play(KIND["claims"])
                for uuid in list(player.book.consumers):
                    player.send(KIND["released"], Asked("DELETE", f"/allocations/{uuid}"))
            except Broken as broken:
                self.book.blame(str(broken))

        with ThreadPoolExecutor(RUSH) as threads:
            list(threads.map(claim, rushing))

    def write_beside(self) -> None:
        """The OpenStack service writes too for a while, by one process, and then no more."""
        with opened(self.database.url(self.database.port), patient=True) as db:
            takeover.release(db)
            given = (self.players, self.common, self.workers.ports, self.caller, self.book)
            with (
                other_actors([url_of(db)], *given, self.random.randrange(2**31)) as actors,
                watching(db, self.book, 0.05, self.common),
                acting(actors, faults.CLIENT_ENDS_S),
            ):
                time.sleep(BESIDE_S)
            takeover.finish(db)
        self.year_actors += (each for each in actors if isinstance(each, YearActor))

    def serve(self, name: str) -> None:
        """A worker of another release serves for a while, on the schema that this release makes."""
        port = self.random.choice(self.workers.ports[1:])
        self._stop(port)
        self.workers.start(port, forker=release(name).forker)
        time.sleep(BESIDE_S)
        self._stop(port)
        self.workers.start(port)

    def clear_table(self) -> None:
        """Somebody deletes all rows of a table of ours that the service makes again."""
        self.damaged = True
        table = models.whole_metadata().tables[self.random.choice(CLEARED)]
        with opened(self.database.url(self.database.port), patient=True) as db, db.engine.begin() as c:
            c.execute(delete(table))


def run(kind: str, seconds: float, seed: int) -> faults.FaultReport:
    """Let a year happen on a database of this kind; everything it starts ends with it."""
    settings = faults.SETTINGS.replace("[insight]\nenabled = true\n", MORE)
    with faults.standing(kind, [settings] * faults.WORKERS) as (database, proxy, workers):
        return Year(database, proxy, workers, seed).run(seconds)

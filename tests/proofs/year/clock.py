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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial

from sqlalchemy import delete

from placement.db import models
from placement.db.coexistence import takeover
from tests.proofs.faults import campaign as faults
from tests.proofs.faults.proxy import Proxy
from tests.proofs.faults.servers import Server
from tests.proofs.year.beside import other_actors
from tests.proofs.year.book import Broken
from tests.proofs.year.crew import Crew, YearActor, find_wrong
from tests.proofs.year.followers import MANY, HangingFollower, require_wait, vanish
from tests.proofs.year.identity import Authenticated
from tests.proofs.year.other_service import url_of
from tests.proofs.year.player import SLOW_S, Asked, OverHTTP, Player
from tests.proofs.year.promises import scrub_all
from tests.proofs.year.releases import release
from tests.proofs.year.requests import KIND
from tests.support.campaign import CampaignReport, Servers, take_turns
from tests.support.client import Client
from tests.support.databases import opened
from tests.support.following import Follower
from tests.support.keystone import find_environment, running_keystone
from tests.support.load import acting, settle
from tests.support.processes import PATIENCE, patience, wait_until
from tests.support.watching import watching

CREW = (*["nova"] * 2, *["claimer"] * 5, "agent", "operator", "reader", "hostile")
ROUND_S = 60.0
STOPS_S = 1.0
"""A worker ends within this time after SIGTERM, also while a follower waits; later on a busy machine."""

RUSH = 12
BESIDE_S = 4.0
OF_RELEASES = ("worker of the release: before", "worker of the release: next")
KEYSTONE = {"Keystone killed": False, "Keystone frozen": True}
VANISHED = "followers vanish"
"""What happens at each quiet moment."""
SWITCHES = {
    "claims off": ("enabled = true", "enabled = true\nclaims = false"),
    "history off": ("history_days = 30", "history_days = 0"),
    "scrub off": ("sync_on_startup", "scrub_share = 0\nsync_on_startup"),
}
"""What stands in the settings of a worker, and what instead."""
ALARM = "Something other than this service writes"
CLEARED = ("provider_changes", "owner_usages", "scrub")
"""Tables whose rows the service makes again."""


class Year(faults.Faults):
    """All events that have a clock, one after the other, while the clients of a year are at work."""

    def __init__(
        self, database: Server, proxy: Proxy | None, workers: Servers, seed: int, without: Sequence[str]
    ) -> None:
        super().__init__(f"a year on {database.kind}", database, proxy, workers, seed)
        self.events = {name: event for name, event in self.faults().items() if name not in without}
        self.damaged = False
        self.others: list[YearActor] = []
        self.followers: list[Follower] = []
        # Ends with the round, and with the year.
        self.round, self.standing = contextlib.ExitStack(), contextlib.ExitStack()
        self.crew = Crew(self.caller, self.book, CREW, self._way, seed)

    def _way(self, number: int) -> OverHTTP:
        return OverHTTP(self.workers.ports, random.Random(f"{self.report.seed} way {number}"))

    def run(self, seconds: float) -> faults.FaultReport:
        """Let events happen for so long, each at least once, with a quiet moment after each minute."""
        began = time.monotonic()
        self.report.faults = dict.fromkeys([*self.events, VANISHED], 0)
        while not self.report.broken():
            self._round(min(ROUND_S, max(1.0, seconds - (time.monotonic() - began))))
            if time.monotonic() - began > seconds:
                break
        self.report.seconds = time.monotonic() - began
        return self.report

    def _round(self, seconds: float) -> None:
        part = CampaignReport("round", self.report.seed, violations=self.book.violations)
        self.others, self.followers = [], []
        with self.crew.at_work(), self.round:
            take_turns(
                part,
                self.events,
                lambda name: self.play(name, self.events[name]),
                self.random,
                seconds,
                lambda: {"worker": self.workers.processes[self.workers.ports[0]].pid},
            )
        self._quiet()

    def _quiet(self) -> None:
        """Ask for the promises while nobody writes; what a frozen worker has in hand happens before."""
        self._lose_followers()
        for port in self.workers.ports:
            self._follow(port)
        time.sleep(0.5)
        self._stop(*self.workers.ports)
        self.workers.start(*self.workers.ports)
        settle([self.crew.follower, *self.followers])
        with opened(self.database.url(self.database.port), patient=True) as db:
            if self.damaged:
                scrub_all(db)
                self.damaged = False
            actors = [*self.crew.actors, *self.others]
            # Where a server has kept no history for a while, what it wrote is not replayed.
            is_recorded = not self.report.faults.get("history off")
            for what in find_wrong(db, [self.caller], actors, self.crew.authors, is_recorded=is_recorded):
                self.book.blame(what)

    def _look_for_alarms(self, port: int) -> None:
        """Blame a worker that has said that the data is wrong."""
        text = self.workers.processes[port].log.read_text(errors="replace")
        if ALARM in text and not self.damaged:
            self.book.blame(next(line for line in text.splitlines() if ALARM in line)[:300])

    def faults(self) -> dict[str, Callable[[], None]]:
        """Return what can be done to this database and its workers, by name."""
        more = {"worker stopped": self.stop_worker, "table cleared": self.clear_table, "rush": self.rush}
        more |= {"other service": self.write_beside, "followers hang": self.hang_followers}
        more |= {name: partial(self.switch, *SWITCHES[name]) for name in SWITCHES}
        if find_environment():
            more |= {name: partial(self.lose_keystone, KEYSTONE[name]) for name in KEYSTONE}
        else:
            self.report.left_out.append("Keystone killed, frozen: needs Keystone in .venv-keystone")
        more |= {name: partial(self.serve, name.split()[-1]) for name in OF_RELEASES}
        return super().faults() | more

    def stop_worker(self) -> None:
        """SIGTERM: the worker ends within a second, and another one takes its place."""
        port = self.random.choice(self.workers.ports[1:])
        self._stop(port)
        self.workers.start(port)

    def _stop(self, *ports: int) -> None:
        for port in ports:
            self._look_for_alarms(port)
        self._end(self.workers, *ports)

    def _end(self, workers: Servers, *ports: int) -> None:
        for port in ports:
            workers.processes[port].send(signal.SIGTERM)
        began = time.monotonic()
        for port in ports:
            workers.processes[port].popen.wait(60)
        took = time.monotonic() - began
        if took > STOPS_S + 2.0 * max(PATIENCE, patience()):
            self.book.blame(f"15: {len(ports)} workers have taken {took:.1f} s to stop")

    def _follow(self, port: int) -> None:
        """Let a follower wait for a change, which does not come."""
        token = self.caller.sure("/-/changes")["next"]

        def wait() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                Client(port, kept=False).send("GET", f"/-/changes?since={token}&wait_s=30")

        threading.Thread(target=wait, daemon=True).start()

    def _lose_followers(self) -> None:
        """Many that wait for a change hang up: another one can wait then."""
        port = self.random.choice(self.workers.ports)
        try:
            vanish(port, self.caller.sure("/-/changes")["next"])
            require_wait(port)
        except AssertionError as violation:
            self.book.blame(f"{VANISHED}: {violation}")
        self.report.faults[VANISHED] += 1

    def hang_followers(self) -> None:
        """Followers read no answers for a while, and one of them none until the round ends."""
        port, number = self.random.choice(self.workers.ports), len(self.followers)
        names = [f"follower that hangs {number + n}" for n in range(MANY)]
        given = self.caller, self.book, str(self.report.seed)
        hung = [HangingFollower(port, name, *given) for name in names]
        self.followers += hung
        self.round.enter_context(acting(hung, Crew.ENDS_S))
        wait_until("followers hang", lambda: all(each.hangs.is_set() for each in hung))
        answer = Client(port, kept=False, timeout_s=SLOW_S).send("GET", "/resource_classes")
        assert answer.status == 200, answer
        time.sleep(faults.FAULT_S)
        for each in hung[1:]:
            each.awake.set()

    @cached_property
    def authenticated(self) -> Authenticated:
        """A worker that asks Keystone, which is started when it is first needed."""
        keystone = self.standing.enter_context(running_keystone())
        settings = faults.SETTINGS.format(url=self.database.url(self._proxy.port if self._proxy else 0))
        made = Authenticated(keystone, self.crew, self.workers.folder, settings)
        self.standing.callback(made.worker.stop)
        return made

    def lose_keystone(self, is_frozen: bool) -> None:
        """Keystone is gone for a while, and a worker serves those whom it knows."""
        worker, actors = self.authenticated.worker, self.authenticated.actors(str(len(self.others)))
        worker.start(*worker.ports)
        self.authenticated.live_without(is_frozen, actors)
        self._end(worker, *worker.ports)
        self.others += actors

    def switch(self, before: str, after: str) -> None:
        """A worker serves for a while with an option switched off."""
        port = self.random.choice(self.workers.ports[1:])
        file = self.workers.folder / f"{port}.conf"
        settings = file.read_text()
        assert settings.count(before) == 1
        for text in (settings.replace(before, after), settings):
            self._stop(port)
            file.write_text(text)
            self.workers.start(port)
            time.sleep(faults.FAULT_S)

    def rush(self) -> None:
        """Many claims at once to one worker, which decides them together, and all is given back."""
        port = self.random.choice(self.workers.ports)
        number = self.random.randrange(1, 2**16)
        ways = [OverHTTP([port], random.Random(f"{self.report.seed} {number} {n}")) for n in range(RUSH)]
        rushing = [self.crew.player(256 * number + n, "claimer", way) for n, way in enumerate(ways)]

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
            seed = self.random.randrange(2**31)
            with (
                other_actors([url_of(db)], self.crew, self.workers.ports, seed) as actors,
                watching(db, self.book, 0.05, self.crew.common),
                acting(actors, Crew.ENDS_S),
            ):
                time.sleep(BESIDE_S)
            takeover.finish(db)
        self.others += (each for each in actors if isinstance(each, YearActor))

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


def run(kind: str, seconds: float, seed: int, without: Sequence[str] = ()) -> faults.FaultReport:
    """Let a year happen on a database of this kind; everything it starts ends with it.

    :param without: names of events that do not happen.
    """
    with faults.standing(kind) as (database, proxy, workers):
        year = Year(database, proxy, workers, seed, without)
        with year.standing:
            return year.run(seconds)

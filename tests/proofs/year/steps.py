"""A year one step at a time: the same from the same seed, and as short as it can be when it has failed."""

import itertools
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keystoneauth1.exceptions import ConnectFailure

from placement.client.mirror import Mirror
from placement.db import schema
from placement.db.coexistence import state
from placement.db.database import Database
from tests.proofs.year import events
from tests.proofs.year.book import Book, Broken
from tests.proofs.year.ledger import read_ledger
from tests.proofs.year.other_service import OtherService, url_of
from tests.proofs.year.player import Asked, InProcess, Kind, Names, Player
from tests.proofs.year.promises import History, Quiet, ask_all, find_wrong_room, find_wrong_trees
from tests.proofs.year.requests import CLIENTS, KIND, OF_CLIENT, OTHER
from tests.support.databases import opened, scratch_database
from tests.support.following import SenderAdapter
from tests.support.processes import PATIENCE
from tests.support.recorder import Execute, replaced_driver
from tests.support.service import Service, configure

QUIET = "quiet"
QUIET_EVERY = 12
EVENT_EVERY = 15
SHARED_EVERY = 3
"""Of so many years one begins while a fleet of the OpenStack service is replaced."""
HANGS_S = 15.0 * PATIENCE
SHAPES = "small: resources=VCPU:1\n"


@dataclass(frozen=True)
class Step:
    """One request or one event. What it draws follows from its own seed and the book."""

    number: int
    client: str
    what: str
    seed: int

    def __str__(self) -> str:
        return f"{self.number}. {self.client}: {self.what}"


def draw_steps(seed: int, count: int, kind: str) -> list[Step]:
    """Return the steps of a year."""
    dice = random.Random(f"year {seed}")
    names = [each.name for each in events.TABLE if kind in each.databases]
    steps, shared = [], False
    for number in range(1, count + 1):
        one = dice.randrange(2**31)
        if number % QUIET_EVERY == 0:
            steps.append(Step(number, QUIET, QUIET, one))
        elif number == 1 and seed % SHARED_EVERY == 0:
            steps.append(Step(number, "event", events.SHARED, one))
            shared = True
        elif dice.randrange(EVENT_EVERY) == 0:
            # It is not shared for long.
            name = dice.choice([*names, *[events.ALONE] * 3] if shared else names)
            steps.append(Step(number, "event", name, one))
            shared = (shared or name == events.SHARED) and name != events.ALONE
        else:
            client = dice.choices((*CLIENTS, OTHER), (8, 5, 4, 4, 2, 1, 12 * shared))[0]
            # A cloud begins with providers.
            name = dice.choice(OF_CLIENT[client]).name
            if number < QUIET_EVERY:
                client, name = "nova", ("provider", "stock")[number > 4]
            steps.append(Step(number, client, name, one))
    return steps


class Year:
    """One database, the service in this process, and what is known of both."""

    def __init__(self, db: Database, kind: str, folder: Path) -> None:
        self.db, self.kind, self.folder = db, kind, folder
        self.options: dict[str, Any] = {
            "insight__enabled": True,
            "insight__history_days": 30.0,
            "insight__metrics_per_provider": True,
            "insight__metrics_per_consumer": True,
            "insight__shapes_file": str(folder / "shapes.yaml"),
            "insight__survival_interval": 1,
            "api__search_deadline": 5,
        }
        self.book, self.names, self.history = Book(), Names(), History()
        self.way = InProcess(self.serve())
        self.adapter = Adapter(self.way)
        self.mirror = Mirror(self.adapter, wait=lambda _seconds: None)
        self.mirror.update(0)
        self.dump: Any = None
        self.half: Any = None
        self.cut_at = 0
        self.other: OtherService | None = None
        self.known: Collection[str] = ()
        self.counts: dict[str, int] = {}
        self.log: list[str] = []

    def serve(self) -> Service:
        """Return a service that has read nothing yet."""
        url = self.db.engine.url.render_as_string(hide_password=False)
        conf = configure(self.kind, placement_database__connection=url, **self.options)
        return Service(conf, self.db)

    def restart(self) -> None:
        """Serve by a process that knows nothing."""
        self.way.service = self.serve()

    def player(self, name: str, seed: int) -> Player:
        """Return a client whose draws follow from a seed."""
        dice = random.Random(seed)
        way = self.other if name == OTHER and self.other else self.way
        return Player(name, way, self.book, self.names, dice, log=self.log, counts=self.counts)

    def share(self, is_shared: bool) -> None:
        """Let the other service write too, or no more. It writes no history."""
        if self.other is not None:
            self.other.dispose()
        self.other = OtherService(url_of(self.db), self.way) if is_shared else None
        self.history.is_whole = bool(self.options["insight__history_days"]) and not is_shared

    def quiet(self) -> None:
        """Ask for every promise."""
        quiet = Quiet(self.db, self.book, self.way, self.mirror, self.history)
        ask_all(quiet, self.known)
        if self.known:
            self.book.adopt(quiet.now)

    def take(self, step: Step) -> None:
        """Take a step.

        :raises Broken: a promise is broken
        """
        # What the service draws follows from the step too.
        random.seed(step.seed)
        with _ends(step):
            if step.what == QUIET:
                self.quiet()
            elif step.client == "event":
                self.log.append(f"event: {step.what}")
                events.EVENT[step.what].strike(self, random.Random(step.seed))
            else:
                self._request(step)

    def _request(self, step: Step) -> None:
        player, kind = self.player(step.client, step.seed), KIND[step.what]
        if step.client == OTHER:
            self.write_beside(player, kind)
            return
        if not self.cut_at:
            player.play(kind)
            return
        asked = kind.draw(player)
        player.excused = True
        if asked is None:
            return
        with failing(self.db, self.cut_at):
            answer = player.send(kind, asked)
        self.cut_at = 0
        self.known: Collection[str] = ()
        if answer.lost:
            self._learn(asked)

    def write_beside(self, player: Player, kind: Kind) -> Asked | None:
        """Let the other service write; return the request if it was done.

        It does not know holds: what it writes ends when they do.
        """
        is_shared = self.db.read(state.is_under_way)
        asked = kind.draw(player) if self.other else None
        if asked is None or asked.uuids & self.book.held:
            return None
        places = self.book.places(asked.uuids)
        if player.send(kind, asked).status >= 300:
            return None
        # It knows no groups either: rows of members that it deletes stay until the scrub removes them.
        self.book.damaged |= bool(self.book.groups and asked.uuids - self.book.consumers.keys())
        # What they had is free, and what they have now is not: the next search shows that.
        places |= self.book.places(asked.uuids)
        rooms = find_wrong_room(self.way, self.book, places)
        trees = find_wrong_trees(self.way, self.book, asked.uuids)
        for what in itertools.chain(rooms, trees) if is_shared else ():
            raise Broken("7: answers show what is there", f"after {asked}: {what}")
        return asked

    def _learn(self, asked: Asked) -> None:
        """Read what came of a request whose answer does not say so; only what it names may be otherwise."""
        now = read_ledger(self.db)
        named = asked.uuids
        if asked.path == "/-/plans":
            named |= now["consumers"].keys() - self.book.consumers.keys()
        self.book.adopt(now, named)
        events.learn_names(self)


class Adapter(SenderAdapter):
    """What a follower asks by; now and then nothing answers."""

    refuses = False

    def get(self, url: str, **given: Any) -> Any:
        if self.refuses:
            raise ConnectFailure("nobody listens")
        return super().get(url, **given)


@contextmanager
def failing(db: Database, number: int) -> Iterator[None]:
    """Let one message to the database meet a full disk, or a connection that is gone."""
    left = itertools.count(number, -1)

    def run(execute: Execute, cursor: Any, text: str | bytes, parameters: Any) -> None:
        if next(left) == 1:
            if db.dialect == "sqlite":
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            cursor.connection.close()
        execute(cursor, text, parameters)

    with replaced_driver(db, run):
        yield


class _Hangs(BaseException):
    """A step does not end."""


@contextmanager
def _ends(step: Step) -> Iterator[None]:
    """End a step that takes too long."""

    def ring(*_: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANGS_S)
    try:
        yield
    except _Hangs:
        what = f"a step goes on and on, and was ended from outside after {HANGS_S:.0f} s: {step}"
        raise Broken("every loop ends", what) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Outcome:
    """What came of some steps. ``broken``: None if every promise was kept."""

    steps: Sequence[Step]
    taken: int = 0
    broken: Broken | None = None
    log: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """The broken promise, and how; empty if all were kept."""
        return self.broken.signature if self.broken else ""


def take_steps(steps: Sequence[Step], kind: str, known: Collection[str] = ()) -> Outcome:
    """Take these steps on a new database, up to the first broken promise.

    :param known: signatures of faults after which the year goes on.
    """
    outcome = Outcome(steps)
    with ExitStack() as stack:
        url = stack.enter_context(scratch_database(kind, schema.HEAD, named=True))
        db = stack.enter_context(opened(url, sqlite_synchronous=False))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "shapes.yaml").write_text(SHAPES)
        year = Year(db, kind, folder)
        outcome.log, outcome.counts = year.log, year.counts
        year.known = known
        stack.callback(year.share, False)
        for step in (*steps, Step(0, "event", events.ALONE, 0), Step(0, QUIET, QUIET, 0)):
            try:
                year.take(step)
            except Broken as broken:
                if broken.signature not in known:
                    outcome.broken = broken
                    break
            outcome.taken += 1
    return outcome


def shrink(failed: Outcome, kind: str, seconds: float = 120.0, known: Collection[str] = ()) -> Outcome:
    """Return the failure with as few steps as can be found in this time."""
    end_s = time.monotonic() + seconds
    best, size = failed, max(1, failed.taken // 2)
    best = _fewer(list(failed.steps[: failed.taken + 1]), failed, kind, known) or failed
    while size and time.monotonic() < end_s:
        start, found = 0, False
        while start < len(best.steps) and time.monotonic() < end_s:
            fewer = [*best.steps[:start], *best.steps[start + size :]]
            shorter = _fewer(fewer, failed, kind, known)
            if shorter is None:
                start += size
            else:
                best, found = shorter, True
        if not found or size > 1:
            size = size // 2 if size > 1 else (1 if found else 0)
    return best


def _fewer(steps: list[Step], failed: Outcome, kind: str, known: Collection[str]) -> Outcome | None:
    """Return what came of these steps if it is the same failure."""
    outcome = take_steps(steps, kind, known)
    if outcome.signature != failed.signature:
        return None
    outcome.steps = steps[: outcome.taken + 1]
    return outcome


def page(outcome: Outcome, kind: str, seed: int) -> str:
    """Return a failure as a page for a person: the steps that are needed, and what they did."""
    numbers = ",".join(str(step.number) for step in outcome.steps)
    return "\n".join(
        [
            f"seed {seed} on {kind}: {outcome.broken}",
            f"{len(outcome.steps)} steps are enough:",
            *(f"  {line}" for line in outcome.log),
            f"repeat: python -m tests.proofs.year --database {kind} --seed {seed} --steps"
            f" {max((s.number for s in outcome.steps), default=0)} --only {numbers}",
        ]
    )

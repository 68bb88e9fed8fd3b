"""One release after the other is taken into use while clients write (specification 06 section 7.6).

The releases are copies of this package, each with a made-up revision more: the next one adds a column and a
table and writes the column, the one after stops using it, the last one drops it. For each, ``db sync`` runs
while the workers of the release before serve; then they are replaced, now and then back again. Before them a
worker serves that knows no digests. Behind a balancer clients claim, reshape, exchange and search all the
time; a watcher looks at the ledger, and a scrub must find nothing that something else has written. ::

    python -m tests.proofs.races.rolling_upgrade --database mysql --seconds 3600 --seed 7
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import text

import placement
from placement.db import invariants, schema, scrub
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.proofs.faults.clients import CAPACITY, Exchanger, Reshaper, Seeker
from tests.proofs.year.crew import Looker
from tests.support.book import Book, Violation
from tests.support.campaign import CampaignReport, Servers, command, main
from tests.support.client import Answer, Client
from tests.support.databases import KINDS, until_exit
from tests.support.following import Follower
from tests.support.forks import Forker
from tests.support.load import Actor, Caller, Claimant, acting
from tests.support.processes import PATIENCE, public_folder, ran, wait_until
from tests.support.racing import race_database
from tests.support.watching import Watched, watching
from tests.support.world import World, new_uuid

MACHINES = 2
HOSTS = 4
SOME = 40
"""Answers between two steps of an upgrade, at the least."""
LOOK_EVERY_S = 0.1
PAUSE_S = 0.05
"""Of a client before a request, on average."""
ENDS_S = 60
SETTINGS = """\
[api]
auth_strategy = noauth2
[insight]
enabled = true
[placement_database]
connection = {url}
scrub_share = 50
"""

OWN_HEAD = schema.parts(schema.HEAD)[0]
ADDED, STOPPED, DROPPED = (
    f"aaaaaaaaaaaa_{OWN_HEAD}",
    "bbbbbbbbbbbb_aaaaaaaaaaaa",
    "cccccccccccc_bbbbbbbbbbbb",
)
BODIES = {
    ADDED: """
    steps.add_column("allocations", sa.Column("edition", sa.Integer, nullable=False, server_default="0"))
    steps.create_missing(metadata)
""",
    STOPPED: "    pass\n",
    DROPPED: """
    if steps.has_column("allocations", "edition"):
        op.execute("ALTER TABLE allocations DROP COLUMN edition")
    op.execute("DROP TABLE IF EXISTS editions")
""",
}
"""What each made-up revision does. Only the next release names ``edition``: others need its default."""
REVISION = '''"""Made up."""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = "{revision}"
down_revision = "{before}"
metadata = sa.MetaData()
sa.Table(
    "editions", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(255))
)


def upgrade() -> None:
    """Make the change."""
{body}'''
CODE = (
    (
        "ledger_writes.py",
        '{"created_at": now, **dict(',
        '{"created_at": now, "edition": 1, **dict(',
    ),
    (
        "models.py",
        '    Index("allocations_consumer_id_idx", "consumer_id"),\n',
        '    Index("allocations_consumer_id_idx", "consumer_id"),\n    Column("edition", Integer),\n',
    ),
)
"""The release that uses the column writes 1."""
NO_DIGESTS = (
    ("db/writes.py", "    _providers.c.own_revision: _providers.c.own_revision + 1,\n", ""),
    (
        "db/digests.py",
        "        _providers.c.own_revision: _providers.c.revision + 1,\n"
        "        _providers.c.digest: of_provider(**written),\n",
        "",
    ),
    ("db/provider_rows.py", '            "own_revision": _given["revision"],\n', ""),
    ("db/provider_rows.py", "        digest=digests.of_row(root_id=_providers.c.id),\n", ""),
    ("objects/scrubber.py", "return bool(self._share) and ", "return False and "),
)
"""What the release before did not know: it moves revisions alone, and compares nothing."""


@dataclass(frozen=True)
class Release:
    """A release: the package in a folder of its own, or, without a folder, this one."""

    name: str
    revision: str
    folder: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return what makes Python import it."""
        return {"PYTHONPATH": str(self.folder)} if self.folder else {}

    def command(
        self, folder: Path, program: str, *words: object
    ) -> "subprocess.CompletedProcess[str]":
        """Run one of its programs to its end, in a process that imports it."""
        text_of = f"import sys; from placement.cmd.{program} import main; sys.exit(main())"
        settings = ["--config-file", str(folder / "placement.conf")]
        return ran(
            [sys.executable, "-c", text_of, *settings, *map(str, words)],
            cwd=folder,
            env={**os.environ, **self.environment},
        )

    @cached_property
    def forker(self) -> Forker:
        """What forks its workers."""
        return until_exit(Forker(self.folder))


@cache
def made_up() -> list[Release]:
    """Return this release and the three after it, written into a folder."""
    folder = until_exit(public_folder("placement-releases-"))
    releases = [Release("this", schema.HEAD)]
    names = {"next": (ADDED, CODE), "stops": (STOPPED, ()), "drops": (DROPPED, ())}
    for name, (revision, code) in names.items():
        package = folder / name / "placement"
        source = Path(placement.__file__).parent
        # With what is compiled already, of all files but those that are changed here.
        shutil.copytree(source, package)
        versions = package / "db" / "migrations" / "versions"
        chain = [*[each.revision for each in releases], revision]
        for earlier, each in pairwise(chain):
            filled = REVISION.format(revision=each, before=earlier, body=BODIES[each])
            (versions / f"{each}.py").write_text(filled)
        _replace(
            package / "db" / "schema.py",
            f'    "{schema.HEAD}",\n)\n',
            "".join(f'    "{each}",\n' for each in chain) + ")\n",
        )
        for file, old, new in code:
            _replace(package / "db" / file, old, new)
        releases.append(Release(name, revision, folder / name))
    return releases


@cache
def without_digests() -> Release:
    """Return the release before, on the schema of this one, written into a folder."""
    folder = until_exit(public_folder("placement-release-before-"))
    package = folder / "placement"
    shutil.copytree(Path(placement.__file__).parent, package)
    for file, old, new in NO_DIGESTS:
        _replace(package / file, old, new)
    return Release("before", schema.HEAD, folder)


def _replace(file: Path, old: str, new: str) -> None:
    source = file.read_text()
    assert source.count(old) == 1, f"{file.name} has not one {old!r}"
    file.write_text(source.replace(old, new))


class Balancer:
    """Sends each request to one of the machines that are up."""

    def __init__(self) -> None:
        self._up: list[int] = []
        self._in_flight: Counter[int] = Counter()
        self._changed = threading.Condition()

    def send(self, method: str, path: str, body: Any = None, version: str = "1.39") -> Answer:
        """Send a request once, after a short pause: the machine starts workers meanwhile."""
        time.sleep(random.uniform(0, 2 * PAUSE_S))
        with self._changed:
            port = random.choice(self._up)
            self._in_flight[port] += 1
        try:
            return Client(port, kept=False).send(method, path, body, version)
        finally:
            with self._changed:
                self._in_flight[port] -= 1
                self._changed.notify_all()

    def put_in(self, port: int) -> None:
        """Send there from now on."""
        with self._changed:
            self._up.append(port)

    def drain(self, port: int) -> None:
        """Send there no more, and wait for what was sent."""
        with self._changed:
            self._up.remove(port)
            assert self._changed.wait_for(lambda: not self._in_flight[port], ENDS_S * PATIENCE)


@dataclass
class UpgradeReport(CampaignReport):
    """What came of it. ``swaps``: workers started, by release; ``sync_s``: of ``db sync``."""

    swaps: Counter[str] = field(default_factory=Counter)
    sync_s: dict[str, float] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)

    @property
    def answered(self) -> int:
        """The number of requests that were sent."""
        return sum(self.counts.values())

    def broken(self) -> list[str]:
        """Return everything that should not have been; no worker may refuse a request."""
        refused = [
            f"refused: {what}"
            for what in self.counts
            if what.endswith("no answer") or what.split()[-1] >= "500"
        ]
        return [*self.violations, *map(str, self.watched.too_much), *refused]

    def notes(self) -> Iterator[str]:
        """Yield what the releases did."""
        yield f"{self.answered} requests"
        yield "db sync: " + ", ".join(f"{name} {s:.1f} s" for name, s in self.sync_s.items())
        yield "workers started: " + ", ".join(f"{n} {name}" for name, n in self.swaps.items())
        yield f"committed states looked at: {self.watched.looks}"


class Upgrades:
    """The machines on one database, the clients, and the releases that follow one another."""

    def __init__(self, kind: str, url: str, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.book = Book()
        self.report = UpgradeReport(kind, seed, self.book.counts, self.book.violations)
        self.db = Database(make_engine(url))
        settings = SETTINGS.format(url=url.replace("%", "%%"))
        (folder / "placement.conf").write_text(settings)
        self.workers = Servers(folder, [settings] * MACHINES)
        self.releases = made_up()
        self.balancer = Balancer()
        self.serving: dict[int, Release] = {}

    def start(self, port: int, release: Release) -> None:
        """Start a worker, and send to it once it answers."""
        self.workers.start(port, forker=release.forker)
        self.serving[port] = release
        self.balancer.put_in(port)
        self.report.swaps[release.name] += 1

    def swap(self, port: int, release: Release) -> None:
        """Replace the worker on a port as an operator does: drain, stop, start."""
        self.balancer.drain(port)
        self.workers.processes[port].stop()
        self.start(port, release)

    def go_on(self, is_enough: Callable[[], object] = lambda: True) -> None:
        """Let the clients get some more answers, until something is true.

        :raises Violation: a promise is broken.
        """
        until = self.report.answered + SOME
        wait_until(
            "the clients go on",
            lambda: self.book.violations or (self.report.answered >= until and is_enough()),
            ENDS_S,
        )
        if self.report.broken():
            raise Violation("the book says what")

    def world(self) -> list[Actor]:
        """Make the hosts, and return the clients."""
        caller = Caller([self.balancer], self.book)
        world = World(caller)
        both = {"VCPU": CAPACITY, "MEMORY_MB": CAPACITY}
        hosts = [world.host(**both) for _ in range(HOSTS)]
        exchange = world.host(VCPU=CAPACITY)
        places = (world.host(VCPU=CAPACITY), world.host())
        moved, *partners = (new_uuid() for _ in range(3))
        world.claim({places[0]: {"VCPU": 2}}, moved)
        for each in partners:
            world.claim({exchange: {"VCPU": CAPACITY // 2}}, each)

        def given(name: str) -> tuple[str, Caller, Book, str]:
            return name, Caller([self.balancer], self.book), self.book, str(self.report.seed)

        pair = (partners[0], partners[1])
        return [
            Claimant(*given("claimant 1"), hosts=hosts),
            Claimant(*given("claimant 2"), hosts=hosts),
            Reshaper(*given("reshaper"), pair=places, consumer=moved),
            Exchanger(*given("exchanger"), host=exchange, pair=pair),
            Seeker(*given("seeker")),
            Looker(*given("looker"), sender=caller, apart=False),
            Follower(*given("follower")),
        ]

    def sync(self, release: Release) -> None:
        """Upgrade the schema with a release, while others serve."""
        begun_s = time.monotonic()
        done = release.command(self.folder, "manage", "db", "sync")
        self.report.sync_s[release.name] = time.monotonic() - begun_s
        assert done.returncode == 0, done.stderr
        assert schema.current(self.db) == release.revision

    def upgrade(self, before: Release, after: Release, seconds: float) -> None:
        """Take a release into use; for so long workers go back and forth."""
        print(f"{time.strftime('%H:%M:%S')} {before.name} to {after.name}", flush=True)
        end_s = time.monotonic() + seconds
        self.sync(after)
        self.go_on()
        # A worker of the release before starts on the new schema.
        self.swap(self.workers.ports[0], before)
        self.go_on()
        self.swap(self.workers.ports[0], after)
        both = after.revision == ADDED
        self.go_on((lambda: self._editions() == {0, 1}) if both else lambda: True)
        while time.monotonic() < end_s:
            port, release = self.random.choice(self.workers.ports), self.random.choice((before, after))
            self.swap(port, release)
            self.go_on()
        for port in self.workers.ports:
            if self.serving[port] is not after:
                self.swap(port, after)
        self.go_on()

    def _editions(self) -> set[int]:
        """Return which releases have written the allocations that are there."""
        return set(self._column("SELECT DISTINCT edition FROM allocations"))

    def _column(self, words: str) -> Sequence[int]:
        found: Sequence[int] = self.db.read(lambda tx: tx.connection.scalars(text(words)).all())
        return found

    def follow(self, before: Release, after: Release) -> None:
        """A worker of the release before serves beside one of this release, and is replaced.

        What it writes is no change by hand.
        """
        self.go_on()
        self.compare()
        self.swap(self.workers.ports[0], after)
        self.go_on()
        self.swap(self.workers.ports[0], before)
        self.go_on()
        self.compare()
        self.swap(self.workers.ports[0], after)

    def compare(self) -> None:
        """A scrub finds nothing to mend, whoever has written."""
        healed, left = scrub.scrub_all(self.db)
        if healed or left:
            self.book.blame(f"the scrub has mended {dict(healed)} and found {left}")

    def refuse_leap(self) -> None:
        """A release that takes away what workers may need changes nothing: they are of this release."""
        done = self.releases[-1].command(self.folder, "manage", "db", "sync")
        assert done.returncode == 1
        assert "db sync --stopped" in done.stderr
        assert schema.current(self.db) == schema.HEAD

    def refuse_start(self) -> None:
        """A worker of this release does not start on what a later than the next one has made."""
        done = self.releases[0].command(self.folder, "api", "--port", 0)
        assert done.returncode == 1
        assert "newer release" in done.stderr

    def run(self, seconds: float) -> UpgradeReport:
        """Take all releases into use, one after the other."""
        begun_s = time.monotonic()
        this, before = self.releases[0], without_digests()
        self.sync(this)
        for port, release in zip(self.workers.ports, (before, this), strict=True):
            self.start(port, release)
        actors = self.world()
        with (
            watching(self.db, self.report.watched, LOOK_EVERY_S),
            acting(actors, ENDS_S * PATIENCE),
            suppress(Violation),
        ):
            self.follow(before, this)
            self.refuse_leap()
            for before, after in pairwise(self.releases):
                self.upgrade(before, after, seconds / (len(self.releases) - 1))
            self.refuse_start()
        if not self.report.broken():
            for actor in actors:
                actor.settle()
        self.compare()
        for log in self.folder.glob("worker-*.log"):
            if scrub.WARNING in log.read_text():
                self.book.blame(f"{log.name} says that something else writes")
        for found in invariants.violations(self.db):
            self.book.blame(f"{found.invariant.name}: {found.examples}")
        self.report.seconds = time.monotonic() - begun_s
        return self.report


@contextmanager
def upgrades(kind: str, seed: int) -> Iterator[Upgrades]:
    """Yield the machines on an empty database."""
    with ExitStack() as stack:
        url = stack.enter_context(race_database(kind))
        folder = stack.enter_context(public_folder("placement-rolling-"))
        made = Upgrades(kind, url, folder, seed)
        stack.callback(made.db.dispose)
        stack.callback(made.workers.stop)
        yield made


def run(options: argparse.Namespace) -> Iterator[CampaignReport]:
    """Run one campaign."""
    with upgrades(options.database, options.seed) as made:
        yield made.run(options.seconds)


if __name__ == "__main__":
    sys.exit(main(command("tests.proofs.races.rolling_upgrade", KINDS, "mysql", seconds=0.0), run))

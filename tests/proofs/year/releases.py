"""One release after the other is taken into use while clients write (specification 06 section 7.6).

The releases are copies of this package. The first knows no digests. Those after this one have a made-up
revision more each: the next one adds a column and a table and writes the column, the one after stops using
it, the last one drops it. For each, ``db sync`` runs while workers of the release before serve; then they are
replaced, now and then back again. A balancer drains a worker before it stops: no request may be refused, and
a scrub must find nothing to mend, whoever has written.
"""

import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess

from sqlalchemy import text

import placement
from placement.db import schema, scrub
from placement.db.database import Database
from tests.proofs.year.beside import CAPACITY, COMMON, ENDS_S
from tests.proofs.year.crew import Crew, Looker, find_wrong
from tests.proofs.year.player import Asked, OverHTTP
from tests.proofs.year.promises import find_healed
from tests.support.book import Book, Violation
from tests.support.campaign import CampaignReport, Servers
from tests.support.client import Answer, Client
from tests.support.databases import opened, until_exit
from tests.support.forks import Forker
from tests.support.load import Caller, settle
from tests.support.processes import public_folder, ran, wait_until
from tests.support.racing import SETTINGS, race_database
from tests.support.watching import watching

CREW = ("nova", "nova", "claimer", "agent", "agent", "operator", "reader")
MACHINES = 2
SOME = 20
"""Acknowledged writes between two steps of an upgrade, at the least."""
PAUSE_S = 0.05
"""The longest pause of a client before a request: the machine starts workers meanwhile."""
OPTIONS = "[insight]\nenabled = true\nhistory_days = 30\n[placement_database]\nscrub_share = 50"

HEADS = {
    "before": schema.HEAD,
    "this": schema.HEAD,
    "next": f"aaaaaaaaaaaa_{schema.parts(schema.HEAD)[0]}",
    "stops": "bbbbbbbbbbbb_aaaaaaaaaaaa",
    "drops": "cccccccccccc_bbbbbbbbbbbb",
}
"""The releases in their order, each with its head."""
REVISION = """
import sqlalchemy as sa
from alembic import op
from placement.db.migrations import steps

revision, down_revision = "{revision}", "{earlier}"

def upgrade() -> None:
    if revision == "{next}":
        steps.add_column("allocations", sa.Column("edition", sa.Integer, nullable=False, server_default="0"))
        op.execute("CREATE TABLE IF NOT EXISTS editions (id INTEGER PRIMARY KEY)")
    if revision == "{drops}":
        op.execute("ALTER TABLE allocations DROP COLUMN edition")
        op.execute("DROP TABLE IF EXISTS editions")
"""
"""A made-up revision. Only the next release names ``edition``: others need its default."""
INDEX = '    Index("allocations_consumer_id_idx", "consumer_id"),\n'
CODE = {
    "before": (
        ("db/writes.py", "    _providers.c.own_revision: _providers.c.own_revision + 1,\n", ""),
        ("db/digests.py", "        _providers.c.own_revision: _providers.c.revision + 1,\n", ""),
        ("db/digests.py", "        _providers.c.digest: of_provider(**written),\n", ""),
        ("db/provider_rows.py", '            "own_revision": _given["revision"],\n', ""),
        ("db/provider_rows.py", "        digest=digests.of_row(root_id=_providers.c.id),\n", ""),
        ("objects/scrubber.py", "return bool(self._share) and ", "return False and "),
    ),
    "next": (
        ("db/ledger_writes.py", '{"created_at": now, **dict(', '{"created_at": now, "edition": 1, **dict('),
        ("db/models.py", INDEX, INDEX + '    Column("edition", Integer),\n'),
    ),
}
"""What a release has otherwise than this one: in which file, what stands there once, and what instead. The
one before moves revisions alone and compares nothing; the next one writes 1 into its column."""


class Release:
    """A release, written into a folder of its own. ``forker``: of its workers."""

    def __init__(self, name: str) -> None:
        self.folder = until_exit(public_folder(f"placement-release-{name}-"))
        self._package = self.folder / "placement"
        # With what is compiled already, of all files but those that are changed here.
        shutil.copytree(Path(placement.__file__).parent, self._package)
        heads = list(dict.fromkeys(list(HEADS.values())[: list(HEADS).index(name) + 1]))
        listed = "".join(f'    "{each}",\n' for each in heads)
        self._replace("db/schema.py", f'    "{schema.HEAD}",\n)\n', f"{listed})\n")
        for change in CODE.get(name, ()):
            self._replace(*change)
        for earlier, revision in pairwise(heads):
            source = REVISION.format(revision=revision, earlier=earlier, **HEADS)
            (self._package / "db/migrations/versions" / f"{revision}.py").write_text(source)
        self.forker = until_exit(Forker(self.folder))

    def _replace(self, name: str, old: str, new: str) -> None:
        file = self._package / name
        source = file.read_text()
        assert source.count(old) == 1, f"{name} has not one {old!r}"
        file.write_text(source.replace(old, new))

    def run(self, settings: Path, program: str, *words: str) -> CompletedProcess[str]:
        """Run one of its programs to its end, in a process that imports it."""
        code = f"import sys; from placement.cmd.{program} import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "--config-file", settings, *words]
        return ran(command, cwd=settings.parent, env={**os.environ, "PYTHONPATH": str(self.folder)})


release = cache(Release)
"""The release of a name."""


class Balancer(OverHTTP):
    """Sends each request once, to one of the machines that are up. ``sent``: the ports it is waiting for."""

    def __init__(self, book: Book, dice: random.Random) -> None:
        super().__init__((), dice)
        self.book, self.written = book, 0
        self.up, self.sent = list[int](), list[int]()
        self._lock = threading.Lock()

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request, after a short pause; nobody may refuse it."""
        time.sleep(random.uniform(0, PAUSE_S))
        with self._lock:
            port = self._dice.choice(self.up)
            self.sent.append(port)
        answer = OverHTTP([port], self._dice).deliver(asked, token)
        with self._lock:
            self.sent.remove(port)
            self.written += asked.method != "GET" and answer.status < 300
        if answer.lost and not answer.is_given_up:
            self.book.blame(f"refused: {asked}: {answer}")
        return answer

    def drain(self, port: int) -> None:
        """Send there no more, and wait for what was sent."""
        with self._lock:
            self.up.remove(port)
        wait_until("all is answered", lambda: port not in self.sent)


class Upgrades:
    """The machines on one database, and the releases that follow one another."""

    def __init__(self, db: Database, workers: Servers, seed: int) -> None:
        self.db, self.workers, self.random = db, workers, random.Random(seed)
        self.book = Book()
        title = "releases follow one another"
        self.report = CampaignReport(title, seed, self.book.counts, self.book.violations)
        self.balancer = Balancer(self.book, random.Random(f"{seed} balancer"))
        self.settings = workers.folder / f"{workers.ports[0]}.conf"
        self.serving: dict[int, str] = {}

    def serve(self, port: int, name: str) -> None:
        """Start a worker of a release; if one serves there, as an operator does: drain, stop, start."""
        if port in self.serving:
            self.balancer.drain(port)
            self.workers.processes[port].stop()
        self.workers.start(port, forker=release(name).forker)
        self.serving[port] = name
        self.balancer.up.append(port)
        self.report.counts[f"workers of the release: {name}"] += 1

    def go_on(self, is_enough: Callable[[], object] = lambda: True) -> None:
        """Let the clients write some more, until something is true.

        :raises Violation: a promise is broken.
        """
        until = self.balancer.written + SOME
        wait_until(
            "the clients go on",
            lambda: self.book.violations or (self.balancer.written >= until and is_enough()),
            ENDS_S,
        )
        if self.book.violations:
            raise Violation("the book says what")

    def sync(self, name: str) -> None:
        """Upgrade the schema with a release, while others serve."""
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        done = release(name).run(self.settings, "manage", "db", "sync")
        assert (done.returncode, schema.current(self.db)) == (0, HEADS[name]), done

    def refuse(self, name: str, *command: str, because: str) -> None:
        """A release does not do something, says why, and changes nothing."""
        before, done = schema.current(self.db), release(name).run(self.settings, *command)
        assert (done.returncode, schema.current(self.db)) == (1, before), done
        assert because in done.stderr

    def compare(self) -> None:
        """A scrub mends nothing, whoever has written since the last one."""
        for what in find_healed(self.db):
            self.book.blame(what)

    def upgrade(self, before: str, after: str, seconds: float) -> None:
        """Take a release into use; for so long workers go back and forth."""
        until_s = time.monotonic() + seconds
        self.sync(after)
        # A worker of the release before starts on the new schema.
        for name in (before, after):
            self.go_on()
            self.serve(self.workers.ports[0], name)
        self.compare()
        self.go_on(lambda: after != "next" or self._read_editions() == {0, 1})
        while time.monotonic() < until_s:
            self.serve(self.random.choice(self.workers.ports), self.random.choice((before, after)))
            self.go_on()
        self.compare()
        for port in self.workers.ports:
            if self.serving[port] != after:
                self.serve(port, after)

    def _read_editions(self) -> set[int]:
        """Return which releases have written the allocations that are there."""
        query = text("SELECT DISTINCT edition FROM allocations")
        return set(self.db.read(lambda reader: reader.connection.scalars(query).all()))

    def play(self, seconds: float) -> CampaignReport:
        """Take all releases into use while the clients write, and look at the end as well."""
        began, seed = time.monotonic(), self.report.seed
        self.sync("this")
        for port in self.workers.ports:
            self.serve(port, "before")
        caller = Caller([self.balancer], self.book)
        size = {"common": COMMON, "capacity": CAPACITY}
        crew = Crew(caller, self.book, CREW, lambda _number: self.balancer, seed, **size)
        looker = Looker("looker", caller, self.book, str(seed), sender=caller, apart=False)
        with watching(self.db, self.book, 0.1, crew.common), crew.at_work(looker), suppress(Violation):
            # Workers may need what that release takes away: they are of this one.
            self.refuse("drops", "manage", "db", "sync", because="db sync --stopped")
            for before, after in pairwise(HEADS):
                self.upgrade(before, after, seconds / (len(HEADS) - 1))
            self.refuse("this", "api", "--port", "0", because="newer release")
            self.go_on(lambda: self.book.counts["agent: reshape 204"])
        if not self.book.violations:
            settle([crew.follower])
            clients = [Client(port, kept=False) for port in self.workers.ports]
            for what in find_wrong(self.db, clients, crew.actors, crew.authors, is_recorded=True):
                self.book.blame(what)
            for log in self.workers.folder.glob("worker-*.log"):
                if scrub.WARNING in log.read_text():
                    self.book.blame(f"{log.name} says that something else writes")
        self.report.seconds = time.monotonic() - began
        return self.report


def run(kind: str, seconds: float, seed: int) -> CampaignReport:
    """Let releases follow one another on a new database of this kind."""
    with race_database(kind) as url, public_folder("placement-releases-") as folder, opened(url) as db:
        settings = SETTINGS.format(connection=url.replace("%", "%%"), options=OPTIONS)
        workers = Servers(folder, [settings] * MACHINES)
        try:
            return Upgrades(db, workers, seed).play(seconds)
        finally:
            workers.stop()

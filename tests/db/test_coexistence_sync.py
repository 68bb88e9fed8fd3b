"""``placement-manage db sync`` while the OpenStack service writes (specification 06 section 13.1)."""

import io
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

from sqlalchemy import Connection, text

from placement.cmd import progress
from placement.db import invariants, schema, standard_names
from placement.db.coexistence import adoption, state, takeover
from placement.db.database import Database
from tests.support import clouds
from tests.support.book import Book
from tests.support.commands import kill_in_third, naming
from tests.support.databases import opened, require_mariadb
from tests.support.load import Actor, Caller, acting
from tests.support.old_service import OldService, Refused, new_uuid
from tests.support.processes import wait_until
from tests.support.programs import Command
from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.revisions import at, on

OLD_HEAD = "a082b8bb98d0"
WRITERS = 3
PAUSE_S = 0.005
AGGREGATE = new_uuid()
NUMBER = "SELECT COUNT(*) FROM resource_providers"
PROVIDERS = 3 * state.BATCH + 100
MANY_ALLOCATIONS = 60_000
SOME = 20
"""Requests after which writers are well under way."""


class OldWriter(Actor):
    """A client of the old service, which writes at random."""

    def __init__(self, number: int, book: Book, old: OldService, hosts: list[str]) -> None:
        super().__init__(f"writer {number}", Caller([], book), book, "1")
        self.old, self.longest_s = old, 0.0
        self._hosts, self._held = hosts, []

    def act(self) -> None:
        write, begun_s = self._drawn(), time.monotonic()
        try:
            write()
            self.book.count("done")
        except Refused:
            self.book.count("refused")
        self.longest_s = max(self.longest_s, time.monotonic() - begun_s)
        self.stopping.wait(self.random.uniform(0, PAUSE_S))

    def _drawn(self) -> Callable[[], None]:
        old, host, chance = self.old, self.random.choice(self._hosts), self.random.random()
        if self._held and chance < 0.35:
            consumer = self._held.pop()
            return lambda: old.release(consumer)
        if chance < 0.45:
            stock = {"total": self.random.randint(900, 1000)}
            return lambda: old.set_one_inventory(host, "VCPU", stock)
        if chance < 0.5:
            return lambda: old.set_traits(host, {"HW_CPU_X86_AVX2"})
        if chance < 0.55:
            return lambda: old.set_aggregates(host, {AGGREGATE}, steps=False)
        if chance < 0.6:
            return lambda: old.create_provider(new_uuid(), new_uuid(), host)
        self._held.append(consumer := new_uuid())
        return lambda: old.claim(consumer, {host: {"VCPU": self.random.randint(1, 3)}})


@at(OLD_HEAD)
def test_no_request_of_the_old_service_fails(database: Database, url: str) -> None:
    """A table that is rebuilt under an open transaction would be error 1412; on MySQL, a new column too."""
    standard_names.synchronise(database)
    book, old, hosts = Book(), OldService(url), [new_uuid() for _ in range(4)]
    for host in hosts:
        old.create_provider(host, host)
        old.set_inventory(host, {"VCPU": {"total": 1000}})
    writers = [OldWriter(number, book, OldService(url), hosts) for number in range(WRITERS)]
    with acting(writers):
        wait_until("they write", lambda: book.counts["done"] >= SOME)
        before = book.counts["done"]
        # As the command does it, which waits for its locks for as long as it takes.
        with opened(url, patient=True) as patient:
            schema.sync(patient)
        during = book.counts["done"] - before
        wait_until("they go on", lambda: book.counts["done"] >= before + during + SOME)
    longest_s = max(writer.longest_s for writer in writers)
    print(f"{during} requests during the upgrade, the longest took {longest_s:.2f} s")
    for each in (old, *(writer.old for writer in writers)):
        each.dispose()

    assert book.violations == []
    assert database.read(state.is_under_way)
    takeover.finish(database)
    # It is the old service that may leave consumers without allocations behind.
    assert {found.invariant.name for found in invariants.violations(database)} <= {
        "consumers have allocations"
    }


def fill(connection: Connection, providers: int, allocations: int) -> None:
    """Make providers with a consumer's allocation on some, as the old service would have them."""
    for table in ("projects", "users"):
        connection.exec_driver_sql(f"INSERT INTO {table} (id, external_id) VALUES (1, 'x')")
    ids = range(1, providers + 1)
    many(
        connection,
        "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES",
        (f"({n}, '{clouds.uuid(1, n)}', 'n{n}', 3, {n})" for n in ids),
    )
    many(
        connection,
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit,"
        " max_unit, step_size, allocation_ratio) VALUES",
        (f"({n}, 0, 100000, 0, 1, 100000, 1, 1.1)" for n in ids),
    )
    held = range(1, allocations + 1)
    many(
        connection,
        "INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES",
        (f"('{clouds.uuid(2, n)}', 1, 1, 1)" for n in held),
    )
    many(
        connection,
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES",
        (f"({n % providers + 1}, '{clouds.uuid(2, n)}', 0, 2)" for n in held),
    )
    if connection.dialect.name == "postgresql":
        for table in ("projects", "users", "resource_providers"):
            connection.exec_driver_sql(f"SELECT setval('{table}_id_seq', MAX(id)) FROM {table}")


def many(connection: Connection, head: str, rows: Iterator[str]) -> None:
    while batch := [row for _, row in zip(range(5000), rows, strict=False)]:
        connection.exec_driver_sql(f"{head} {', '.join(batch)}")


@at(OLD_HEAD)
def test_killed_in_the_middle_it_goes_on_where_it_was(
    database: Database, url: str, command: Command
) -> None:
    """SIGKILL while the providers are noted, and while they are counted."""
    standard_names.synchronise(database)
    with database.engine.connect() as connection:
        fill(connection, PROVIDERS, 200)

    def noted() -> int:
        return scalar(database, f"{NUMBER} WHERE own_generation = 3")

    def counted() -> int:
        return scalar(database, f"{NUMBER} WHERE revision > 0")

    kill_in_third(url, "placement.db.coexistence.state.note_some_generations", "sync")
    assert noted() == 2 * state.BATCH
    assert command("placement-manage", "db", "sync", url=url).returncode == 0
    assert noted() == PROVIDERS

    kill_in_third(url, "placement.db.coexistence.adoption.adopt", "sync", "--finish")
    assert counted() == 2 * adoption.BATCH
    assert database.read(state.is_under_way)
    assert command("placement-manage", "db", "sync", "--finish", url=url).returncode == 0
    assert not database.read(state.is_under_way)
    assert invariants.violations(database) == []


def scalar(database: Database, words: str) -> int:
    """Return one number."""
    return int(database.read(lambda reader: reader.connection.scalar(text(words))) or 0)


@at(OLD_HEAD)
@on("mysql")
def test_killed_while_a_table_is_rebuilt(database: Database, url: str, command: Command) -> None:
    """The server finishes what it has begun; the second run waits for it, and does the rest."""
    require_mariadb("a lock under which a table is rebuilt and not exchanged")
    standard_names.synchronise(database)
    with database.engine.connect() as connection:
        fill(connection, 100, MANY_ALLOCATIONS)
        connection.exec_driver_sql("ANALYZE TABLE allocations, consumers")
    rebuilds = (
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()"
        " AND info LIKE 'ALTER TABLE allocations%'"
    )
    program = Path(sys.executable).parent / "placement-manage"
    with database.engine.connect() as holder:
        # Lets the table be locked, and not be exchanged for the rebuilt one until the command is stopped.
        holder.exec_driver_sql("BACKUP LOCK allocations")
        process = subprocess.Popen([program, "db", "sync"], env=naming(url))
        wait_until("it is to be rebuilt", lambda: scalar(database, rebuilds))
        process.send_signal(signal.SIGSTOP)
        holder.exec_driver_sql("BACKUP UNLOCK")
        process.kill()
        process.wait()
    told: list[tuple[str, int, int]] = []
    schema.sync(database, rows=lambda *one: told.append(one))

    assert schema.current(database) == schema.HEAD
    assert ("resource providers noted", 100, 100) in told
    takeover.finish(database)
    assert invariants.violations(database) == []


def test_elsewhere_than_on_a_terminal_progress_is_a_line_every_few_seconds() -> None:
    with redirect_stderr(io.StringIO()) as shown:
        with progress.show_rows(every_s=0) as tell:
            tell("inventories", 2000, 5000)
        with progress.show_rows() as tell:
            tell("inventories", 4000, 5000)
    assert shown.getvalue() == "inventories: 2000 of 5000 rows\n"

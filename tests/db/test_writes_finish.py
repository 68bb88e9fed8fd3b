"""The last writes of a change: the same rows on every database, in however few statements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import select

from placement.db import ledger_rows, models, statements, writes
from placement.db.change import Change
from placement.db.database import Database, Snapshot, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.owner_usage_rows import CONSUMERS, Account
from placement.db.provider_rows import LockedProvider
from placement.errors import ObjectsChanged
from placement.objects import resource_provider
from tests.support.databases import synced
from tests.support.effort import in_one_process
from tests.support.hosts import add_host
from tests.support.recorder import recorded

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
MANY = statements.SIZES[-1] + 1
OWED = {Account(1, 1, 0, CONSUMERS): 1, Account(1, 1, 0, 0): 2}


@dataclass(frozen=True)
class Host:
    """A provider with its records, as they are when they are held."""

    provider: LockedProvider
    records: Sequence[InventoryRow]

    @property
    def id(self) -> int:
        return self.provider.id

    @property
    def as_read(self) -> tuple[int, int]:
        return self.provider.as_read

    def moving(self, *changes: int) -> list[tuple[int, int]]:
        """Return the ids of the first records with these changes."""
        return list(zip([record.id for record in self.records], changes, strict=False))


@dataclass(frozen=True)
class Ending:
    """What the last statements of a change write, as :func:`writes.finish` takes it."""

    counters: Sequence[tuple[int, int]]
    stepped: Mapping[int, Sequence[tuple[int, int]]]
    touched: Sequence[int]
    owner_usages: Mapping[Account, int]

    def write(self, tx: Transaction) -> None:
        change = Change(
            counters=self.counters,
            owner_usages=self.owner_usages,
            stepped=self.stepped,
            touched=self.touched,
            usage_only=True,
        )
        writes.finish(tx, change)


class Ledger:
    """One scratch database."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def hosts(self, count: int) -> list[Host]:
        """Create providers with three classes."""
        ids = []
        for _ in range(count):
            made = add_host(self.db, **dict.fromkeys(CLASSES, 100))
            ids.append(resource_provider.show(self.db, made).id)
        providers, records = self.db.write(lambda tx: ledger_rows.lock_with_inventories(tx, ids))
        # Providers come in order, the records of one provider in any.
        records.sort(key=lambda record: record.id)
        return [
            Host(providers[id_], [record for record in records if record.provider_id == id_])
            for id_ in ids
        ]

    def state(self, hosts: Sequence[Host]) -> list[tuple[int, int, list[int]]]:
        """Return generation, revision and counters of each."""
        return self.db.snapshot(lambda tx: [_state(tx, host) for host in hosts])

    def sums(self) -> dict[int, int]:
        """Return what is owed by class."""
        table = models.owner_usages
        rows = self.db.read(lambda c: c.connection.execute(select(table.c.resource_class_id, table.c.used)))
        found: dict[int, int] = {}
        for class_id, used in rows:
            found[class_id] = found.get(class_id, 0) + used
        return found


def _state(tx: Snapshot, host: Host) -> tuple[int, int, list[int]]:
    providers, inventories = models.resource_providers, models.inventories
    own = inventories.c.resource_provider_id == host.id
    used = tx.connection.scalars(select(inventories.c.used).where(own).order_by(inventories.c.id))
    row = tx.connection.execute(
        select(providers.c.generation, providers.c.revision).where(providers.c.id == host.id)
    ).one()
    return row[0], row[1], list(used)


@pytest.fixture(
    scope="module", params=in_one_process("ledger", "sqlite", "postgresql", "mysqlclient")
)
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """A ledger on each kind of database."""
    with synced(request.param, attempts=lambda: 2) as db:
        yield Ledger(db)


def close(ledger: Ledger, ending: Ending) -> int:
    """Write it; return in how many statements."""
    with recorded(ledger.db) as statements:
        ledger.db.write(ending.write)
    return len(statements)


@pytest.mark.parametrize("count", [1, 3, MANY])
@pytest.mark.parametrize("moves", [(), (5,), (5, 7, 11)])
def test_counters_generations_and_sums_move(
    ledger: Ledger, count: int, moves: tuple[int, ...]
) -> None:
    """Each by what it should, once, however the rows are joined."""
    *hosts, other = ledger.hosts(count + 1)
    before, sums = ledger.state(hosts), ledger.sums()
    untouched = ledger.state([other])
    moved = [change for host in hosts for change in host.moving(*moves)]

    close(ledger, Ending(moved, {1: [host.as_read for host in hosts]}, (), OWED))

    padded = [*moves, 0, 0, 0][:3]
    assert ledger.state(hosts) == [
        (generation + 1, revision + 1, padded) for generation, revision, _ in before
    ]
    assert ledger.state([other]) == untouched
    after = ledger.sums()
    assert {key: after[key] - sums.get(key, 0) for key in after} == {CONSUMERS: 1, 0: 2}


def test_a_provider_that_is_only_touched_keeps_its_generation(ledger: Ledger) -> None:
    """A deletion; a replacement that leaves one host for another."""
    left, entered = hosts = ledger.hosts(2)
    (old, seen, _), (next_old, next_seen, _) = ledger.state(hosts)

    close(ledger, Ending(left.moving(9, 9, 9), {}, (left.id,), OWED))
    back = left.moving(-9, -9, -8) + entered.moving(9, 9, 8)
    close(ledger, Ending(back, {1: [entered.as_read]}, (left.id,), {}))

    assert ledger.state(hosts) == [
        (old, seen + 2, [0, 0, 1]),
        (next_old + 1, next_seen + 1, [9, 9, 8]),
    ]


def test_a_provider_of_which_nothing_moves_is_stepped_with_the_others(ledger: Ledger) -> None:
    """An inner join would leave it out."""
    hosts = ledger.hosts(2)
    before = ledger.state(hosts)

    close(ledger, Ending(hosts[0].moving(1), {1: [host.as_read for host in hosts]}, (), OWED))

    assert ledger.state(hosts) == [
        (before[0][0] + 1, before[0][1] + 1, [1, 0, 0]),
        (before[1][0] + 1, before[1][1] + 1, [0, 0, 0]),
    ]


@pytest.mark.parametrize("count", [1, 3, MANY])
@pytest.mark.parametrize("moves", [(), (5, 7, 11)])
def test_one_generation_that_is_not_the_one_that_was_read_refuses_all(
    ledger: Ledger, count: int, moves: tuple[int, ...]
) -> None:
    """The second guard, which between the nodes of a cluster is the only one."""
    hosts = ledger.hosts(count)
    before, sums = ledger.state(hosts), ledger.sums()
    moved = [change for host in hosts for change in host.moving(*moves)]
    providers = [host.as_read for host in hosts]
    stale = (hosts[-1].id, before[-1][0] - 1)
    ending = Ending(moved, {1: [*providers[:-1], stale]}, (), OWED)

    attempts: list[int] = []

    def once_more(tx: Transaction) -> None:
        attempts.append(tx.attempt)
        ending.write(tx)

    with pytest.raises(ObjectsChanged):
        ledger.db.write(once_more)

    assert attempts == [1, 2]
    assert ledger.state(hosts) == before
    assert ledger.sums() == sums


def test_nothing_to_write_is_nothing_sent(ledger: Ledger) -> None:
    """An empty set for a consumer that does not exist."""
    assert close(ledger, Ending((), {}, (), {})) == 0

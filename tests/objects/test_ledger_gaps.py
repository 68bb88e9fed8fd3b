"""What writes of the ledger must do with what older software has left, and with writers that wait."""

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import insert, select

from placement.db import invariants, models, owner_usage_rows
from placement.db.coexistence import state, takeover
from placement.db.database import Database, Transaction
from placement.db.owner_usage_rows import Usage
from placement.db.transport import Message
from placement.objects import (
    allocation,
    inventory,
    ledger,
    reshaper,
    resource_provider,
)
from placement.objects.allocation import AllocationChange
from placement.objects.inventory import record_from
from placement.objects.replacement import ConsumerChange, DoesNotFit
from placement.objects.reshaper import InventoryChange, Reshape
from tests.proofs.promise.stage import LOCK_WAIT
from tests.support.databases import KINDS, opened, synced
from tests.support.effort import in_one_process
from tests.support.hosts import add_host
from tests.support.processes import ENDS_S, wait_until
from tests.support.recorder import Hook, observed, recorded

WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
OWN = "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
two_writers = pytest.mark.parametrize(
    "db", in_one_process("ledger", "postgresql", "mysql"), indirect=True
)
"""On SQLite nobody else can write while a write is under way."""


@pytest.fixture(scope="module", params=in_one_process("ledger", *KINDS))
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with standard names."""
    with synced(request.param) as found:
        yield found


@pytest.fixture
def other(db: Database) -> Iterator[Database]:
    """Another service on it."""
    with opened(db.engine.url.render_as_string(hide_password=False)) as made:
        yield made


def put(db: Database, consumer: str, provider: str, amount: int, project: str = "project") -> None:
    change = ConsumerChange(consumer, {provider: {"VCPU": amount}}, project, "user")
    allocation.replace_allocations(db, AllocationChange.of_one(change))


def drop_vcpu(db: Database, provider: str) -> dict[str, Any]:
    """Take the inventory away as older software may have left it; return its row."""
    table = models.inventories
    ours = table.c.resource_provider_id == resource_provider.show(db, provider).id
    record = ours & (table.c.resource_class_id == 0)
    found = select(table).where(record)
    gone = db.read(lambda reader: reader.connection.execute(found).mappings().one())
    db.write(lambda tx: tx.connection.execute(table.delete().where(record)))
    return dict(gone)


def once_before(words: str, act: Callable[[], object]) -> Hook:
    """Return an observer that acts before the first message in which a statement ends so."""
    left = [act]

    def look(_connection: Any, sent: Message) -> None:
        if left and any(each.text.endswith(words) for each in sent.statements):
            left.pop()()

    return Hook(look)


def somebody_waits(db: Database) -> bool:
    """Say whether a transaction waits for a lock."""

    def asked(words: str) -> list[Any]:
        return db.read(lambda reader: reader.connection.exec_driver_sql(words).all())

    if db.dialect == "postgresql":
        return asked(WAITING)[0][0] > 0
    # information_schema.innodb_trx shows what was true when it was first asked for in quick succession.
    found = map(LOCK_WAIT.search, asked("SHOW ENGINE INNODB STATUS")[0][2].split("---TRANSACTION"))
    return bool({int(one[1]) for one in found if one} & {id_ for (id_,) in asked(OWN)})


def test_a_record_that_holds_nothing_is_counted_for_no_owner(db: Database) -> None:
    """Neither before it holds something, nor twice then; by the sums and by the ledger."""
    provider, first, consumer = add_host(db, VCPU=10), str(uuid.uuid4()), str(uuid.uuid4())
    put(db, first, provider, 1, "of old")
    columns = models.consumers.c
    of_first = select(columns.project_id, columns.user_id).where(columns.uuid == first)
    owner = db.read(lambda reader: reader.connection.execute(of_first).one())
    record = {"uuid": consumer, "project_id": owner[0], "user_id": owner[1], "generation": 3}
    db.write(lambda tx: tx.connection.execute(insert(models.consumers).values(**record)))

    def counted() -> list[int]:
        def consumers(usages: list[Usage] | None) -> int:
            return sum(each.amount for each in usages or [] if each.class_name is None)

        summed = db.read(lambda reader: owner_usage_rows.of_project(reader, "of old", None))
        held = db.read(lambda reader: owner_usage_rows.of_project_in_ledger(reader, "of old", None))
        return [consumers(summed), consumers(held)]

    assert counted() == [1, 1]
    put(db, consumer, provider, 2, "of old")
    assert counted() == [2, 2]
    assert invariants.violations(db) == []


@two_writers
def test_a_coexistence_is_not_ended_over_a_claim_that_is_under_way(
    db: Database, other: Database
) -> None:
    """What a claim has written and not committed is in no sum yet, so its provider is waited for."""
    provider = add_host(db, VCPU=10)
    db.write(state.begin)
    with ThreadPoolExecutor(1) as beside:
        ended = []

        def end() -> None:
            ended.append(one := beside.submit(takeover.finish, other))
            wait_until("the end waits for the claim", lambda: somebody_waits(other) or one.done())
            assert not one.done()

        with observed(db, once_before("COMMIT", end)):
            put(db, str(uuid.uuid4()), provider, 2)
        ended[0].result()

    assert not db.read(state.is_under_way)
    assert invariants.violations(db) == []


@two_writers
def test_a_freed_place_whose_inventory_comes_meanwhile_is_free(
    db: Database, other: Database
) -> None:
    """A consumer of older software holds what has no inventory until the lock is waited for."""
    provider, consumer = add_host(db, VCPU=10, MEMORY_MB=10), str(uuid.uuid4())
    put(db, consumer, provider, 2)
    gone = drop_vcpu(db, provider)
    providers = models.resource_providers

    def bring_back(locked: Callable[[], object]) -> None:
        with other.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            connection.execute(select(providers.c.id).with_for_update())
            locked()
            wait_until("the deletion waits", lambda: somebody_waits(db))
            connection.execute(insert(models.inventories).values(**gone))
            connection.exec_driver_sql("COMMIT")

    with ThreadPoolExecutor(1) as beside:
        done = []

        def begin() -> None:
            is_locked = threading.Event()
            done.append(beside.submit(bring_back, is_locked.set))
            assert is_locked.wait(ENDS_S)

        with observed(db, once_before("FOR UPDATE", begin)):
            allocation.delete_allocations(db, consumer)
        done[0].result()

    assert invariants.violations(db) == []


def with_allocations_only(db: Database) -> str:
    """Return a provider on which older software has left 2 VCPU of a consumer, and no inventory."""
    provider = add_host(db, VCPU=10)
    put(db, str(uuid.uuid4()), provider, 2)
    drop_vcpu(db, provider)
    return provider


def reshaped(db: Database, provider: str, *changes: ConsumerChange) -> None:
    generation = inventory.of_provider(db, provider).generation
    listed = InventoryChange(provider, generation, {"VCPU": TEN})
    reshaper.reshape(db, Reshape([listed], changes))


TEN = record_from({"total": 10})
ADDITIONS: dict[str, Callable[[Database, str], object]] = {
    "POST": lambda db, provider: inventory.add(db, provider, "VCPU", TEN, may_be_full=True),
    "PUT": lambda db, provider: inventory.replace_all(
        db,
        provider,
        {"VCPU": TEN},
        generation=inventory.of_provider(db, provider).generation,
        may_be_full=True,
    ),
    "reshape": reshaped,
}


@pytest.mark.parametrize("way", ADDITIONS)
def test_what_a_new_inventory_finds_allocated_is_in_use(db: Database, way: str) -> None:
    provider = with_allocations_only(db)
    ADDITIONS[way](db, provider)
    assert invariants.violations(db) == []
    with pytest.raises(DoesNotFit):
        put(db, str(uuid.uuid4()), provider, 9)
    put(db, str(uuid.uuid4()), provider, 8)
    assert invariants.violations(db) == []


def test_a_reshape_does_not_give_away_what_a_new_inventory_finds_allocated(db: Database) -> None:
    provider, consumer = with_allocations_only(db), str(uuid.uuid4())

    def change(amount: int) -> ConsumerChange:
        return ConsumerChange(consumer, {provider: {"VCPU": amount}}, "project", "user")

    with pytest.raises(DoesNotFit):
        reshaped(db, provider, change(9))
    reshaped(db, provider, change(8))
    assert invariants.violations(db) == []


@two_writers
@pytest.mark.parametrize(("generations", "locks"), [((1,), 1), ((1, 1), 2), ((None, None), 1)])
def test_consumers_are_locked_in_one_order_where_several_may_be_taken(
    db: Database, generations: tuple[int | None, ...], locks: int
) -> None:
    """At once if several are held, and by each attempt after the first."""
    changes = [
        ConsumerChange(str(uuid.uuid4()), {}, "project", "user", generation)
        for generation in generations
    ]

    def read(tx: Transaction) -> None:
        for attempt in (1, 2):
            tx.attempt = attempt
            ledger.read(tx, changes)

    with recorded(db) as sent:
        db.write(read)
    locking = [text for text in sent if text.endswith("FOR UPDATE")]
    assert len(locking) == locks
    assert all("ORDER BY consumers.uuid" in text for text in locking)

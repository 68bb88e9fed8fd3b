"""Claims that are checked as they are written: what the database lets in, and what the next attempt says."""

import random
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import select, update

from placement.db import change_rows, ledger_rows, models, writes
from placement.db.change import Change
from placement.db.database import Database, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.owner_usage_rows import CONSUMERS, Account
from placement.errors import ObjectsChanged
from placement.inventory_record import InventoryRecord
from placement.objects import allocation, ledger, replacement, resource_provider
from placement.objects.allocation import AllocationChange
from placement.objects.replacement import CapacityExceeded, ConsumerChange, NewAllocation
from tests.support.databases import synced
from tests.support.effort import in_one_process
from tests.support.hosts import add_host
from tests.support.recorder import recorded

OWED = {Account(1, 1, 0, CONSUMERS): 1}
RECORD = InventoryRecord(
    total=10, reserved=0, min_unit=1, max_unit=10, step_size=1, allocation_ratio=1.0
)


@pytest.fixture(
    scope="module", params=in_one_process("ledger", "sqlite", "postgresql", "mysqlclient")
)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a database of each kind, with its schema and the standard names."""
    with synced(request.param, attempts=lambda: 2) as made:
        # For a name that is new another transaction would wait.
        allocation.replace_allocations(made, change(add_host(made, VCPU=RECORD), VCPU=1))
        yield made


def stock(db: Database, made: str) -> list[InventoryRow]:
    """Return the inventory records as they are, by id."""
    found = resource_provider.show(db, made).id
    _, records = db.write(lambda tx: ledger_rows.lock_with_inventories(tx, [found]))
    return sorted(records, key=lambda record: record.id)


def change(made: str, **amounts: int) -> AllocationChange:
    """A new consumer that takes these amounts of a host."""
    return AllocationChange.of_one(
        ConsumerChange(str(uuid.uuid4()), {made: amounts}, "shop", "ann", None, "INSTANCE")
    )


def random_record(draw: random.Random) -> InventoryRecord:
    """Odd ones too: units that do not fit, ratios with long fractions."""
    total = draw.randint(1, 40)
    return InventoryRecord(
        total=total,
        reserved=draw.choice([0, 0, draw.randint(0, total)]),
        min_unit=draw.choice([1, 1, 3]),
        max_unit=draw.choice([total, 2**31 - 1, 5]),
        step_size=draw.choice([1, 1, 2, 3]),
        allocation_ratio=draw.choice([1.0, 1.1, 0.1, 0.3, 16.0, draw.uniform(0.01, 3)]),
    )


def claim(tx: Transaction, provider_id: int, amounts: list[tuple[int, int]]) -> None:
    """Claim on a provider that is not locked."""
    change = Change(counters=amounts, owner_usages=OWED)
    writes.finish(tx, change, writes.UncheckedPlace(provider_id))


def test_the_database_lets_in_what_has_room_and_nothing_else(db: Database) -> None:
    """Its condition is the check in Python, of every record."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    draw = random.Random(seed)
    outcomes = set()
    for _ in range(60):
        made = add_host(db, VCPU=random_record(draw), DISK_GB=random_record(draw))
        before = stock(db, made)
        amounts = [draw.choice([1, 2, 3, draw.randint(1, 45)]) for _ in before]
        demands = [
            NewAllocation("c", (record.provider_id, record.class_id), made, "", amount)
            for record, amount in zip(before, amounts, strict=True)
        ]
        fits = replacement.has_room(demands, replacement.by_place(before), {})
        taken = [(record.id, amount) for record, amount in zip(before, amounts, strict=True)]
        try:
            db.write(lambda tx: claim(tx, before[0].provider_id, taken))  # noqa: B023
        except ObjectsChanged:
            assert not fits, (before, amounts)
            assert stock(db, made) == before
        else:
            assert fits, (before, amounts)
            assert [record.used for record in stock(db, made)] == amounts
        outcomes.add(fits)
    assert outcomes == {True, False}


def test_the_last_unit_is_taken_and_one_more_is_not(db: Database) -> None:
    """Of 7 with a ratio of 1.1, which is 7.700000000000001."""
    made = add_host(db, VCPU=RECORD._replace(total=7, allocation_ratio=1.1))
    allocation.replace_allocations(db, change(made, VCPU=6))
    allocation.replace_allocations(db, change(made, VCPU=1))
    with pytest.raises(CapacityExceeded):
        allocation.replace_allocations(db, change(made, VCPU=1))
    assert [record.used for record in stock(db, made)] == [7]


def test_all_there_is_is_taken_at_once(db: Database) -> None:
    """To the last unit by the condition of the statement, and not by the attempt after it."""
    made = add_host(db, VCPU=RECORD)

    with recorded(db) as statements:
        allocation.replace_allocations(db, change(made, VCPU=RECORD.total))

    assert [record.used for record in stock(db, made)] == [RECORD.total]
    assert sum("INTO allocations" in text for text in statements) == 1


def test_a_provider_whose_counters_are_not_right_is_not_written(db: Database) -> None:
    """The old service has written it: its ledger is to be counted first."""
    made = add_host(db, VCPU=RECORD)
    (record,) = before = stock(db, made)
    table = models.resource_providers
    foreign = update(table).where(table.c.uuid == made).values(generation=table.c.generation + 1)
    db.write(lambda tx: tx.connection.execute(foreign))

    with pytest.raises(ObjectsChanged):
        db.write(lambda tx: claim(tx, record.provider_id, [(record.id, 1)]))
    assert stock(db, made) == before

    allocation.replace_allocations(db, change(made, VCPU=1))
    assert [each.used for each in stock(db, made)] == [1]


def test_a_provider_that_is_gone_is_not_written(db: Database) -> None:
    with pytest.raises(ObjectsChanged):
        db.write(lambda tx: claim(tx, 10**9, [(10**9, 1)]))


# SQLite has one writer at a time: nothing goes while another looks.
@pytest.mark.parametrize("db", in_one_process("ledger", "postgresql", "mysqlclient"), indirect=True)
@pytest.mark.parametrize(("others", "used"), [(7, 9), (9, 9)])
def test_room_that_goes_after_it_was_seen(
    db: Database, others: int, used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is taken from between reading and writing: there is still room for two, or there is not."""
    made = add_host(db, VCPU=RECORD)
    mine, other = change(made, VCPU=2), change(made, VCPU=others)
    write = ledger.write_allocations
    begun: list[replacement.Replacement] = []

    def be_late(tx: Transaction, replaced: replacement.Replacement) -> None:
        begun.append(replaced)
        if len(begun) == 1:
            allocation.replace_allocations(db, other)
        write(tx, replaced)

    monkeypatch.setattr(ledger, "write_allocations", be_late)
    if others + 2 <= RECORD.total:
        allocation.replace_allocations(db, mine)
    else:
        with pytest.raises(CapacityExceeded):
            allocation.replace_allocations(db, mine)

    assert [record.used for record in stock(db, made)] == [used]
    held = select(models.allocations.c.used).where(
        models.allocations.c.consumer_id == mine.consumers[0].uuid
    )
    assert sum(db.read(lambda reader: reader.connection.scalars(held).all())) == used - others


def test_what_is_no_such_claim_locks_first(db: Database) -> None:
    """Two hosts, a consumer that holds something, two consumers for one place; all are written."""
    one, two = add_host(db, VCPU=RECORD), add_host(db, VCPU=RECORD)
    first = ConsumerChange(str(uuid.uuid4()), {one: {"VCPU": 1}}, "shop", "ann", None, "INSTANCE")
    again = ConsumerChange(first.uuid, {one: {"VCPU": 2}}, "shop", "ann", 1, "INSTANCE")
    both = {one: {"VCPU": 1}, two: {"VCPU": 1}}
    wide = ConsumerChange(str(uuid.uuid4()), both, "shop", "ann", None, "INSTANCE")
    pair = tuple(change(two, VCPU=amount).consumers[0] for amount in (2, 3))
    at_once = []
    for changes in ((first,), (again,), (wide,), pair):
        with recorded(db) as statements:
            allocation.replace_allocations(db, AllocationChange(changes))
        at_once.append(not any("FOR UPDATE" in text for text in statements))

    assert [record.used for record in (*stock(db, one), *stock(db, two))] == [3, 6]
    # SQLite knows no such lock.
    assert at_once == [True, *[db.dialect == "sqlite"] * 3]


def test_only_the_first_attempt_goes_without_the_lock(db: Database) -> None:
    """Whoever has lost once waits for its turn."""
    changes = change(add_host(db, VCPU=RECORD), VCPU=1).consumers
    likely = []

    def look(tx: object) -> None:
        for attempt in (1, 2):
            tx.attempt = attempt  # type: ignore[attr-defined]
            likely.append(ledger.is_everyday(tx, changes))  # type: ignore[arg-type]

    db.write(look)
    assert likely == [True, False]


def test_a_claim_tells_searches_that_the_stock_alone_has_changed(db: Database) -> None:
    """At once or with the lock: a search then reads no traits and aggregates of the host."""
    made = add_host(db, VCPU=RECORD)
    host_id = resource_provider.show(db, made).id
    first = ConsumerChange(str(uuid.uuid4()), {made: {"VCPU": 1}}, "shop", "ann", None, "INSTANCE")
    again = ConsumerChange(first.uuid, {made: {"VCPU": 2}}, "shop", "ann", 1, "INSTANCE")
    for consumer in (first, again):
        before = log(db)
        allocation.replace_allocations(db, AllocationChange((consumer,)))
        changed = log(db).changed_since(before)
        assert changed is not None
        assert (changed.whole, changed.stock) == (set(), {host_id: 1})


def log(db: Database) -> change_rows.Log:
    """Return the log of what searches see."""
    columns = models.provider_changes.c
    rows = db.read(lambda tx: tx.rows(select(columns.slot, columns.mark, columns.recent)))
    return change_rows.Log({slot: (mark, recent) for slot, mark, recent in rows})

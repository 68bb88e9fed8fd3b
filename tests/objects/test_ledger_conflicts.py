"""Writes of the ledger that lose a race inside the database: repeated from nothing, or refused whole.

Specification 03 section 11, specification 05 section A8 and specification 08 section 3. What
others do in between is done for real, by a second connection, at a chosen statement of the first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import select, update

from placement import errors
from placement.db import invariants, ledger_rows, models, schema
from placement.db.database import Database, StaleRead
from placement.db.engine import make_engine
from placement.db.statements import MOST
from placement.db.transport import Message
from placement.inventory_record import InventoryRecord
from placement.objects import allocation, inventory, replacement, reshaper, resource_provider
from placement.objects.allocation import AllocationChange, LedgerMoved
from placement.objects.inventory import record_from
from placement.objects.replacement import ConsumerChange, ConsumerConflict
from placement.objects.reshaper import InventoryChange, Reshape
from tests.support.databases import ROUTES, scratch_route
from tests.support.effort import in_one_process
from tests.support.hosts import add_host
from tests.support.recorder import Hook, observed
from tests.support.world import new_uuid


class Ledger:
    """One scratch database, seen by the writer under test and by somebody else."""

    def __init__(self, url: str) -> None:
        self.attempts = 10
        self.db = Database(make_engine(url), attempts=lambda: self.attempts)
        self.other = Database(make_engine(url))
        # Project and user exist from here on: what one writer has inserted and not committed, the
        # other would wait for, and both are this thread.
        self.put(new_uuid(), self.host(), 1)

    def host(self, total: int = 10) -> str:
        """Create a provider with VCPU and return its uuid."""
        return add_host(self.db, VCPU=total)

    def put(self, consumer: str, host: str, amount: int, **given: Any) -> None:
        """Replace the set of one consumer."""
        self.put_by(self.db, consumer, host, amount, **given)

    @staticmethod
    def put_by(db: Database, consumer: str, host: str, amount: int, **given: Any) -> None:
        """Replace the set of one consumer through a database object."""
        held = {host: {"VCPU": amount}} if amount else {}
        change = ConsumerChange(consumer, held, "project", "user", **given)
        allocation.replace_allocations(db, AllocationChange.of_one(change))

    def held(self, consumer: str) -> dict[str, int]:
        """Return what a consumer holds by provider."""
        rows = allocation.consumer_allocations(self.db, consumer)
        return {row.provider_uuid: row.used for row in rows}

    def generation(self, consumer: str) -> int:
        """Return the generation of a consumer."""
        return allocation.consumer_allocations(self.db, consumer)[0].generation

    @contextmanager
    def before(self, words: str, act: Callable[[], Any], times: int = 1) -> Iterator[list[str]]:
        """Act just before the next messages of the writer that contain ``words``.

        Yields the list of the writer's messages, which grows.
        """
        left = [times]
        seen: list[str] = []

        def look(_connection: Any, sent: Message) -> None:
            statement = "; ".join(each.text for each in sent.statements)
            seen.append(statement)
            if words in statement and left[0]:
                left[0] -= 1
                act()

        with observed(self.db, Hook(look)):
            yield seen
        assert not left[0] or times > 100, f"no statement contains {words}"


@pytest.fixture(scope="module", params=in_one_process("ledger", *ROUTES))
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """A ledger by each route to a database."""
    with scratch_route(request.param, schema.HEAD, named=True) as url:
        made = Ledger(url)
        yield made
        made.db.dispose()
        made.other.dispose()


# On SQLite nobody else can write while a write is under way.
interrupted = pytest.mark.parametrize(
    "ledger",
    in_one_process("ledger", *(route for route in ROUTES if route != "sqlite")),
    indirect=True,
)
# What is asked is the same whether it travels alone.
by_each_driver = pytest.mark.parametrize(
    "ledger",
    in_one_process("ledger", *(route for route in ROUTES if not route.endswith("-alone"))),
    indirect=True,
)


@pytest.fixture(autouse=True)
def sound(ledger: Ledger) -> Iterator[None]:
    """The invariants hold after each test."""
    ledger.attempts = 10
    yield
    assert invariants.violations(ledger.db) == []


def lose() -> None:
    """Be told that something moved."""
    raise StaleRead("somebody else was faster")


@pytest.mark.parametrize("attempts", [0, 3])
def test_what_keeps_losing_is_refused_with_the_words_for_a_blind_retry(
    ledger: Ledger, attempts: int
) -> None:
    """As many attempts as configured, 0 read as 1; nothing is written."""
    host, consumer = ledger.host(), new_uuid()
    ledger.attempts = attempts

    with (
        ledger.before("UPDATE resource_providers", lose, times=1000) as seen,
        pytest.raises(LedgerMoved) as refusal,
    ):
        ledger.put(consumer, host, 1)

    assert refusal.value.code == errors.CONCURRENT_UPDATE
    words = "Inventory and/or allocations changed while attempting to allocate:"
    assert str(refusal.value).startswith(words)
    assert "consumer generation conflict" not in str(refusal.value)
    assert sum("BEGIN" in each or "START" in each for each in seen) == max(1, attempts)
    assert ledger.held(consumer) == {}


def test_a_write_repeated_at_any_statement_is_written_once(ledger: Ledger) -> None:
    """Every attempt starts from the committed state (specification 08 section 3)."""
    host, consumer = ledger.host(), new_uuid()
    ledger.put(consumer, host, 2)
    with ledger.before("SELECT", lambda: None) as seen:
        ledger.put(consumer, host, 2, generation=1)
    statements = len(seen)

    for place in range(1, statements - 1):
        generation = ledger.generation(consumer)
        count = iter(range(1000))

        def lose_here(*_: Any, count: Any = count, place: int = place) -> None:
            if next(count) == place:
                lose()

        with observed(ledger.db, Hook(lose_here)):
            ledger.put(consumer, host, 2, generation=generation)
        assert next(count) > place
        assert ledger.generation(consumer) == generation + 1
        assert ledger.held(consumer) == {host: 2}


@interrupted
def test_a_consumer_created_meanwhile_is_a_conflict_for_who_expected_none(ledger: Ledger) -> None:
    """Exactly one 204; the words are those of a consumer conflict, not of a blind retry."""
    host, consumer = ledger.host(), new_uuid()

    def create() -> None:
        ledger.put_by(ledger.other, consumer, host, 3, generation=None)

    with (
        ledger.before("INTO consumers", create),
        pytest.raises(ConsumerConflict, match="expected 1 but got None"),
    ):
        ledger.put(consumer, host, 1, generation=None)

    assert ledger.held(consumer) == {host: 3}


@interrupted
def test_a_consumer_created_meanwhile_is_overwritten_by_an_old_client(ledger: Ledger) -> None:
    """Below 1.28 both succeed in turn."""
    host, consumer = ledger.host(), new_uuid()

    def create() -> None:
        ledger.put_by(ledger.other, consumer, host, 3)

    with ledger.before("INTO consumers", create):
        ledger.put(consumer, host, 1)

    assert ledger.held(consumer) == {host: 1}
    assert ledger.generation(consumer) == 2


@interrupted
def test_a_consumer_created_and_deleted_meanwhile_is_new_again(ledger: Ledger) -> None:
    """What was read of it is not what is freed."""
    host, consumer = ledger.host(), new_uuid()

    def come_and_go() -> None:
        ledger.put_by(ledger.other, consumer, host, 3)
        allocation.delete_allocations(ledger.other, consumer)

    with ledger.before("INTO consumers", come_and_go):
        ledger.put(consumer, host, 1, generation=None)

    assert ledger.held(consumer) == {host: 1}
    assert ledger.generation(consumer) == 1


@interrupted
def test_a_consumer_replaced_meanwhile_is_a_conflict(ledger: Ledger) -> None:
    """The compare-and-set of the record is what notices."""
    host, consumer = ledger.host(), new_uuid()
    ledger.put(consumer, host, 1)

    def replace() -> None:
        ledger.put_by(ledger.other, consumer, host, 3, generation=1)

    with (
        ledger.before("UPDATE consumers", replace),
        pytest.raises(ConsumerConflict, match="expected 2 but got 1"),
    ):
        ledger.put(consumer, host, 2, generation=1)

    assert ledger.held(consumer) == {host: 3}


@interrupted
def test_a_consumer_replaced_during_its_deletion_is_deleted_whole(ledger: Ledger) -> None:
    """Either the old or the new set goes."""
    host, other_host, consumer = ledger.host(), ledger.host(), new_uuid()
    ledger.put(consumer, host, 1)

    def replace() -> None:
        ledger.put_by(ledger.other, consumer, other_host, 3)

    with ledger.before("DELETE FROM consumers", replace):
        allocation.delete_allocations(ledger.db, consumer)

    assert ledger.held(consumer) == {}


@interrupted
def test_room_taken_meanwhile_is_seen(ledger: Ledger) -> None:
    """Capacity is judged on what is there when it is taken, not on what was there before."""
    host, consumer = ledger.host(total=10), new_uuid()

    def fill() -> None:
        ledger.put_by(ledger.other, new_uuid(), host, 10)

    with (
        ledger.before("UPDATE resource_providers", fill),
        pytest.raises(errors.Conflict, match="would exceed the capacity"),
    ):
        ledger.put(consumer, host, 1)

    assert ledger.held(consumer) == {}


@interrupted
def test_inventory_that_comes_meanwhile_is_seen(ledger: Ledger) -> None:
    """A record that was inserted just before the lock counts."""
    host, consumer = ledger.host(), new_uuid()
    inventory.delete_all(ledger.db, host)

    def stock() -> None:
        record = record_from({"total": 4})
        inventory.add(ledger.other, host, "VCPU", record, may_be_full=True)

    with ledger.before("FOR UPDATE", stock):
        ledger.put(consumer, host, 4)

    assert ledger.held(consumer) == {host: 4}


@interrupted
def test_a_provider_deleted_meanwhile_does_not_exist(ledger: Ledger) -> None:
    """The fresh attempt says so."""
    host = ledger.host()

    def delete() -> None:
        resource_provider.delete(ledger.other, host)

    with (
        ledger.before("UPDATE resource_providers", delete),
        pytest.raises(errors.BadRequest, match="that does not exist"),
    ):
        ledger.put(new_uuid(), host, 1)


@interrupted
def test_a_reshape_is_not_repeated_over_a_moved_provider(ledger: Ledger) -> None:
    """The generation that was sent is binding until the commit."""
    host = ledger.host()
    generation = resource_provider.show(ledger.db, host).generation

    def claim() -> None:
        ledger.put_by(ledger.other, new_uuid(), host, 1)

    change = Reshape([InventoryChange(host, generation, {"VCPU": InventoryRecord(20)})], [])
    with (
        ledger.before("FOR UPDATE", claim),
        pytest.raises(reshaper.ListedProviderMoved, match=f"actual: {generation + 1}"),
    ):
        reshaper.reshape(ledger.db, change)

    shown = inventory.of_provider(ledger.db, host)
    assert shown.records[0].record.total == 10


def test_a_lost_reshape_is_refused_as_a_conflict(ledger: Ledger) -> None:
    """With words of its own."""
    host = ledger.host()
    generation = resource_provider.show(ledger.db, host).generation
    ledger.attempts = 2
    change = Reshape([InventoryChange(host, generation, {"VCPU": InventoryRecord(20)})], [])

    with (
        ledger.before("UPDATE resource_providers", lose, times=1000),
        pytest.raises(errors.ConcurrentUpdate, match=r"^update conflict:"),
    ):
        reshaper.reshape(ledger.db, change)

    assert resource_provider.show(ledger.db, host).generation == generation


def test_a_counter_is_the_sum_of_the_ledger_whoever_wrote_it(ledger: Ledger) -> None:
    """A counter that was wrong stays wrong by as much, and the check sees it."""
    host, consumer = ledger.host(), new_uuid()
    ledger.put(consumer, host, 2)
    used = update(models.inventories).where(
        models.inventories.c.resource_provider_id
        == select(models.resource_providers.c.id)
        .where(models.resource_providers.c.uuid == host)
        .scalar_subquery()
    )
    ledger.db.write(lambda tx: tx.connection.execute(used.values(used=5)))
    found = {each.invariant.name for each in invariants.violations(ledger.db)}
    assert found == {"usage counters equal the sums of the ledger"}
    ledger.db.write(lambda tx: tx.connection.execute(used.values(used=2)))


@pytest.mark.parametrize("size", [2, 32, 33])
def test_a_granted_write_of_many_consumers_stores_each(ledger: Ledger, size: int) -> None:
    """More rows of a kind than one statement takes; new consumers, and then others of their sets."""
    first, second = ledger.host(total=size), ledger.host(total=size)
    consumers = [new_uuid() for _ in range(size)]
    for host, generation in ((first, None), (second, 1)):
        changes = [
            ConsumerChange(consumer, {host: {"VCPU": 1}}, "project", "user", generation, "INSTANCE")
            for consumer in consumers
        ]
        allocation.replace_allocations(ledger.db, AllocationChange(changes))
        assert [ledger.held(consumer) for consumer in consumers] == [{host: 1}] * size


@by_each_driver
def test_any_number_of_names_is_looked_up(ledger: Ledger) -> None:
    """More than SQLite takes parameters: the answer is about the names, on every database."""
    host, consumer = ledger.host(), new_uuid()
    names = [f"CUSTOM_NO_{number}" for number in range(250_001)]
    resources = {"VCPU": 1} | dict.fromkeys(names, 1)
    change = ConsumerChange(consumer, {host: resources}, project="p", user="u")

    with pytest.raises(replacement.ClassMissing, match=r"CUSTOM_NO_0$"):
        allocation.replace_allocations(ledger.db, AllocationChange([change]))

    assert ledger.held(consumer) == {}


@by_each_driver
@pytest.mark.parametrize("place", [0, MOST - 1, MOST, 2 * MOST - 1, 250_000])
def test_each_of_many_names_is_looked_up(ledger: Ledger, place: int) -> None:
    """At either end of what one statement looks up, and in the middle."""
    names = [f"CUSTOM_NO_{number}" for number in range(place)]
    names += ["VCPU", "CUSTOM_NO_MORE"]

    found = ledger.db.snapshot(lambda tx: ledger_rows.read(tx, {"classes": names}))

    assert list(found.classes) == ["VCPU"]


def test_inventory_written_with_nothing_to_give_is_not_over_capacity(ledger: Ledger) -> None:
    """A reshape may reserve more than there is. Nobody made it smaller than what is in use."""
    host = ledger.host()
    generation = resource_provider.show(ledger.db, host).generation
    record = record_from({"total": 1, "reserved": 5})

    reshaper.reshape(ledger.db, Reshape([InventoryChange(host, generation, {"VCPU": record})], []))

    assert [found for found in invariants.check(ledger.db) if found.count] == []

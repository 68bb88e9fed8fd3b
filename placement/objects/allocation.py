"""Allocations: their replacement, removal and listing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from placement import errors
from placement.db import allocation_rows, freshness, writes
from placement.db.allocation_rows import ConsumerAllocation, ProviderAllocation
from placement.db.database import Database, Transaction
from placement.db.ledger_rows import Reading
from placement.db.provider_rows import LockedProvider
from placement.objects import ledger, replacement
from placement.objects.batcher import Batcher
from placement.objects.replacement import ConsumerChange, ConsumerConflict


class NoAllocations(errors.NotFound):
    """The consumer does not have allocations to remove."""

    text = "No allocations for consumer '{uuid}'"
    uuid: str


class AllocationsProviderNotFound(errors.NotFound):
    """The provider whose allocations are requested does not exist."""

    text = "Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found"
    uuid: str


class LedgerMoved(errors.ConcurrentUpdate):
    """Other requests kept changing the objects of this request; repeat it."""

    text = (
        "Inventory and/or allocations changed while attempting to allocate: "
        + ledger.OTHERS_KEPT_CHANGING
    )


@dataclass(frozen=True, slots=True)
class AllocationChange:
    """The change of one request: the new sets of some consumers, in document order.

    :param action: the words for the error of a missing class: what the operation could not do.
    :param is_deletion: the consumers must have allocations, which are removed; the generations of their
        providers do not change.
    """

    consumers: Sequence[ConsumerChange]
    action: str = "Unable to allocate inventory"
    is_deletion: bool = False

    @classmethod
    def of_one(cls, consumer: ConsumerChange) -> "AllocationChange":
        """Return the change that a PUT makes."""
        return cls((consumer,), f"Unable to allocate inventory for consumer {consumer.uuid}:")

    @property
    def is_small(self) -> bool:
        """Whether its write takes so little time that it can share a transaction."""
        held = (resources for each in self.consumers for resources in each.allocations.values())
        return len(self.consumers) <= FEW and sum(map(len, held)) <= FEW_ALLOCATIONS


def replace_allocations(db: Database, change: AllocationChange) -> None:
    """Replace the allocations of every consumer named, all or nothing (specification 03 section 7).

    :raises ConsumerConflict: 409, a consumer has another generation than the one sent
    :raises ProviderMissing: 400
    :raises ClassMissing: 400
    :raises DoesNotFit: 409, no inventory, units, capacity
    :raises LedgerMoved: 409
    :raises OutcomeUnknown: 503, also of a COMMIT that another request shared.
    """
    if not change.is_small:
        _write_alone(db, change)
        return
    batcher = _BATCHERS.setdefault(db, Batcher())
    with batcher.take_turn(change) as mine:
        mine.answer_together(lambda changes: _write_together(db, changes), alone=False)
        if not mine.result():
            _write_alone(db, change)


def _write_alone(db: Database, change: AllocationChange) -> None:
    def write(tx: Transaction) -> None:
        if change.is_deletion:
            remove(tx, change.consumers)
        else:
            replace(tx, change)

    db.write(write, on_conflict=LedgerMoved)


def delete_allocations(db: Database, consumer_uuid: str) -> None:
    """Remove a consumer with all its allocations (specification 03 section 9).

    The generations of the providers do not change.

    :raises NoAllocations: 404, also for allocations without a consumer record
    :raises LedgerMoved: 409
    :raises OutcomeUnknown: 503, also of a COMMIT that another request shared.
    """
    consumer = ConsumerChange(consumer_uuid, {}, project="", user="")
    replace_allocations(db, AllocationChange((consumer,), is_deletion=True))


# -- several requests in one transaction -----------------------------------------------------------

# With 16 clients twice as many a second: docs/performance.rst, "Many clients at once".

_BATCHERS: WeakKeyDictionary[Database, Batcher[AllocationChange, bool]] = WeakKeyDictionary()

FEW, FEW_ALLOCATIONS = 8, 64
"""The most consumers and new allocations of a request that shares a transaction: others would wait long for a
larger one. With two clients that claim 3,000 classes each, the median of small claims was 448 ms when they
shared, and 15 ms now (PostgreSQL, one run).
"""

SHARED_LOCK_S = 0.25
"""How long a shared transaction waits for a lock; MySQL rounds to whole seconds. Then each of its changes is
written alone, so that none waits for a lock that it does not need.
"""


class NotShared(errors.ConcurrentUpdate):
    """A shared transaction lost a race. No client reads this: each change is written alone then."""


def _write_together(
    db: Database, changes: Sequence[AllocationChange]
) -> Sequence[bool | type[errors.OutcomeUnknown]]:
    """Write the changes of several requests in one transaction, as far as they can be written.

    :returns: for each change whether it was written. A change that was not is written alone, which also finds
        the reason if it must be refused.
    :raises NotShared: another transaction was in the way
    :raises PlacementError: the error of one of them
    """
    tried = list(changes)
    while len(tried) > 1:
        sound: list[AllocationChange] = []
        outcome: bool | type[errors.OutcomeUnknown] = True
        try:
            write = partial(_write_sound, changes=tried, sound=sound)
            db.write(write, on_conflict=NotShared, wait_s=SHARED_LOCK_S)
        except replacement.SomeDoNotFit as refused:
            tried = [sound[position] for position in refused.fitting]
            continue
        except errors.OutcomeUnknown:
            # It is only unknown for the changes that the transaction contained.
            outcome = errors.OutcomeUnknown
        shared = set(map(id, sound))
        return [id(change) in shared and outcome for change in changes]
    return [False] * len(changes)


def _write_sound(
    tx: Transaction, changes: Sequence[AllocationChange], sound: list[AllocationChange]
) -> None:
    """Write the changes that nothing but room can refuse, and note them.

    :raises SomeDoNotFit: there is not room for all of these
    """
    reading = ledger.read(tx, _list_consumers(changes))
    sound[:] = _list_sound(tx, changes, reading)
    if not sound:
        return
    parts = [replacement.work_out(change.consumers, reading) for change in sound]
    replaced = replacement.work_out(_list_consumers(sound), reading)
    owners = ledger.take_consumers(tx, replaced, reading)
    providers, inventories = ledger.write_then_lock(tx, replaced, parts)
    # Each request steps its providers by one, as it does alone.
    steps = Counter(
        provider_id
        for change, part in zip(sound, parts, strict=True)
        if not change.is_deletion
        for provider_id in part.named | part.emptied
    )
    writes.finish(tx, ledger.list_outcome(replaced, owners, providers, inventories, steps))


def _list_consumers(changes: Sequence[AllocationChange]) -> list[ConsumerChange]:
    return [consumer for change in changes for consumer in change.consumers]


def _list_sound(
    tx: Transaction, changes: Sequence[AllocationChange], reading: Reading
) -> list[AllocationChange]:
    """Return the changes whose generations and names are right, none with the consumer of an earlier one."""
    sound: list[AllocationChange] = []
    taken: set[str] = set()
    for change in changes:
        uuids = {consumer.uuid for consumer in change.consumers}
        if taken.isdisjoint(uuids):
            try:
                _require_sound(tx, change, reading)
            except errors.PlacementError:
                continue
            sound.append(change)
            taken |= uuids
    return sound


# -- one request ------------------------------------------------------------------------------------


def replace(tx: Transaction, change: AllocationChange) -> None:
    """Replace the allocations of every named consumer; raises as :func:`replace_allocations`."""
    with_stock = ledger.is_everyday(tx, change.consumers)
    reading = ledger.read(tx, change.consumers, with_stock=with_stock)
    _require_sound(tx, change, reading)
    replaced = replacement.work_out(change.consumers, reading)

    owners = ledger.take_consumers(tx, replaced, reading)
    if ledger.try_claim(tx, replaced, owners, reading):
        return
    providers, inventories = ledger.write_then_lock(tx, replaced)
    writes.finish(tx, ledger.list_outcome(replaced, owners, providers, inventories))


def _require_sound(tx: Transaction, change: AllocationChange, reading: Reading) -> None:
    """Check everything but the room; raises as :func:`replace_allocations`.

    :raises NoAllocations: 404, for a deletion
    """
    if change.is_deletion:
        _require_held(change.consumers, reading)
        return
    replacement.require_sound(change.consumers, reading, change.action)
    _require_unexpired(tx, change.consumers)


def _require_held(changes: Sequence[ConsumerChange], reading: Reading) -> None:
    for change in changes:
        if not (reading.consumers.get(change.uuid) and reading.allocations.get(change.uuid)):
            raise NoAllocations(uuid=change.uuid)


def _require_unexpired(tx: Transaction, changes: Sequence[ConsumerChange]) -> None:
    """Check that no consumer passes expired allocations to others.

    :raises ConsumerConflict: 409, as if the expired allocations had been removed already (specification 10
        section 5)
    """
    leaving = {change.uuid: change.generation for change in changes if not change.allocations}
    # A consumer that only leaves does not need room.
    if not leaving or len(leaving) == len(changes):
        return
    for expiry in freshness.list_expiries():
        for generation in expiry.find_expired(tx, leaving).values():
            raise ConsumerConflict(expected="null", given=generation)


def remove(
    tx: Transaction, changes: Sequence[ConsumerChange], *, may_be_empty: bool = False
) -> Mapping[int, LockedProvider]:
    """Remove these consumers, whose changes are empty; raises as :func:`delete_allocations`.

    :returns: their former providers, by id.
    """
    reading = ledger.read(tx, changes)
    if not may_be_empty:
        _require_held(changes, reading)
    replacement.require_generations(changes, reading)
    replaced = replacement.work_out(changes, reading)

    owners = ledger.take_consumers(tx, replaced, reading)
    providers, inventories = ledger.write_then_lock(tx, replaced)
    writes.finish(tx, ledger.list_outcome(replaced, owners, providers, inventories, steps={}))
    return providers


def consumer_allocations(db: Database, consumer_uuid: str) -> list[ConsumerAllocation]:
    """Return the allocations of a consumer, empty for an unknown one (specification 03 section 4)."""
    return db.read(lambda reader: allocation_rows.of_consumer(reader, consumer_uuid))


def provider_allocations(db: Database, provider_uuid: str) -> tuple[int, list[ProviderAllocation]]:
    """Return the generation of a provider and its allocations (specification 03 section 5).

    :raises AllocationsProviderNotFound: 404
    """
    rows = db.read(lambda reader: allocation_rows.of_provider(reader, provider_uuid))
    if not rows:
        raise AllocationsProviderNotFound(uuid=provider_uuid)
    # Rows without a consumer record, or of a class that no longer exists, are not shown.
    shown = [row for row in rows if None not in (row.consumer_uuid, row.class_name)]
    return rows[0].provider_generation, shown

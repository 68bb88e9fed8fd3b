"""Allocations: their replacement, removal and listing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement import errors
from placement.db import allocation_rows, freshness, writes
from placement.db.allocation_rows import ConsumerAllocation, ProviderAllocation
from placement.db.database import Database, Transaction
from placement.db.provider_rows import LockedProvider
from placement.objects import ledger, replacement
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
    """The new sets of some consumers, in document order.

    :param action: the words for the error of a missing class: what the operation could not do.
    """

    consumers: Sequence[ConsumerChange]
    action: str = "Unable to allocate inventory"

    @classmethod
    def of_one(cls, consumer: ConsumerChange) -> "AllocationChange":
        """Return the change that a PUT makes."""
        return cls((consumer,), f"Unable to allocate inventory for consumer {consumer.uuid}:")


def replace_allocations(db: Database, change: AllocationChange) -> None:
    """Replace the allocations of every consumer named, all or nothing (specification 03 section 7).

    :raises ConsumerConflict: 409, a consumer has another generation than the one sent
    :raises ProviderMissing: 400
    :raises ClassMissing: 400
    :raises DoesNotFit: 409, no inventory, units, capacity
    :raises LedgerMoved: 409
    """
    db.write(lambda tx: replace(tx, change), on_conflict=LedgerMoved)


def replace(tx: Transaction, change: AllocationChange) -> None:
    """Replace the allocations of every named consumer; raises as :func:`replace_allocations`."""
    with_stock = ledger.is_everyday(tx, change.consumers)
    reading = ledger.read(tx, change.consumers, with_stock=with_stock)
    replacement.require_sound(change.consumers, reading, change.action)
    _require_unexpired(tx, change.consumers)
    replaced = replacement.work_out(change.consumers, reading)

    owners = ledger.take_consumers(tx, replaced, reading)
    if ledger.try_claim(tx, replaced, owners, reading):
        return
    providers, inventories = ledger.write_then_lock(tx, replaced)
    writes.finish(tx, ledger.list_outcome(replaced, owners, providers, inventories))


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


def delete_allocations(db: Database, consumer_uuid: str) -> None:
    """Remove a consumer with all its allocations (specification 03 section 9).

    The generations of the providers do not change.

    :raises NoAllocations: 404, also for allocations without a consumer record
    :raises LedgerMoved: 409
    """
    change = ConsumerChange(consumer_uuid, {}, project="", user="")
    db.write(lambda tx: remove(tx, (change,)), on_conflict=LedgerMoved)


def remove(
    tx: Transaction, changes: Sequence[ConsumerChange], *, may_be_empty: bool = False
) -> Mapping[int, LockedProvider]:
    """Remove these consumers, whose changes are empty; raises as :func:`delete_allocations`.

    :returns: their former providers, by id.
    """
    reading = ledger.read(tx, changes)
    for change in changes:
        held = reading.consumers.get(change.uuid) and reading.allocations.get(change.uuid)
        if not held and not may_be_empty:
            raise NoAllocations(uuid=change.uuid)
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

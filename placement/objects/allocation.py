"""Allocations: replace the sets of some consumers, remove one, list them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement import errors
from placement.db import allocation_rows
from placement.db.allocation_rows import ConsumerAllocation, ProviderAllocation
from placement.db.database import Database, Transaction
from placement.objects import claim, ledger
from placement.objects.consumer import (
    ANY_GENERATION,
    Consumer,
    ConsumerChange,
    SentGeneration,
)


class UnknownClass(errors.BadRequest):
    """An allocation is of a resource class that does not exist."""

    text = "Unable to allocate inventory No such resource class {name}"
    name: str


class UnknownClassOfConsumer(errors.BadRequest):
    """The allocations of the one consumer of a PUT have a resource class that does not exist."""

    text = "Unable to allocate inventory for consumer {consumer}: No such resource class {name}"
    consumer: str
    name: str


class NoAllocations(errors.NotFound):
    """There is nothing to remove."""

    text = "No allocations for consumer '{uuid}'"
    uuid: str


class ProviderNotFound(errors.NotFound):
    """The provider whose allocations are asked for does not exist."""

    text = "Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found"
    uuid: str


class LedgerMoved(errors.ConcurrentUpdate):
    """Others kept changing what the request was about; repeating it is the right thing to do."""

    text = (
        "Inventory and/or allocations changed while attempting to allocate: "
        + ledger.OTHERS_KEPT_CHANGING
    )


@dataclass(frozen=True, slots=True)
class AllocationChange:
    """The new sets of some consumers, in document order.

    :param unknown_class: makes the error for a class that does not exist.
    """

    consumers: Sequence[ConsumerChange]
    unknown_class: Callable[[str], errors.BadRequest] = lambda name: UnknownClass(name=name)

    @classmethod
    def of_one(cls, consumer: ConsumerChange) -> "AllocationChange":
        """Return the change that a PUT makes."""
        return cls(
            (consumer,),
            lambda name: UnknownClassOfConsumer(consumer=consumer.uuid, name=name),
        )


def replace_allocations(db: Database, change: AllocationChange) -> None:
    """Replace the allocations of every consumer named, all or nothing (specification 03 section 7).

    :raises ConsumerConflict: 409, a consumer is not of the generation sent
    :raises ProviderMissing: 400
    :raises BadRequest: 400, a class does not exist
    :raises DoesNotFit: 409, no inventory, units, capacity
    :raises LedgerMoved: 409
    """
    db.write(lambda tx: _replace(tx, change), on_conflict=LedgerMoved)


def _replace(tx: Transaction, change: AllocationChange) -> None:
    with_stock = claim.is_likely(tx, change.consumers)
    reading = ledger.read(tx, change.consumers, with_stock=with_stock)
    consumers = ledger.checked_consumers(change.consumers, reading)
    ledger.require_providers(change.consumers, reading)
    unknown = ledger.unknown_class(change.consumers, reading)
    if unknown is not None:
        raise change.unknown_class(unknown)
    replaced = ledger.replacement(change.consumers, consumers, reading)

    owners = ledger.take_consumers(tx, replaced, reading)
    if claim.is_written(tx, replaced, owners, reading):
        return
    providers, inventories = ledger.write_then_hold(tx, replaced)
    stepped = {1: [providers[id_] for id_ in replaced.named | replaced.emptied]}
    ledger.close(tx, replaced, owners, inventories, stepped=stepped, touched=replaced.left)


def delete_allocations(
    db: Database, consumer_uuid: str, generation: SentGeneration = ANY_GENERATION
) -> None:
    """Remove a consumer with all its allocations (specification 03 section 9).

    The generations of the providers stay as they are.

    :param generation: the only one of which it is removed; clients of the API cannot send it.
    :raises NoAllocations: 404, also for allocations that have no consumer record
    :raises ConsumerConflict: 409, the consumer is of another generation
    :raises LedgerMoved: 409
    """
    change = ConsumerChange(consumer_uuid, {}, project="", user="", generation=generation)
    db.write(lambda tx: _delete(tx, change), on_conflict=LedgerMoved)


def _delete(tx: Transaction, change: ConsumerChange) -> None:
    reading = ledger.read(tx, (change,))
    consumer = Consumer.of(change.uuid, reading)
    if consumer.record is None or not consumer.held:
        raise NoAllocations(uuid=change.uuid)
    consumer.require(change)
    replaced = ledger.replacement((change,), {change.uuid: consumer}, reading)

    owners = ledger.take_consumers(tx, replaced, reading)
    _, inventories = ledger.write_then_hold(tx, replaced)
    ledger.close(tx, replaced, owners, inventories, stepped={}, touched=replaced.emptied)


def consumer_allocations(db: Database, consumer_uuid: str) -> list[ConsumerAllocation]:
    """Return the allocations of a consumer, none for an unknown one (specification 03 section 4)."""
    return db.read(lambda reader: allocation_rows.of_consumer(reader, consumer_uuid))


def provider_allocations(db: Database, provider_uuid: str) -> tuple[int, list[ProviderAllocation]]:
    """Return the generation of a provider and its allocations (specification 03 section 5).

    :raises ProviderNotFound: 404
    """
    rows = db.read(lambda reader: allocation_rows.of_provider(reader, provider_uuid))
    if not rows:
        raise ProviderNotFound(uuid=provider_uuid)
    return rows[0].provider_generation, [row for row in rows if row.consumer_uuid is not None]

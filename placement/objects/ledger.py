"""The one way of writing allocations: a replacement, worked out from one reading and then written.

PUT, POST, DELETE and the reshaper are faces of it. Inside one transaction: read what the request
names, check it, take the consumers (by creating, stepping or removing their records), write their
allocations, lock the providers in id order with their inventories, check room, move counters and
generations. All that concerns consumers alone comes before the providers, so that a host on which
many claims wait is held only for what needs it; a claim for which there is no room is rolled back.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from placement import errors
from placement.db import (
    allocation_rows,
    closing,
    consumer_rows,
    inventory_rows,
    ledger_rows,
    named_rows,
    provider_rows,
)
from placement.db.closing import Closing
from placement.db.consumer_rows import Owner
from placement.db.database import StaleRead, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.ledger_rows import AllocationRow, ConsumerRow, Reading
from placement.db.owner_usage_rows import CONSUMERS, NO_TYPE, Account
from placement.db.provider_rows import LockedProvider
from placement.limits import MAX_INT
from placement.objects import capacity, coexistence
from placement.objects.capacity import Demand, InventoryKey
from placement.objects.consumer import Consumer, ConsumerChange

OTHERS_KEPT_CHANGING = "other requests kept changing the same providers or consumers"

NOTHING: Mapping[InventoryKey, int] = MappingProxyType({})


class ProviderMissing(errors.BadRequest):
    """An allocation names a provider that does not exist."""

    text = "Allocation for resource provider '{uuid}' that does not exist."
    uuid: str


def read(
    tx: Transaction,
    changes: Sequence[ConsumerChange],
    *,
    providers: Collection[str] = (),
    classes: Collection[str] = (),
    with_stock: bool = False,
) -> Reading:
    """Return everything the changes name, and the further providers and classes.

    The first attempt need not wait for others that write the same consumers: what it takes next it
    takes by compare-and-set. A later one does, so that of many writers of one consumer each has its
    turn.

    :param with_stock: also what the one provider has that they name, as it is without a lock.
    """
    held = sum(change.generation is not None for change in changes)
    if held > 1 or (tx.attempt > 1 and changes):
        # More than one record may be taken: all of them are, in one order.
        consumer_rows.lock(tx, [change.uuid for change in changes])
    filled = [change for change in changes if change.allocations]
    return ledger_rows.read(
        tx,
        {
            "consumers": [change.uuid for change in changes],
            "projects": [change.project for change in filled],
            "users": [change.user for change in filled],
            "types": [change.type for change in filled if change.type is not None],
            "providers": [*providers, *(uuid for c in filled for uuid in c.allocations)],
            "classes": [
                *classes,
                *(name for c in filled for held in c.allocations.values() for name in held),
            ],
        },
        with_stock=with_stock,
    )


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a request does to the ledger.

    ``demands``: the new allocations in document order; ``removed``: the old ones;
    ``named`` and ``emptied``: ids of the providers whose generation the request steps, because it
    names them or because a consumer that sends an empty set leaves them; ``left``: ids of those
    that merely lose a consumer.
    """

    changes: Sequence[ConsumerChange]
    consumers: Mapping[str, Consumer]
    demands: Sequence[Demand]
    removed: Sequence[AllocationRow]
    freed: Mapping[InventoryKey, int]
    named: frozenset[int]
    emptied: frozenset[int]
    left: frozenset[int]

    @property
    def provider_ids(self) -> frozenset[int]:
        """Every provider whose usage the request may change."""
        return self.named | self.emptied | self.left

    def used_changes(self) -> dict[InventoryKey, int]:
        """Return how much the usage of each place changes."""
        changes = defaultdict(int, {place: -amount for place, amount in self.freed.items()})
        for demand in self.demands:
            changes[demand.key] += demand.amount
        return changes


def checked_consumers(changes: Sequence[ConsumerChange], reading: Reading) -> dict[str, Consumer]:
    """Return the consumers, all of which are of the generation that was sent.

    :raises ConsumerConflict: 409, for the first that is not
    """
    consumers = {change.uuid: Consumer.of(change.uuid, reading) for change in changes}
    for change in changes:
        consumers[change.uuid].require(change)
    return consumers


def require_providers(changes: Sequence[ConsumerChange], reading: Reading) -> None:
    """Check that every provider named in the changes exists.

    :raises ProviderMissing: 400, for the first that does not
    """
    for change in changes:
        for uuid in change.allocations:
            if uuid not in reading.providers:
                raise ProviderMissing(uuid=uuid)


def unknown_class(changes: Sequence[ConsumerChange], reading: Reading) -> str | None:
    """Return the first class named in the changes that does not exist, or None."""
    names = (n for change in changes for held in change.allocations.values() for n in held)
    return next((name for name in names if name not in reading.classes), None)


def replacement(
    changes: Sequence[ConsumerChange], consumers: Mapping[str, Consumer], reading: Reading
) -> Replacement:
    """Work out what the changes, whose names all exist, do to the ledger."""
    demands = [
        Demand(
            change.uuid,
            (reading.providers[provider_uuid], reading.classes[class_name]),
            provider_uuid,
            class_name,
            amount,
        )
        for change in changes
        for provider_uuid, resources in change.allocations.items()
        for class_name, amount in resources.items()
    ]
    removed = [row for consumer in consumers.values() for row in consumer.held]
    named = frozenset(demand.key[0] for demand in demands)
    emptied = frozenset(
        row.provider_id
        for change in changes
        if not change.allocations
        for row in consumers[change.uuid].held
    )
    held = frozenset(row.provider_id for row in removed)
    freed: dict[InventoryKey, int] = defaultdict(int)
    for row in removed:
        freed[row.provider_id, row.class_id] += row.used
    return Replacement(
        changes, consumers, demands, removed, freed, named, emptied, held - named - emptied
    )


def take_consumers(tx: Transaction, replaced: Replacement, reading: Reading) -> Mapping[str, Owner]:
    """Create, step or remove the consumers' records; the transaction has them from here on.

    :returns: the owners of those that will hold something, by consumer uuid.
    :raises StaleRead: one of them, and so perhaps its allocations, is not as it was read.
    """
    filled = [change for change in replaced.changes if change.allocations]
    owners = _owners(tx, filled, replaced.consumers, reading)
    records: dict[str, ConsumerRow] = {
        uuid: consumer.record
        for uuid, consumer in replaced.consumers.items()
        if consumer.record is not None
    }
    consumer_rows.create(tx, {uuid: o for uuid, o in owners.items() if uuid not in records})
    consumer_rows.step(tx, [records[uuid] for uuid in owners if uuid in records])
    consumer_rows.hand_over(
        tx,
        {
            records[uuid].id: owner
            for uuid, owner in owners.items()
            if uuid in records and owner != _owner_of(records[uuid])
        },
    )
    consumer_rows.remove(tx, [row for uuid, row in records.items() if uuid not in owners])
    return owners


def _owner_of(record: ConsumerRow) -> Owner:
    return Owner(record.project_id, record.user_id, record.type_id)


def _owners(
    tx: Transaction,
    filled: Sequence[ConsumerChange],
    consumers: Mapping[str, Consumer],
    reading: Reading,
) -> dict[str, Owner]:
    """Return the owners of the consumers that will hold something; new names get their record."""
    projects = _with_missing(tx, named_rows.PROJECTS, reading.projects, [c.project for c in filled])
    users = _with_missing(tx, named_rows.USERS, reading.users, [c.user for c in filled])
    names = [change.type for change in filled if change.type is not None]
    types = _with_missing(tx, named_rows.TYPES, reading.types, names)

    def type_id(change: ConsumerChange) -> int | None:
        record = consumers[change.uuid].record
        if change.type is not None:
            return types[change.type]
        return record.type_id if record is not None else None

    return {
        change.uuid: Owner(projects[change.project], users[change.user], type_id(change))
        for change in filled
    }


def _with_missing(
    tx: Transaction, key: Any, known: Mapping[str, int], names: Collection[str]
) -> Mapping[str, int]:
    missing = {name for name in names if name not in known}
    return {**known, **named_rows.create(tx, key, missing)} if missing else known


def lock_providers(tx: Transaction, ids: Collection[int]) -> dict[int, LockedProvider]:
    """Lock the providers, which were all there when they were read, and return them by id.

    :raises StaleRead: one of them was deleted meanwhile.
    """
    locked = {row.id: row for row in provider_rows.lock(tx, (), ids).values()}
    if len(locked) != len(ids):
        raise StaleRead("a provider was deleted meanwhile")
    return locked


def lock_inventories(
    tx: Transaction,
    providers: Mapping[int, LockedProvider],
    written: Mapping[InventoryKey, int] = NOTHING,
) -> dict[InventoryKey, InventoryRow]:
    """Return the inventories of locked providers, with what is really used of them."""
    inventories = capacity.by_key(inventory_rows.lock_of(tx, providers))
    return coexistence.counted(tx, providers.values(), inventories, written)


def hold_places(
    tx: Transaction, replaced: Replacement, written: Mapping[InventoryKey, int] = NOTHING
) -> tuple[dict[int, LockedProvider], dict[InventoryKey, InventoryRow]]:
    """Lock the providers with their inventories, and check that there is room.

    :param written: by how much the transaction has changed the ledger already.
    :returns: providers by id, inventory records by place.
    :raises DoesNotFit: 409, one of its kinds
    :raises StaleRead: a provider was deleted meanwhile.
    """
    providers, records = ledger_rows.hold(tx, replaced.provider_ids)
    inventories = coexistence.counted(tx, providers.values(), capacity.by_key(records), written)
    whole = (
        providers.keys() == replaced.provider_ids and replaced.freed.keys() <= inventories.keys()
    )
    if whole and capacity.has_room(replaced.demands, inventories, replaced.freed):
        return providers, inventories
    # Something may be missing that is there: look again now that the providers are locked.
    providers = lock_providers(tx, replaced.provider_ids)
    inventories = lock_inventories(tx, providers, written)
    capacity.require_room(replaced.demands, inventories, replaced.freed)
    return providers, inventories


def write_then_hold(
    tx: Transaction, replaced: Replacement
) -> tuple[dict[int, LockedProvider], dict[InventoryKey, InventoryRow]]:
    """Write the allocations, then lock their places and check that there is room.

    In this order the providers are held for less; a refusal takes back what was written.

    :returns: as :func:`hold_places`, which also says what is raised.
    """
    if any(demand.amount > MAX_INT for demand in replaced.demands):
        # No column could take it, but neither can an inventory: this refuses the right allocation.
        hold_places(tx, replaced)
    write_allocations(tx, replaced)
    return hold_places(tx, replaced, replaced.used_changes())


def write_allocations(tx: Transaction, replaced: Replacement) -> None:
    """Put the new allocations in the place of the old ones.

    :raises StaleRead: an old one is not there any more.
    """
    allocation_rows.delete_all(tx, [row.id for row in replaced.removed])
    allocation_rows.insert_all(
        tx, [(new.consumer_uuid, *new.key, new.amount) for new in replaced.demands]
    )


def _counter_changes(
    replaced: Replacement, inventories: Mapping[InventoryKey, InventoryRow]
) -> list[tuple[InventoryRow, int]]:
    """Return by how much which counters change."""
    return [
        (inventories[place], amount)
        for place, amount in replaced.used_changes().items()
        # A database that was taken over may hold allocations without inventory.
        if amount and place in inventories
    ]


def owed(replaced: Replacement, owners: Mapping[str, Owner]) -> dict[Account, int]:
    """Return how much what owners use changes."""
    changes: dict[Account, int] = defaultdict(int)
    for consumer in replaced.consumers.values():
        # Allocations without a record are nobody's.
        if consumer.record is not None and consumer.held:
            before = _owner_of(consumer.record)
            changes[_account(before, CONSUMERS)] -= 1
            for row in consumer.held:
                changes[_account(before, row.class_id)] -= row.used
    for owner in owners.values():
        changes[_account(owner, CONSUMERS)] += 1
    for demand in replaced.demands:
        changes[_account(owners[demand.consumer_uuid], demand.key[1])] += demand.amount
    return changes


def close(
    tx: Transaction,
    replaced: Replacement,
    owners: Mapping[str, Owner],
    inventories: Mapping[InventoryKey, InventoryRow],
    *,
    stepped: Mapping[int, Collection[LockedProvider]],
    touched: Collection[int],
) -> None:
    """Keep counters and sums equal to the ledger, and step the providers; the end of a write.

    :param owners: of the consumers that hold something now.
    :param stepped: by the number of steps, providers whose generation is stepped; their revision
        is as well.
    :param touched: ids of those whose revision alone is.
    :raises StaleRead: a provider's generation is not the one that was read.
    """
    moved = _counter_changes(replaced, inventories)
    closing.close(tx, Closing(moved, stepped, touched, owed(replaced, owners)))


def _account(owner: Owner, class_id: int) -> Account:
    return Account(owner.project_id, owner.user_id, owner.type_id or NO_TYPE, class_id)

"""The reshape: inventories of some providers and allocations of some consumers at once.

Contract 05 part A. Clients move resources that are in use between providers or classes with it; no
other request sees the states between.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from placement import errors
from placement.db import allocation_rows, class_rows, inventory_rows, provider_rows
from placement.db.api import Database, StaleRead, Transaction
from placement.db.inventory_rows import InventoryRow, Record
from placement.db.ledger_rows import Reading
from placement.db.provider_rows import LockedProvider
from placement.objects import capacity, ledger
from placement.objects.capacity import Place
from placement.objects.consumer import ConsumerChange
from placement.objects.ledger import Replacement


class ListedProviderMissing(errors.BadRequest):
    """The request has inventories for a provider that does not exist."""

    code = "placement.resource_provider.not_found"
    text = "Resource provider {uuid} in inventories not found"


class ListedProviderMoved(errors.ConcurrentUpdate):
    """A provider with new inventories is not of the generation the client sent."""

    text = (
        "resource provider generation conflict for provider {uuid}: "
        "actual: {actual}, given: {given}"
    )


class UnknownClass(errors.BadRequest):
    """An inventory or an allocation is of a resource class that does not exist."""

    text = "malformed reshaper data: No such resource class {name}"


class InventoryInUse(errors.Conflict):
    """A class that the reshape takes from a provider still has allocations there."""

    code = "placement.inventory.inuse"
    text = "update conflict: Inventory for '{classes}' on resource provider '{provider}' in use."


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """The new and whole inventory of one provider; an empty one removes all of it.

    :param generation: the one the client read, binding until the reshape is committed.
    :param records: by resource class name.
    """

    provider_uuid: str
    generation: int
    records: Mapping[str, Record]


@dataclass(frozen=True, slots=True)
class Reshape:
    """What a client wants to be so at once; both parts in document order."""

    inventories: Sequence[InventoryChange]
    consumers: Sequence[ConsumerChange]


def reshape(db: Database, change: Reshape) -> None:
    """Replace inventories and allocations, all or nothing.

    :raises ListedProviderMissing: 400
    :raises ListedProviderMoved: 409
    :raises ConsumerConflict: 409
    :raises ProviderMissing: 400
    :raises UnknownClass: 400
    :raises DoesNotFit: 409
    :raises InventoryInUse: 409
    :raises ConcurrentUpdate: 409
    """
    attempts = itertools.count()
    db.write(
        lambda tx: _reshape(tx, change, queue=next(attempts) > 0),
        on_conflict=lambda: errors.ConcurrentUpdate(
            detail="other requests kept changing the same providers or consumers"
        ),
    )


def _reshape(tx: Transaction, change: Reshape, queue: bool) -> None:
    reading = ledger.read(
        tx,
        change.consumers,
        queue=queue,
        providers=[listed.provider_uuid for listed in change.inventories],
        classes=[name for listed in change.inventories for name in listed.records],
    )
    replaced = _checked(change, reading)
    listed = {reading.providers[each.provider_uuid]: each for each in change.inventories}

    owners = ledger.take_consumers(tx, replaced, reading)
    providers = ledger.lock_providers(tx, replaced.provider_ids | listed.keys())
    for provider_id, each in listed.items():
        _require_generation(each, providers[provider_id].generation)
    before = capacity.by_place(inventory_rows.lock_of(tx, providers))
    wanted = _wanted(listed, reading)
    _hold_classes(tx, [place for place in wanted if place not in before], reading)
    capacity.require_room(replaced.demands, _intermediate(before, wanted), replaced.freed)

    ledger.write_allocations(tx, replaced)
    removed = {place for place in before if place[0] in listed and place not in wanted}
    _require_unused(tx, removed, before, listed)
    _write_inventories(tx, before, wanted, removed, replaced)
    _bump(tx, providers, listed, replaced)
    provider_rows.touch(tx, replaced.left - listed.keys())
    ledger.move_owner_usages(tx, replaced, owners)


def _checked(change: Reshape, reading: Reading) -> Replacement:
    """Go through the checks that need no lock, in the order of contract 05 section A4."""
    for listed in change.inventories:
        if listed.provider_uuid not in reading.providers:
            raise ListedProviderMissing(uuid=listed.provider_uuid)
        _require_generation(listed, reading.provider_generations[listed.provider_uuid])
    consumers = ledger.checked_consumers(change.consumers, reading)
    ledger.require_providers(change.consumers, reading)
    stocked = (name for listed in change.inventories for name in listed.records)
    unknown = next((name for name in stocked if name not in reading.classes), None)
    if unknown is None:
        unknown = ledger.unknown_class(change.consumers, reading)
    if unknown is not None:
        raise UnknownClass(name=unknown)
    return ledger.replacement(change.consumers, consumers, reading)


def _require_generation(listed: InventoryChange, actual: int) -> None:
    if listed.generation != actual:
        raise ListedProviderMoved(uuid=listed.provider_uuid, actual=actual, given=listed.generation)


def _wanted(listed: Mapping[int, InventoryChange], reading: Reading) -> dict[Place, Record]:
    """Return the records that the listed providers shall have."""
    return {
        (provider_id, reading.classes[name]): record
        for provider_id, each in listed.items()
        for name, record in each.records.items()
    }


def _hold_classes(tx: Transaction, added: Sequence[Place], reading: Reading) -> None:
    """Keep the classes of new records from going: no foreign key guards them.

    :raises StaleRead: one of them was deleted or renamed since it was read.
    """
    added_ids = {class_id for _, class_id in added}
    names = {
        name: id_
        for name, id_ in reading.classes.items()
        if id_ in added_ids and name.startswith(class_rows.CUSTOM_PREFIX)
    }
    if class_rows.hold(tx, names) != names:
        raise StaleRead("a resource class was deleted meanwhile")


def _intermediate(
    before: Mapping[Place, InventoryRow], wanted: Mapping[Place, Record]
) -> dict[Place, InventoryRow]:
    """Return the inventories against which the allocations are judged (contract 05 section A5).

    What is new counts already, and what shall go counts still.
    """
    merged = dict(before)
    for place, record in wanted.items():
        # Id and name of a row that does not exist yet are looked at by nobody.
        row = before.get(place) or InventoryRow(0, *place, "", 0, 0, 0, 0, 0, 0.0, used=0)
        merged[place] = replace(row, **record._asdict())
    return merged


def _require_unused(
    tx: Transaction,
    removed: set[Place],
    before: Mapping[Place, InventoryRow],
    listed: Mapping[int, InventoryChange],
) -> None:
    used = allocation_rows.in_use(tx, removed)
    for provider_id, each in listed.items():
        class_ids = sorted(place[1] for place in used if place[0] == provider_id)
        if class_ids:
            names = (before[provider_id, class_id].class_name for class_id in class_ids)
            raise InventoryInUse(classes=", ".join(names), provider=each.provider_uuid)


def _write_inventories(
    tx: Transaction,
    before: Mapping[Place, InventoryRow],
    wanted: Mapping[Place, Record],
    removed: set[Place],
    replaced: Replacement,
) -> None:
    inventory_rows.delete_records(tx, [before[place].id for place in removed])
    inventory_rows.update_records(
        tx, {before[place].id: record for place, record in wanted.items() if place in before}
    )
    ledger.move_used(tx, replaced, {p: row for p, row in before.items() if p not in removed})
    added = [(*place, record) for place, record in wanted.items() if place not in before]
    inventory_rows.insert_records(tx, added, replaced.used_changes())


def _bump(
    tx: Transaction,
    providers: Mapping[int, LockedProvider],
    listed: Mapping[int, InventoryChange],
    replaced: Replacement,
) -> None:
    """Step the generations as contract 05 section A6 counts: by one to three."""
    steps: dict[int, int] = defaultdict(int)
    for provider_id, each in listed.items():
        steps[provider_id] += 2 if each.records else 1
    for provider_id in replaced.named | replaced.emptied:
        steps[provider_id] += 1
    for count in sorted(set(steps.values())):
        stepped = [providers[id_] for id_ in sorted(steps) if steps[id_] == count]
        provider_rows.bump(tx, stepped, count)

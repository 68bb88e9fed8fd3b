"""The reshape: inventories of some providers and allocations of some consumers at once.

Specification 05 part A. With a reshape, clients move resources in use between providers or classes; no other
request sees an intermediate state.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import os_resource_classes

from placement import errors
from placement.db import allocation_rows, class_rows, inventory_rows, writes
from placement.db.database import Database, StaleRead, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.ledger_rows import Reading
from placement.inventory_record import InventoryRecord
from placement.objects import ledger, replacement
from placement.objects.inventory import UPDATE_CONFLICT, InventoryInUse
from placement.objects.replacement import ConsumerChange, InventoryKey, Replacement


class ListedProviderMissing(errors.BadRequest):
    """The request has inventories of a provider that does not exist."""

    code = "placement.resource_provider.not_found"
    reason = "unknown_provider"
    about = "uuid"
    text = "Resource provider {uuid} in inventories not found"
    uuid: str


class ListedProviderMoved(errors.ConcurrentUpdate):
    """A provider with new inventories has another generation than the one the client sent."""

    reason = "provider_generation"
    retry = errors.Retry.AFTER_READING
    text = (
        "resource provider generation conflict for provider {uuid}: "
        "actual: {actual}, given: {given}"
    )
    uuid: str
    actual: int
    given: int


class ReshapeOvertaken(errors.ConcurrentUpdate):
    """Other requests kept changing the objects of the reshape, which has to be planned again."""

    text = f"update conflict: {ledger.OTHERS_KEPT_CHANGING}"


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """The new and whole inventory of one provider; an empty one removes all of it.

    :param generation: the generation that the client read, which must hold until the commit.
    :param records: by resource class name.
    """

    provider_uuid: str
    generation: int
    records: Mapping[str, InventoryRecord]


@dataclass(frozen=True, slots=True)
class Reshape:
    """The inventories and allocations that a client sets at once; both in document order.

    :param seen: tag of the inventories that the client read (``tag_of``). While the inventories match the
        tag, the generations may differ, since only allocations have changed.
    """

    inventories: Sequence[InventoryChange]
    consumers: Sequence[ConsumerChange]
    seen: str | None = None


def reshape(db: Database, change: Reshape) -> None:
    """Replace inventories and allocations, all or nothing.

    :raises ListedProviderMissing: 400
    :raises ListedProviderMoved: 409
    :raises ConsumerConflict: 409
    :raises ProviderMissing: 400
    :raises ClassMissing: 400
    :raises DoesNotFit: 409
    :raises InventoryInUse: 409
    :raises ReshapeOvertaken: 409
    """
    db.write(lambda tx: _reshape(tx, change), on_conflict=ReshapeOvertaken)


def _reshape(tx: Transaction, change: Reshape) -> None:
    reading = ledger.read(
        tx,
        change.consumers,
        providers=[listed.provider_uuid for listed in change.inventories],
        classes=[name for listed in change.inventories for name in listed.records],
    )
    _require_sound(change, reading)
    replaced = replacement.work_out(change.consumers, reading)
    listed = {reading.providers[each.provider_uuid]: each for each in change.inventories}

    owners = ledger.take_consumers(tx, replaced, reading)
    named = replaced.named | listed.keys()
    providers = ledger.lock_providers(tx, named, replaced.provider_ids)
    before = ledger.lock_inventories(tx, providers)
    # No answer shows a record whose class no longer exists, so no client can mean it.
    shown = {place: row for place, row in before.items() if row.class_name}
    # The tag is compared under the locks, so it holds until the commit. A claim on the provider steps its
    # generation, so without the tag an agent on a busy host would never succeed (05 section A8).
    if change.seen is None or change.seen != tag_of(listed, shown):
        for provider_id, each in listed.items():
            _require_generation(each, providers[provider_id].generation)
    writes.take(tx, providers=[each.provider_uuid for each in change.inventories])
    wanted = {
        (provider_id, reading.classes[name]): record
        for provider_id, each in listed.items()
        for name, record in each.records.items()
    }
    # Allocations of older software without an inventory count as usage from the beginning.
    added = [place for place in wanted if place not in before]
    _hold_classes(tx, added, reading)
    left = allocation_rows.sums(tx, {provider_id for provider_id, _ in added})
    replacement.require_room(replaced.added, _merge_inventories(before, wanted, left), replaced.freed)

    ledger.write_allocations(tx, replaced)
    # The check follows the write of the allocations, so that places emptied by the request no longer count as
    # used.
    removed = {place for place in shown if place[0] in listed and place not in wanted}
    _require_unused(tx, removed, before, listed)
    changes = replaced.used_changes()
    used = {place: left.get(place, 0) + changes.get(place, 0) for place in added}
    _write_inventories(tx, before, wanted, removed, used)
    kept = {place: row for place, row in before.items() if place not in removed}
    steps = _count_steps(listed, replaced)
    outcome = ledger.list_outcome(replaced, owners, providers, kept, steps)
    writes.finish(tx, replace(outcome, usage_only=False))


def _require_sound(change: Reshape, reading: Reading) -> None:
    """Make the checks that do not need locks, in the order of specification 05 section A4."""
    for listed in change.inventories:
        if listed.provider_uuid not in reading.providers:
            raise ListedProviderMissing(uuid=listed.provider_uuid)
        # With a tag the generation is checked later, and only if the tag does not match.
        if change.seen is None:
            _require_generation(listed, reading.provider_generations[listed.provider_uuid])
    replacement.require_generations(change.consumers, reading)
    replacement.require_providers(change.consumers, reading)
    names = (
        *(name for listed in change.inventories for name in listed.records),
        *(n for each in change.consumers for held in each.allocations.values() for n in held),
    )
    replacement.require_classes(names, reading, "malformed reshaper data:")


def tag_of(listed: Mapping[int, InventoryChange], rows: Mapping[InventoryKey, InventoryRow]) -> str:
    """Return the tag of the listed providers' inventories (specification 05 section A8)."""
    shown: dict[str, dict[str, Any]] = {each.provider_uuid: {} for each in listed.values()}
    for (provider_id, _), row in rows.items():
        if provider_id in listed:
            shown[listed[provider_id].provider_uuid][row.class_name] = row.record._asdict()
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _require_generation(listed: InventoryChange, actual: int) -> None:
    if listed.generation != actual:
        raise ListedProviderMoved(uuid=listed.provider_uuid, actual=actual, given=listed.generation)


def _hold_classes(tx: Transaction, added: Sequence[InventoryKey], reading: Reading) -> None:
    """Lock the classes of new records against deletion and renaming.

    :raises StaleRead: a class was deleted or renamed since it was read.
    """
    # Standard classes can be neither deleted nor renamed; locks on their rows would only make requests wait.
    added_ids = {class_id for _, class_id in added}
    names = {
        name: id_
        for name, id_ in reading.classes.items()
        if id_ in added_ids and os_resource_classes.is_custom(name)
    }
    if class_rows.lock(tx, names) != names:
        raise StaleRead("a resource class was deleted meanwhile")


def _merge_inventories(
    before: Mapping[InventoryKey, InventoryRow],
    wanted: Mapping[InventoryKey, InventoryRecord],
    left: Mapping[InventoryKey, int],
) -> dict[InventoryKey, InventoryRow]:
    """Return the inventories against which the allocations are judged (specification 05 section A5).

    New inventories count already, and inventories to remove still count.

    :param left: the ledger's usage of places without inventory.
    """
    merged = dict(before)
    for place, record in wanted.items():
        # A row that does not exist yet has neither id nor name here, and both are unused.
        row = before.get(place) or InventoryRow(0, *place, "", record, left.get(place, 0))
        merged[place] = replace(row, record=record)
    return merged


def _require_unused(
    tx: Transaction,
    removed: set[InventoryKey],
    before: Mapping[InventoryKey, InventoryRow],
    listed: Mapping[int, InventoryChange],
) -> None:
    # The usage is read from the ledger, not from the counters, which change at the end of the write.
    used = allocation_rows.in_use(tx, removed)
    for provider_id, each in listed.items():
        class_ids = sorted(place[1] for place in used if place[0] == provider_id)
        if class_ids:
            names = (before[provider_id, class_id].class_name for class_id in class_ids)
            raise InventoryInUse(
                cause=UPDATE_CONFLICT, names=", ".join(names), provider_uuid=each.provider_uuid
            )


def _write_inventories(
    tx: Transaction,
    before: Mapping[InventoryKey, InventoryRow],
    wanted: Mapping[InventoryKey, InventoryRecord],
    removed: set[InventoryKey],
    used: Mapping[InventoryKey, int],
) -> None:
    """Write the inventories of the listed providers.

    :param used: the ledger's present usage of places without inventory.
    """
    inventory_rows.delete_records(tx, [before[place].id for place in removed])
    inventory_rows.update_records(
        tx, {before[place].id: record for place, record in wanted.items() if place in before}
    )
    added = [(*place, record) for place, record in wanted.items() if place not in before]
    inventory_rows.insert_records(tx, added, used)


def _count_steps(listed: Mapping[int, InventoryChange], replaced: Replacement) -> Mapping[int, int]:
    """Return the step of each provider's generation, as specification 05 section A6 counts."""
    steps: dict[int, int] = defaultdict(int)
    for provider_id, each in listed.items():
        # A provider is stepped once for its new inventory and once for being listed. Clients show the
        # numbers, and tests check them.
        steps[provider_id] += 2 if each.records else 1
    for provider_id in replaced.named | replaced.emptied:
        steps[provider_id] += 1
    return steps

"""The steps of every transaction that writes allocations by replacing the sets of consumers.

The maintainers' page on writes explains their order. Most claims use one provider and consumers without
allocations. For these the room is a condition of the statement that moves the counters (:func:`try_claim`),
so that there is no round trip between the lock on the provider and the commit. Measured with all claims on
one host, two processes of eight threads, 8 alternating runs with and without: 1.33 times the claims on
PostgreSQL and 1.17 on MariaDB, with 0.84 and 0.87 of the service's processor time.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from placement.db import (
    inventory_rows,
    ledger_rows,
    ledger_writes,
    named_rows,
    provider_rows,
    statements,
    writes,
)
from placement.db.change import Change
from placement.db.coexistence.adoption import recount_doubted
from placement.db.database import Access, StaleRead, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.ledger_rows import Owner, Reading
from placement.db.provider_rows import LockedProvider
from placement.db.writes import UncheckedPlace
from placement.inventory_record import MAX_INT
from placement.objects import replacement
from placement.objects.replacement import (
    ANY_GENERATION,
    ConsumerChange,
    InventoryKey,
    Replacement,
)

OTHERS_KEPT_CHANGING = "other requests kept changing the same providers or consumers"

NOTHING: Mapping[InventoryKey, int] = MappingProxyType({})


def read(
    tx: Transaction,
    changes: Sequence[ConsumerChange],
    *,
    providers: Collection[str] = (),
    classes: Collection[str] = (),
    with_stock: bool = False,
) -> Reading:
    """Return everything the changes name, and the further providers and classes.

    The first attempt does not wait for other writers of the same consumers; a later one does.

    :param with_stock: also the inventory of the one provider that they name, without a lock.
    """
    held = sum(change.generation is not None for change in changes)
    if held > 1 or (tx.attempt > 1 and changes):
        # The write can lock several records: all of them, in one order. Otherwise two requests that each
        # locked the other's second consumer would deadlock. After the first attempt a single record is locked
        # too: writers of one consumer then queue, and none loses ten times in a row.
        ledger_writes.lock_consumers(tx, [change.uuid for change in changes])
    # A consumer that will be empty needs neither project nor user: a DELETE sends none.
    filled = [change for change in changes if change.allocations]
    reading = ledger_rows.read(
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
    note_unseen(tx, changes, reading)
    return reading


def note_unseen(tx: Access, changes: Sequence[ConsumerChange], reading: Reading) -> None:
    """Note the consumers that are new to every client: they have allocations, which no listing shows."""
    unexpected = {
        change.uuid
        for change in changes
        if change.generation is None
        and change.uuid in reading.consumers.keys() & reading.allocations.keys()
    }
    if unexpected:
        reading.unseen = unexpected - ledger_rows.find_shown(tx, unexpected)


def take_consumers(tx: Transaction, replaced: Replacement, reading: Reading) -> Mapping[str, Owner]:
    """Create, step or remove the consumers' records, which stay locked from here on.

    :returns: the owners of consumers that will have allocations, by consumer uuid.
    :raises StaleRead: a consumer, and so perhaps its allocations, has changed since it was read.
    """
    filled = [change for change in replaced.changes if change.allocations]
    # Names are inserted first, so that a transaction with a locked consumer never waits for one that inserts
    # the same project.
    owners = _make_owners(tx, filled, reading)
    uuids = [change.uuid for change in replaced.changes]
    records = {uuid: reading.consumers[uuid] for uuid in uuids if uuid in reading.consumers}
    # A concurrent write of such a consumer steps its generation, and the comparison below fails.
    writes.take(tx, consumers=records, new_consumers=owners.keys() - records.keys())
    ledger_writes.write_consumers(tx, records, owners)
    return owners


def _make_owners(
    tx: Transaction, filled: Sequence[ConsumerChange], reading: Reading
) -> dict[str, Owner]:
    """Return the owners of the consumers that will have allocations; new names get their records."""
    projects = _create_missing(tx, named_rows.PROJECTS, reading.projects, [c.project for c in filled])
    users = _create_missing(tx, named_rows.USERS, reading.users, [c.user for c in filled])
    names = [change.type for change in filled if change.type is not None]
    types = _create_missing(tx, named_rows.TYPES, reading.types, names)

    def type_id(change: ConsumerChange) -> int | None:
        # Below 1.38 a request does not name a type, and must not remove the type that a newer client set.
        record = reading.consumers.get(change.uuid)
        if change.type is not None:
            return types[change.type]
        return record.owner.type_id if record is not None else None

    return {
        change.uuid: Owner(projects[change.project], users[change.user], type_id(change))
        for change in filled
    }


def _create_missing(
    tx: Transaction, key: Any, known: Mapping[str, int], names: Collection[str]
) -> Mapping[str, int]:
    """Return the ids of all these names; unknown names get their records."""
    missing = {name for name in names if name not in known}
    return {**known, **named_rows.create(tx, key, missing)} if missing else known


def lock_providers(
    tx: Transaction, named: Collection[int], held: Collection[int]
) -> dict[int, LockedProvider]:
    """Lock providers and return them by id.

    :param named: the providers that the request names, which existed when they were read.
    :param held: provider ids in rows to remove. Another service may have left rows whose provider no longer
        exists: these are removed too, and their provider is missing in the result.
    :raises StaleRead: one of ``named`` was deleted meanwhile.
    """
    locked = {row.id: row for row in provider_rows.lock(tx, (), {*named, *held}).values()}
    if not locked.keys() >= set(named):
        raise StaleRead("a provider was deleted meanwhile")
    return locked


def lock_inventories(
    tx: Transaction,
    providers: Mapping[int, LockedProvider],
    written: Mapping[InventoryKey, int] = NOTHING,
) -> dict[InventoryKey, InventoryRow]:
    """Return the inventories of locked providers, with their right usage."""
    inventories = replacement.by_place(inventory_rows.lock_of(tx, providers))
    return recount_doubted(tx, providers.values(), inventories, written)


def lock_places(
    tx: Transaction,
    replaced: Replacement,
    written: Mapping[InventoryKey, int] = NOTHING,
    parts: Sequence[Replacement] = (),
) -> tuple[dict[int, LockedProvider], dict[InventoryKey, InventoryRow]]:
    """Lock the providers with their inventories, and check that there is room.

    :param written: the amounts by which the transaction has already changed the ledger.
    :param parts: the parts of the replacement that belong to different requests, which must fit one after the
        other; empty if all of it is one request.
    :returns: the existing providers by id, and inventory records by place.
    :raises DoesNotFit: 409, one of its kinds, for one part
    :raises SomeDoNotFit: some of several parts do not fit
    :raises StaleRead: a provider that the request names was deleted meanwhile.
    """
    parts = parts or [replaced]
    providers, records = ledger_rows.lock_with_inventories(tx, replaced.provider_ids)
    inventories = recount_doubted(tx, providers.values(), replacement.by_place(records), written)
    # On PostgreSQL the result lacks a record that was inserted while the statement waited for its lock
    # (ledger_rows.lock_with_inventories), so only a result with enough room is accepted at once.
    whole = (
        providers.keys() == replaced.provider_ids and replaced.freed.keys() <= inventories.keys()
    )
    if whole and replacement.all_have_room(parts, inventories):
        return providers, inventories
    # A record may be missing although it exists, so read again now that the providers are locked.
    providers = lock_providers(tx, replaced.named, replaced.provider_ids)
    inventories = lock_inventories(tx, providers, written)
    replacement.require_room_of_all(parts, inventories)
    return providers, inventories


def write_then_lock(
    tx: Transaction, replaced: Replacement, parts: Sequence[Replacement] = ()
) -> tuple[dict[int, LockedProvider], dict[InventoryKey, InventoryRow]]:
    """Write the allocations, then lock their places and check that there is room, as :func:`lock_places`.

    This order shortens the time of the locks; a refusal undoes the written rows.
    """
    if any(new.amount > MAX_INT for new in replaced.added):
        # Neither a column nor an inventory can hold the amount, so this refuses the right allocation.
        lock_places(tx, replaced, parts=parts)
    write_allocations(tx, replaced)
    return lock_places(tx, replaced, replaced.used_changes(), parts)


def write_allocations(tx: Transaction, replaced: Replacement) -> None:
    """Replace the old allocations by the new ones.

    :raises StaleRead: an old allocation no longer exists.
    """
    added = [(new.consumer_uuid, *new.key, new.amount) for new in replaced.added]
    ledger_writes.replace_allocations(tx, replaced.removed, added)


def list_outcome(
    replaced: Replacement,
    owners: Mapping[str, Owner],
    providers: Mapping[int, LockedProvider],
    inventories: Mapping[InventoryKey, InventoryRow],
    steps: Mapping[int, int] | None = None,
) -> Change:
    """Return the change made by a write of allocations, for :func:`placement.db.writes.finish`.

    :param owners: the owners of consumers that have allocations now.
    :param providers: the existing providers, all locked.
    :param steps: the steps of generations by provider id; other providers of the replacement only step their
        revision. None steps the providers that the request names or empties by 1.
    """
    # Providers that a consumer only leaves keep their generation (specification 03 section 2).
    if steps is None:
        steps = dict.fromkeys(replaced.named | replaced.emptied, 1)
    stepped: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for provider_id in steps.keys() & providers.keys():
        stepped[steps[provider_id]].append(providers[provider_id].as_read)
    changes = replaced.used_changes()
    # A database that was taken over can have allocations without inventory.
    places = [place for place, amount in changes.items() if amount and place in inventories]
    return Change(
        stepped=stepped,
        touched=replaced.provider_ids - steps.keys(),
        usage_only=True,
        counters=[(inventories[place].id, changes[place]) for place in places],
        owner_usages=replacement.owner_usage_changes(replaced, owners),
        consumers=replaced.list_outcomes(),
    )


def is_everyday(tx: Transaction, changes: Sequence[ConsumerChange]) -> bool:
    """Return whether the changes look like an everyday claim, so that reading the inventory is worthwhile."""
    providers = {uuid for change in changes for uuid in change.allocations}
    known = any(change.generation not in (None, ANY_GENERATION) for change in changes)
    # A repeated attempt does not take the short path: the first may have failed for lack of room, which only
    # the long path can explain.
    return tx.attempt == 1 and len(providers) == 1 and not known


def try_claim(
    tx: Transaction,
    replaced: Replacement,
    owners: Mapping[str, Owner],
    reading: Reading,
    revision: int | None = None,
) -> bool:
    """Write an everyday claim with locked consumers completely; return False if a try is not worthwhile.

    :param revision: the required revision of the provider; None for any.
    :raises StaleRead: there is no room, or the provider was deleted. The next attempt locks first, and
        reports the reason.
    """
    if not reading.stock or replaced.removed:
        return False
    inventories = replacement.by_place(reading.stock)
    amounts = {new.key: new.amount for new in replaced.added}
    # Two consumers on one place would need a condition on each amount for the units and on their sum for the
    # room, in one row. Besides, the statement must know the number of rows that it matches.
    if not len(amounts) == len(replaced.added) <= statements.SIZES[-1]:
        return False
    if not replacement.has_room(replaced.added, inventories, NOTHING):
        return False
    write_allocations(tx, replaced)
    (provider_id,) = replaced.provider_ids
    claimed = Change(
        counters=[(inventories[place].id, amount) for place, amount in amounts.items()],
        owner_usages=replacement.owner_usage_changes(replaced, owners),
        consumers=replaced.list_outcomes(),
    )
    writes.finish(tx, claimed, UncheckedPlace(provider_id, revision))
    return True

"""A replacement: the effect of a request on the ledger, computed from one reading and checked. Pure.

The rules are those of specification 03 sections 7.2 and 8; :mod:`placement.objects.ledger` writes the
replacement.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from placement import authorship, errors
from placement.authorship import Author
from placement.db.change import ConsumerOutcome
from placement.db.inventory_rows import InventoryRow
from placement.db.ledger_rows import AllocationRow, ConsumerRow, Owner, Reading
from placement.db.ledger_writes import FIRST_GENERATION
from placement.db.owner_usage_rows import CONSUMERS, NO_TYPE, Account

InventoryKey = tuple[int, int]
"""(provider id, resource class id)."""


class ProviderMissing(errors.BadRequest):
    """An allocation names a provider that does not exist."""

    reason = "unknown_provider"
    about = "uuid"
    text = "Allocation for resource provider '{uuid}' that does not exist."
    uuid: str


class ClassMissing(errors.BadRequest):
    """An allocation, or an inventory of a reshape, is of a resource class that does not exist.

    ``action``: the operation's words for what the request could not do.
    """

    reason = "unknown_resource_class"
    about = "name"
    text = "{action} No such resource class {name}"
    action: str
    name: str


class ConsumerConflict(errors.ConcurrentUpdate):
    """The consumer's generation is not the one the client sent (specification 03 section 7.2).

    Clients conclude from these words that repeating the request is useless, so no other error has them.
    """

    reason = "consumer_generation"
    of_consumers = True
    retry = errors.Retry.AFTER_READING
    text = "consumer generation conflict - expected {expected} but got {given}"
    expected: int | str
    given: int | None


class _Unprotected(Enum):
    ANY = "any"


ANY_GENERATION: Final = _Unprotected.ANY
"""A value that no client sends: below 1.28 requests have no generation and overwrite the present state."""

SentGeneration = int | _Unprotected | None

Resources = Mapping[str, int]
"""Amounts by resource class name."""


@dataclass(frozen=True, slots=True)
class ConsumerChange:
    """The new and whole set of allocations of one consumer; an empty one removes the consumer.

    :param allocations: resources by provider uuid, in document order.
    :param generation: the generation that the client read; None if it expects no consumer.
    :param type: None keeps the type (below 1.38).
    :param author: the author of the change, since another thread may write it with changes of other requests.
    """

    uuid: str
    allocations: Mapping[str, Resources]
    project: str
    user: str
    generation: SentGeneration = ANY_GENERATION
    type: str | None = None
    author: Author = field(default_factory=authorship.current, compare=False)


class DoesNotFit(errors.Conflict):
    """The request is valid, but there is no room for it."""


class NoInventory(DoesNotFit):
    """A provider does not have inventory of a requested class."""

    reason = "no_inventory"
    retry = errors.Retry.AFTER_READING
    text = (
        "Unable to allocate inventory: Inventory for '{classes}' on resource provider "
        "'{providers}' invalid."
    )
    classes: str
    providers: str


class UnitsViolated(DoesNotFit):
    """An amount violates the units of the inventory."""

    reason = "unit_violation"
    text = (
        "Unable to allocate inventory: Unable to create allocation for '{class_name}' on resource "
        "provider '{provider}'. The requested amount would violate inventory constraints."
    )
    class_name: str
    provider: str


class CapacityExceeded(DoesNotFit):
    """The remaining room is less than the requested amount."""

    reason = "capacity_exceeded"
    of_consumers = True
    retry = errors.Retry.AFTER_READING
    text = (
        "Unable to allocate inventory: Unable to create allocation for '{class_name}' on resource "
        "provider '{provider}'. The requested amount would exceed the capacity."
    )
    class_name: str
    provider: str


class SomeDoNotFit(Exception):
    """Some of several requests do not fit; the others are written without them, so no client learns this.

    ``fitting``: the positions of those that fit, in order.
    """

    def __init__(self, fitting: Sequence[int]) -> None:
        super().__init__(f"only the requests {fitting} fit")
        self.fitting = fitting


@dataclass(frozen=True, slots=True)
class ConsumerBefore:
    """A consumer before the write: its record, and its allocations; either may be missing."""

    record: ConsumerRow | None
    held: Sequence[AllocationRow]

    @property
    def generation_after(self) -> int:
        """The generation of the consumer after a write that leaves it with allocations."""
        return FIRST_GENERATION if self.record is None else self.record.generation + 1


@dataclass(frozen=True, slots=True)
class NewAllocation:
    """An allocation that a request adds, with ids for the check and names for the error."""

    consumer_uuid: str
    key: InventoryKey
    provider_uuid: str
    class_name: str
    amount: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """The effect of a request on the ledger.

    ``added``: the new allocations in document order; ``removed``: the old ones. Three fields are ids of
    providers: ``named`` by the request, ``emptied`` by a consumer with an empty set, and ``left`` by any
    other consumer. The generations of named and emptied providers are stepped.
    """

    changes: Sequence[ConsumerChange]
    consumers: Mapping[str, ConsumerBefore]
    added: Sequence[NewAllocation]
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
        for new in self.added:
            changes[new.key] += new.amount
        return changes

    def list_outcomes(self) -> dict[str, ConsumerOutcome]:
        """Return the consumers as they are after the write, by uuid."""
        return {
            change.uuid: ConsumerOutcome(
                change.author,
                self.consumers[change.uuid].generation_after,
                change.project,
                change.user,
                change.type,
                change.allocations,
            )
            for change in self.changes
        }


def require_sound(changes: Sequence[ConsumerChange], reading: Reading, action: str) -> None:
    """Check the generations and names of the changes.

    :param action: the ``action`` of :class:`ClassMissing`.
    :raises ConsumerConflict: 409, for the first consumer with another generation than the one sent
    :raises ProviderMissing: 400, for the first provider that does not exist
    :raises ClassMissing: 400, for the first class that does not exist
    """
    require_generations(changes, reading)
    require_providers(changes, reading)
    names = (name for each in changes for held in each.allocations.values() for name in held)
    require_classes(names, reading, action)


def require_generations(changes: Sequence[ConsumerChange], reading: Reading) -> None:
    """Check that all consumers have the generation that was sent.

    :raises ConsumerConflict: 409, for the first consumer with another one
    """
    for change in changes:
        record, given = reading.consumers.get(change.uuid), change.generation
        if given is ANY_GENERATION:
            continue
        if record is None:
            if given is not None:
                raise ConsumerConflict(expected="null", given=given)
        elif given is None:
            # No listing shows a record without allocations, so no client can know its generation: a client
            # that sends null is right.
            if reading.allocations.get(change.uuid) and change.uuid not in reading.unseen:
                raise ConsumerConflict(expected=record.generation, given=None)
        elif given != record.generation:
            raise ConsumerConflict(expected=record.generation, given=given)


def require_providers(changes: Sequence[ConsumerChange], reading: Reading) -> None:
    """Check that every provider named in the changes exists.

    :raises ProviderMissing: 400, for the first missing provider
    """
    for change in changes:
        for uuid in change.allocations:
            if uuid not in reading.providers:
                raise ProviderMissing(uuid=uuid)


def require_classes(names: Iterable[str], reading: Reading, action: str) -> None:
    """Check that the resource classes exist.

    :raises ClassMissing: 400, for the first missing class
    """
    for name in names:
        if name not in reading.classes:
            raise ClassMissing(action=action, name=name)


def work_out(changes: Sequence[ConsumerChange], reading: Reading) -> Replacement:
    """Return the effect on the ledger of changes whose names all exist."""
    consumers = {
        change.uuid: ConsumerBefore(
            reading.consumers.get(change.uuid), reading.allocations.get(change.uuid, ())
        )
        for change in changes
    }
    added = [
        NewAllocation(
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
    named = frozenset(new.key[0] for new in added)
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
        changes, consumers, added, removed, freed, named, emptied, held - named - emptied
    )


def owner_usage_changes(replaced: Replacement, owners: Mapping[str, Owner]) -> dict[Account, int]:
    """Return the changes of owners' usage."""
    # The old owner's sum goes down and the new owner's goes up, since a request can also change the owner.
    changes: dict[Account, int] = defaultdict(int)
    for consumer in replaced.consumers.values():
        # Allocations without a consumer record do not have an owner.
        if consumer.record is not None and consumer.held:
            before = consumer.record.owner
            changes[_account(before, CONSUMERS)] -= 1
            for row in consumer.held:
                changes[_account(before, row.class_id)] -= row.used
    for owner in owners.values():
        changes[_account(owner, CONSUMERS)] += 1
    for new in replaced.added:
        changes[_account(owners[new.consumer_uuid], new.key[1])] += new.amount
    return changes


def _account(owner: Owner, class_id: int) -> Account:
    return Account(owner.project_id, owner.user_id, owner.type_id or NO_TYPE, class_id)


def require_room(
    added: Sequence[NewAllocation],
    inventories: Mapping[InventoryKey, InventoryRow],
    freed: Mapping[InventoryKey, int],
) -> None:
    """Check that all allocations fit at once; report the first that does not, in order.

    :param freed: the amounts that the consumers of the request free, by place.
    :raises DoesNotFit: 409, one of its kinds
    """
    # The first check is that each provider has at least one class named anywhere in the request: clients are
    # shown all providers without any before the first single fault (03 section 8).
    providers = {new.key[0]: new.provider_uuid for new in added}
    classes = {new.key[1]: new.class_name for new in added}
    stocked = {provider_id for provider_id, class_id in inventories if class_id in classes}
    bare = [uuid for provider_id, uuid in providers.items() if provider_id not in stocked]
    if bare:
        raise NoInventory(classes=", ".join(classes.values()), providers=", ".join(bare))
    # Units are checked for each allocation, room for the sum: two consumers may want the last unit.
    wanted: dict[InventoryKey, int] = defaultdict(int)
    for new in added:
        wanted[new.key] += new.amount
    for new in added:
        inventory = inventories.get(new.key)
        if inventory is None:
            raise NoInventory(classes=new.class_name, providers=new.provider_uuid)
        if not inventory.record.admits(new.amount):
            raise UnitsViolated(class_name=new.class_name, provider=new.provider_uuid)
        after = inventory.used - freed.get(new.key, 0) + wanted[new.key]
        # An inventory can be shrunk below its usage; an allocation that does not add to the usage is then
        # allowed. `used` is positive if it is at least `after`, which the allocation made at least 1.
        if after > inventory.record.capacity and after > inventory.used:
            raise CapacityExceeded(class_name=new.class_name, provider=new.provider_uuid)


def has_room(
    added: Sequence[NewAllocation],
    inventories: Mapping[InventoryKey, InventoryRow],
    freed: Mapping[InventoryKey, int],
) -> bool:
    """Return whether all allocations fit at once into the known inventories."""
    try:
        require_room(added, inventories, freed)
    except DoesNotFit:
        return False
    return True


def require_room_of_all(
    parts: Sequence[Replacement], inventories: Mapping[InventoryKey, InventoryRow]
) -> None:
    """Check that the parts of different requests fit one after the other.

    :raises DoesNotFit: 409, one of its kinds, for one part
    :raises SomeDoNotFit: some of several parts do not fit
    """
    if len(parts) == 1:
        require_room(parts[0].added, inventories, parts[0].freed)
        return
    # The sum of all parts is not checked: two requests that swap full places would fit together, although
    # neither of them fits first.
    now = dict(inventories)
    fitting = []
    for position, part in enumerate(parts):
        if has_room(part.added, now, part.freed):
            fitting.append(position)
            for place, amount in part.used_changes().items():
                if place in now:
                    now[place] = replace(now[place], used=now[place].used + amount)
    if len(fitting) < len(parts):
        raise SomeDoNotFit(fitting)


def all_have_room(
    parts: Sequence[Replacement], inventories: Mapping[InventoryKey, InventoryRow]
) -> bool:
    """Return whether the parts of different requests fit one after the other."""
    try:
        require_room_of_all(parts, inventories)
    except (DoesNotFit, SomeDoNotFit):
        return False
    return True


def by_place(rows: Sequence[InventoryRow]) -> dict[InventoryKey, InventoryRow]:
    """Return the inventory records by provider id and class id."""
    return {(row.provider_id, row.class_id): row for row in rows}

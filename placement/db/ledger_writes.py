"""What a change of the ledger writes: consumers, allocations, counters and the sums of owners.

Consumers come first. Their records are changed by compare-and-set on the generation that was read together
with the allocations of the consumer. Every write of allocations steps or removes the record, so a record
that still matches vouches for the allocations as well.

:func:`finish` and :func:`claim` are the last writes of a transaction. They are sent with COMMIT
(:meth:`Transaction.change_later`), so that there is no round trip between the lock on a provider and the
commit, except where each statement travels alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from sqlalchemy import ColumnElement, Update, and_, bindparam, delete, select, update

from placement import telemetry
from placement.db import change_rows, coexistence_rows, models, statements
from placement.db.database import Transaction
from placement.db.ledger_rows import AllocationRow, ConsumerRow
from placement.db.owner_usage_rows import SLOTS, Account
from placement.db.statements import NOTHING, CompiledStatement, Parameters, Statement

FIRST_GENERATION = 1

_consumers = models.consumers
_allocations = models.allocations
_inventories = models.inventories
_record_id = _inventories.c.id
_used = _inventories.c.used

CounterChanges = Collection[tuple[int, int]]
"""By how much the usage counters of inventory records change: record ids and amounts."""

_ON_CONFLICT = (
    " ON CONFLICT (project_id, user_id, consumer_type_id, resource_class_id, slot) "
    "DO UPDATE SET used = owner_usages.used + excluded.used"
)
_OR_ADD = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": " ON DUPLICATE KEY UPDATE used = used + VALUES(used)",
}


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose consumer it is and what type it has, by the ids of the three records."""

    project_id: int
    user_id: int
    type_id: int | None


def lock_consumers(tx: Transaction, uuids: Collection[str]) -> None:
    """Wait until no other transaction writes these consumers, in uuid order. One statement."""
    for part in statements.batches(sorted(uuids)):
        size = statements.size_for(len(part))
        tx.rows(_lock_consumers(size), statements.bound("uuid", part, size))


@cache
def _lock_consumers(size: int) -> CompiledStatement:
    return CompiledStatement(
        select(_consumers.c.id)
        .where(statements.is_among(_consumers.c.uuid, "uuid", size))
        .order_by(_consumers.c.uuid)
        .with_for_update()
    )


def create_consumers(tx: Transaction, owners: Mapping[str, Owner]) -> None:
    """Insert records for new consumers, which end at generation 1. One statement.

    :param owners: by consumer uuid.
    :raises StaleRead: one of them was created meanwhile.
    """
    now = models.now()
    rows = [
        {
            "uuid": uuid,
            "project_id": owner.project_id,
            "user_id": owner.user_id,
            "consumer_type_id": owner.type_id,
            "generation": FIRST_GENERATION,
            "created_at": now,
        }
        for uuid, owner in sorted(owners.items())
    ]
    tx.insert_free(_consumers, rows)


def step_consumers(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Step the generations. One statement.

    :raises StaleRead: one of the records is not as it was read.
    """
    _change_as_read(tx, consumers, _step_consumers, {"now": models.now()})


def remove_consumers(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Delete the records. One statement.

    :raises StaleRead: one of them is not as it was read.
    """
    _change_as_read(tx, consumers, _remove_consumers)


def _change_as_read(
    tx: Transaction,
    consumers: Sequence[ConsumerRow],
    statement_of: Callable[[int], CompiledStatement],
    parameters: Parameters = NOTHING,
) -> None:
    for part in statements.pairs([(consumer.id, consumer.generation) for consumer in consumers]):
        size, as_read = statements.as_read(part)
        tx.change_later(statement_of(size), {**as_read, **parameters}, expected_rows=len(part))


@cache
def _step_consumers(size: int) -> CompiledStatement:
    return CompiledStatement(
        update(_consumers)
        .where(*statements.unmoved(_consumers, size))
        .values(generation=_consumers.c.generation + 1, updated_at=bindparam("now"))
    )


@cache
def _remove_consumers(size: int) -> CompiledStatement:
    return CompiledStatement(delete(_consumers).where(*statements.unmoved(_consumers, size)))


def hand_over_consumers(tx: Transaction, owners: Mapping[int, Owner]) -> None:
    """Give consumers, which this transaction has stepped, other owners and types. One statement.

    :param owners: by consumer id.
    """
    value_of = partial(statements.value_of, _consumers.c.id)
    for part in statements.batches(sorted(owners)):
        tx.change(
            update(_consumers)
            .where(statements.is_one_of(_consumers.c.id, part))
            .values(
                project_id=value_of({key: owners[key].project_id for key in part}),
                user_id=value_of({key: owners[key].user_id for key in part}),
                consumer_type_id=value_of({key: owners[key].type_id for key in part}),
                updated_at=models.now(),
            )
        )


def replace_allocations(
    tx: Transaction,
    removed: Sequence[AllocationRow],
    added: Sequence[tuple[str, int, int, int]],
) -> None:
    """Put new allocations in the place of old ones. Two statements.

    :param removed: were read in this transaction.
    :param added: (consumer uuid, provider id, class id, amount) of each.
    :raises StaleRead: an old one is not there any more.
    """
    for part in statements.batches(sorted(row.id for row in removed)):
        size = statements.size_for(len(part))
        ids = statements.bound("id", part, size)
        tx.change_later(_delete_allocations(size), ids, expected_rows=len(part))
    now = models.now()
    columns = ("consumer_id", "resource_provider_id", "resource_class_id", "used")
    rows = [{"created_at": now, **dict(zip(columns, row, strict=True))} for row in added]
    tx.insert_later(_allocations, rows)


@cache
def _delete_allocations(size: int) -> CompiledStatement:
    return CompiledStatement(
        delete(_allocations).where(statements.is_among(_allocations.c.id, "id", size))
    )


def finish(
    tx: Transaction,
    counters: CounterChanges,
    owner_usages: Mapping[Account, int],
    *,
    stepped: change_rows.Steps,
    touched: Collection[int],
) -> None:
    """Finish a change whose providers are locked and have room.

    :param stepped: the providers whose generation is stepped, by the number of steps.
    :param touched: ids of others that the search must read again.
    :raises StaleRead: the generation of a provider is not the one that was read.
    """
    for part in statements.pairs(sorted(counters)):
        tx.change_later(_counter_statement(part))
    change_rows.advance(tx, stepped, touched, stock_alone=True)
    add_owner_usages(tx, owner_usages)


def claim(
    tx: Transaction,
    provider_id: int,
    amounts: CounterChanges,
    owner_usages: Mapping[Account, int],
) -> None:
    """Finish a claim on a provider that this transaction has not locked.

    :param amounts: of at most ``statements.SIZES[-1]`` records.
    :raises StaleRead: there is no room for it, or the provider is gone, or its counters are not right.
    """
    # Nearly: the statement waits for the lock as well, in the same message as all that follows.
    telemetry.holds_providers()
    stepping = {"provider": provider_id, "steps": 1, "now": models.now()}
    tx.change_later(_STEP_IF_COUNTED, stepping, expected_rows=1)
    tx.change_later(_counter_statement(sorted(amounts), if_room=True), expected_rows=len(amounts))
    change_rows.note(tx, [provider_id], stock_alone=True)
    add_owner_usages(tx, owner_usages)


# Whatever its generation is: the claim depends on nothing that was read of the provider.
_STEP_IF_COUNTED = CompiledStatement(
    change_rows.STEP.where(
        models.resource_providers.c.id == bindparam("provider"), coexistence_rows.COUNTED
    )
)


def _counter_statement(changes: Sequence[tuple[int, int]], *, if_room: bool = False) -> Statement:
    size = statements.size_for(len(changes))
    keys = statements.bound("key", [key for key, _ in changes], size)
    amounts = statements.bound("by", [amount for _, amount in changes], size)
    return Statement(_add_to_counters(size, if_room), keys | amounts)


@cache
def _add_to_counters(size: int, if_room: bool) -> CompiledStatement:
    amount = statements.by_key(_record_id, _used, "key", "by", size)
    statement: Update = update(_inventories).where(statements.is_among(_record_id, "key", size))
    if if_room:
        statement = statement.where(_has_room_for(amount))
    # The record as the API shows it did not change: its modified time stays.
    values: dict[Any, Any] = {
        _used: _used + amount,
        _inventories.c.updated_at: _inventories.c.updated_at,
    }
    return CompiledStatement(statement.values(values))


def _has_room_for(amount: ColumnElement[int]) -> ColumnElement[bool]:
    """The record has room, by the rule of :func:`placement.objects.replacement.has_room`."""
    record = _inventories.c
    return and_(
        record.min_unit <= amount,
        record.max_unit >= amount,
        amount % record.step_size == 0,
        _used + amount <= (record.total - record.reserved) * record.allocation_ratio,
    )


def add_owner_usages(tx: Transaction, changes: Mapping[Account, int]) -> None:
    """Add to the sums of owners. One statement, the last of a transaction: it locks a slot until COMMIT."""
    # Transactions that share this slot share the slot of the log too, and have queued up there already.
    slot = tx.slot_seed % SLOTS
    columns = tuple(models.owner_usages.c.keys())
    rows = sorted((*account, slot, change) for account, change in changes.items() if change)
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    tx.insert_later(models.owner_usages, named, or_add=_OR_ADD[tx.dialect])

"""The writes of a ledger change: consumers, allocations, counters and the sums of owners.

Consumers come first. Their records are changed by compare-and-set on the generation that was read together
with the allocations of the consumer. Every write of allocations steps or removes the record, so a record
that still matches vouches for the allocations as well.

:func:`finish` and :func:`claim` are the last writes of a transaction. They are sent with COMMIT
(:meth:`Transaction.change_later`), so that there is no round trip between the lock on a provider and the
commit, except where each statement travels alone.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from sqlalchemy import bindparam, delete, select, update

from placement import telemetry
from placement.db import change_rows, counters, models, statements
from placement.db.database import Transaction
from placement.db.ledger_rows import AllocationRow, ConsumerRow, Owner
from placement.db.owner_usage_rows import SLOTS, Account
from placement.db.statements import NOTHING, CompiledStatement, Parameters, Statement

FIRST_GENERATION = 1

_consumers = models.consumers
_allocations = models.allocations
_inventories = models.inventories

CounterChanges = Collection[tuple[int, int]]
"""The steps of usage counters: ids of inventory records and amounts."""

_ON_CONFLICT = (
    " ON CONFLICT (project_id, user_id, consumer_type_id, resource_class_id, slot) "
    "DO UPDATE SET used = owner_usages.used + excluded.used"
)
# VALUES(used) is deprecated by MySQL since 8.0.20, but MariaDB has no alias for the new row.
_OR_ADD = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": " ON DUPLICATE KEY UPDATE used = used + VALUES(used)",
}


def lock_consumers(tx: Transaction, uuids: Collection[str]) -> None:
    """Wait until no other transaction writes these consumers, in uuid order. One statement."""
    tx.rows_of_all(_LOCK_CONSUMERS, "uuid", uuids)


_LOCK_CONSUMERS = CompiledStatement(
    select(_consumers.c.id)
    .where(statements.is_among(_consumers.c.uuid, "uuid"))
    .order_by(_consumers.c.uuid)
    .with_for_update(),
    "uuid",
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
        # The rows are sorted: an insert of a uuid that another transaction is inserting waits for it.
        for uuid, owner in sorted(owners.items())
    ]
    tx.insert_free(_consumers, rows)


def step_consumers(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Step the generations. One statement.

    :raises StaleRead: one of the records is not as it was read.
    """
    _change_as_read(tx, consumers, _STEP_CONSUMERS, {"now": models.now()})


def remove_consumers(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Delete the records. One statement.

    :raises StaleRead: one of them is not as it was read.
    """
    _change_as_read(tx, consumers, _REMOVE_CONSUMERS)


def _change_as_read(
    tx: Transaction,
    consumers: Sequence[ConsumerRow],
    statement: CompiledStatement,
    parameters: Parameters = NOTHING,
) -> None:
    # The row is not locked before: that this finds it, of the generation that was read, is the guard.
    # Between the nodes of a Galera cluster, which do not see each other's locks, it is the only one.
    for part in statements.batch_pairs([(consumer.id, consumer.generation) for consumer in consumers]):
        given = {**statements.as_read(part), **parameters}
        tx.change_later(statement, given, expected_rows=len(part))


_STEP_CONSUMERS = CompiledStatement(
    update(_consumers)
    .where(*statements.are_unmoved(_consumers))
    .values(generation=_consumers.c.generation + 1, updated_at=bindparam("now")),
    *statements.AS_READ,
)
_REMOVE_CONSUMERS = CompiledStatement(
    delete(_consumers).where(*statements.are_unmoved(_consumers)), *statements.AS_READ
)


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
    # Rows are deleted by id, and counted. A deletion by consumer would also delete what another service has
    # written since, and the counters would be wrong; a row that it has removed makes this StaleRead.
    for part in statements.batches(sorted(row.id for row in removed)):
        tx.change_later(_DELETE_ALLOCATIONS, {"id": part}, expected_rows=len(part))
    now = models.now()
    columns = ("consumer_id", "resource_provider_id", "resource_class_id", "used")
    rows = [{"created_at": now, **dict(zip(columns, row, strict=True))} for row in added]
    tx.insert_later(_allocations, rows)


_DELETE_ALLOCATIONS = CompiledStatement(
    delete(_allocations).where(statements.is_among(_allocations.c.id, "id")), "id"
)


def finish(
    tx: Transaction,
    counters: CounterChanges,
    owner_usages: Mapping[Account, int],
    *,
    stepped: change_rows.Steps,
    touched: Collection[int],
    usage_alone: bool = True,
) -> None:
    """Finish a change whose providers are locked and have room.

    :param stepped: the providers whose generation is stepped, by the number of steps.
    :param touched: ids of others that the search must read again.
    :param usage_alone: no inventory has changed but in what is used of it.
    :raises StaleRead: the generation of a provider is not the one that was read.
    """
    # Inventories, the log, then owners: every writer takes locks in this order (docs/maintainers/writes.rst).
    for part in statements.batch_pairs(sorted(counters)):
        tx.change_later(_counter_statement(part))
    change_rows.advance(tx, stepped, touched, usage_alone=usage_alone)
    add_owner_usages(tx, owner_usages)


def claim(
    tx: Transaction,
    provider_id: int,
    amounts: CounterChanges,
    owner_usages: Mapping[Account, int],
    revision: int | None = None,
) -> None:
    """Finish a claim on a provider that this transaction has not locked.

    :param amounts: of at most ``statements.SIZES[-1]`` records.
    :param revision: the one that the provider must have; None for any.
    :raises StaleRead: there is no room for it, or the provider is gone, or its counters are not right, or its
        revision is another one.
    """
    # Nearly: the statement waits for the lock as well, in the same message as all that follows.
    telemetry.note_lock()
    stepping = {"provider": provider_id, "steps": 1, "now": models.now()}
    if revision is None:
        tx.change_later(_STEP_IF_COUNTED, stepping, expected_rows=1)
    else:
        tx.change_later(_STEP_IF_UNMOVED, {**stepping, "seen": revision}, expected_rows=1)
    # A record without room is missing in the count, which undoes everything: an amount is never written in
    # part.
    tx.change_later(_counter_statement(sorted(amounts), if_room=True), expected_rows=len(amounts))
    change_rows.note(tx, [provider_id], stock_alone=True)
    add_owner_usages(tx, owner_usages)


# Whatever its generation is: the claim depends on nothing that was read of the provider.
_if_counted = change_rows.STEP.where(
    models.resource_providers.c.id == bindparam("provider"), counters.ARE_RIGHT
)
_STEP_IF_COUNTED = CompiledStatement(_if_counted)
# The condition: nothing that searches read of the provider has changed.
_STEP_IF_UNMOVED = CompiledStatement(
    _if_counted.where(models.resource_providers.c.revision == bindparam("seen"))
)


def _counter_statement(changes: Sequence[tuple[int, int]], *, if_room: bool = False) -> Statement:
    given = {"key": [key for key, _ in changes], "by": [amount for _, amount in changes]}
    return Statement(_ADD_IF_ROOM if if_room else _ADD_TO_COUNTERS, given)


_amount = statements.by_key(_inventories.c.id, _inventories.c.used, "key", "by")
_counters = (
    update(_inventories)
    .where(statements.is_among(_inventories.c.id, "key"))
    # The record as the API shows it did not change: its modified time stays.
    .values(used=_inventories.c.used + _amount, updated_at=_inventories.c.updated_at)
)
_ADD_TO_COUNTERS = CompiledStatement(_counters, "key", "by")
# The rule of placement.objects.replacement.has_room, on the row as it is when it is written: UPDATE locks
# it and looks at its newest values, so what was read without a lock only says whether this is worth trying.
_ADD_IF_ROOM = CompiledStatement(
    _counters.where(
        _inventories.c.min_unit <= _amount,
        _inventories.c.max_unit >= _amount,
        _amount % statements.step_of(_inventories) == 0,
        # The product is not rounded down: what is used is a whole number, and so fits both or neither.
        _inventories.c.used + _amount
        <= (_inventories.c.total - _inventories.c.reserved) * _inventories.c.allocation_ratio,
    ),
    "key",
    "by",
)


def add_owner_usages(tx: Transaction, changes: Mapping[Account, int]) -> None:
    """Add to the sums of owners. One statement, the last of a transaction: it locks a slot until COMMIT."""
    # Transactions that share this slot share the slot of the log too, and have queued up there already.
    slot = tx.slot_seed % SLOTS
    columns = tuple(models.owner_usages.c.keys())
    # Sorted: an upsert of several rows locks them one after the other.
    rows = sorted((*account, slot, change) for account, change in changes.items() if change)
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    tx.insert_later(models.owner_usages, named, or_add=_OR_ADD[tx.dialect])

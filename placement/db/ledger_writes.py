"""The writes of consumers and their allocations.

Consumers are written first. A record is changed by compare-and-set on the generation that was read together
with the consumer's allocations. Every write of allocations steps or removes the record, so a record that
still matches proves that the allocations are unchanged.

:mod:`placement.db.writes` ends the transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from sqlalchemy import bindparam, delete, select, update

from placement.db import models, statements
from placement.db.database import Transaction
from placement.db.ledger_rows import AllocationRow, ConsumerRow, Owner
from placement.db.statements import NOTHING, CompiledStatement, Parameters

FIRST_GENERATION = 1

_consumers = models.consumers
_allocations = models.allocations


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


def write_consumers(
    tx: Transaction, records: Mapping[str, ConsumerRow], owners: Mapping[str, Owner]
) -> None:
    """Create, step or remove the records of consumers.

    One statement for each of these, and one for new owners.

    :param records: the existing records by consumer uuid; a record without an owner is removed.
    :param owners: the owners by consumer uuid, of the consumers that have allocations now.
    :raises StaleRead: a record has changed since it was read, or was created meanwhile.
    """
    new = {uuid: owner for uuid, owner in owners.items() if uuid not in records}
    if new:
        tx.insert_free(_consumers, _list_rows(new))
    if records:
        kept = [(records[uuid], owner) for uuid, owner in owners.items() if uuid in records]
        step_consumers(tx, [record for record, _ in kept])
        _hand_over(tx, {row.id: owner for row, owner in kept if owner != row.owner})
        gone = [record for uuid, record in records.items() if uuid not in owners]
        _change_as_read(tx, gone, _REMOVE_CONSUMERS)


def _list_rows(owners: Mapping[str, Owner]) -> list[Parameters]:
    now = models.now()
    return [
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


def step_consumers(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Step the generations. One statement.

    :raises StaleRead: a record has changed since it was read.
    """
    _change_as_read(tx, consumers, _STEP_CONSUMERS, {"now": models.now()})


def _change_as_read(
    tx: Transaction,
    consumers: Sequence[ConsumerRow],
    statement: CompiledStatement,
    parameters: Parameters = NOTHING,
) -> None:
    # The row is not locked before: matching the generation that was read is the guard. Between the nodes of a
    # Galera cluster, which do not see each other's locks, it is the only guard.
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


def _hand_over(tx: Transaction, owners: Mapping[int, Owner]) -> None:
    """Set new owners and types of consumers that this transaction has stepped, by consumer id."""
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
    """Replace old allocations by new ones. Two statements.

    :param removed: the old allocations, read in this transaction.
    :param added: the new ones as (consumer uuid, provider id, class id, amount).
    :raises StaleRead: an old allocation no longer exists.
    """
    # Rows are deleted by id, and counted. A deletion by consumer would also delete later writes of another
    # service, and the counters would be wrong; a row that it has removed raises StaleRead.
    for part in statements.batches(sorted(row.id for row in removed)):
        tx.change_later(_DELETE_ALLOCATIONS, {"id": part}, expected_rows=len(part))
    now = models.now()
    columns = ("consumer_id", "resource_provider_id", "resource_class_id", "used")
    rows = [{"created_at": now, **dict(zip(columns, row, strict=True))} for row in added]
    tx.insert_later(_allocations, rows)


_DELETE_ALLOCATIONS = CompiledStatement(
    delete(_allocations).where(statements.is_among(_allocations.c.id, "id")), "id"
)

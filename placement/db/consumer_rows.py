"""Statements on ``consumers``: wait in line, create, step, hand over, remove.

Records are changed by compare-and-set on the generation that was read together with the
consumer's allocations. Every write of allocations steps or removes the record, so a record that
still matches vouches for the allocations as well.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from sqlalchemy import bindparam, delete, exists, select, update

from placement.db import in_list, insertion, models
from placement.db.database import Transaction
from placement.db.ledger_rows import ConsumerRow
from placement.db.ready import Ready

_consumers = models.consumers
FIRST_GENERATION = 1

UUIDS_WITHOUT_RECORD = (
    select(models.allocations.c.consumer_id.label("consumer"))
    .where(~exists().where(_consumers.c.uuid == models.allocations.c.consumer_id))
    .distinct()
)
"""The consumers that only allocations know: older software left them."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose consumer it is and what type it has, by the ids of the three records."""

    project_id: int
    user_id: int
    type_id: int | None


def lock(tx: Transaction, uuids: Collection[str]) -> None:
    """Wait until nobody else is writing these consumers, in uuid order. One statement."""
    for part in in_list.batches(sorted(uuids)):
        size = in_list.size_for(len(part))
        tx.rows(_lock(size), in_list.bound("uuid", part, size))


@cache
def _lock(size: int) -> Ready:
    return Ready(
        select(_consumers.c.id)
        .where(in_list.is_among(_consumers.c.uuid, "uuid", size))
        .order_by(_consumers.c.uuid)
        .with_for_update()
    )


def create(tx: Transaction, owners: Mapping[str, Owner]) -> None:
    """Insert records for new consumers, which end at generation 1. One statement.

    :param owners: by consumer uuid.
    :raises StaleRead: somebody else has created one of them meanwhile.
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
    insertion.insert_free(tx, _consumers, rows)


def step(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Step the generations. One statement.

    :raises StaleRead: one of the records is not as it was read.
    """
    _change_as_read(tx, consumers, _step, {"now": models.now()})


def _change_as_read(
    tx: Transaction,
    consumers: Sequence[ConsumerRow],
    statement: Callable[[int], Ready],
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    for part in in_list.batches([(consumer.id, consumer.generation) for consumer in consumers]):
        size, as_read = in_list.as_read(part)
        tx.change_later(statement(size), {**as_read, **parameters}, finds=len(part))


@cache
def _step(size: int) -> Ready:
    return Ready(
        update(_consumers)
        .where(*in_list.unmoved(_consumers, size))
        .values(generation=_consumers.c.generation + 1, updated_at=bindparam("now"))
    )


def hand_over(tx: Transaction, owners: Mapping[int, Owner]) -> None:
    """Give consumers, which this transaction has stepped, other owners and types. One statement.

    :param owners: by consumer id.
    """
    value_of = partial(in_list.value_of, _consumers.c.id)
    for part in in_list.batches(sorted(owners)):
        tx.execute(
            update(_consumers)
            .where(_consumers.c.id.in_(part))
            .values(
                project_id=value_of({key: owners[key].project_id for key in part}),
                user_id=value_of({key: owners[key].user_id for key in part}),
                consumer_type_id=value_of({key: owners[key].type_id for key in part}),
            )
        )


def remove(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Delete the records. One statement.

    :raises StaleRead: one of them is not as it was read.
    """
    _change_as_read(tx, consumers, _remove)


@cache
def _remove(size: int) -> Ready:
    return Ready(delete(_consumers).where(*in_list.unmoved(_consumers, size)))

"""Statements on ``consumers``: wait in line, create, step, hand over, remove.

Records are changed by compare-and-set on the generation that was read together with the
consumer's allocations. Every write of allocations steps or removes the record, so a record that
still matches vouches for the allocations as well.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Delete,
    Select,
    Update,
    bindparam,
    case,
    delete,
    select,
    tuple_,
    update,
)

from placement.db import in_list, models
from placement.db.api import StaleRead, Transaction
from placement.db.insertion import insert_missing
from placement.db.ledger_rows import ConsumerRow

_consumers = models.consumers
FIRST_GENERATION = 1


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
        tx.execute(_lock(size), in_list.bound("uuid", part, size)).all()


@cache
def _lock(size: int) -> Select[int]:
    return (
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
    if insert_missing(tx, _consumers, rows) != len(rows):
        raise StaleRead("a consumer was created meanwhile")


def step(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Move the generations on by one. One statement.

    :raises StaleRead: one of the records is not as it was read.
    """
    for part in in_list.batches(consumers):
        size, parameters = _as_read(part)
        if tx.execute(_step(size), parameters | {"now": models.now()}).rowcount != len(part):
            raise StaleRead("a consumer's generation moved")


@cache
def _step(size: int) -> Update:
    return (
        update(_consumers)
        .where(*_unmoved(size))
        .values(generation=_consumers.c.generation + 1, updated_at=bindparam("now"))
    )


def _as_read(consumers: Sequence[ConsumerRow]) -> tuple[int, dict[str, Any]]:
    """Return the size and the parameters of ``_unmoved``."""
    size = in_list.size_for(len(consumers))
    parameters = in_list.bound("key", [consumer.id for consumer in consumers], size)
    if size == in_list.ANY_SIZE:
        parameters["pairs"] = [(consumer.id, consumer.generation) for consumer in consumers]
    else:
        old = [consumer.generation for consumer in consumers]
        parameters |= in_list.bound("old", old, size)
    return size, parameters


def _unmoved(size: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The rows are still of the generation that was read.

    The ids stand alone as well: every engine finds them by the primary key, while MariaDB would
    scan the table for pairs, or for a computed value.
    """
    if size == in_list.ANY_SIZE:
        pairs: BindParameter[Any] = bindparam("pairs", expanding=True)
        unmoved: ColumnElement[bool] = tuple_(_consumers.c.id, _consumers.c.generation).in_(pairs)
    else:
        old = in_list.by_key(_consumers.c.id, _consumers.c.generation, "key", "old", size)
        unmoved = _consumers.c.generation == old
    return in_list.is_among(_consumers.c.id, "key", size), unmoved


def hand_over(tx: Transaction, owners: Mapping[int, Owner]) -> None:
    """Give consumers, which this transaction has stepped, other owners and types. One statement.

    :param owners: by consumer id.
    """
    for part in in_list.batches(sorted(owners)):
        tx.execute(
            update(_consumers)
            .where(_consumers.c.id.in_(part))
            .values(
                project_id=_by_consumer({key: owners[key].project_id for key in part}),
                user_id=_by_consumer({key: owners[key].user_id for key in part}),
                consumer_type_id=_by_consumer({key: owners[key].type_id for key in part}),
            )
        )


def _by_consumer(values: Mapping[int, int | None]) -> Any:
    """A value for each consumer id, written once where all of them get the same."""
    different = set(values.values())
    if len(different) == 1:
        return different.pop()
    return case(values, value=_consumers.c.id)


def remove(tx: Transaction, consumers: Sequence[ConsumerRow]) -> None:
    """Delete the records. One statement.

    :raises StaleRead: one of them is not as it was read.
    """
    for part in in_list.batches(consumers):
        size, parameters = _as_read(part)
        if tx.execute(_remove(size), parameters).rowcount != len(part):
            raise StaleRead("a consumer's generation moved")


@cache
def _remove(size: int) -> Delete:
    return delete(_consumers).where(*_unmoved(size))

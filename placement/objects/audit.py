"""The ledger against a list of consumers that exist (specification 07 section 8)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from placement.db import holder_rows
from placement.db.database import Database
from placement.objects import allocation
from placement.objects.consumer import ConsumerConflict

BATCH = 1000
"""Consumers that are read at a time."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer that holds resources.

    :param type: the name of its type, None for none.
    :param changed_at: when its allocations were last written, in UTC; None if never recorded.
    :param held: amounts by class, by provider uuid.
    """

    uuid: str
    generation: int
    type: str | None
    project: str
    user: str
    changed_at: datetime | None
    held: Mapping[str, Mapping[str, int]]


def holders(db: Database) -> Iterator[Holder]:
    """Yield every consumer that holds something. Two statements for each thousand of them."""
    last = 0
    while True:
        rows, amounts = db.snapshot(partial(holder_rows.after, consumer_id=last, most=BATCH))
        held: dict[str, dict[str, dict[str, int]]] = {row.uuid: {} for row in rows}
        for consumer, provider, class_name, amount in amounts:
            held[consumer].setdefault(provider, {})[class_name] = amount
        for row in rows:
            yield Holder(
                row.uuid,
                row.generation,
                row.type_name,
                row.project,
                row.user,
                row.changed_at,
                held[row.uuid],
            )
        if len(rows) < BATCH:
            return
        last = rows[-1].id


def release(db: Database, holder: Holder) -> bool:
    """Remove the consumer with all that it holds, if its generation is still the one that was read.

    :returns: False if it has changed, or is gone: then nothing was done.
    """
    try:
        allocation.delete_allocations(db, holder.uuid, generation=holder.generation)
    except (ConsumerConflict, allocation.NoAllocations):
        return False
    return True

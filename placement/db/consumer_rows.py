"""Statements that walk through the consumers: for the audit, the checks and the data migrations."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import ColumnElement, exists, func, select

from placement.db import models
from placement.db.database import Access, Database
from placement.db.statements import is_one_of

_allocations = models.allocations
_consumers = models.consumers

UUIDS_WITHOUT_RECORD = (
    select(models.allocations.c.consumer_id.label("consumer"))
    .where(~exists().where(_consumers.c.uuid == models.allocations.c.consumer_id))
    .distinct()
)
"""The consumers that only allocations know: older software left them."""


class HolderRow(NamedTuple):
    """A consumer with allocations; ``changed_at`` is None if no time was recorded.

    ``project`` and ``user`` are None if their rows no longer exist.
    """

    id: int
    uuid: str
    generation: int
    type_name: str | None
    project: str | None
    user: str | None
    changed_at: datetime | None


class HolderAmountRow(NamedTuple):
    """The amount that a consumer holds of one class of one provider."""

    consumer_uuid: str
    provider_uuid: str
    class_name: str
    amount: int


Holdings = tuple[list[HolderRow], list[HolderAmountRow]]
"""Consumers in the order of their ids, with their holdings. Consumers without holdings and allocations
without a consumer record are left out, and so are allocations of a deleted provider or class.
"""


BATCH = 1000
"""The number of consumers per batch."""


def walk_holders(db: Database) -> Iterator[Holdings]:
    """Yield all consumers, batch by batch. Two statements for each batch, in its own snapshot."""
    last = 0
    while True:
        read = partial(_holders, which=_consumers.c.id > last, most=BATCH)
        consumers, amounts = db.snapshot(read)
        yield consumers, amounts
        if len(consumers) < BATCH:
            return
        last = consumers[-1].id


def holder(tx: Access, uuid: str) -> Holdings:
    """Return this consumer, or None if it does not have allocations. Two statements."""
    return _holders(tx, _consumers.c.uuid == uuid, 1)


def _holders(tx: Access, which: ColumnElement[bool], most: int) -> Holdings:
    holds = select(_allocations.c.id).where(_allocations.c.consumer_id == _consumers.c.uuid)
    consumers = tx.rows(
        select(
            _consumers.c.id,
            _consumers.c.uuid,
            _consumers.c.generation,
            models.consumer_types.c.name,
            models.projects.c.external_id,
            models.users.c.external_id,
            func.coalesce(_consumers.c.updated_at, _consumers.c.created_at),
        )
        .outerjoin(models.projects, models.projects.c.id == _consumers.c.project_id)
        .outerjoin(models.users, models.users.c.id == _consumers.c.user_id)
        .outerjoin(
            models.consumer_types, models.consumer_types.c.id == _consumers.c.consumer_type_id
        )
        .where(which, holds.exists())
        .order_by(_consumers.c.id)
        .limit(most)
    )
    found = [HolderRow(*row) for row in consumers]
    amounts = tx.rows(
        select(
            _allocations.c.consumer_id,
            models.resource_providers.c.uuid,
            models.resource_classes.c.name,
            _allocations.c.used,
        )
        .join(
            models.resource_providers,
            models.resource_providers.c.id == _allocations.c.resource_provider_id,
        )
        .join(
            models.resource_classes,
            models.resource_classes.c.id == _allocations.c.resource_class_id,
        )
        .where(is_one_of(_allocations.c.consumer_id, [consumer.uuid for consumer in found]))
        .order_by(_allocations.c.id)
    )
    return found, [HolderAmountRow(*row) for row in amounts]

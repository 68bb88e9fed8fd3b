"""Statements on ``placement_aggregates`` and the associations of providers with them."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select

from placement.db import models, named_rows
from placement.db.database import Access, Transaction
from placement.db.in_list import batches
from placement.db.insertion import insert_all
from placement.db.named_rows import AGGREGATES
from placement.db.ready import Ready

_providers = models.resource_providers
_aggregates = models.placement_aggregates
_associations = models.resource_provider_aggregates


_OF_PROVIDER = Ready(
    select(_providers.c.generation, _aggregates.c.uuid)
    .select_from(_providers)
    .outerjoin(_associations, _associations.c.resource_provider_id == _providers.c.id)
    .outerjoin(_aggregates, _aggregates.c.id == _associations.c.aggregate_id)
    .where(_providers.c.uuid == bindparam("uuid"))
    .order_by(_associations.c.aggregate_id)
)


class ProviderAggregates(NamedTuple):
    """The aggregates of one provider and its generation."""

    generation: int
    uuids: list[str]


def of_provider(access: Access, provider_uuid: str) -> ProviderAggregates | None:
    """Return the aggregates of the provider, None if there is no such provider. One statement."""
    rows = access.rows(_OF_PROVIDER, {"uuid": provider_uuid})
    if not rows:
        return None
    return ProviderAggregates(rows[0][0], [uuid for _, uuid in rows if uuid is not None])


def associated(tx: Transaction, provider_id: int) -> dict[str, int]:
    """Return the ids of a locked provider's aggregates by uuid. One statement."""
    rows = tx.execute(
        select(_aggregates.c.uuid, _aggregates.c.id)
        .join(_associations, _associations.c.aggregate_id == _aggregates.c.id)
        .where(_associations.c.resource_provider_id == provider_id)
    )
    return {row.uuid: row.id for row in rows}


def get_or_create(tx: Transaction, uuids: Collection[str]) -> list[int]:
    """Return the ids of the aggregates, making those that are new. One or three statements.

    :raises StaleRead: the database takes one of them for another.
    """
    known = named_rows.ids(tx, AGGREGATES, uuids)
    missing = set(uuids) - known.keys()
    if missing:
        known |= named_rows.create(tx, AGGREGATES, missing)
    return [known[uuid] for uuid in sorted(uuids)]


def associate(tx: Transaction, provider_id: int, aggregate_ids: Collection[int]) -> None:
    """Associate a locked provider with aggregates it is not associated with. One statement."""
    created_at = models.now()
    rows = [
        {"resource_provider_id": provider_id, "aggregate_id": key, "created_at": created_at}
        for key in sorted(aggregate_ids)
    ]
    insert_all(tx, _associations, rows)


def dissociate(tx: Transaction, provider_id: int, aggregate_ids: Collection[int]) -> None:
    """End associations of a locked provider. One statement."""
    for batch in batches(sorted(aggregate_ids)):
        tx.execute(
            delete(_associations).where(
                _associations.c.resource_provider_id == provider_id,
                _associations.c.aggregate_id.in_(batch),
            )
        )

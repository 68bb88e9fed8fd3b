"""Aggregates: identifiers that providers are associated with (specification 02 section 5)."""

from collections.abc import Sequence

from placement import errors
from placement.db import aggregate_rows, provider_rows
from placement.db.aggregate_rows import ProviderAggregates
from placement.db.database import Database, Transaction
from placement.objects import resource_provider


class AggregatesLost(errors.ConcurrentUpdate):
    """Others kept changing the provider."""

    reason = "provider_generation"
    retry = errors.Retry.AFTER_READING
    text = "Update conflict: the provider changed, please try again."


def of_provider(db: Database, provider_uuid: str) -> ProviderAggregates:
    """Return the aggregates of a provider.

    :raises resource_provider.ProviderNotFound:
    """
    return resource_provider.read_of(db, provider_uuid, aggregate_rows.of_provider)


def replace(
    db: Database, provider_uuid: str, uuids: Sequence[str], *, generation: int | None
) -> int:
    """Make these the aggregates of a provider and return its generation after.

    :param uuids: distinct, stored as they are; new ones come into being.
    :param generation: what the client has seen; None (below 1.19) to neither compare nor step it.
    :raises resource_provider.ProviderNotFound:
    :raises resource_provider.GenerationMoved:
    """
    return db.write(
        lambda tx: _replace(tx, provider_uuid, uuids, generation), on_conflict=AggregatesLost
    )


def _replace(
    tx: Transaction, provider_uuid: str, uuids: Sequence[str], generation: int | None
) -> int:
    provider = resource_provider.lock_one(tx, provider_uuid, generation)
    changed = _change_associations(tx, provider.id, set(uuids))
    if generation is not None:
        provider_rows.step(tx, [provider])
        return generation + 1
    if changed:
        provider_rows.touch(tx, [provider.id])
    return provider.generation


def _change_associations(tx: Transaction, provider_id: int, uuids: set[str]) -> bool:
    """Associate a locked provider with exactly these; say whether that was a change."""
    present = aggregate_rows.associated(tx, provider_id)
    if uuids == present.keys():
        return False
    added = aggregate_rows.get_or_create(tx, uuids - present.keys())
    removed = [aggregate_id for uuid, aggregate_id in present.items() if uuid not in uuids]
    aggregate_rows.dissociate(tx, provider_id, removed)
    aggregate_rows.associate(tx, provider_id, added)
    return True

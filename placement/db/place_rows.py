"""Statements that read which providers of the cloud belong together: trees, and sharing providers."""

from typing import NamedTuple

import os_traits
from sqlalchemy import select

from placement.db import models
from placement.db.database import Snapshot

_providers = models.resource_providers
_mine = models.resource_provider_aggregates.alias("mine")
_theirs = models.resource_provider_aggregates.alias("theirs")


class PlaceRow(NamedTuple):
    """A provider in its tree; the root can be missing in old databases and wrong in damaged ones."""

    id: int
    uuid: str
    name: str | None
    parent_id: int | None
    root_id: int | None


def providers(tx: Snapshot) -> list[PlaceRow]:
    """Return all providers. One statement."""
    rows = tx.rows(
        select(
            _providers.c.id,
            _providers.c.uuid,
            _providers.c.name,
            _providers.c.parent_provider_id,
            _providers.c.root_provider_id,
        )
    )
    return [PlaceRow(*row) for row in rows]


def sharing(tx: Snapshot) -> list[tuple[int, int]]:
    """Return (sharing provider, provider of one of its aggregates) by id, all pairs. One statement."""
    rows = tx.rows(
        select(_mine.c.resource_provider_id, _theirs.c.resource_provider_id)
        .distinct()
        .join(_theirs, _theirs.c.aggregate_id == _mine.c.aggregate_id)
        .join(
            models.resource_provider_traits,
            models.resource_provider_traits.c.resource_provider_id == _mine.c.resource_provider_id,
        )
        .join(models.traits, models.traits.c.id == models.resource_provider_traits.c.trait_id)
        .where(models.traits.c.name == os_traits.MISC_SHARES_VIA_AGGREGATE)
    )
    return [(row[0], row[1]) for row in rows]

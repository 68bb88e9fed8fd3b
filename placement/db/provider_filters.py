"""Conditions on ``resource_providers``, one per filter of the list of providers (contract 02 3.4).

Each is set-based, so that a list with any number of filters stays one statement. Who has room for
``resources`` is no condition: that is a search.
"""

from collections.abc import Collection

from sqlalchemy import ColumnElement, exists, select

from placement.db import models

_providers = models.resource_providers
_provider_traits = models.resource_provider_traits
_provider_aggregates = models.resource_provider_aggregates
_aggregates = models.placement_aggregates

Condition = ColumnElement[bool]


def uuid_is(uuid: str) -> Condition:
    """The provider has this uuid."""
    return _providers.c.uuid == uuid


def name_is(name: str) -> Condition:
    """The provider has this name."""
    return _providers.c.name == name


def in_tree(uuid: str) -> Condition:
    """The provider belongs to the tree of the provider ``uuid``."""
    member = _providers.alias("member")
    root_id = select(member.c.root_provider_id).where(member.c.uuid == uuid).scalar_subquery()
    return _providers.c.root_provider_id == root_id


def has_any_trait(trait_ids: Collection[int]) -> Condition:
    """The provider has at least one of the traits."""
    return _providers.c.id.in_(
        select(_provider_traits.c.resource_provider_id).where(
            _provider_traits.c.trait_id.in_(sorted(trait_ids))
        )
    )


def has_no_trait(trait_ids: Collection[int]) -> Condition:
    """The provider has none of the traits."""
    return ~exists().where(
        _provider_traits.c.resource_provider_id == _providers.c.id,
        _provider_traits.c.trait_id.in_(sorted(trait_ids)),
    )


def in_any_aggregate(uuids: Collection[str]) -> Condition:
    """The provider is associated with at least one of the aggregates."""
    return _providers.c.id.in_(
        select(_provider_aggregates.c.resource_provider_id)
        .join(_aggregates, _aggregates.c.id == _provider_aggregates.c.aggregate_id)
        .where(_aggregates.c.uuid.in_(sorted(uuids)))
    )


def in_no_aggregate(uuids: Collection[str]) -> Condition:
    """The provider is associated with none of the aggregates."""
    return ~exists().where(
        _provider_aggregates.c.resource_provider_id == _providers.c.id,
        _provider_aggregates.c.aggregate_id == _aggregates.c.id,
        _aggregates.c.uuid.in_(sorted(uuids)),
    )

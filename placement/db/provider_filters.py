"""Conditions on ``resource_providers``, one per filter of the list of providers (contract 02 3.4).

Each is set-based, so that a list with any number of filters stays one statement.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    CHAR,
    ColumnElement,
    Double,
    FromClause,
    and_,
    cast,
    exists,
    false,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from placement.db import models

_providers = models.resource_providers
_inventories = models.inventories
_provider_traits = models.resource_provider_traits
_provider_aggregates = models.resource_provider_aggregates
_aggregates = models.placement_aggregates

Condition = ColumnElement[bool]

LARGEST_AMOUNT = 2**31 - 1
"""No larger amount fits anywhere: ``max_unit`` is at most this."""


class _PlainRatio(FunctionElement[float]):
    """``allocation_ratio`` as the driver returns it, in double precision.

    MySQL stores it in single precision and would calculate with 0.899999976 where every reader of
    the column sees 0.9, so that the last unit of a host would be found by some and not by others.
    """

    inherit_cache = True
    type = Double()


@compiles(_PlainRatio)
def _as_it_is(element: Any, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_PlainRatio, "mysql", "mariadb")
def _as_it_is_shown(element: Any, compiler: Any, **options: Any) -> str:
    (column,) = element.clauses
    return str(compiler.process(cast(cast(column, CHAR), Double), **options))


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


class Room(NamedTuple):
    """A demand on the provider's own inventory of one class (contract 02 section 3.4.3)."""

    class_id: int
    amount: int


def join_rooms(rooms: Sequence[Room]) -> FromClause:
    """Return the providers whose own inventories can take all the amounts; at least one is given.

    The inventories come first: nobody can be ruled out sooner.
    """
    inventories = [_inventories.alias(f"room_{number}") for number in range(len(rooms))]
    provider_id = inventories[0].c.resource_provider_id
    joined: FromClause = inventories[0]
    for inventory, room in zip(inventories[1:], rooms[1:], strict=True):
        same = inventory.c.resource_provider_id == provider_id
        joined = joined.join(inventory, same & _fits(inventory.c, room))
    first = _fits(inventories[0].c, rooms[0])
    return joined.join(_providers, (_providers.c.id == provider_id) & first)


def _fits(inventory: Any, room: Room) -> Condition:
    if room.amount > LARGEST_AMOUNT:
        return false()
    ratio = _PlainRatio(inventory.allocation_ratio)
    return and_(
        inventory.resource_class_id == room.class_id,
        inventory.used + room.amount <= (inventory.total - inventory.reserved) * ratio,
        inventory.min_unit <= room.amount,
        inventory.max_unit >= room.amount,
        room.amount % inventory.step_size == 0,
    )

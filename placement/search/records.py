"""The shapes in which providers enter a cloud: one by one, or as rows in bulk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from placement.limits import MAX_INT


class Inventory(NamedTuple):
    """One inventory with its usage: I(p, c) and U(p, c) of section 5.1."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0
    used: int = 0

    @property
    def capacity(self) -> int:
        """The integer part of (total - reserved) * allocation_ratio."""
        return int((self.total - self.reserved) * self.allocation_ratio)


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """The full content of one provider; ``parent_id`` is None for a root.

    ``modified``: in seconds since the epoch, 0 if nobody knows.
    """

    provider_id: int
    uuid: str
    revision: int
    parent_id: int | None
    root_id: int
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    name: str = ""
    generation: int = 0
    modified: int = 0


class Stock(NamedTuple):
    """What claims change of a provider; as in :class:`ProviderRecord`."""

    provider_id: int
    revision: int
    generation: int
    modified: int
    inventories: dict[str, Inventory]


Table = Sequence[Sequence[Any]] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class CloudRows:
    """A whole cloud as database rows; each sequence may come in any order.

    ``providers``: (id, uuid, revision, parent id or None, root id, name, generation, modified).
    ``inventories``: (provider id, class id, total, reserved, min_unit, max_unit, step_size,
    allocation_ratio, used).
    ``traits``: (provider id, trait id). ``aggregates``: (provider id, aggregate id).
    The three mappings name the ids. Rows of unknown providers are ignored. Those of inventories may be an
    array of records, those of traits and aggregates one of two columns.
    """

    providers: Sequence[Sequence[Any]]
    inventories: Table
    traits: Table
    aggregates: Table
    class_names: Mapping[int, str]
    trait_names: Mapping[int, str]
    aggregate_uuids: Mapping[int, str]

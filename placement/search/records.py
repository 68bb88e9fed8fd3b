"""The shapes in which providers enter a cloud: one by one, or as rows in bulk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placement.inventory_record import InventoryRecord


class UsedInventory(NamedTuple):
    """One inventory with its usage: I(p, c) and U(p, c) of section 5.1."""

    record: InventoryRecord
    used: int = 0

    @classmethod
    def from_amounts(cls, amounts: Sequence[Any]) -> UsedInventory:
        """Return the inventory with these values: the record's, then the used amount."""
        *record, used = amounts
        return cls(InventoryRecord._make(record), used)

    @property
    def capacity(self) -> int:
        """The capacity: the integer part of (total - reserved) * allocation_ratio."""
        return int(self.record.capacity)


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """The full content of one provider; ``parent_id`` is None for a root.

    ``modified``: in seconds since the epoch, 0 if it is not known.
    """

    provider_id: int
    uuid: str
    revision: int
    parent_id: int | None
    root_id: int
    inventories: Mapping[str, UsedInventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    name: str = ""
    generation: int = 0
    modified: int = 0


class Stock(NamedTuple):
    """The values of a provider that claims change, as in :class:`ProviderRecord`."""

    provider_id: int
    revision: int
    generation: int
    modified: int
    inventories: dict[str, UsedInventory]


@dataclass(frozen=True, slots=True)
class CloudRows:
    """A whole cloud as database rows, in any order; rows of unknown providers are ignored.

    ``providers``: (id, uuid, revision, parent id or None, root id, name, generation, modified).
    ``inventories``: (provider id, class id, the fields of ``InventoryRecord``, used).
    ``traits``, ``aggregates``: (provider id, id).
    """

    providers: Sequence[Sequence[Any]]
    inventories: Sequence[Sequence[Any]]
    traits: Sequence[Sequence[Any]]
    aggregates: Sequence[Sequence[Any]]
    class_names: Mapping[int, str]
    trait_names: Mapping[int, str]
    aggregate_uuids: Mapping[int, str]

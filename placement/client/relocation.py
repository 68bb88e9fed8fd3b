"""Moves of allocations between providers, in the form that a driver edits (specification 05 section C7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placement.client import exceptions as exc
from placement.client.gathering import Records
from placement.client.provider_tree import ProviderTree

MAX_UNIT = 2147483647


class Takeover(NamedTuple):
    """A provider that takes over another's allocations of a class, if they fit.

    ``consumers``: the only consumers that belong here; None stands for any consumer that fits. ``split``: a
    consumer's amount can be divided if all of it does not fit.
    """

    target_uuid: str
    source_uuid: str
    resource_class: str
    as_class: str
    consumers: frozenset[str] | None = None
    split: bool = False


class Move(NamedTuple):
    """A move of one consumer's amount of one class from one provider to another."""

    consumer_uuid: str
    source_uuid: str
    resource_class: str
    target_uuid: str
    as_class: str
    amount: int


@dataclass
class _Room:
    """The amount that one inventory can still take."""

    free: float
    min_unit: int
    max_unit: int
    step_size: int

    @classmethod
    def from_record(cls, record: Mapping[str, Any], used: int) -> _Room:
        ratio = record.get("allocation_ratio", 1.0)
        capacity = (record["total"] - record.get("reserved", 0)) * ratio
        return cls(
            capacity - used,
            record.get("min_unit", 1),
            record.get("max_unit", MAX_UNIT),
            record.get("step_size", 1),
        )

    def fits(self, amount: int) -> bool:
        return (
            amount <= self.free
            and self.min_unit <= amount <= self.max_unit
            and amount % self.step_size == 0
        )

    def largest_part(self, amount: int) -> int:
        """Return the most of ``amount`` that fits, 0 if nothing does."""
        part = int(min(amount, self.free, self.max_unit))
        part -= part % self.step_size
        return part if part >= self.min_unit else 0


@dataclass
class Relocation:
    """An edit of allocation records, in place, so that they follow takeovers.

    The classes of one consumer that leave one provider stay together where they can; large
    consumers are placed first, each in the first provider, in the order of the takeovers, that
    has room. ``tree`` has the inventories wanted at the end.
    """

    tree: ProviderTree
    allocations: Records
    takeovers: list[Takeover]
    moves: list[Move] = field(default_factory=list)
    _rooms: dict[tuple[str, str], _Room] = field(default_factory=dict)

    def run(self) -> list[Move]:
        """Move everything; ReshapeFailed, naming the consumer, if something does not fit."""
        for source_uuid in dict.fromkeys(one.source_uuid for one in self.takeovers):
            here = [one for one in self.takeovers if one.source_uuid == source_uuid]
            classes = {one.resource_class for one in here}
            for consumer in self._order_consumers(source_uuid, classes):
                self._place(consumer, source_uuid, here)
        return self.moves

    def _order_consumers(self, source_uuid: str, classes: set[str]) -> list[str]:
        """Order the consumers to move: consumers that belong somewhere first, then by size."""
        pinned = {one for takeover in self.takeovers for one in takeover.consumers or ()}
        sizes = {
            consumer: sum(
                amount
                for name, amount in self._read_resources(consumer, source_uuid).items()
                if name in classes
            )
            for consumer in self.allocations
        }
        # Takeovers with one possible place are decided before others fill that place, and large ones before
        # small ones. The uuid orders equals, so that a repeated attempt makes the same moves.
        return sorted(
            (consumer for consumer, size in sizes.items() if size),
            key=lambda consumer: (consumer not in pinned, -sizes[consumer], consumer),
        )

    def _place(self, consumer: str, source_uuid: str, takeovers: list[Takeover]) -> None:
        """Move all classes to one target if one has room for them; otherwise move each class by itself."""
        open_to = [one for one in takeovers if _accepts(one, consumer, takeovers)]
        moving = {one.resource_class for one in takeovers}
        wanted = {
            name: amount
            for name, amount in self._read_resources(consumer, source_uuid).items()
            if name in moving
        }
        # Moved separately, a consumer's processors could land on one NUMA cell and its memory on another.
        for target_uuid in dict.fromkeys(one.target_uuid for one in open_to):
            there = {one.resource_class: one for one in open_to if one.target_uuid == target_uuid}
            if wanted.keys() <= there.keys() and all(
                self._find_room(there[name]).fits(amount) for name, amount in wanted.items()
            ):
                for name, amount in wanted.items():
                    self._move(consumer, there[name], amount)
                return
        for name, amount in wanted.items():
            self._place_class(consumer, amount, [o for o in open_to if o.resource_class == name])

    def _place_class(self, consumer: str, amount: int, takeovers: list[Takeover]) -> None:
        for one in takeovers:
            if self._find_room(one).fits(amount):
                self._move(consumer, one, amount)
                return
        # The amount is divided only here, since no provider has room for all of it.
        left = amount
        for one in takeovers:
            part = self._find_room(one).largest_part(left) if one.split else 0
            if part:
                self._move(consumer, one, part)
                left -= part
        if left:
            raise exc.ReshapeFailed(self._explain_no_room(consumer, left, takeovers))

    def _explain_no_room(self, consumer: str, amount: int, takeovers: list[Takeover]) -> str:
        rooms = ", ".join(
            f"{self.tree.data(one.target_uuid).name} has {max(0, int(self._find_room(one).free))} of"
            f" {one.as_class} free"
            for one in takeovers
        )
        return (
            f"no provider that takes over has room, in its units, for {amount} units of consumer"
            f" {consumer} ({rooms or 'none takes over from it'}). Give one more inventory, or"
            " say which consumers belong where"
        )

    def _move(self, consumer: str, takeover: Takeover, amount: int) -> None:
        places = self.allocations[consumer]["allocations"]
        resources = places[takeover.source_uuid]["resources"]
        resources[takeover.resource_class] -= amount
        # The schema refuses an amount of 0, and a provider without resources.
        if not resources[takeover.resource_class]:
            del resources[takeover.resource_class]
        if not resources:
            del places[takeover.source_uuid]
        there = places.setdefault(takeover.target_uuid, {"resources": {}})["resources"]
        there[takeover.as_class] = there.get(takeover.as_class, 0) + amount
        self._find_room(takeover).free -= amount
        self.moves.append(
            Move(
                consumer,
                takeover.source_uuid,
                takeover.resource_class,
                takeover.target_uuid,
                takeover.as_class,
                amount,
            )
        )

    def _read_resources(self, consumer: str, provider_uuid: str) -> dict[str, int]:
        place = self.allocations[consumer]["allocations"].get(provider_uuid, {})
        return dict(place.get("resources", {}))

    def _find_room(self, takeover: Takeover) -> _Room:
        key = (takeover.target_uuid, takeover.as_class)
        if key not in self._rooms:
            record = self.tree.data(takeover.target_uuid).inventory.get(takeover.as_class)
            # The sum is counted once and updated by _move: counting all consumers at each move would be
            # quadratic.
            used = sum(
                self._read_resources(consumer, key[0]).get(key[1], 0) for consumer in self.allocations
            )
            self._rooms[key] = _Room.from_record(record or {"total": 0}, used)
        return self._rooms[key]


def _accepts(takeover: Takeover, consumer: str, takeovers: Iterable[Takeover]) -> bool:
    """Return whether this target accepts a consumer, which belongs here or does not belong anywhere."""
    if takeover.consumers is not None:
        return consumer in takeover.consumers
    # A consumer that is pinned elsewhere for this class waits for its own place, even if there is room here.
    same_class = (one for one in takeovers if one.resource_class == takeover.resource_class)
    return not any(consumer in (one.consumers or ()) for one in same_class)

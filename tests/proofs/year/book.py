"""The book of a year: what was acknowledged and therefore must be there, and what was seen that must not be.

The ledger has the form of ``tests.proofs.year.ledger``, so it can be compared with the tables as they are.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from placement.inventory_record import InventoryRecord
from tests.proofs.year.ledger import Ledger

Sets = Mapping[str, Mapping[str, int]]
"""Amounts by class, by uuid of the provider."""


VARYING = re.compile(r"[0-9a-f]{8}-[-0-9a-f]{27}|group-[-0-9]+|[0-9]+|[a-z]+-user")
"""What differs between two faults that are the same."""


class Broken(AssertionError):
    """A promise was broken. ``promise``: its name. ``signature``: by which two faults are the same one."""

    def __init__(self, promise: str, what: str) -> None:
        super().__init__(f"{promise}: {what}")
        self.promise = promise
        self.signature = f"{promise}: {VARYING.sub('', what)[:50]}"


def unequal(known: Any, shown: Any, where: str = "") -> Iterator[str]:
    """Yield each place in which two documents differ, with both values."""
    if known == shown:
        return
    if isinstance(known, dict) and isinstance(shown, dict):
        for name in sorted(known.keys() | shown.keys()):
            yield from unequal(known.get(name), shown.get(name), f"{where} {name}")
    elif isinstance(known, list) and isinstance(shown, list) and len(known) == len(shown):
        for number, pair in enumerate(zip(known, shown, strict=True)):
            yield from unequal(*pair, f"{where} {number}")
    else:
        yield f"{where.strip()}: {known} and {shown}"


@dataclass(frozen=True)
class Open:
    """A write whose answer was lost: its consumers as they were, and as it leaves them.

    ``after``: None if the service chose where they are.
    """

    asked: str
    before: Mapping[str, Any]
    after: Mapping[str, Any] | None

    def explains(self, shown: Mapping[str, Any]) -> bool:
        """Return whether its consumers can be so: the write took place whole, or not at all."""
        if shown == self.before or shown == self.after:
            return True
        steps = {uuid: (was["generation"] if was else 0) + 1 for uuid, was in self.before.items()}
        return self.after is None and steps == {u: now and now["generation"] for u, now in shown.items()}


@dataclass
class Book:
    """What clients know together.

    ``held``: consumers that lose their allocations when their hold ends. ``ended``: those of them whose hold
    has ended, and which may be there or not. ``over``: provider and class of which more may be in use than
    there is, because an inventory was made smaller. ``authors``: user and request, by the request's id.
    ``damaged``: something has changed the tables by hand since the last scrub. ``open``: writes whose answer
    was lost. ``unsure``: the uuids that these name.
    """

    ledger: Ledger = field(default_factory=lambda: {"consumers": {}, "providers": {}})
    traits: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    over: set[tuple[str, str]] = field(default_factory=set)
    authors: dict[str, tuple[str, str]] = field(default_factory=dict)
    damaged: bool = False
    open: list[Open] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)

    @property
    def consumers(self) -> dict[str, Any]:
        """The consumers by uuid."""
        return self.ledger["consumers"]

    @property
    def providers(self) -> dict[str, Any]:
        """The providers by uuid."""
        return self.ledger["providers"]

    def knows(self, uuid: str) -> bool:
        """Return whether its state is sure: no write of it is open, and no hold of it can end."""
        return uuid not in self.unsure and uuid not in self.held and uuid not in self.ended

    def copied(self) -> "Book":
        """Return the book as it is now; the authors stay shared."""
        kept, self.authors = self.authors, {}
        copy = deepcopy(self)
        self.authors = copy.authors = kept
        return copy

    # -- what is in use --

    def sets(self, consumer: str) -> Sets:
        """Return what a consumer has."""
        held = self.consumers.get(consumer, {"held": {}})["held"]
        return {provider: part["resources"] for provider, part in held.items()}

    def places(self, consumers: Collection[str]) -> set[tuple[str, str]]:
        """Return providers and classes of which some consumers have something."""
        return {(uuid, name) for each in consumers for uuid, part in self.sets(each).items() for name in part}

    def used(self, provider: str, name: str, without: Collection[str] = ()) -> int:
        """Return how much of a class is in use."""
        return sum(
            self.sets(each).get(provider, {}).get(name, 0)
            for each in self.consumers
            if each not in without
        )

    def record(self, provider: str, name: str) -> InventoryRecord | None:
        """Return the inventory of a class, None if there is none."""
        amounts = self.providers.get(provider, {"inventories": {}})["inventories"].get(name)
        return amounts and InventoryRecord(**amounts)

    def in_use(self, provider: str) -> set[str]:
        """Return the classes of a provider of which something is in use."""
        return {name for each in self.consumers for name in self.sets(each).get(provider, {})}

    def children(self, provider: str) -> list[str]:
        """Return the providers right below one."""
        return [uuid for uuid, each in self.providers.items() if each["parent_provider_uuid"] == provider]

    def refusals(self, entries: Mapping[str, Sets]) -> Iterator[str]:
        """Yield why these sets do not fit instead of what their consumers have: ``unknown``, ``full``."""
        wanted: dict[tuple[str, str], list[int]] = {}
        for sets in entries.values():
            for provider, amounts in sets.items():
                for name, amount in amounts.items():
                    wanted.setdefault((provider, name), []).append(amount)
        for (provider, name), parts in wanted.items():
            record, more = self.record(provider, name), sum(parts)
            if provider not in self.providers:
                yield "unknown"
            elif (
                record is None
                or not all(map(record.admits, parts))
                or self.used(provider, name, entries) + more > record.capacity
            ):
                yield "full"

    # -- what was acknowledged --

    def wrote(self, consumer: str, entry: Mapping[str, Any], sets: Sets | None = None) -> None:
        """Note that what a body says of a consumer is so now."""
        sets = {u: e["resources"] for u, e in entry["allocations"].items()} if sets is None else sets
        self.held.discard(consumer)
        self.ended.discard(consumer)
        if not sets:
            self.consumers.pop(consumer, None)
            return
        owner = {name: entry.get(name) for name in ("project_id", "user_id", "consumer_type")}
        self.consumers[consumer] = {
            "generation": (entry["consumer_generation"] or 0) + 1,
            "held": {uuid: {**owner, "resources": dict(some)} for uuid, some in sets.items()},
        }

    def stocked(self, provider: str, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the whole inventory of a provider."""
        self.providers[provider]["inventories"] = {
            name: InventoryRecord(**record)._asdict() for name, record in records.items()
        }
        self.note_over()

    def note_over(self) -> None:
        """Note where more is in use than there is, which a smaller inventory may cause."""
        self.over = set(self.overfull())

    def overfull(self) -> Iterator[tuple[str, str]]:
        """Yield provider and class of which more is in use than there is."""
        for provider, each in self.providers.items():
            for name, amounts in each["inventories"].items():
                if self.used(provider, name) > InventoryRecord(**amounts).capacity:
                    yield provider, name

    def adopt(self, now: Ledger, only: Collection[str] | None = None) -> None:
        """Take over what an event has made of the ledger.

        :param only: uuids of the consumers and providers that the event may have changed; None: any.
        """
        for part in ("consumers", "providers"):
            if only is None:
                self.ledger[part] = deepcopy(now[part])
                continue
            for uuid in only:
                if uuid in now[part]:
                    self.ledger[part][uuid] = deepcopy(now[part][uuid])
                else:
                    self.ledger[part].pop(uuid, None)
        self.held &= self.consumers.keys()
        self.ended &= self.consumers.keys()
        self.note_over()

    def settle(self, now: Ledger) -> None:
        """Learn what the book cannot know: generations that claims have moved, and ends of holds."""
        for uuid in self.ended - now["consumers"].keys():
            self.consumers.pop(uuid, None)
        self.ended &= now["consumers"].keys()
        self.held &= self.consumers.keys()
        for uuid, each in self.providers.items():
            shown = now["providers"].get(uuid)
            if shown is None:
                continue
            if shown["generation"] < each["generation"]:
                raise Broken("generations", f"{uuid} went back to {shown['generation']}")
            each["generation"] = shown["generation"]

    def differences(self, now: Ledger) -> Iterator[str]:
        """Yield what the tables have otherwise than the book."""
        for part in ("consumers", "providers"):
            known, shown = self.ledger[part], now[part]
            for uuid in sorted(known.keys() | shown.keys()):
                for what in unequal(known.get(uuid), shown.get(uuid)):
                    yield f"{part[:-1]} {uuid}, by the book and as it is: {what}"

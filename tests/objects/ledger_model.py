"""The ledger in plain dictionaries: specification 03 and specification 05 part A, literally.

It takes requests in their newest shape and says what the answer must be; afterwards its dictionaries
are what the service must show.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CONCURRENT = "placement.concurrent_update"
UNDEFINED = "placement.undefined_code"
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
"""The classes that exist for the model, in the order of their ids."""

ANY = "any generation"


@dataclass(frozen=True)
class Answer:
    """What the service must answer: status, code (of an error), words in the message."""

    status: int
    code: str | None = None
    words: tuple[str, ...] = ()


class Refused(Exception):
    """The request changes nothing."""

    def __init__(self, status: int, code: str, *words: str) -> None:
        self.answer = Answer(status, code, words)


@dataclass
class Record:
    """A consumer record."""

    project: str
    user: str
    type: str | None
    generation: int


@dataclass
class Provider:
    """A provider: generation, and by class its inventory as the API shows it."""

    generation: int = 0
    inventories: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """What a request says of one consumer."""

    uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    project: str
    user: str
    type: str | None
    generation: Any


@dataclass
class Model:
    """The state: providers by uuid, consumer records by uuid, allocations by consumer."""

    providers: dict[str, Provider] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    allocations: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def used(self, provider_uuid: str, class_name: str, besides: Any = ()) -> int:
        """Return what is in use, leaving out some consumers."""
        return sum(
            held.get(provider_uuid, {}).get(class_name, 0)
            for consumer_uuid, held in self.allocations.items()
            if consumer_uuid not in besides
        )

    def _attempt(self, change: Any) -> Answer:
        """Apply a change to a copy; keep the copy if nothing was refused."""
        after = copy.deepcopy(self)
        try:
            change(after)
        except Refused as refused:
            return refused.answer
        self.__dict__ = after.__dict__
        return Answer(204)

    # What happens without a request

    def scrub(self) -> None:
        """Remove consumer records without allocations (specification 06 section 7.8)."""
        self.records = {uuid: each for uuid, each in self.records.items() if uuid in self.allocations}

    # Allocations

    def replace(self, entries: list[Entry], one: bool) -> Answer:
        """PUT (``one``) or POST: specification 03 section 7."""
        unknown = "Unable to allocate inventory No such resource class {}"
        if one:
            unknown = f"Unable to allocate inventory for consumer {entries[0].uuid}: "
            unknown += "No such resource class {}"
        return self._attempt(lambda state: state._replace(entries, unknown))

    def _replace(self, entries: list[Entry], unknown: str) -> None:
        self._check_generations(entries)
        self._check_names(entries, unknown)
        self._check_room(entries)
        self._write(entries)

    def _check_generations(self, entries: list[Entry]) -> None:
        for entry in entries:
            record = self.records.get(entry.uuid)
            if entry.generation == ANY:
                continue
            words = "consumer generation conflict"
            if record is None:
                if entry.generation is not None:
                    but = f"expected null but got {entry.generation}"
                    raise Refused(409, CONCURRENT, words, but)
            elif entry.generation is None and entry.uuid not in self.allocations:
                continue
            elif entry.generation != record.generation:
                but = f"expected {record.generation} but got {entry.generation}"
                raise Refused(409, CONCURRENT, words, but)

    def _check_names(self, entries: list[Entry], unknown: str) -> None:
        for entry in entries:
            for uuid in entry.allocations:
                if uuid not in self.providers:
                    words = f"Allocation for resource provider '{uuid}' that does not exist."
                    raise Refused(400, UNDEFINED, words)
        for entry in entries:
            for held in entry.allocations.values():
                for name in held:
                    if name not in CLASSES:
                        raise Refused(400, UNDEFINED, unknown.format(name))

    def _check_room(self, entries: list[Entry]) -> None:
        named = {entry.uuid for entry in entries}
        wanted: dict[tuple[str, str], int] = {}
        for entry in entries:
            for uuid, held in entry.allocations.items():
                for name, amount in held.items():
                    wanted[uuid, name] = wanted.get((uuid, name), 0) + amount
        names = {name for _, name in wanted}
        for uuid, _ in wanted:
            if not names & set(self.providers[uuid].inventories):
                raise Refused(
                    409, UNDEFINED, "Unable to allocate inventory: Inventory for", "invalid."
                )
        for entry in entries:
            for uuid, held in entry.allocations.items():
                for name, amount in held.items():
                    self._check_one(uuid, name, amount, wanted[uuid, name], named)

    def _check_one(self, uuid: str, name: str, amount: int, wanted: int, named: set[str]) -> None:
        start = "Unable to allocate inventory: "
        record = self.providers[uuid].inventories.get(name)
        if record is None:
            words = f"Inventory for '{name}' on resource provider '{uuid}' invalid."
            raise Refused(409, UNDEFINED, start, words)
        where = f"'{name}' on resource provider '{uuid}'"
        if not record["min_unit"] <= amount <= record["max_unit"] or amount % record["step_size"]:
            words = "The requested amount would violate inventory constraints."
            raise Refused(409, UNDEFINED, start, where, words)
        capacity = (record["total"] - record["reserved"]) * record["allocation_ratio"]
        total = self.used(uuid, name, besides=named) + wanted
        before = self.used(uuid, name)
        if not (total <= capacity or (before > 0 and total <= before)):
            words = "The requested amount would exceed the capacity."
            raise Refused(409, UNDEFINED, start, where, words)

    def _write(self, entries: list[Entry]) -> None:
        stepped: set[str] = set()
        for entry in entries:
            before = self.allocations.pop(entry.uuid, {})
            if entry.allocations:
                stepped |= set(entry.allocations)
                self.allocations[entry.uuid] = {u: dict(h) for u, h in entry.allocations.items()}
                self._write_record(entry)
            else:
                stepped |= set(before)
                self.records.pop(entry.uuid, None)
        for uuid in stepped:
            self.providers[uuid].generation += 1

    def _write_record(self, entry: Entry) -> None:
        old = self.records.get(entry.uuid)
        kind = entry.type or (old.type if old else None)
        generation = old.generation + 1 if old else 1
        self.records[entry.uuid] = Record(entry.project, entry.user, kind, generation)

    def delete(self, consumer_uuid: str) -> Answer:
        """DELETE of a consumer: specification 03 section 9."""
        if consumer_uuid not in self.records or consumer_uuid not in self.allocations:
            words = f"No allocations for consumer '{consumer_uuid}'"
            return Answer(404, UNDEFINED, (words,))
        del self.records[consumer_uuid], self.allocations[consumer_uuid]
        return Answer(204)

    # Reshapes

    def reshape(
        self, inventories: Mapping[str, tuple[int, dict[str, dict[str, Any]]]], entries: list[Entry]
    ) -> Answer:
        """POST /reshaper: the three steps of specification 05 section A5, one after the other."""
        return self._attempt(lambda state: state._reshape(inventories, entries))

    def _reshape(
        self, inventories: Mapping[str, tuple[int, dict[str, dict[str, Any]]]], entries: list[Entry]
    ) -> None:
        unknown = "malformed reshaper data: No such resource class {}"
        for uuid, (given, _) in inventories.items():
            if uuid not in self.providers:
                words = f"Resource provider {uuid} in inventories not found"
                raise Refused(400, "placement.resource_provider.not_found", words)
            actual = self.providers[uuid].generation
            if actual != given:
                words = f"for provider {uuid}: actual: {actual}, given: {given}"
                raise Refused(409, CONCURRENT, "resource provider generation conflict", words)
        self._check_generations(entries)
        known = [entry for entry in entries if not set(entry.allocations) <= set(self.providers)]
        if known:
            self._check_names(known, unknown)
        for _, records in inventories.values():
            for name in records:
                if name not in CLASSES:
                    raise Refused(400, UNDEFINED, unknown.format(name))
        for uuid, (_, records) in inventories.items():
            if records:
                self.providers[uuid].inventories |= records
                self.providers[uuid].generation += 1
        self._replace(entries, unknown)
        for uuid, (_, records) in inventories.items():
            self._finish(uuid, records)

    def _finish(self, uuid: str, records: dict[str, dict[str, Any]]) -> None:
        provider = self.providers[uuid]
        gone = [name for name in CLASSES if name in provider.inventories and name not in records]
        used = [name for name in gone if self.used(uuid, name)]
        if used:
            words = f"Inventory for '{', '.join(used)}' on resource provider '{uuid}' in use."
            raise Refused(409, "placement.inventory.inuse", "update conflict: ", words)
        provider.inventories = dict(records)
        provider.generation += 1

    # Providers and inventories

    def create_provider(self, uuid: str) -> Answer:
        """POST of a provider that is named by its uuid."""
        if uuid in self.providers:
            return Answer(409, "placement.duplicate_name")
        self.providers[uuid] = Provider()
        return Answer(200)

    def delete_provider(self, uuid: str) -> Answer:
        """DELETE of a provider."""
        if uuid not in self.providers:
            return Answer(404, UNDEFINED)
        if any(uuid in held for held in self.allocations.values()):
            words = "Resource provider has allocations"
            return Answer(409, "placement.resource_provider.inuse", (words,))
        del self.providers[uuid]
        return Answer(204)

    def put_inventories(
        self, uuid: str, generation: int, records: dict[str, dict[str, Any]]
    ) -> Answer:
        """PUT of all inventories of a provider; the records are valid and of known classes."""
        if uuid not in self.providers:
            return Answer(404, UNDEFINED)
        provider = self.providers[uuid]
        if provider.generation != generation:
            return Answer(409, CONCURRENT)
        gone = set(provider.inventories) - set(records)
        if any(self.used(uuid, name) for name in gone):
            return Answer(409, "placement.inventory.inuse", ("in use",))
        provider.inventories = dict(records)
        provider.generation += 1
        return Answer(200)

    # What is shown

    def shown_inventories(self, uuid: str) -> Any:
        """GET of a provider's inventories."""
        provider = self.providers[uuid]
        return {
            "resource_provider_generation": provider.generation,
            "inventories": provider.inventories,
        }

    def shown_usages(self, uuid: str) -> Any:
        """GET of a provider's usages."""
        provider = self.providers[uuid]
        return {
            "resource_provider_generation": provider.generation,
            "usages": {name: self.used(uuid, name) for name in provider.inventories},
        }

    def shown_holders(self, uuid: str) -> Any:
        """GET of a provider's allocations."""
        return {
            "resource_provider_generation": self.providers[uuid].generation,
            "allocations": {
                consumer_uuid: {
                    "resources": held[uuid],
                    "consumer_generation": self.records[consumer_uuid].generation,
                }
                for consumer_uuid, held in self.allocations.items()
                if uuid in held and consumer_uuid in self.records
            },
        }

    def shown_consumer(self, consumer_uuid: str) -> Any:
        """GET of a consumer's allocations."""
        record = self.records.get(consumer_uuid)
        held = self.allocations.get(consumer_uuid)
        if record is None or held is None:
            return {"allocations": {}}
        return {
            "allocations": {
                uuid: {"generation": self.providers[uuid].generation, "resources": resources}
                for uuid, resources in held.items()
            },
            "project_id": record.project,
            "user_id": record.user,
            "consumer_generation": record.generation,
            "consumer_type": record.type or "unknown",
        }

    def shown_project(self, project: str) -> Any:
        """GET of the usages of a project: by type, with the number of consumers."""
        groups: dict[str, dict[str, int]] = {}
        for consumer_uuid, record in self.records.items():
            if record.project != project or consumer_uuid not in self.allocations:
                continue
            group = groups.setdefault(record.type or "unknown", {"consumer_count": 0})
            group["consumer_count"] += 1
            for held in self.allocations[consumer_uuid].values():
                for name, amount in held.items():
                    group[name] = group.get(name, 0) + amount
        return {"usages": groups}

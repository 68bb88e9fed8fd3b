"""The edits that make a provider tree look as a file says."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from placement.client.provider_tree import ProviderTree
from placement.client.relocation import Takeover
from placement.client.tree_file import FileProblem, FileProvider, TreeFile


def compute_capacity(record: dict[str, Any]) -> float:
    """Compute the capacity of an inventory record, with defaults for missing fields."""
    free = record["total"] - record.get("reserved", 0)
    return float(free * record.get("allocation_ratio", 1.0))


@dataclass
class TreeEdit:
    """An edit of ``tree``, in place, for the given entries of a file, parents before children."""

    file: TreeFile
    tree: ProviderTree
    entries: list[FileProvider]
    uuids: dict[int, str] = field(default_factory=dict)
    """UUID of each entry's provider, by ``id`` of the entry."""

    def run(self) -> list[Takeover]:
        """Edit the tree, and return the takeovers of classes that their sources lose.

        Raises TreeFileError, with line numbers, for changes that a file cannot make: renaming, re-parenting,
        names of other providers, inventory without capacity.
        """
        before = {uuid: self.tree.data(uuid) for uuid in self.tree.get_provider_uuids()}
        problems = [problem for entry in self.entries for problem in self._place(entry)]
        if problems:
            raise self.file.error(*problems)
        problems = [problem for entry in self.entries for problem in self._fill(entry)]
        if self.file.removes_unlisted:
            self._remove_unlisted()
        inventories = {uuid: set(data.inventory) for uuid, data in before.items()}
        names = {data.name: uuid for uuid, data in before.items()}
        asked = [
            one for entry in self.entries for one in self._find_takeovers(entry, inventories, names)
        ]
        problems += [one for one in asked if isinstance(one, FileProblem)]
        if problems:
            raise self.file.error(*problems)
        return [one for one in asked if isinstance(one, Takeover)]

    def uuid_of(self, entry: FileProvider) -> str:
        """Return the UUID of an entry's provider."""
        return self.uuids[id(entry)]

    def _place(self, entry: FileProvider) -> Iterable[FileProblem]:
        """Find an entry's provider in the tree, or add it."""
        parent_uuid = self.uuids.get(id(entry.parent)) if entry.parent else None
        if entry.parent is not None and parent_uuid is None:
            return  # The problem of the parent is reported already.
        there = next(
            (key for key in (entry.uuid, entry.name) if key and self.tree.exists(key)), None
        )
        if there is None:
            self.uuids[id(entry)] = self._add(entry, parent_uuid)
            return
        data = self.tree.data(there)
        if entry.uuid is not None and data.uuid != entry.uuid:
            yield FileProblem(entry.line, f"name {entry.name!r} belongs to provider {data.uuid}")
        elif data.name != entry.name:
            yield FileProblem(
                entry.line,
                f"provider {data.uuid} is called {data.name!r}: renaming is not supported here",
            )
        elif data.parent_uuid != parent_uuid:
            yield FileProblem(
                entry.line,
                f"provider {entry.name!r} is under {data.parent_uuid}, not {parent_uuid}:"
                " re-parenting is not supported here",
            )
        else:
            self.uuids[id(entry)] = data.uuid

    def _add(self, entry: FileProvider, parent_uuid: str | None) -> str:
        if parent_uuid is None:
            return self.tree.new_root(entry.name, entry.uuid or str(uuids.uuid4()))
        # The UUID is derived from the file, so that a repeated attempt finds the provider that the first one
        # created.
        derived = str(uuids.uuid5(uuids.UUID(parent_uuid), entry.name))
        return self.tree.new_child(entry.name, parent_uuid, entry.uuid or derived)

    def _fill(self, entry: FileProvider) -> Iterable[FileProblem]:
        uuid = self.uuid_of(entry)
        if entry.inventory is not None:
            stored = self.tree.data(uuid).inventory
            merged = {
                name: {**stored.get(name, {}), **record} for name, record in entry.inventory.items()
            }
            for name, record in merged.items():
                if record != stored.get(name) and compute_capacity(record) < 0:
                    line = entry.lines["inventories", name]
                    yield FileProblem(line, f"{name} of {entry.name}: reserved is more than total")
            self.tree.update_inventory(uuid, merged)
        if entry.traits is not None:
            self.tree.update_traits(uuid, entry.traits)
        if entry.aggregates is not None:
            self.tree.update_aggregates(uuid, entry.aggregates)

    def _remove_unlisted(self) -> None:
        listed = set(self.uuids.values())
        roots = [self.uuid_of(entry) for entry in self.entries if entry.parent is None]
        members = [uuid for root in roots for uuid in self.tree.get_provider_uuids(root)]
        for uuid in reversed(members):
            if uuid not in listed:
                self.tree.remove(uuid)

    def _find_takeovers(
        self, entry: FileProvider, inventories: dict[str, set[str]], names: dict[str, str]
    ) -> Iterable[Takeover | FileProblem]:
        for asked in entry.takeovers:
            source = asked.source if asked.source in inventories else names.get(asked.source)
            if source is None or asked.resource_class not in inventories[source]:
                # There is nothing to take over: the takeover is done already, or the class was never there.
                continue
            keeps = self.tree.data(source).inventory if self.tree.exists(source) else {}
            if asked.resource_class in keeps:
                yield FileProblem(
                    asked.line,
                    f"{asked.source} keeps its {asked.resource_class}: leave it out of its"
                    " inventories if another provider takes it over",
                )
                continue
            yield Takeover(
                self.uuid_of(entry),
                source,
                asked.resource_class,
                asked.as_class,
                asked.consumers,
                asked.split,
            )

"""A driver whose nodes follow a provider tree file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placement.client import drivers
from placement.client import exceptions as exc
from placement.client.provider_tree import ProviderTree
from placement.client.relocation import Relocation
from placement.client.tracker import Driver
from placement.client.tree_edit import TreeEdit
from placement.client.tree_file import FileProblem, TreeFile, parse_bytes


class FileDriver(Driver):
    """Driver whose nodes are the roots in the file, which must state their UUIDs.

    The file is read in every period, so that an edit takes effect in the next.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_available_nodes(self) -> dict[str, str]:
        """Map the roots of the file to their UUIDs."""
        file = self._read()
        roots = [entry for entry in file.providers if entry.parent is None]
        nameless = [
            FileProblem(entry.line, f"root {entry.name!r} needs its `uuid` here")
            for entry in roots
            if entry.uuid is None
        ]
        if nameless:
            raise file.error(*nameless)
        return {entry.name: str(entry.uuid) for entry in roots}

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """Edit the tree as the file says; takeovers move the allocations."""
        file = self._read()
        entries = [entry for entry in file.providers if entry.root.name == nodename]
        takeovers = TreeEdit(file, provider_tree, entries).run()
        if takeovers and allocations is None:
            raise exc.ReshapeNeeded(
                ", ".join(f"{one.resource_class} of {one.source_uuid}" for one in takeovers)
            )
        if takeovers and allocations is not None:
            Relocation(provider_tree, allocations, takeovers).run()

    def _read(self) -> TreeFile:
        return parse_bytes(self._path.read_bytes(), str(self._path))


def from_conf(conf: Any) -> FileDriver:
    """Make the driver for the file in ``[tree_driver]/tree_file``."""
    return FileDriver(Path(drivers.required_option(conf, "tree_file")))

"""Examples of drivers that reshape: inventory of a host moves to child providers.

VGPUs move to one child per physical GPU; processors, memory and the like to one child per NUMA cell.
These are the cases of the reshape specification, and both follow one rule.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from placement.client import drivers
from placement.client import exceptions as exc
from placement.client.provider_tree import InventoryByClass, ProviderTree
from placement.client.relocation import Relocation, Takeover
from placement.client.tracker import Driver


@dataclass(frozen=True)
class NodePart:
    """A part of a node: the inventory of its child provider, and the consumers known to use it."""

    inventory: InventoryByClass
    traits: frozenset[str] = frozenset()
    consumers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Node:
    """A node with the UUID of its root provider, its parts by name, and the inventory of the root."""

    uuid: str
    parts: Mapping[str, NodePart]
    inventory: InventoryByClass = field(default_factory=dict)


class SplitDriver(Driver):
    """Keeps each node's parts as child providers named ``<node>_<part>``.

    A class that a part has is moved off the root. With ``splits`` the resources of one consumer can be
    divided among parts if no part has room for all of them.
    """

    splits = False

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes

    def get_available_nodes(self) -> dict[str, str]:
        """Map the nodes to their root provider UUIDs."""
        return {name: node.uuid for name, node in self._nodes.items()}

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """Show the parts; ReshapeNeeded while the root still has inventory of a part."""
        node = self._nodes[nodename]
        stored = provider_tree.data(node.uuid).inventory
        theirs = {name for part in node.parts.values() for name in part.inventory}
        moving = sorted(theirs & stored.keys())
        if moving and allocations is None:
            raise exc.ReshapeNeeded(f"{', '.join(moving)} of {nodename} belong to its parts")
        takeovers = []
        for name, part in node.parts.items():
            child = self._show(provider_tree, node, f"{nodename}_{name}", part)
            takeovers += self._list_takeovers(node, part, child, moving)
        kept = {name: record for name, record in stored.items() if name not in theirs}
        provider_tree.update_inventory(node.uuid, {**kept, **node.inventory})
        if allocations is not None:
            Relocation(provider_tree, allocations, takeovers).run()

    @staticmethod
    def _show(tree: ProviderTree, node: Node, name: str, part: NodePart) -> str:
        """Put a part's child provider into the tree and return its UUID."""
        if not tree.exists(name):
            # The UUID is derived, so that a child deleted by hand returns with the same one.
            derived = str(uuids.uuid5(uuids.UUID(node.uuid), name))
            tree.new_child(name, node.uuid, derived)
        child = tree.data(name).uuid
        tree.update_inventory(child, part.inventory)
        tree.add_traits(child, *part.traits)
        return child

    def _list_takeovers(
        self, node: Node, part: NodePart, child: str, moving: list[str]
    ) -> list[Takeover]:
        """List the takeovers of consumers known to use the part, then of consumers without a known part."""
        everyone: list[frozenset[str] | None] = [part.consumers, None]
        return [
            Takeover(child, node.uuid, name, name, consumers, self.splits)
            for name in moving
            if name in part.inventory
            for consumers in everyone
            if consumers is None or consumers
        ]


class VgpuDriver(SplitDriver):
    """Driver with one child provider per physical GPU; all VGPUs of a consumer stay on one GPU."""


class NumaDriver(SplitDriver):
    """Driver with one child provider per NUMA cell; a consumer too large for a cell is divided."""

    splits = True


def read_layout(path: Path) -> dict[str, Node]:
    """Read nodes from YAML; PlacementClientError if the file does not look like this example.

    ::

        host1:
          uuid: 6f7a...
          inventory: {DISK_GB: {total: 100}}
          parts:
            gpu0:
              inventory: {VGPU: {total: 8}}
              traits: [CUSTOM_NVIDIA_11]
              consumers: []
    """
    try:
        shown = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        return {str(name): _read_node(node) for name, node in shown.items()}
    except Exception as error:
        raise exc.PlacementClientError(f"{path}: {error!r}") from error


def _read_node(shown: Mapping[str, Any]) -> Node:
    parts = {
        str(name): NodePart(
            dict(part["inventory"]),
            frozenset(part.get("traits", ())),
            frozenset(part.get("consumers", ())),
        )
        for name, part in shown["parts"].items()
    }
    return Node(str(uuids.UUID(shown["uuid"])), parts, dict(shown.get("inventory", {})))


def vgpu_from_conf(conf: Any) -> VgpuDriver:
    """Make the VGPU driver for the nodes in ``[tree_driver]/layout_file``."""
    return VgpuDriver(read_layout(Path(drivers.required_option(conf, "layout_file"))))


def numa_from_conf(conf: Any) -> NumaDriver:
    """Make the NUMA driver for the nodes in ``[tree_driver]/layout_file``."""
    return NumaDriver(read_layout(Path(drivers.required_option(conf, "layout_file"))))

"""The consumers that Nova knows: its servers and its migrations, of all cells, and where servers are.

Speaks HTTP only, through openstacksdk, as an administrator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

HOLDS_NOTHING = frozenset({"BUILD", "DELETED", "ERROR", "SHELVED_OFFLOADED", "UNKNOWN"})
"""States of a server in which it need not hold resources; UNKNOWN in a cell that is down."""

UNSETTLED = frozenset({"BUILD", "DELETED", "UNKNOWN", "VERIFY_RESIZE"})
"""States of a server that do not tell where it will be, or where it is."""

OVER = frozenset({"cancelled", "completed", "confirmed", "done", "failed", "reverted"})
"""States of a migration that has given back what it held."""

TYPES = frozenset({"INSTANCE", "MIGRATION", None})
"""The types of consumers that Nova makes; None is from before microversion 1.38."""


class PlaceHidden(Exception):
    """Nova does not show this account on which hosts the servers are."""


class NovaConsumer(NamedTuple):
    """A consumer that exists: a server, or a migration that is not over.

    Nodes are hypervisors by the name that their providers have: of ironic, the uuids of its nodes.

    :param must_hold: in its state it needs resources.
    :param state: of the server or of the migration, as Nova spells it.
    :param node: where the server is; None for nowhere, and for a migration.
    :param nodes: where it may hold something; None while something is under way: anywhere.
    """

    uuid: str
    must_hold: bool
    state: str
    node: str | None = None
    nodes: frozenset[str] | None = None


class _Server(NamedTuple):
    """What is kept of a server: a list of all of them is long."""

    status: str
    task: str | None
    node: str | None


class _Migration(NamedTuple):
    status: str
    source_node: str | None
    dest_node: str | None


class Nova:
    """The compute service of one cloud.

    :param cloud: a connection of openstacksdk.
    """

    def __init__(self, cloud: Any) -> None:
        self._compute = cloud.compute

    def consumers(self, server: str | None = None) -> Iterator[NovaConsumer]:
        """Yield each consumer.

        :param server: yield only this server, if it exists, and its migrations.
        :raises PlaceHidden: the account may not see where servers are
        """
        servers = dict(self._list_servers({"id": server} if server else {}))
        migrations: dict[str, list[_Migration]] = defaultdict(list)
        # The servers first: a move that ends meanwhile shows as under way, or its end shows in the ledger.
        for migration in self._compute.migrations(**({"server_id": server} if server else {})):
            is_over = migration.status in OVER
            if not is_over and migration.uuid:
                yield NovaConsumer(migration.uuid, False, migration.status)
            # The host that a server was evacuated from has its part until it is back.
            evacuated = migration.migration_type == "evacuation" and migration.status == "done"
            if evacuated or not is_over:
                migrations[migration.server_id].append(
                    _Migration(migration.status, migration.source_node, migration.dest_node)
                )
        for uuid, found in servers.items():
            nodes = _find_nodes(found, migrations.get(uuid, ()))
            must_hold = found.status not in HOLDS_NOTHING
            yield NovaConsumer(uuid, must_hold, found.status, found.node, nodes)

    def _list_servers(self, only: dict[str, str]) -> Iterator[tuple[str, _Server]]:
        # The list of all lacks deleted servers that can still be restored.
        for more in ({}, {"status": "SOFT_DELETED"}):
            for server in self._compute.servers(details=True, all_projects=True, **only, **more):
                # Shown together with the host, and never null: without it a host of null says nothing.
                if server.instance_name is None and server.status not in UNSETTLED:
                    raise PlaceHidden(f"Nova does not show on which host {server.id} is")
                node = server.hypervisor_hostname or server.compute_host
                yield server.id, _Server(server.status, server.task_state, node)

    def knows(self, uuid: str) -> bool:
        """Tell whether there is a server with this uuid, by a request for it alone."""
        return self._compute.get(f"/servers/{uuid}").status_code != 404


def _find_nodes(server: _Server, migrations: Iterable[_Migration]) -> frozenset[str] | None:
    if server.task or server.status in UNSETTLED:
        return None
    nodes = {server.node}
    for migration in migrations:
        if migration.status == "done":
            nodes.add(migration.source_node)
        elif migration.status != "error":
            return None
        elif server.status == "ERROR":
            # It broke off half-way: which end is the right one, somebody has to find out.
            nodes |= {migration.source_node, migration.dest_node}
    return frozenset(node for node in nodes if node)

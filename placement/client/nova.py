"""The consumers that Nova knows: its servers and its migrations, of all cells.

Speaks HTTP only, through openstacksdk, as an administrator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HOLDS_NOTHING = frozenset({"BUILD", "DELETED", "ERROR", "SHELVED_OFFLOADED", "UNKNOWN"})
"""States of a server in which it need not hold resources; UNKNOWN in a cell that is down."""

OVER = frozenset({"cancelled", "completed", "confirmed", "done", "failed", "reverted"})
"""States of a migration that has given back what it held."""

TYPES = frozenset({"INSTANCE", "MIGRATION", None})
"""The types of consumers that Nova makes; None is from before microversion 1.38."""


class Nova:
    """The compute service of one cloud.

    :param cloud: a connection of openstacksdk.
    """

    def __init__(self, cloud: Any) -> None:
        self._compute = cloud.compute

    def consumers(self) -> Iterator[tuple[str, bool]]:
        """Yield the uuid of each consumer, and whether it must hold something."""
        # The list of all lacks deleted servers that can still be restored.
        for more in ({}, {"status": "SOFT_DELETED"}):
            for server in self._compute.servers(details=True, all_projects=True, **more):
                yield server.id, server.status not in HOLDS_NOTHING
        for migration in self._compute.migrations():
            if migration.status not in OVER and migration.uuid:
                yield migration.uuid, False

    def knows(self, uuid: str) -> bool:
        """Tell whether there is a server with this uuid, by a request for it alone."""
        return self._compute.get(f"/servers/{uuid}").status_code != 404

"""Inventories closed to new claims while a reshape that lost to claims is repeated.

Specification 05 section C6. A closed record has its total as ``reserved``: nothing more fits, and what is
in use stays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from placement.client import exceptions as exc
from placement.client.api import PlacementAPI
from placement.client.provider_tree import InventoryByClass

LOG = logging.getLogger(__name__)

WRITES_AT_MOST = 20
"""How often a write is repeated under a newer generation: each claim on the provider moves it."""


class ClosedInventories:
    """The closed inventories, with their original records.

    A record that another client has changed since is no longer treated as closed, and is left alone.
    """

    def __init__(self, api: PlacementAPI) -> None:
        self._api = api
        self._originals: dict[str, InventoryByClass] = {}

    def is_closed(self, uuid: str, name: str, record: Mapping[str, Any]) -> bool:
        """Return whether the stored record of a class is as this client closed it."""
        original = self._originals.get(uuid, {}).get(name)
        return original is not None and record == _close_record(original)

    def replace_closed(self, uuid: str, stored: InventoryByClass) -> InventoryByClass:
        """Return a provider's stored inventory with its closed records as they were."""
        originals = self._originals.get(uuid, {})
        return {
            name: originals[name] if self.is_closed(uuid, name, record) else record
            for name, record in stored.items()
        }

    def uuids(self) -> list[str]:
        """List the providers that have closed records."""
        return [*self._originals]

    def forget(self) -> None:
        """Note that a reshape has replaced all closed records."""
        self._originals.clear()

    def close(self, context: Any, uuid: str, records: InventoryByClass) -> None:
        """Close some records of a provider, except those that have changed meanwhile.

        A record that stays open is tried again after the next lost attempt.
        """
        # The originals are stored before the write: the answer to the write may be lost.
        originals = self._originals.setdefault(uuid, {})
        originals |= {
            name: record
            for name, record in records.items()
            if not self.is_closed(uuid, name, record)
        }
        LOG.info("Closing %s of provider %s to new claims", ", ".join(sorted(records)), uuid)
        try:
            self._rewrite(
                context,
                uuid,
                lambda stored: {
                    name: _close_record(record) if originals.get(name) == record else record
                    for name, record in stored.items()
                },
            )
        except exc.PlacementClientError as error:
            LOG.warning("%s of provider %s could not be closed: %s", [*records], uuid, error)

    def open(self, context: Any) -> None:
        """Restore every closed inventory, as far as possible, and forget it."""
        for uuid, originals in self._originals.items():
            try:
                self._rewrite(context, uuid, partial(self.replace_closed, uuid))
            except Exception as error:
                reserved = {name: record["reserved"] for name, record in originals.items()}
                LOG.error(
                    "Provider %s may be closed to new claims. The next start-up opens it, or set"
                    " reserved to %s: %s",
                    uuid,
                    reserved,
                    error,
                )
        self.forget()

    def _rewrite(
        self, context: Any, uuid: str, change: Callable[[InventoryByClass], InventoryByClass]
    ) -> None:
        """Change a provider's inventory under its newest generation."""
        for number in range(1, WRITES_AT_MOST + 1):
            stored, generation = self._api.inventories(context, uuid)
            wanted = change(stored)
            if wanted == stored:
                return
            try:
                self._api.put_inventories(context, uuid, wanted, generation)
            except exc.ResourceProviderUpdateConflict:
                if number == WRITES_AT_MOST:
                    raise
            else:
                return


def _close_record(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record, "reserved": record["total"]}

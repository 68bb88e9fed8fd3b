"""The report client, which reads provider trees into a cache and writes edited ones back.

Specification 05 sections C4 to C6.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from placement.client import exceptions as exc
from placement.client.api import REQUESTS_AT_ONCE, PlacementAPI, WholeTree
from placement.client.cache import ProviderCache
from placement.client.flush import TreeFlush
from placement.client.gathering import ConsumerRecords, ProgressCallback, Records, log_progress
from placement.client.provider_tree import ProviderTree


class ReportClient:
    """A client that caches provider trees and brings the service to the state of an edited tree.

    ``adapter`` is a keystoneauth1 Adapter for the placement service, or an object that acts like one.
    ``association_refresh`` is the age in seconds at which a provider is read again, 0 for never; ``clock``
    returns seconds. ``requests_at_once`` bounds the threads that read the records of many consumers;
    ``progress`` is called as they proceed. One update flow at a time; calls from several threads wait for
    each other.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        association_refresh: float = 300,
        max_uuids_per_request: int = 200,
        clock: Callable[[], float] = time.monotonic,
        requests_at_once: int = REQUESTS_AT_ONCE,
        progress: ProgressCallback = log_progress,
    ) -> None:
        self.api = PlacementAPI(adapter, requests_at_once)
        self._cache = ProviderCache(self.api, association_refresh, max_uuids_per_request, clock)
        self._records = ConsumerRecords(self.api, progress)
        self._lock = threading.RLock()

    # ---- the cache

    @property
    def cached_tree(self) -> ProviderTree:
        """A copy of everything in the cache."""
        with self._lock:
            tree = self._cache.tree
            return tree.copy_of(root.uuid for root in tree.roots)

    def clear_provider_cache(self) -> None:
        """Forget everything."""
        with self._lock:
            self._cache.clear()

    def invalidate_resource_provider(self, name_or_uuid: str) -> None:
        """Forget one provider with its descendants; without effect if it is not in the cache."""
        with self._lock:
            self._cache.drop(name_or_uuid)

    # ---- reading

    def get_provider_tree_and_ensure_root(
        self,
        context: Any,
        rp_uuid: str,
        name: str | None = None,
        parent_provider_uuid: str | None = None,
    ) -> ProviderTree:
        """Return a copy of the whole tree around a provider, with the providers that share with it.

        A provider that does not exist is created, with its UUID as name if none is given.
        """
        with self._lock:
            if not self._cache.update(context, rp_uuid):
                self._cache.create(context, rp_uuid, name or rp_uuid, parent_provider_uuid)
            return self._cache.hand_out([rp_uuid])

    def get_provider_trees(self, context: Any, uuids: Iterable[str]) -> ProviderTree:
        """Return one copy of the whole trees around several providers; creates nothing.

        Providers that the service does not have are left out.
        """
        with self._lock:
            found = [uuid for uuid in uuids if self._cache.update(context, uuid)]
            return self._cache.hand_out(found)

    def get_providers_in_tree(self, context: Any, uuid: str) -> list[dict[str, Any]]:
        """Read the tree around a provider from the service; empty if it is unknown there."""
        return self.api.providers_in_tree(context, uuid)

    def get_provider_traits(self, context: Any, uuid: str) -> tuple[set[str], int]:
        """Read a provider's traits and its generation from the service."""
        value, generation = self.api.traits(context, uuid)
        return value, generation

    def get_provider_aggregates(self, context: Any, uuid: str) -> tuple[set[str], int]:
        """Read a provider's aggregates and its generation from the service."""
        value, generation = self.api.aggregates(context, uuid)
        return value, generation

    def get_allocs_for_consumer(self, context: Any, consumer: str) -> dict[str, Any]:
        """Read a consumer's allocations as the service answers them."""
        return self.api.allocations_of_consumer(context, consumer)

    def get_allocations_for_resource_provider(self, context: Any, uuid: str) -> dict[str, Any]:
        """Read the consumers of a provider: UUID to ``{resources, consumer_generation}``."""
        return self.api.allocations_of_provider(context, uuid)

    def get_allocations_for_provider_tree(
        self, context: Any, nodename: str
    ) -> dict[str, dict[str, Any]]:
        """Read all allocations of all consumers at and below a provider in the cache.

        This sends a request per provider and per consumer, several at once, so call it only for a reshape; a
        second call reads only the consumers that changed. The result maps consumer UUIDs to answers of GET
        ``/allocations/{consumer}``. Known limit: a consumer with allocations on sharing providers alone is
        not found. ValueError if the provider is not in the cache.
        """
        with self._lock:
            members = self._cache.tree.get_provider_uuids(nodename)
            whole = self.api.whole_tree(context, members[0], allocations=True)
            if whole is not None:
                return self._records.in_snapshot(context, whole, members)
            return self._records.read(context, self._records.consumers(context, members))

    def get_tree_and_allocations(self, context: Any, rp_uuid: str) -> tuple[ProviderTree, Records]:
        """Return the whole tree around a provider and the allocations of all its consumers, now.

        This is for a reshape: a write between this reading and the reshape is a conflict. The first attempt
        reads everything, in one snapshot if the service can; otherwise it reads all records first, which can
        take long, then the tree and the records that changed. A lost attempt empties the cache, so the next
        attempt reads the tree again, but only the lists of consumers and the records that changed.
        """
        with self._lock:
            if not self._cache.lost_attempts:
                whole = self.api.whole_tree(context, rp_uuid, allocations=True)
                if whole is not None:
                    return self._take_snapshot(context, rp_uuid, whole)
                self._read_records(context, rp_uuid)
                if not self._cache.read_tree(context, rp_uuid):
                    raise exc.ReshapeConflict("the provider tree was deleted")
            records = self._read_records(context, rp_uuid)
            return self._cache.hand_out([rp_uuid]), records

    def _take_snapshot(
        self, context: Any, rp_uuid: str, whole: WholeTree
    ) -> tuple[ProviderTree, Records]:
        if not whole.providers:
            raise exc.ReshapeConflict("the provider tree was deleted")
        self._cache.take(whole)
        members = [one["uuid"] for one in whole.providers]
        records = self._records.in_snapshot(context, whole, members)
        return self._cache.hand_out([rp_uuid]), records

    def _read_records(self, context: Any, rp_uuid: str) -> Records:
        """Read the consumers of a cached tree, and the records of those that changed."""
        members = self._cache.tree.get_provider_uuids(self._cache.root_of(rp_uuid))
        return self._records.read(context, self._records.consumers(context, members))

    # ---- writing

    def update_from_provider_tree(
        self,
        context: Any,
        new_tree: ProviderTree,
        allocations: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        lists_unchanged: bool = True,
        keeps_created: bool = False,
    ) -> None:
        """Bring the service to the state of ``new_tree``; repeat the call after a failure.

        Without ``allocations`` the changes are small writes. With them, even with ``{}``, inventories and
        allocations change in one reshape; they must be complete and final for each named consumer. Providers
        handed out with the tree and no longer in it are deleted. Unless ``lists_unchanged``, a reshape names
        only providers whose inventory changes, so that allocations elsewhere in a large tree do not conflict.
        Providers created for a reshape that the service refuses are deleted again. With ``keeps_created``
        they stay after a conflict, for a caller that repeats the reshape at once and calls ``take_back`` when
        it gives up. After two such conflicts the moving inventories are closed to new claims.
        """
        with self._lock:
            TreeFlush(
                self._cache, context, new_tree, allocations, lists_unchanged, keeps_created
            ).run()

    def take_back(self, context: Any) -> None:
        """Undo the preparations of a reshape that is given up after conflicts."""
        with self._lock:
            self._cache.take_back(context)

    def set_inventory_for_provider(
        self, context: Any, uuid: str, value: Mapping[str, Any] | None
    ) -> None:
        """Write a provider's inventory if it differs from the cache."""
        self._write(context, uuid, lambda: self._cache.put_inventory(context, uuid, value))

    def set_traits_for_provider(self, context: Any, uuid: str, value: Iterable[str]) -> None:
        """Write a provider's traits if they differ from the cache."""
        self._write(context, uuid, lambda: self._cache.put_traits(context, uuid, value))

    def set_aggregates_for_provider(self, context: Any, uuid: str, value: Iterable[str]) -> None:
        """Write a provider's aggregates if they differ from the cache."""
        self._write(context, uuid, lambda: self._cache.put_aggregates(context, uuid, value))

    def _write(self, context: Any, uuid: str, write: Callable[[], None]) -> None:
        with self._lock:
            if not self._cache.knows(uuid) and not self._cache.read_tree(context, uuid):
                raise exc.ResourceProviderUpdateFailed(f"provider {uuid} does not exist")
            try:
                write()
            except exc.PlacementClientError:
                self._cache.drop_tree(uuid)
                raise

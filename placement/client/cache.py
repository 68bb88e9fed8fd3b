"""The client's picture of the service: a provider tree with refresh times (specification 05 section C4).

K1: the cache is the only source of provider generations. K2: only copies leave it. K3: after a
failed write the whole tree around the provider is dropped and read again before the next attempt.
"""

from __future__ import annotations

import contextlib
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from placement.client import exceptions as exc
from placement.client.api import Aspect, PlacementAPI, WholeTree
from placement.client.closing import ClosedInventories
from placement.client.provider_tree import InventoryByClass, Origin, ProviderTree

# A provider that changes between the three reads of a refresh is read again this often at most.
READS_PER_REFRESH = 3


class ProviderCache:
    """Providers as read from the service, with the time of each one's last refresh."""

    def __init__(
        self,
        api: PlacementAPI,
        association_refresh_s: float,
        max_uuids_per_request: int,
        clock: Callable[[], float],
    ) -> None:
        self.api = api
        self.tree = ProviderTree()
        self.owner = str(uuids.uuid4())
        self._association_refresh_s = association_refresh_s
        self._max_uuids_per_request = max_uuids_per_request
        self._clock = clock
        self._refreshed: dict[str, float] = {}
        # Roots of sharing providers whose own tree has not been read.
        self._lone: set[str] = set()
        # The tags of whole trees, by root.
        self._tags: dict[str, str] = {}
        # Providers created for a reshape that has not succeeded yet, parents first.
        self.created: dict[str, None] = {}
        # The number of attempts of this reshape that ended in a conflict, and the inventories closed after
        # them.
        self.lost_attempts = 0
        self.closed = ClosedInventories(api)

    # ---- knowing

    def knows(self, uuid: str) -> bool:
        """Return whether the provider was read, or created, and not dropped since."""
        return uuid in self._refreshed

    def is_fresh(self, uuid: str) -> bool:
        """Return whether the last refresh is recent enough, always true if refreshing is off (0 seconds)."""
        if uuid not in self._refreshed:
            return False
        age_s = self._clock() - self._refreshed[uuid]
        return self._association_refresh_s == 0 or age_s < self._association_refresh_s

    def clear(self) -> None:
        """Forget everything."""
        self.tree = ProviderTree()
        self._refreshed.clear()
        self._lone.clear()
        self._tags.clear()

    def expire(self, uuid: str) -> None:
        """Require a new reading of a provider before its next write; keep its place."""
        self._refreshed.pop(uuid, None)

    def drop(self, name_or_uuid: str) -> None:
        """Forget a provider with its descendants, if it is cached."""
        if not self.tree.exists(name_or_uuid):
            return
        # With the old tag the service would answer 304, and the forgotten data would never be read again.
        self._tags.pop(self.root_of(name_or_uuid), None)
        for uuid in self.tree.get_provider_uuids(name_or_uuid):
            self._refreshed.pop(uuid, None)
            self._lone.discard(uuid)
        self.tree.remove(name_or_uuid)

    def root_of(self, name_or_uuid: str) -> str:
        """Return the root of the tree around a cached provider."""
        return self.tree.get_provider_uuids_in_tree(name_or_uuid)[0]

    def drop_tree(self, uuid: str) -> None:
        """Forget the whole tree around a provider, if it is cached."""
        if self.tree.exists(uuid):
            self.drop(self.root_of(uuid))

    def hand_out(self, uuids_wanted: Iterable[str]) -> ProviderTree:
        """Copy the trees around providers, and the providers that share with them as lone roots.

        The copy records its providers, so that a flush knows which were removed (C6). Closed inventories
        appear with their original records, since a driver may copy ``reserved``.
        """
        chosen = list(uuids_wanted)
        aggregates = set().union(*(self.tree.aggregates_of_tree(uuid) for uuid in chosen))
        copied = self.tree.copy_of(chosen, lone=self.tree.sharing_via(aggregates))
        for uuid in self.closed.uuids():
            if copied.exists(uuid):
                opened = self.closed.replace_closed(uuid, copied.data(uuid).inventory)
                copied.update_inventory(uuid, opened)
        copied.origin = Origin(self.owner, copied.places())
        return copied

    # ---- reading

    def update(self, context: Any, uuid: str) -> bool:
        """Refresh a provider and its descendants; False if the service does not have it."""
        if uuid in self._lone or not self.is_fresh(uuid):
            return self.read_tree(context, uuid)
        stale = [one for one in self.tree.get_provider_uuids(uuid) if not self.is_fresh(one)]
        # For a tree that was read whole, reading it again is one request; refreshing members is three
        # requests each.
        if stale and self.root_of(uuid) in self._tags:
            return self.read_tree(context, uuid)
        try:
            if stale:
                self._refresh_all(context, stale)
        except exc.PlacementClientError:
            # If a member no longer exists, the cached tree as a whole is wrong.
            return self.read_tree(context, uuid)
        return True

    def read_tree(self, context: Any, uuid: str) -> bool:
        """Replace the tree around a provider by the service's; False if the provider does not exist.

        One request where the service shows whole trees, with an empty answer for an unchanged tree;
        otherwise one request, and three for each provider.
        """
        known = uuid not in self._lone and self.tree.exists(uuid)
        root = self.root_of(uuid) if known else ""
        whole = self.api.whole_tree(context, uuid, tag=self._tags.get(root, ""))
        if whole is None:
            return self._read_in_parts(context, uuid)
        if whole.unchanged:
            members = self.tree.get_provider_uuids(root)
            self._refreshed.update(dict.fromkeys(members, self._clock()))
        elif not whole.providers:
            self.drop(uuid)
            return False
        else:
            self.take(whole)
        self._refresh_sharing(context, uuid)
        return True

    def take(self, whole: WholeTree) -> None:
        """Replace a tree by the snapshot of it."""
        # A member may be cached as a lone sharing root, or in a tree that it has left.
        for one in whole.providers:
            self.drop_tree(one["uuid"])
        self._populate(whole.providers)
        for one in whole.providers:
            self.tree.update_inventory(one["uuid"], one["inventories"])
            self.tree.update_aggregates(one["uuid"], one["aggregates"])
            self.tree.update_traits(one["uuid"], one["traits"], one["generation"])
            self._refreshed[one["uuid"]] = self._clock()
        self._tags[whole.providers[0]["uuid"]] = whole.tag

    def _read_in_parts(self, context: Any, uuid: str) -> bool:
        shown = self.api.providers_in_tree(context, uuid)
        if not shown:
            self.drop(uuid)
            return False
        # The tree exists, so the 404 means that the service does not have the request; do not send it again.
        self.api.lacks_trees()
        self.drop_tree(uuid)
        self._populate(shown)
        self._refresh_all(context, [one["uuid"] for one in shown])
        return True

    def create(self, context: Any, uuid: str, name: str, parent_uuid: str | None) -> bool:
        """Create a provider in the service; return False if another client did, and use that provider.

        A new provider has nothing to refresh and counts as just refreshed.
        """
        shown = self.api.create_provider(context, uuid, name, parent_uuid)
        read_from = uuid if shown is None else parent_uuid
        if shown is not None and (parent_uuid is None or self.knows(parent_uuid)):
            self._populate([shown])
            self._refreshed[uuid] = self._clock()
        elif not self.read_tree(context, str(read_from)):
            raise exc.ResourceProviderCreationFailed(
                "it was deleted while it was being created", name=name, uuid=uuid
            )
        return shown is not None

    def take_back(self, context: Any) -> None:
        """Undo the preparations of a reshape that is given up, as far as possible.

        Providers created for it are deleted unless they are in use by now, and closed inventories are opened.
        """
        self.closed.open(context)
        for uuid in reversed(self.created):
            # The caller raises the failure that led here. A provider that cannot be deleted is empty, and the
            # next attempt finds it.
            with contextlib.suppress(Exception):
                shown = self.api.provider(context, uuid)
                # If another client has written to this provider, its generation has moved.
                if shown and shown["generation"] == 0:
                    self.api.delete_provider(context, uuid)
                    self.drop(uuid)
        self.finish_reshape()

    def finish_reshape(self) -> None:
        """Forget the preparations of a reshape that succeeded or was given up."""
        self.created.clear()
        self.closed.forget()
        self.lost_attempts = 0

    def inventories_now(self, context: Any, uuids: Iterable[str]) -> dict[str, Aspect]:
        """Read inventories and generations of cached providers, leaving the cache as it is.

        ResourceProviderRetrievalFailed for a provider that no longer exists.
        """
        wanted = list(uuids)
        found: dict[str, Aspect] = {}
        for root in dict.fromkeys(self.root_of(uuid) for uuid in wanted):
            # The tree of a lone root may belong to another agent and be large, so only the root is read.
            whole = None if root in self._lone else self.api.whole_tree(context, root)
            for one in whole.providers if whole else ():
                found[one["uuid"]] = Aspect(one["inventories"], one["generation"])
        missing = [uuid for uuid in wanted if uuid not in found]
        found |= self.api.each(lambda uuid: self.api.inventories(context, uuid), missing)
        return {uuid: found[uuid] for uuid in wanted}

    # ---- writing one aspect of one provider

    def put_inventory(self, context: Any, uuid: str, inventory: Mapping[str, Any] | None) -> None:
        """Write a provider's inventory if it differs; custom classes are ensured."""
        wanted: InventoryByClass = dict(inventory or {})
        if self.tree.has_inventory_changed(uuid, wanted):
            self.api.ensure_resource_classes(context, wanted)
            generation = self.tree.data(uuid).generation
            answer = self.api.put_inventories(context, uuid, wanted, generation)
            self.tree.update_inventory(uuid, *answer)

    def put_aggregates(self, context: Any, uuid: str, aggregates: Iterable[str]) -> None:
        """Write a provider's aggregates if they differ."""
        wanted = set(aggregates)
        if self.tree.have_aggregates_changed(uuid, wanted):
            generation = self.tree.data(uuid).generation
            answer = self.api.put_aggregates(context, uuid, wanted, generation)
            self.tree.update_aggregates(uuid, *answer)

    def put_traits(self, context: Any, uuid: str, traits: Iterable[str]) -> None:
        """Write a provider's traits if they differ; custom traits are ensured."""
        wanted = set(traits)
        if self.tree.have_traits_changed(uuid, wanted):
            self.api.ensure_traits(context, wanted)
            generation = self.tree.data(uuid).generation
            answer = self.api.put_traits(context, uuid, wanted, generation)
            self.tree.update_traits(uuid, *answer)

    # ---- inside

    def _populate(self, shown: list[dict[str, Any]]) -> None:
        try:
            self.tree.populate_from_iterable(shown)
        except ValueError as error:
            raise exc.ResourceProviderRetrievalFailed(error, uuid=shown[0]["uuid"]) from error
        for one in shown:
            self._refreshed.pop(one["uuid"], None)
            self._lone.discard(one["uuid"])

    def _refresh_all(self, context: Any, members: list[str]) -> None:
        """Refresh members of one tree, then the providers that share with it."""
        for uuid in members:
            self._refresh(context, uuid)
        self._refresh_sharing(context, members[0])

    def _refresh(self, context: Any, uuid: str) -> None:
        """Read the three aspects of one provider, all of one generation if possible.

        If the generation moves in every attempt, the lowest is kept: a write then ends in a conflict
        and cannot overwrite values that were not seen.
        """
        for _ in range(READS_PER_REFRESH):
            aspects = (
                self.api.inventories(context, uuid),
                self.api.aggregates(context, uuid),
                self.api.traits(context, uuid),
            )
            generations = {aspect.generation for aspect in aspects}
            if len(generations) == 1:
                break
        inventory, aggregates, traits = (aspect.value for aspect in aspects)
        self.tree.update_inventory(uuid, inventory)
        self.tree.update_aggregates(uuid, aggregates)
        self.tree.update_traits(uuid, traits, min(generations))
        self._refreshed[uuid] = self._clock()

    def _refresh_sharing(self, context: Any, member: str) -> None:
        """Keep the providers that share with a tree as roots, without reading their trees."""
        aggregates = self.tree.aggregates_of_tree(member)
        if not aggregates:
            return
        shown = self.api.sharing_providers(context, aggregates, self._max_uuids_per_request)
        listed = {one["uuid"] for one in shown}
        for uuid in self.tree.sharing_via(aggregates):
            if uuid in self._lone and uuid not in listed:
                self.drop(uuid)
        for one in shown:
            uuid = one["uuid"]
            if not self.tree.exists(uuid):
                # The provider is cached as a root even if it has a parent in the service: the parent is not
                # cached, and a tree cannot contain an orphan.
                self._populate([{**one, "parent_provider_uuid": None}])
                self._lone.add(uuid)
            if not self.is_fresh(uuid):
                self._refresh(context, uuid)

"""Writing an edited provider tree back, with or without a reshape (contract 05, C6).

Create top-down, reshape, delete bottom-up, then fill in: the only order the service accepts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from placement.client import exceptions as exc
from placement.client.api import CONCURRENT_UPDATE, Problem
from placement.client.cache import ProviderCache
from placement.client.provider_tree import (
    SHARING_TRAIT,
    Origin,
    ProviderData,
    ProviderTree,
)

Allocations = Mapping[str, Mapping[str, Any]]

# What a record may hold at 1.30; an adapter of a later version may have read more.
_RECORD_KEYS = ("project_id", "user_id", "consumer_generation")


class TreeFlush:
    """One call of ``update_from_provider_tree``: compares with the cache and writes.

    The sets of old and new providers are taken at the start, since the writes change the cache.
    """

    def __init__(
        self,
        cache: ProviderCache,
        context: Any,
        new_tree: ProviderTree,
        allocations: Allocations | None,
        lists_unchanged: bool = True,
    ) -> None:
        self._lists_unchanged = lists_unchanged
        self._cache = cache
        self._context = context
        self._new_tree = new_tree
        self._allocations = allocations
        origin = new_tree.origin
        self._own = origin is not None and origin.client == cache.owner
        self._old = dict(origin.places) if origin and self._own else cache.tree.places()
        uuids = new_tree.get_provider_uuids()
        self._new: dict[str, ProviderData] = {uuid: new_tree.data(uuid) for uuid in uuids}

    def run(self) -> None:
        """Carry out the four steps; what a failure leaves undone, the next call does."""
        for wanted in self._new.values():
            self._check_sane(wanted)
            self._check_place(wanted, self._old.get(wanted.uuid))
        self._read_dropped()
        for wanted in self._new.values():
            self._ensure_exists(wanted)
        if self._allocations is not None:
            self._reshape(self._allocations)
        for uuid in self._removed():
            self._delete(uuid)
        for wanted in reversed(self._new.values()):
            self._fill(wanted)
        self._remember(self._new_tree.places())

    # ---- before anything is written

    @staticmethod
    def _check_sane(wanted: ProviderData) -> None:
        """Refuse what a driver may leave in a tree and no request can express."""
        texts = [wanted.uuid, wanted.name, *wanted.traits, *wanted.aggregates]
        records = [*wanted.inventory.values()]
        sane = all(isinstance(text, str) for text in [*texts, *wanted.inventory])
        try:
            json.dumps(records, allow_nan=False)
        except (TypeError, ValueError):
            sane = False
        if not sane or not all(isinstance(record, Mapping) for record in records):
            raise exc.ResourceProviderSyncFailed(
                "the tree holds values that are no names, or inventory records that are no"
                f" objects of numbers: {wanted}",
                uuid=str(wanted.uuid),
            )

    @staticmethod
    def _check_place(wanted: ProviderData, was: tuple[str, str | None] | None) -> None:
        if was is not None and was != (wanted.name, wanted.parent_uuid):
            raise exc.ResourceProviderSyncFailed(
                f"renaming and re-parenting are not supported: it is {was[0]!r} under {was[1]},"
                f" the tree has {wanted.name!r} under {wanted.parent_uuid}",
                uuid=wanted.uuid,
            )

    def _read_dropped(self) -> None:
        """Read what the cache does not have: new here, or dropped after a failure (K3)."""
        for uuid in {**self._new, **self._old}:
            if not self._cache.knows(uuid):
                with self._syncing(uuid):
                    self._cache.read_tree(self._context, uuid)
        there = self._cache.tree.places()
        for uuid, wanted in self._new.items():
            if uuid not in self._old:
                self._check_place(wanted, there.get(uuid))

    # ---- the steps

    def _ensure_exists(self, wanted: ProviderData) -> None:
        if not self._cache.knows(wanted.uuid):
            with self._syncing(wanted.uuid, parent_uuid=wanted.parent_uuid):
                self._cache.create(self._context, wanted.uuid, wanted.name, wanted.parent_uuid)
            # Somebody else may have created it at the same time, elsewhere.
            self._check_place(wanted, self._cache.tree.places().get(wanted.uuid))
        # Known as handed out from now on: should a later step fail, and the provider be
        # removed from the tree, the next call deletes it.
        if wanted.uuid not in self._old:
            self._remember({**self._old, wanted.uuid: (wanted.name, wanted.parent_uuid)})

    def _reshape(self, allocations: Allocations) -> None:
        problem = self._post_reshape(allocations)
        if problem is None:
            self._reread()
        elif problem.status == 409 and problem.code == CONCURRENT_UPDATE:
            self._cache.clear()
            raise exc.ReshapeConflict(problem.words, request_id=problem.request_id)
        else:
            self._drop_involved()
            raise exc.ReshapeFailed(problem.words, request_id=problem.request_id)

    def _post_reshape(self, allocations: Allocations) -> Problem | None:
        """Send the reshape. Whatever breaks in here breaks the reshape (C6)."""
        try:
            body = self._reshape_body(allocations)
            if not body["inventories"] and not body["allocations"]:
                return None
            classes = {name for wanted in self._new.values() for name in wanted.inventory}
            self._cache.api.ensure_resource_classes(self._context, classes)
            return self._cache.api.reshape(self._context, body)
        except Exception as error:
            self._drop_involved()
            raise exc.ReshapeFailed(str(error) or repr(error)) from error

    def _reshape_body(self, allocations: Allocations) -> dict[str, Any]:
        """Providers to be removed are emptied by the same request.

        So nobody can allocate on them between the reshape and their deletion.
        """
        entries = {uuid: self._inventory_entry(wanted) for uuid, wanted in self._new.items()}
        entries.update((uuid, self._entry(uuid, {})) for uuid in self._removed())
        # Others move the generations of sharing providers all the time: listing one that does
        # not change would only invite conflicts.
        listed = {uuid: entry for uuid, entry in entries.items() if not self._may_skip(uuid)}
        if not listed:
            listed = dict([*entries.items()][:1])
        records = {consumer: _record(record) for consumer, record in allocations.items()}
        return {"inventories": listed, "allocations": records}

    def _inventory_entry(self, wanted: ProviderData) -> dict[str, Any]:
        # What counts as unchanged is sent as it is stored, or fields that the driver does not
        # mention would fall back to their defaults.
        changed = self._cache.tree.has_inventory_changed(wanted.uuid, wanted.inventory)
        stored = self._cache.tree.data(wanted.uuid).inventory
        return self._entry(wanted.uuid, wanted.inventory if changed else stored)

    def _entry(self, uuid: str, inventory: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "inventories": inventory,
            "resource_provider_generation": self._cache.tree.data(uuid).generation,
        }

    def _may_skip(self, uuid: str) -> bool:
        tree = self._cache.tree
        if uuid not in self._new or tree.has_inventory_changed(uuid, self._new[uuid].inventory):
            return False
        return not self._lists_unchanged or tree.has_traits(uuid, [SHARING_TRAIT])

    def _reread(self) -> None:
        """Read inventories and generations again: what became of them cannot be computed."""
        try:
            for uuid in self._new:
                with self._syncing(uuid):
                    self._cache.reread_inventory(self._context, uuid)
            for uuid in self._removed():
                self._cache.expire(uuid)
        except Exception:
            self._drop_involved()
            raise

    def _delete(self, uuid: str) -> None:
        with self._syncing(uuid):
            self._cache.api.delete_provider(self._context, uuid)
        self._cache.drop(uuid)

    def _fill(self, wanted: ProviderData) -> None:
        with self._syncing(wanted.uuid):
            self._cache.put_inventory(self._context, wanted.uuid, wanted.inventory)
            self._cache.put_aggregates(self._context, wanted.uuid, wanted.aggregates)
            self._cache.put_traits(self._context, wanted.uuid, wanted.traits)

    # ---- inside

    def _removed(self) -> list[str]:
        """List the providers to delete, children before their parents."""
        gone = self._old.keys() - self._new.keys()
        return [uuid for uuid in reversed(self._cache.tree.get_provider_uuids()) if uuid in gone]

    def _remember(self, places: Mapping[str, tuple[str, str | None]]) -> None:
        if self._own:
            self._old = dict(places)
            self._new_tree.origin = Origin(self._cache.owner, dict(places))

    def _drop_involved(self) -> None:
        for uuid in {**self._new, **self._old}:
            self._cache.drop_tree(uuid)

    @contextlib.contextmanager
    def _syncing(self, uuid: str, parent_uuid: str | None = None) -> Iterator[None]:
        """Turn failures of one provider into those of the call, and forget its tree (K3)."""
        try:
            yield
        except exc.PlacementClientError as error:
            self._cache.drop_tree(uuid)
            if parent_uuid is not None:
                self._cache.drop_tree(parent_uuid)
            if isinstance(error, exc.PlacementAPIConflict | exc.InventoryInUse):
                raise
            raise exc.ResourceProviderSyncFailed(
                error, uuid=uuid, url=getattr(error, "url", ""), request_id=error.request_id
            ) from error


def _record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a consumer's record to what 1.30 accepts; an empty set deletes the consumer."""
    places = {
        uuid: {"resources": place["resources"]}
        for uuid, place in record["allocations"].items()
        if place.get("resources")
    }
    return {"allocations": places, **{key: record[key] for key in _RECORD_KEYS}}

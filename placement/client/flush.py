"""Writing an edited provider tree to the service, with or without a reshape (specification 05 section C6).

The steps are: create top-down, reshape, delete bottom-up, then fill in. A child needs its parent, a reshape
needs its providers, and only an empty provider can be deleted.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from placement.client import exceptions as exc
from placement.client.api import CONCURRENT_UPDATE, Aspect, RequestProblem
from placement.client.cache import ProviderCache
from placement.client.provider_tree import (
    SHARING_TRAIT,
    Origin,
    ProviderData,
    ProviderTree,
)

Allocations = Mapping[str, Mapping[str, Any]]

FOLLOWS = 5
"""The number of times that a reshape adopts generations moved by claims, before it is computed again."""

LOST_BEFORE_CLOSING = 2
"""The number of lost attempts of a reshape after which the moving inventories are closed to new claims."""

CONSUMER_MOVED = "consumer_generation"
"""The reason of a conflict that no new generation of a provider can resolve."""

AFTER_RESHAPE = (
    "The reshape is done: inventories and allocations have moved. Providers to be deleted, traits and"
    " aggregates may be left to do: start again, what is done already is recognised."
)
"""The hint of a failure after the reshape."""

# The keys of a record at 1.30; an adapter of a later version can have read more keys.
_RECORD_KEYS = ("project_id", "user_id", "consumer_generation")


class TreeFlush:
    """One call of ``update_from_provider_tree``, which compares the tree with the cache and writes.

    The sets of old and new providers are taken at the start, since the writes change the cache.
    """

    def __init__(
        self,
        cache: ProviderCache,
        context: Any,
        new_tree: ProviderTree,
        allocations: Allocations | None,
        lists_unchanged: bool = True,
        keeps_created: bool = False,
    ) -> None:
        self._lists_unchanged = lists_unchanged
        self._keeps_created = keeps_created
        self._cache = cache
        self._context = context
        self._new_tree = new_tree
        self._allocations = allocations
        origin = new_tree.origin
        # Only a provider that was handed out with this tree can have been removed from it. A provider that
        # the cache learned of later is not deleted.
        self._own = origin is not None and origin.client == cache.owner
        self._old = dict(origin.places) if origin and self._own else cache.tree.places()
        uuids = new_tree.get_provider_uuids()
        self._new: dict[str, ProviderData] = {uuid: new_tree.data(uuid) for uuid in uuids}

    def run(self) -> None:
        """Carry out the four steps; after a failure the next call does the rest."""
        # All checks precede the first write: a tree that no request can express changes nothing.
        for wanted in self._new.values():
            self._check_sane(wanted)
            self._check_place(wanted, self._old.get(wanted.uuid))
        self._read_dropped()
        for wanted in self._new.values():
            self._ensure_exists(wanted)
        if self._allocations is None:
            self._finish()
            return
        self._reshape(self._allocations)
        try:
            self._reread()
            self._finish()
        except exc.PlacementClientError as error:
            error.hint = AFTER_RESHAPE
            raise
        except Exception as error:
            error.add_note(AFTER_RESHAPE)
            raise

    def _finish(self) -> None:
        for uuid in self._list_removed():
            self._delete(uuid)
        # Providers are filled in deepest first: a failure drops the tree from the cache, and everything below
        # is done by then.
        for wanted in reversed(self._new.values()):
            self._fill(wanted)
        self._remember(self._new_tree.places())

    # ---- before anything is written

    @staticmethod
    def _check_sane(wanted: ProviderData) -> None:
        """Refuse a driver's values if no request can express them."""
        texts = [wanted.uuid, wanted.name, *wanted.traits, *wanted.aggregates]
        records = [*wanted.inventory.values()]
        sane = all(isinstance(text, str) for text in [*texts, *wanted.inventory])
        try:
            json.dumps(records, allow_nan=False)
        except (TypeError, ValueError):
            sane = False
        if not sane or not all(isinstance(record, Mapping) for record in records):
            raise exc.ResourceProviderSyncFailed(
                "the tree has names that are not text, or inventory records that are not"
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
        """Read the providers that the cache lacks: new ones, and ones dropped after a failure (K3)."""
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
                made = self._cache.create(
                    self._context, wanted.uuid, wanted.name, wanted.parent_uuid
                )
            if made and self._allocations is not None:
                self._cache.created[wanted.uuid] = None
            # Another client may have created the provider meanwhile, under another parent.
            self._check_place(wanted, self._cache.tree.places().get(wanted.uuid))
        # The provider counts as handed out from now on: if a later step fails and the provider is removed
        # from the tree, the next call deletes it.
        if wanted.uuid not in self._old:
            self._remember({**self._old, wanted.uuid: (wanted.name, wanted.parent_uuid)})

    def _reshape(self, allocations: Allocations) -> None:
        with self._reshaping():
            body = self._make_body(allocations)
            tree = self._cache.tree
            stored = {name for uuid in self._new for name in tree.data(uuid).inventory}
            wanted = {name for one in self._new.values() for name in one.inventory}
            self._cache.api.ensure_resource_classes(self._context, wanted - stored)
        problem = self._post(body)
        for _ in range(FOLLOWS):
            if problem is None or not _is_conflict(problem) or not self._follow(body, problem):
                break
            problem = self._post(body)
        if problem is None:
            self._cache.finish_reshape()
        elif _is_conflict(problem) or (problem.status == 409 and self._has_moved(body)):
            # Any other 409, such as a class in use, may be due to a claim that this attempt has not read.
            if self._keeps_created:
                # The flow is repeated at once, and would only create the same providers again.
                self._count_lost_attempt(body)
            else:
                self._cache.take_back(self._context)
            # The code does not say which provider or consumer has changed, so nothing in the cache is
            # reliable.
            self._cache.clear()
            raise problem.as_failure(exc.ReshapeConflict)
        else:
            self._cache.take_back(self._context)
            self._drop_involved()
            raise problem.as_failure(exc.ReshapeFailed)

    def _count_lost_attempt(self, body: Mapping[str, Any]) -> None:
        """Count a lost attempt; after some, close the moving inventories to new claims."""
        self._cache.lost_attempts += 1
        if self._cache.lost_attempts < LOST_BEFORE_CLOSING:
            return
        for uuid, entry in body["inventories"].items():
            moving = {
                name: record
                for name, record in self._cache.tree.data(uuid).inventory.items()
                if record != entry["inventories"].get(name)
            }
            if moving:
                with self._reshaping():
                    self._cache.closed.close(self._context, uuid, moving)

    def _post(self, body: Mapping[str, Any]) -> RequestProblem | None:
        if not body["inventories"] and not body["allocations"]:
            return None  # The service refuses a reshape that names no provider.
        seen = ""
        if self._leaves_records(body):
            stored = {uuid: self._cache.tree.data(uuid).inventory for uuid in body["inventories"]}
            # The list is compared byte for byte with what the service stores (specification 05 section A8).
            text = json.dumps(stored, sort_keys=True, separators=(",", ":"))
            seen = blake2b(text.encode(), digest_size=16).hexdigest()
        with self._reshaping():
            return self._cache.api.reshape(self._context, body, seen)

    def _leaves_records(self, body: Mapping[str, Any]) -> bool:
        """Return whether each class of the listed providers is unchanged, added, removed or closed.

        Then the reshape cannot damage allocations that were not read: their inventory stays, or the service
        refuses to remove it, or they cannot exist, since it was closed before the allocations were read.
        """
        for uuid, entry in body["inventories"].items():
            stored, wanted = self._cache.tree.data(uuid).inventory, entry["inventories"]
            if any(
                stored[name] != wanted[name]
                and not self._cache.closed.is_closed(uuid, name, stored[name])
                for name in stored.keys() & wanted.keys()
            ):
                return False
        return True

    def _read_inventories_now(self, body: Mapping[str, Any]) -> dict[str, Aspect] | None:
        """Read the inventories of the listed providers; None if one no longer exists."""
        with self._reshaping():
            try:
                return self._cache.inventories_now(self._context, body["inventories"])
            except exc.ResourceProviderRetrievalFailed:
                return None

    def _has_moved(self, body: Mapping[str, Any]) -> bool:
        """Return whether the cached tree is outdated, so that unread changes may have caused a refusal."""
        now = self._read_inventories_now(body)
        return now is None or any(
            now[uuid].generation != self._cache.tree.data(uuid).generation
            for uuid in body["inventories"]
        )

    @contextlib.contextmanager
    def _reshaping(self) -> Iterator[None]:
        """Turn every failure inside into a failure of the reshape (specification 05 section C6)."""
        try:
            yield
        except Exception as error:
            is_known = isinstance(error, exc.PlacementClientError)
            # If there was no answer, the request may have been carried out.
            if is_known and not isinstance(error, exc.NotAnswered):
                self._cache.take_back(self._context)
            self._drop_involved()
            raise exc.ReshapeFailed(str(error) or repr(error)) from error

    def _follow(self, body: Mapping[str, Any], problem: RequestProblem) -> bool:
        """Write the newest generations into the body if only allocations have moved them.

        A claim does not restart the reshape as long as the inventories are unchanged.
        """
        # The body is outdated for a consumer that changed: it names old allocations, and a new generation
        # would hide that.
        if problem.reason == CONSUMER_MOVED or not self._leaves_records(body):
            return False
        now = self._read_inventories_now(body)
        if now is None:
            return False
        for uuid, entry in body["inventories"].items():
            if now[uuid].value != self._cache.tree.data(uuid).inventory:
                return False
            entry["resource_provider_generation"] = now[uuid].generation
        return True

    def _make_body(self, allocations: Allocations) -> dict[str, Any]:
        """Make the body, which also empties the providers to be removed.

        Emptied providers cannot be allocated between the reshape and their deletion.
        """
        tree, entries = self._cache.tree, {}
        for uuid, wanted in self._new.items():
            # An unchanged inventory is sent as stored; otherwise fields that the driver does not mention
            # would return to their defaults.
            changed = tree.has_inventory_changed(uuid, wanted.inventory)
            inventory = wanted.inventory if changed else tree.data(uuid).inventory
            entries[uuid] = self._make_entry(uuid, inventory)
        entries.update((uuid, self._make_entry(uuid, {})) for uuid in self._list_removed())
        # Claims move the generations of sharing providers all the time: listing an unchanged one would only
        # cause conflicts.
        listed = {uuid: entry for uuid, entry in entries.items() if not self._may_skip(uuid)}
        if not listed:
            # The schema requires one provider, even if only consumers move.
            listed = dict([*entries.items()][:1])
        records = {consumer: _reduce_record(record) for consumer, record in allocations.items()}
        return {"inventories": listed, "allocations": records}

    def _make_entry(self, uuid: str, inventory: Mapping[str, Any]) -> dict[str, Any]:
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
        """Read inventories and generations again, since the client cannot compute them."""
        try:
            with self._syncing(next(iter(self._new), "")):
                now = self._cache.inventories_now(self._context, self._new)
            for uuid, (inventory, generation) in now.items():
                self._cache.tree.update_inventory(uuid, inventory, generation)
            for uuid in self._list_removed():
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

    def _list_removed(self) -> list[str]:
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
        """Turn a failure of one provider into a failure of the call, and forget the provider's tree (K3)."""
        try:
            yield
        except exc.PlacementClientError as error:
            self._cache.drop_tree(uuid)
            if parent_uuid is not None:
                self._cache.drop_tree(parent_uuid)
            # These errors are raised unchanged: a caller starts over after a conflict and after no other
            # error.
            if isinstance(error, exc.PlacementAPIConflict | exc.InventoryInUse):
                raise
            raise exc.ResourceProviderSyncFailed(
                error,
                uuid=uuid,
                url=error.url,
                request_id=error.request_id,
                status=error.status,
            ) from error


def _is_conflict(problem: RequestProblem) -> bool:
    return problem.status == 409 and problem.code == CONCURRENT_UPDATE


def _reduce_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a consumer's record to what 1.30 accepts; an empty set deletes the consumer."""
    # A driver that takes amounts out of a place can leave it empty; the schema refuses an empty place.
    places = {
        uuid: {"resources": place["resources"]}
        for uuid, place in record["allocations"].items()
        if place.get("resources")
    }
    return {"allocations": places, **{key: record[key] for key in _RECORD_KEYS}}

"""A forest of resource providers in memory (specification 05 section C3).

The report client's cache and the object that a driver edits are such forests. This module does not use HTTP.
"""

from __future__ import annotations

import copy
import functools
import threading
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"

InventoryByClass = dict[str, dict[str, Any]]
NameAndParent = tuple[str, str | None]
"""A provider's name and the UUID of its parent."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True)
class ProviderData:
    """A snapshot of one provider; changing its containers does not change the tree."""

    uuid: str
    name: str
    generation: int | None
    parent_uuid: str | None
    inventory: InventoryByClass
    traits: set[str]
    aggregates: set[str]


@dataclass(frozen=True)
class Origin:
    """The client that handed a tree out, and the providers that were in the tree then, by UUID.

    The client deletes providers that are listed here and no longer in the tree. Places are kept because a
    sharing provider is handed out as a root even if it has a parent.
    """

    client: str
    places: Mapping[str, NameAndParent]


@dataclass
class _Provider:
    uuid: str
    name: str
    generation: int | None = None
    parent_uuid: str | None = None
    inventory: InventoryByClass = field(default_factory=dict)
    traits: set[str] = field(default_factory=set)
    aggregates: set[str] = field(default_factory=set)
    children: dict[str, None] = field(default_factory=dict)

    def snapshot(self) -> ProviderData:
        return ProviderData(
            self.uuid,
            self.name,
            self.generation,
            self.parent_uuid,
            copy.deepcopy(self.inventory),
            set(self.traits),
            set(self.aggregates),
        )


def _lock_tree(
    method: Callable[Concatenate[ProviderTree, _P], _R],
) -> Callable[Concatenate[ProviderTree, _P], _R]:
    """Run a method of ProviderTree under the lock of its tree."""

    @functools.wraps(method)
    def call_under_lock(self: ProviderTree, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            return method(self, *args, **kwargs)

    return call_under_lock


def inventory_differs(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether ``wanted`` asks for anything that ``stored`` does not have.

    Fields that only ``stored`` has do not count. The service fills in defaults that a driver does not
    mention, and with them every period would write every inventory again (C3).
    """
    if stored.keys() != wanted.keys():
        return True
    return any(
        name not in stored[resource_class] or stored[resource_class][name] != value
        for resource_class, record in wanted.items()
        for name, value in record.items()
    )


class ProviderTree:
    """One or more root providers, each with its descendants.

    ``name_or_uuid`` is looked up as a UUID first, then as a name; A method raises ValueError if it is
    neither, unless the method says otherwise. Every method is atomic.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._providers: dict[str, _Provider] = {}
        self._roots: dict[str, None] = {}
        # A name has several UUIDs only if the service gave it to a new provider while the old one is still in
        # the tree. The name then finds the newest; the others are found by UUID.
        self._uuids_by_name: dict[str, dict[str, None]] = {}
        self.origin: Origin | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A lock can be neither copied nor pickled. This thread holds the lock so that no half-made change is
        # copied.
        with self._lock:
            state = self.__dict__.copy()
            del state["_lock"]
            return copy.deepcopy(state)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> ProviderTree:
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        memo[id(self)] = twin
        return twin

    # ---- looking

    @property
    def roots(self) -> list[ProviderData]:
        """Snapshots of the root providers."""
        with self._lock:
            return [self._providers[uuid].snapshot() for uuid in self._roots]

    @_lock_tree
    def get_provider_uuids(self, name_or_uuid: str | None = None) -> list[str]:
        """List the subtree at a provider, or everything, parents before their children."""
        if name_or_uuid is None:
            return self._descend(self._roots)
        return self._descend([self._find(name_or_uuid).uuid])

    @_lock_tree
    def get_provider_uuids_in_tree(self, name_or_uuid: str) -> list[str]:
        """List the whole tree around a provider, its root first."""
        return self._descend([self._root_of(self._find(name_or_uuid)).uuid])

    @_lock_tree
    def exists(self, name_or_uuid: object) -> bool:
        """Return whether the provider exists; never raises."""
        # A driver can ask with any value: a list has no hash and is not a provider.
        try:
            return name_or_uuid in self._providers or name_or_uuid in self._uuids_by_name
        except TypeError:
            return False

    @_lock_tree
    def data(self, name_or_uuid: str) -> ProviderData:
        """Take a snapshot of one provider."""
        return self._find(name_or_uuid).snapshot()

    @_lock_tree
    def places(self) -> dict[str, NameAndParent]:
        """Map each provider's UUID to its name and its parent."""
        return {p.uuid: (p.name, p.parent_uuid) for p in self._providers.values()}

    # ---- structure

    @_lock_tree
    def new_root(self, name: str, uuid: str, generation: int | None = None) -> str:
        """Add a root provider and return its UUID; ValueError if UUID or name is taken."""
        self._check_free(name, uuid)
        self._insert(_Provider(uuid, name, generation))
        return uuid

    @_lock_tree
    def new_child(
        self,
        name: str,
        parent: str,
        uuid: str | None = None,
        generation: int | None = None,
    ) -> str:
        """Add a child under ``parent`` (name or UUID) and return its UUID.

        A missing UUID is generated. Raises ValueError if UUID or name is taken, or if the parent is unknown.
        """
        parent_uuid = self._find(parent).uuid
        uuid = uuid or str(uuids.uuid4())
        self._check_free(name, uuid)
        self._insert(_Provider(uuid, name, generation, parent_uuid))
        return uuid

    @_lock_tree
    def remove(self, name_or_uuid: str) -> None:
        """Remove a provider and all its descendants."""
        for uuid in reversed(self._descend([self._find(name_or_uuid).uuid])):
            self._discard(uuid)

    @_lock_tree
    def populate_from_iterable(self, dicts: Iterable[Mapping[str, Any]]) -> None:
        """Merge providers as the API shows them; the input should hold whole subtrees.

        A provider in the tree is replaced with all its data, and its descendants are dropped unless the input
        has them. Raises ValueError, and changes nothing, for a cycle and for a parent that is neither in the
        tree nor in the input.
        """
        incoming = {shown["uuid"]: shown for shown in dicts}
        known = [uuid for uuid in incoming if uuid in self._providers]
        dropped = self._descend(known)
        # The order is checked before anything is discarded: an orphan or a cycle in the input leaves the tree
        # as it was.
        ordered = self._sort_parents_first(incoming, self._providers.keys() - set(dropped))
        for uuid in reversed(dropped):
            self._discard(uuid)
        for shown in ordered:
            self._insert(
                _Provider(
                    shown["uuid"],
                    shown["name"],
                    shown.get("generation"),
                    shown.get("parent_provider_uuid"),
                )
            )

    @_lock_tree
    def copy_of(self, uuids_wanted: Iterable[str], lone: Iterable[str] = ()) -> ProviderTree:
        """Copy whole trees, given by UUIDs of members, and single providers as lone roots."""
        chosen = {self._root_of(self._providers[uuid]).uuid for uuid in uuids_wanted}
        members = self._descend(root for root in self._roots if root in chosen)
        twin = ProviderTree()
        for uuid in members:
            twin._insert(self._copy_provider(uuid, keep_parent=True))
        for uuid in lone:
            if uuid not in twin._providers:
                twin._insert(self._copy_provider(uuid, keep_parent=False))
        return twin

    # ---- inventories

    @_lock_tree
    def has_inventory(self, name_or_uuid: str) -> bool:
        """Return whether a provider has any inventory record."""
        return bool(self._find(name_or_uuid).inventory)

    @_lock_tree
    def has_inventory_changed(self, name_or_uuid: str, inventory: Mapping[str, Any] | None) -> bool:
        """Return whether a class is added or removed or a *given* field differs; None means empty.

        Fields not given do not count: the service has filled them with its defaults.
        """
        return inventory_differs(self._find(name_or_uuid).inventory, inventory or {})

    @_lock_tree
    def update_inventory(
        self,
        name_or_uuid: str,
        inventory: Mapping[str, Any] | None,
        generation: int | None = None,
    ) -> bool:
        """Store a copy if :meth:`has_inventory_changed`; return whether it did."""
        provider = self._find(name_or_uuid)
        changed = inventory_differs(provider.inventory, inventory or {})
        # An unchanged record stays as stored, with the service's defaults: the reshape sends these, not a
        # driver's gaps.
        if changed:
            provider.inventory = copy.deepcopy(dict(inventory or {}))
        self._note_generation(provider, generation)
        return changed

    @_lock_tree
    def has_sharing_provider(self, resource_class: str) -> bool:
        """Return whether some provider has inventory of the class and the sharing trait."""
        return any(
            resource_class in provider.inventory and SHARING_TRAIT in provider.traits
            for provider in self._providers.values()
        )

    @_lock_tree
    def sharing_via(self, aggregates: Iterable[str]) -> list[str]:
        """List the providers that have the sharing trait and are in any of the aggregates."""
        wanted = set(aggregates)
        return [
            provider.uuid
            for provider in self._providers.values()
            if SHARING_TRAIT in provider.traits and provider.aggregates & wanted
        ]

    @_lock_tree
    def aggregates_of_tree(self, name_or_uuid: str) -> set[str]:
        """Unite the aggregates of all members of the tree around a provider."""
        root = self._root_of(self._find(name_or_uuid)).uuid
        members = (self._providers[uuid] for uuid in self._descend([root]))
        return set().union(*(member.aggregates for member in members))

    # ---- traits

    @_lock_tree
    def has_traits(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Return whether a provider has all of the traits; true for none."""
        return set(traits) <= self._find(name_or_uuid).traits

    @_lock_tree
    def have_traits_changed(self, name_or_uuid: str, traits: Iterable[str]) -> bool:
        """Return whether a provider's traits differ from these."""
        return set(traits) != self._find(name_or_uuid).traits

    @_lock_tree
    def update_traits(
        self, name_or_uuid: str, traits: Iterable[str], generation: int | None = None
    ) -> bool:
        """Replace the traits; return whether they changed."""
        provider, wanted = self._find(name_or_uuid), set(traits)
        changed = provider.traits != wanted
        provider.traits = wanted
        self._note_generation(provider, generation)
        return changed

    @_lock_tree
    def add_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Add traits, leaving the others alone."""
        self._find(name_or_uuid).traits |= set(traits)

    @_lock_tree
    def remove_traits(self, name_or_uuid: str, *traits: str) -> None:
        """Remove traits, leaving the others alone; unknown ones are ignored."""
        self._find(name_or_uuid).traits -= set(traits)

    # ---- aggregates

    @_lock_tree
    def in_aggregates(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Return whether a provider is in all of the aggregates; true for none."""
        return set(aggregates) <= self._find(name_or_uuid).aggregates

    @_lock_tree
    def have_aggregates_changed(self, name_or_uuid: str, aggregates: Iterable[str]) -> bool:
        """Return whether a provider's aggregates differ from these."""
        return set(aggregates) != self._find(name_or_uuid).aggregates

    @_lock_tree
    def update_aggregates(
        self, name_or_uuid: str, aggregates: Iterable[str], generation: int | None = None
    ) -> bool:
        """Replace the aggregates; return whether they changed."""
        provider, wanted = self._find(name_or_uuid), set(aggregates)
        changed = provider.aggregates != wanted
        provider.aggregates = wanted
        self._note_generation(provider, generation)
        return changed

    @_lock_tree
    def add_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Add aggregates, leaving the others alone."""
        self._find(name_or_uuid).aggregates |= set(aggregates)

    @_lock_tree
    def remove_aggregates(self, name_or_uuid: str, *aggregates: str) -> None:
        """Remove aggregates, leaving the others alone; unknown ones are ignored."""
        self._find(name_or_uuid).aggregates -= set(aggregates)

    # ---- inside, under the lock

    def _find(self, name_or_uuid: str) -> _Provider:
        if self.exists(name_or_uuid):
            if name_or_uuid in self._providers:
                return self._providers[name_or_uuid]
            return self._providers[next(reversed(self._uuids_by_name[name_or_uuid]))]
        raise ValueError(f"No such provider in the tree: {name_or_uuid}")

    def _descend(self, uuids_from: Iterable[str]) -> list[str]:
        """List the subtrees top-down, without recursion: trees may be deep."""
        found: dict[str, None] = {}
        waiting = list(reversed(list(uuids_from)))
        while waiting:
            uuid = waiting.pop()
            # A provider that is listed twice keeps its last place, so that parents stay before their
            # children.
            found.pop(uuid, None)
            found[uuid] = None
            waiting.extend(reversed(self._providers[uuid].children))
        return list(found)

    def _root_of(self, provider: _Provider) -> _Provider:
        while provider.parent_uuid is not None:
            provider = self._providers[provider.parent_uuid]
        return provider

    def _check_free(self, name: str, uuid: str) -> None:
        if uuid in self._providers:
            raise ValueError(f"Provider {uuid} is in the tree already")
        if name in self._uuids_by_name:
            raise ValueError(f"Provider name {name} is in the tree already")

    def _insert(self, provider: _Provider) -> None:
        self._providers[provider.uuid] = provider
        self._uuids_by_name.setdefault(provider.name, {})[provider.uuid] = None
        if provider.parent_uuid is None:
            self._roots[provider.uuid] = None
        else:
            self._providers[provider.parent_uuid].children[provider.uuid] = None

    def _discard(self, uuid: str) -> None:
        provider = self._providers.pop(uuid)
        same_name = self._uuids_by_name[provider.name]
        del same_name[uuid]
        if not same_name:
            del self._uuids_by_name[provider.name]
        if provider.parent_uuid is None:
            del self._roots[uuid]
        elif provider.parent_uuid in self._providers:
            del self._providers[provider.parent_uuid].children[uuid]

    def _copy_provider(self, uuid: str, *, keep_parent: bool) -> _Provider:
        twin = copy.deepcopy(self._providers[uuid])
        twin.children = {}
        # Outside its own tree the provider does not have a parent, so it becomes a root.
        if not keep_parent:
            twin.parent_uuid = None
        return twin

    @staticmethod
    def _note_generation(provider: _Provider, generation: int | None) -> None:
        # The generation is stored even if nothing else changed: a write of equal values moves it too.
        if generation is not None:
            provider.generation = generation

    @staticmethod
    def _sort_parents_first(
        incoming: Mapping[str, Mapping[str, Any]], staying: set[str]
    ) -> list[Mapping[str, Any]]:
        """Order the input so that parents come first, or raise ValueError."""
        children: dict[str | None, list[str]] = {}
        for uuid, shown in incoming.items():
            parent = shown.get("parent_provider_uuid")
            if parent is not None and parent not in incoming and parent not in staying:
                raise ValueError(f"Parent {parent} of provider {uuid} is not in the tree")
            children.setdefault(parent if parent in incoming else None, []).append(uuid)
        ordered = list(children.get(None, ()))
        for uuid in ordered:  # The loop below extends this list.
            ordered.extend(children.get(uuid, ()))
        if len(ordered) != len(incoming):
            looped = sorted(incoming.keys() - set(ordered))
            raise ValueError(f"Providers are each other's ancestors: {', '.join(looped)}")
        return [incoming[uuid] for uuid in ordered]

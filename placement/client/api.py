"""One method per request that the client sends, all at microversion 1.30 (contract 05, C1, C4).

Failures are told apart by status and ``errors[0].code``, never by message text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from placement.client import exceptions as exc
from placement.client.provider_tree import SHARING_TRAIT, Inventory

# The lowest version that has the reshaper, and it has everything else used here. From 1.38 a
# consumer type must be sent, but `unknown`, which GET shows, cannot be written (C1).
MICROVERSION = "1.30"

CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_NAME = "placement.duplicate_name"
INVENTORY_IN_USE = "placement.inventory.inuse"

TRAITS_PER_REQUEST = 100

_T = TypeVar("_T")


class Problem(NamedTuple):
    """What the service says about a failure: HTTP status, error code, text, request id."""

    status: int
    code: str
    text: str
    request_id: str | None

    @property
    def words(self) -> str:
        """Render status, code and text for people."""
        code = f" {self.code}" if self.code else ""
        return f"HTTP {self.status}{code}: {self.text}"


class Aspect(NamedTuple):
    """One aspect of a provider (inventory, traits or aggregates) and its generation."""

    value: Any
    generation: int


def problem_of(response: Any) -> Problem:
    """Read the error document; a page from something in between is quoted as it is."""
    request_id = response.headers.get("x-openstack-request-id")
    try:
        error = response.json()["errors"][0]
        code, text = str(error.get("code", "")), str(error.get("detail", "")).strip()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        code, text = "", " ".join(str(response.text).split())[:300]
    return Problem(response.status_code, code, text, request_id)


def parts(names: Iterable[str], size: int) -> Iterator[list[str]]:
    """Cut names, sorted, into lists of at most ``size``."""
    ordered = sorted(names)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def _sendable(body: Any, url: str) -> Any:
    """Refuse what a driver left in the tree that cannot be JSON, before anything is sent."""
    try:
        json.dumps(body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise exc.ResourceProviderUpdateFailed(f"not JSON: {error}", url=url) from error
    return body


class PlacementAPI:
    """The Placement service behind a keystoneauth1 adapter, or anything that acts like one."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def send(self, method: str, url: str, context: Any, body: Any = None) -> Any:
        """Send one request and return the response, whatever its status."""
        arguments = {} if body is None else {"json": body}
        return getattr(self._adapter, method)(
            url,
            headers={"Accept": "application/json"},
            microversion=MICROVERSION,
            global_request_id=getattr(context, "global_id", None),
            raise_exc=False,
            **arguments,
        )

    # ---- providers

    def providers_in_tree(self, context: Any, uuid: str) -> list[dict[str, Any]]:
        """Read the providers of a tree; empty if the provider is unknown."""
        return self._providers(context, f"/resource_providers?in_tree={uuid}", uuid)

    def providers_named(self, context: Any, name: str) -> list[dict[str, Any]]:
        """Read the provider that has a name, if there is one."""
        return self._providers(context, f"/resource_providers?name={quote(name, safe='')}", "")

    def all_providers(self, context: Any) -> list[dict[str, Any]]:
        """Read every provider of the service."""
        return self._providers(context, "/resource_providers", "")

    def sharing_providers(
        self, context: Any, aggregates: Iterable[str], at_once: int
    ) -> list[dict[str, Any]]:
        """Read the providers that share with members of any of the aggregates."""
        found: dict[str, dict[str, Any]] = {}
        for some in parts(aggregates, at_once):
            url = f"/resource_providers?member_of=in:{','.join(some)}&required={SHARING_TRAIT}"
            found.update((shown["uuid"], shown) for shown in self._providers(context, url, ""))
        return list(found.values())

    def provider(self, context: Any, uuid: str) -> dict[str, Any] | None:
        """Read one provider; None if there is none."""
        response = self.send("get", f"/resource_providers/{uuid}", context)
        if response.status_code == 404:
            return None
        return self._parse(response, dict, exc.ResourceProviderRetrievalFailed, uuid=uuid)

    def create_provider(
        self, context: Any, uuid: str, name: str, parent_uuid: str | None
    ) -> dict[str, Any] | None:
        """Create a provider; None if its UUID exists already, made by somebody else."""
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent_uuid}
        response = self.send("post", "/resource_providers", context, body)
        failed = exc.ResourceProviderCreationFailed
        if response.status_code != 200:
            problem = problem_of(response)
            if problem.code == DUPLICATE_NAME and self.provider(context, uuid):
                return None
            raise failed(problem.words, name=name, uuid=uuid, request_id=problem.request_id)
        return self._parse(response, dict, failed, name=name, uuid=uuid)

    def delete_provider(self, context: Any, uuid: str) -> None:
        """Delete a provider; one that is gone already counts as deleted."""
        response = self.send("delete", f"/resource_providers/{uuid}", context)
        if response.status_code in (204, 404):
            return
        problem = problem_of(response)
        failed = (
            exc.ResourceProviderInUse
            if problem.status == 409
            else exc.ResourceProviderDeletionFailed
        )
        raise failed(problem.words, uuid=uuid, request_id=problem.request_id)

    # ---- aspects of a provider

    def inventories(self, context: Any, uuid: str) -> Aspect:
        """Read a provider's inventory: class to record."""
        return self._aspect(context, uuid, "inventories", dict, exc.ResourceProviderRetrievalFailed)

    def traits(self, context: Any, uuid: str) -> Aspect:
        """Read a provider's traits, a set."""
        return self._aspect(context, uuid, "traits", set, exc.ResourceProviderTraitRetrievalFailed)

    def aggregates(self, context: Any, uuid: str) -> Aspect:
        """Read a provider's aggregates, a set of UUIDs."""
        return self._aspect(
            context, uuid, "aggregates", set, exc.ResourceProviderAggregateRetrievalFailed
        )

    def put_inventories(
        self, context: Any, uuid: str, inventory: Inventory, generation: int | None
    ) -> Aspect:
        """Replace a provider's inventory; InventoryInUse if a class to remove is in use."""
        return self._put_aspect(context, uuid, "inventories", inventory, generation)

    def put_traits(
        self, context: Any, uuid: str, traits: Iterable[str], generation: int | None
    ) -> Aspect:
        """Replace a provider's traits (PUT of an empty list too: it shows the generation)."""
        return self._put_aspect(context, uuid, "traits", sorted(traits), generation)

    def put_aggregates(
        self, context: Any, uuid: str, aggregates: Iterable[str], generation: int | None
    ) -> Aspect:
        """Replace a provider's aggregates."""
        return self._put_aspect(context, uuid, "aggregates", sorted(aggregates), generation)

    # ---- names

    def ensure_resource_classes(self, context: Any, names: Iterable[str]) -> None:
        """Create the custom classes among the names that are missing."""
        for name in sorted({name for name in names if name.startswith("CUSTOM_")}):
            response = self.send("put", f"/resource_classes/{quote(name, safe='')}", context)
            if response.status_code not in (201, 204):
                problem = problem_of(response)
                raise exc.InvalidResourceClass(
                    problem.words, name=name, request_id=problem.request_id
                )

    def known_traits(self, context: Any, names: Iterable[str]) -> set[str]:
        """Tell which of the traits exist."""
        known: set[str] = set()
        for some in parts(set(names), TRAITS_PER_REQUEST):
            listed = ",".join(some)
            url = f"/traits?name=in:{quote(listed, safe=',')}"
            response = self.send("get", url, context)
            known |= self._parse(
                response, lambda body: set(body["traits"]), exc.TraitRetrievalFailed, name=listed
            )
        return known

    def known_resource_classes(self, context: Any) -> set[str]:
        """List the names of all resource classes."""
        response = self.send("get", "/resource_classes", context)
        return self._parse(
            response,
            lambda body: {shown["name"] for shown in body["resource_classes"]},
            exc.ResourceProviderRetrievalFailed,
        )

    def ensure_traits(self, context: Any, names: Iterable[str]) -> None:
        """Create the custom traits among the names that are missing.

        Standard-looking ones are never created: the write that names them fails (C6).
        """
        wanted = set(names)
        for name in sorted(wanted - self.known_traits(context, wanted)):
            if not name.startswith("CUSTOM_"):
                continue
            response = self.send("put", f"/traits/{quote(name, safe='')}", context)
            if response.status_code not in (201, 204):
                problem = problem_of(response)
                raise exc.TraitCreationFailed(
                    problem.words, name=name, request_id=problem.request_id
                )

    # ---- allocations

    def allocations_of_provider(self, context: Any, uuid: str) -> dict[str, Any]:
        """Read who uses a provider: consumer UUID to ``{resources, consumer_generation}``."""
        response = self.send("get", f"/resource_providers/{uuid}/allocations", context)
        return self._parse(
            response,
            lambda body: dict(body["allocations"]),
            exc.ResourceProviderAllocationRetrievalFailed,
            uuid=uuid,
        )

    def allocations_of_consumer(self, context: Any, consumer_uuid: str) -> dict[str, Any]:
        """Read everything a consumer uses, as the service answers it."""
        response = self.send("get", f"/allocations/{consumer_uuid}", context)
        return self._parse(
            response,
            _with_allocations,
            exc.ConsumerAllocationRetrievalFailed,
            consumer_uuid=consumer_uuid,
        )

    def reshape(self, context: Any, body: Mapping[str, Any]) -> Problem | None:
        """Send a reshape; None if it was done."""
        response = self.send("post", "/reshaper", context, _sendable(body, "/reshaper"))
        return None if response.status_code == 204 else problem_of(response)

    # ---- inside

    def _providers(self, context: Any, url: str, uuid: str) -> list[dict[str, Any]]:
        return self._parse(
            self.send("get", url, context),
            lambda body: [_provider(shown) for shown in body["resource_providers"]],
            exc.ResourceProviderRetrievalFailed,
            uuid=uuid,
        )

    def _aspect(
        self,
        context: Any,
        uuid: str,
        aspect: str,
        kind: Callable[[Any], Any],
        failed: type[exc.PlacementClientError],
    ) -> Aspect:
        response = self.send("get", f"/resource_providers/{uuid}/{aspect}", context)
        return self._parse(response, _reader(aspect, kind), failed, uuid=uuid)

    def _put_aspect(
        self, context: Any, uuid: str, aspect: str, value: Any, generation: int | None
    ) -> Aspect:
        url = f"/resource_providers/{uuid}/{aspect}"
        body = {"resource_provider_generation": generation, aspect: value}
        response = self.send("put", url, context, _sendable(body, url))
        if response.status_code != 200:
            raise _put_failure(problem_of(response), uuid, url, generation)
        kind = dict if aspect == "inventories" else set
        return self._parse(
            response, _reader(aspect, kind), exc.ResourceProviderUpdateFailed, url=url
        )

    @staticmethod
    def _parse(
        response: Any,
        reader: Callable[[Any], _T],
        failed: type[exc.PlacementClientError],
        **attributes: str,
    ) -> _T:
        """Read a 200 answer, or raise ``failed``."""
        problem = problem_of(response) if response.status_code != 200 else None
        if problem is None:
            try:
                return reader(response.json())
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                unreadable = failed(f"unreadable answer: {error!r}", **attributes)
                raise unreadable from error
        raise failed(problem.words, request_id=problem.request_id, **attributes)


def _put_failure(
    problem: Problem, uuid: str, url: str, generation: int | None
) -> exc.PlacementClientError:
    if problem.status == 409 and problem.code == CONCURRENT_UPDATE:
        return exc.ResourceProviderUpdateConflict(
            problem.words, uuid=uuid, generation=generation, request_id=problem.request_id
        )
    if problem.status == 409 and problem.code == INVENTORY_IN_USE:
        return exc.InventoryInUse(problem.words, uuid=uuid, url=url, request_id=problem.request_id)
    return exc.ResourceProviderUpdateFailed(problem.words, url=url, request_id=problem.request_id)


def _reader(aspect: str, kind: Callable[[Any], Any]) -> Callable[[Any], Aspect]:
    return lambda body: Aspect(kind(body[aspect]), body["resource_provider_generation"])


def _provider(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Check for what is used, so that an answer without it is noticed here."""
    shown["uuid"], shown["name"], shown["generation"]
    return dict(shown)


def _with_allocations(body: Any) -> dict[str, Any]:
    dict(body["allocations"])
    return dict(body)

"""One method per request that the client sends, all at microversion 1.30 (specification 05 sections C1, C4).

The client distinguishes failures by status and ``errors[0].code``, never by message text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import os_resource_classes
import os_traits

from placement.client import exceptions as exc
from placement.client.connection import without_password
from placement.client.pool import asking_threads
from placement.client.provider_tree import SHARING_TRAIT, InventoryByClass
from placement.client.sending import require_names, send_request

# 1.30 is the lowest version with the reshaper and with everything else used here. From 1.38 a consumer type
# must be sent, but GET shows `unknown`, which cannot be written (C1).
MICROVERSION = "1.30"

CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_NAME = "placement.duplicate_name"
INVENTORY_IN_USE = "placement.inventory.inuse"

TRAITS_PER_REQUEST = 100

REQUESTS_AT_ONCE = 8
"""The number is below the ten connections that a session of requests keeps open."""

NOT_OFFERED = (400, 403, 405, 406)
"""The statuses with which services and proxies answer a request that they do not know or allow."""

CHECK_IDENTITY = "Check user, project and password, or the token."
"""The advice of commands for a request that was refused with 401, or with 403 by another program."""

_T = TypeVar("_T")
_Failure = TypeVar("_Failure", bound=exc.PlacementClientError)


class RequestProblem(NamedTuple):
    """The service's description of a failure: HTTP status, error code, text, request id, reason."""

    status: int
    code: str
    text: str
    request_id: str | None
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The detail of the answer, without the general sentence that begins every answer of its status."""
        general, _gap, said = self.text.partition("\n\n")
        is_general = general.endswith(".") and "\n" not in general
        return said.strip() if is_general and said.strip() else self.text

    @property
    def words(self) -> str:
        """Render status, code and sentence for people."""
        code = f" {self.code}" if self.code else ""
        return f"HTTP {self.status}{code}: {self.sentence}"

    def as_failure(self, kind: type[_Failure], **subject: Any) -> _Failure:
        """Make an exception of the client from the problem."""
        return kind(self.words, request_id=self.request_id, status=self.status, **subject)


class WholeTree(NamedTuple):
    """A tree of providers in one snapshot, parents first; without providers if the tree does not exist.

    ``unchanged`` is true if the tree still has the tag that was sent; then ``providers`` is empty.
    """

    tag: str
    providers: list[dict[str, Any]]
    unchanged: bool = False


class Aspect(NamedTuple):
    """One aspect of a provider (inventory, traits or aggregates) and its generation."""

    value: Any
    generation: int


def problem_of(response: Any) -> RequestProblem:
    """Return the problem that an error document describes; the page of a proxy is quoted as it is."""
    request_id = response.headers.get("x-openstack-request-id")
    try:
        error = response.json()["errors"][0]
        code, text = str(error.get("code", "")), str(error.get("detail", "")).strip()
        reason = str(error.get("reason", ""))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        code, text, reason = "", " ".join(str(response.text).split())[:300], ""
    return RequestProblem(response.status_code, code, text, request_id, reason)


def read_document(
    response: Any, failed: type[exc.PlacementClientError], *members: str
) -> dict[str, Any]:
    """Return the document of an answer, whatever its status.

    :raises failed: the document is not an object with these members, such as half an answer or the page of a
        proxy
    """
    try:
        document = dict(response.json())
        for name in members:
            document[name]
    except (ValueError, TypeError, KeyError) as error:
        raise failed(_describe_unreadable(response, error), status=response.status_code) from error
    return document


def _describe_unreadable(response: Any, error: Exception) -> str:
    """Name the request whose answer is not Placement's document, and what is wrong with it."""
    asked = f"{response.request.method} {without_password(response.request.url)}"
    fault = f"it has no {error}" if isinstance(error, KeyError) else repr(error)
    return f"what answers {asked} is not Placement's document: {fault}"


def parts(names: Iterable[str], size: int) -> Iterator[list[str]]:
    """Cut names, sorted, into lists of at most ``size``."""
    ordered = sorted(names)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def _require_json(body: Any, url: str) -> Any:
    """Refuse values of a driver that cannot be JSON, before anything is sent."""
    try:
        json.dumps(body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise exc.ResourceProviderUpdateFailed(f"not JSON: {error}", url=url) from error
    return body


class PlacementAPI:
    """The Placement service behind a keystoneauth1 adapter, or behind an object that acts like one.

    :param unanswered: the error to raise if the service does not answer.
    """

    def __init__(
        self,
        adapter: Any,
        at_once: int = REQUESTS_AT_ONCE,
        unanswered: type[exc.PlacementClientError] = exc.NotAnswered,
    ) -> None:
        self._adapter = adapter
        self._unanswered = unanswered
        self._at_once = at_once
        # None means that the client does not know yet.
        self._has_trees: bool | None = None

    def send(self, method: str, url: str, context: Any, body: Any = None, **headers: str) -> Any:
        """Send one request and return the response, whatever its status, or raise ``unanswered``.

        :raises EmptyName: a name in the URL is empty
        """
        require_names(url)
        arguments = {} if body is None else {"json": body}
        return send_request(
            self._adapter,
            method,
            url,
            self._unanswered,
            headers={"Accept": "application/json", **headers},
            microversion=MICROVERSION,
            global_request_id=getattr(context, "global_id", None),
            **arguments,
        )

    def each(
        self,
        ask: Callable[[str], _T],
        names: Iterable[str],
        progress: Callable[[int], None] = lambda _done: None,
    ) -> dict[str, _T]:
        """Call ``ask`` for each name, several at once; the first failure is raised.

        :param progress: called with the number of answers so far.
        """
        wanted = list(names)
        if len(wanted) < 2 or self._at_once < 2:
            answers: Iterator[_T] = map(ask, wanted)
            return _collect(wanted, answers, progress)
        with asking_threads(min(self._at_once, len(wanted))) as pool:
            return _collect(wanted, pool.map(ask, wanted), progress)

    # ---- providers

    def whole_tree(
        self, context: Any, uuid: str, *, tag: str = "", allocations: bool = False
    ) -> WholeTree | None:
        """Read the tree around a provider in one request; None if the service cannot do that.

        The compatible API has no such request: it is tried until the service is known to lack it
        (specification 07 section 5).
        """
        if self._has_trees is False:
            return None
        url = f"/-/trees/{uuid}{'?allocations=true' if allocations else ''}"
        headers = {"If-None-Match": f'"{tag}"'} if tag else {}
        response = self.send("get", url, context, **headers)
        if response.status_code == 304:
            return WholeTree(tag, [], unchanged=True)
        if response.status_code == 404:
            # The 404 means that the tree or the request does not exist. If the service has answered this
            # request before, the tree does not exist.
            return WholeTree("", []) if self._has_trees else None
        if response.status_code in NOT_OFFERED:
            self._has_trees = False
            return None
        failed = exc.ResourceProviderRetrievalFailed
        found = self._parse(response, _read_whole_tree, failed, uuid=uuid)
        self._has_trees = True
        return found

    def lacks_trees(self) -> None:
        """Note that the service does not have the request for whole trees, although it has the tree."""
        if self._has_trees is None:
            self._has_trees = False

    def providers_in_tree(self, context: Any, uuid: str) -> list[dict[str, Any]]:
        """Read the providers of a tree; empty if the provider is unknown."""
        return self._read_providers(context, f"/resource_providers?in_tree={uuid}", uuid)

    def provider_named(self, context: Any, name: str) -> dict[str, Any] | None:
        """Return the provider of this name, None if no provider has it.

        :raises ResourceProviderRetrievalFailed: several came back; a proxy that drops the query causes that
        """
        url = f"/resource_providers?name={quote(name, safe='')}"
        found = self._read_providers(context, url, "")
        if len(found) > 1:
            raise exc.ResourceProviderRetrievalFailed(f"{len(found)} providers have it", name=name)
        return found[0] if found else None

    def all_providers(self, context: Any) -> list[dict[str, Any]]:
        """Read every provider of the service."""
        return self._read_providers(context, "/resource_providers", "")

    def sharing_providers(
        self, context: Any, aggregates: Iterable[str], at_once: int
    ) -> list[dict[str, Any]]:
        """Read the providers that share with members of any of the aggregates."""
        found: dict[str, dict[str, Any]] = {}
        for some in parts(aggregates, at_once):
            url = f"/resource_providers?member_of=in:{','.join(some)}&required={SHARING_TRAIT}"
            found.update((shown["uuid"], shown) for shown in self._read_providers(context, url, ""))
        return list(found.values())

    def provider(self, context: Any, uuid: str) -> dict[str, Any] | None:
        """Read one provider; None if it does not exist."""
        response = self.send("get", f"/resource_providers/{uuid}", context)
        if response.status_code == 404:
            return None
        failed = exc.ResourceProviderRetrievalFailed
        return self._parse(response, _check_provider, failed, uuid=uuid)

    def create_provider(
        self, context: Any, uuid: str, name: str, parent_uuid: str | None
    ) -> dict[str, Any] | None:
        """Create a provider; None if another client has created one with its UUID."""
        body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent_uuid}
        response = self.send("post", "/resource_providers", context, body)
        failed = exc.ResourceProviderCreationFailed
        if response.status_code != 200:
            problem = problem_of(response)
            if problem.code == DUPLICATE_NAME and self.provider(context, uuid):
                return None
            raise problem.as_failure(failed, name=name, uuid=uuid)
        return self._parse(response, _check_provider, failed, name=name, uuid=uuid)

    def delete_provider(self, context: Any, uuid: str) -> None:
        """Delete a provider; a provider that does not exist counts as deleted."""
        response = self.send("delete", f"/resource_providers/{uuid}", context)
        if response.status_code in (204, 404):
            return
        problem = problem_of(response)
        failed = (
            exc.ResourceProviderInUse
            if problem.status == 409
            else exc.ResourceProviderDeletionFailed
        )
        raise problem.as_failure(failed, uuid=uuid)

    # ---- aspects of a provider

    def inventories(self, context: Any, uuid: str) -> Aspect:
        """Read a provider's inventory: class to record."""
        failed = exc.ResourceProviderRetrievalFailed
        return self._read_aspect(context, uuid, "inventories", dict, failed)

    def traits(self, context: Any, uuid: str) -> Aspect:
        """Read a provider's traits, a set."""
        failed = exc.ResourceProviderTraitRetrievalFailed
        return self._read_aspect(context, uuid, "traits", set, failed)

    def aggregates(self, context: Any, uuid: str) -> Aspect:
        """Read a provider's aggregates, a set of UUIDs."""
        return self._read_aspect(
            context, uuid, "aggregates", set, exc.ResourceProviderAggregateRetrievalFailed
        )

    def put_inventories(
        self, context: Any, uuid: str, inventory: InventoryByClass, generation: int | None
    ) -> Aspect:
        """Replace a provider's inventory; InventoryInUse if a class to remove is in use."""
        return self._put_aspect(context, uuid, "inventories", inventory, generation)

    def put_traits(
        self, context: Any, uuid: str, traits: Iterable[str], generation: int | None
    ) -> Aspect:
        """Replace a provider's traits, with PUT for an empty list too, since PUT returns the generation."""
        return self._put_aspect(context, uuid, "traits", sorted(traits), generation)

    def put_aggregates(
        self, context: Any, uuid: str, aggregates: Iterable[str], generation: int | None
    ) -> Aspect:
        """Replace a provider's aggregates."""
        return self._put_aspect(context, uuid, "aggregates", sorted(aggregates), generation)

    # ---- names

    def ensure_resource_classes(self, context: Any, names: Iterable[str]) -> None:
        """Create the custom classes among the names that are missing."""
        for name in sorted(set(filter(os_resource_classes.is_custom, names))):
            response = self.send("put", f"/resource_classes/{quote(name, safe='')}", context)
            if response.status_code not in (201, 204):
                problem = problem_of(response)
                raise problem.as_failure(exc.InvalidResourceClass, name=name)

    def known_traits(self, context: Any, names: Iterable[str]) -> set[str]:
        """Return those traits that exist."""
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

        Names that look standard are never created: the write that uses them fails (C6).
        """
        wanted = set(names)
        for name in sorted(wanted - self.known_traits(context, wanted)):
            if not os_traits.is_custom(name):
                continue
            response = self.send("put", f"/traits/{quote(name, safe='')}", context)
            if response.status_code not in (201, 204):
                problem = problem_of(response)
                raise problem.as_failure(exc.TraitCreationFailed, name=name)

    # ---- allocations

    def allocations_of_provider(self, context: Any, uuid: str) -> dict[str, Any]:
        """Read the consumers of a provider: UUID to ``{resources, consumer_generation}``."""
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
            _check_record,
            exc.ConsumerAllocationRetrievalFailed,
            consumer_uuid=consumer_uuid,
        )

    def reshape(
        self, context: Any, body: Mapping[str, Any], seen: str = ""
    ) -> RequestProblem | None:
        """Send a reshape; return None on success, otherwise the problem.

        :param seen: the tag of the inventories from which the reshape was made. A service that knows the
            header accepts generations that claims have moved since; others answer with a conflict.
        """
        headers = {"Placement-Seen-Inventories": seen} if seen else {}
        body = _require_json(body, "/reshaper")
        response = self.send("post", "/reshaper", context, body, **headers)
        return None if response.status_code == 204 else problem_of(response)

    # ---- inside

    def _read_providers(self, context: Any, url: str, uuid: str) -> list[dict[str, Any]]:
        return self._parse(
            self.send("get", url, context),
            lambda body: [_check_provider(shown) for shown in body["resource_providers"]],
            exc.ResourceProviderRetrievalFailed,
            uuid=uuid,
        )

    def _read_aspect(
        self,
        context: Any,
        uuid: str,
        aspect: str,
        kind: Callable[[Any], Any],
        failed: type[exc.PlacementClientError],
    ) -> Aspect:
        response = self.send("get", f"/resource_providers/{uuid}/{aspect}", context)
        return self._parse(response, _make_reader(aspect, kind), failed, uuid=uuid)

    def _put_aspect(
        self, context: Any, uuid: str, aspect: str, value: Any, generation: int | None
    ) -> Aspect:
        url = f"/resource_providers/{uuid}/{aspect}"
        body = {"resource_provider_generation": generation, aspect: value}
        response = self.send("put", url, context, _require_json(body, url))
        if response.status_code != 200:
            problem = problem_of(response)
            if problem.status == 409 and problem.code == CONCURRENT_UPDATE:
                raise problem.as_failure(
                    exc.ResourceProviderUpdateConflict, uuid=uuid, generation=generation
                )
            if problem.status == 409 and problem.code == INVENTORY_IN_USE:
                raise problem.as_failure(exc.InventoryInUse, uuid=uuid, url=url)
            raise problem.as_failure(exc.ResourceProviderUpdateFailed, url=url)
        kind = dict if aspect == "inventories" else set
        return self._parse(
            response, _make_reader(aspect, kind), exc.ResourceProviderUpdateFailed, url=url
        )

    @staticmethod
    def _parse(
        response: Any,
        reader: Callable[[Any], _T],
        failed: type[exc.PlacementClientError],
        **attributes: Any,
    ) -> _T:
        """Return the document of a 200 answer; raise ``failed`` for any other."""
        problem = problem_of(response) if response.status_code != 200 else None
        if problem is None:
            try:
                return reader(response.json())
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                unreadable = failed(_describe_unreadable(response, error), **attributes)
                raise unreadable from error
        raise problem.as_failure(failed, **attributes)


def _make_reader(aspect: str, kind: Callable[[Any], Any]) -> Callable[[Any], Aspect]:
    return lambda body: Aspect(kind(body[aspect]), body["resource_provider_generation"])


def _collect(
    names: Sequence[str], answers: Iterable[_T], progress: Callable[[int], None]
) -> dict[str, _T]:
    found = {}
    for name, answer in zip(names, answers, strict=True):
        found[name] = answer
        progress(len(found))
    return found


def _read_whole_tree(body: Any) -> WholeTree:
    (tree,) = body["trees"]
    providers = [_convert_shown(shown) for shown in tree["providers"]]
    return WholeTree(str(tree["etag"]), providers)


def _convert_shown(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a provider into the form of the compatible API."""
    return {
        "uuid": shown["uuid"],
        "name": shown["name"],
        "generation": shown["generation"],
        "parent_provider_uuid": shown["parent"],
        "inventories": {
            name: {key: value for key, value in record.items() if key != "used"}
            for name, record in shown["inventories"].items()
        },
        "traits": set(shown["traits"]),
        "aggregates": set(shown["aggregates"]),
        "consumers": dict(shown.get("allocations") or {}),
    }


def _check_provider(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Access the keys in use, so that an answer without them fails here."""
    shown["uuid"], shown["name"], shown["generation"], shown["root_provider_uuid"]
    return dict(shown)


def _check_record(body: Any) -> dict[str, Any]:
    dict(body["allocations"])
    return dict(body)

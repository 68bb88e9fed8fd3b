"""Others who use the service: builders, a second writer, and a recorder of requests."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keystoneauth1 import adapter
from requests import Response

Inventory = Mapping[str, int | Mapping[str, Any]]
"""Resource class to its total or its record."""


def new_uuid() -> str:
    return str(uuid.uuid4())


class World:
    """Writes and reads plainly, and fails the test if the service does not do as asked."""

    def __init__(self, adapter: adapter.Adapter) -> None:
        self.adapter = adapter

    def call(
        self,
        method: str,
        url: str,
        body: object = None,
        microversion: str = "1.30",
        expect: tuple[int, ...] = (200, 201, 204),
    ) -> Response:
        """Send a request, whose answer must have one of the statuses ``expect``."""
        arguments = {} if body is None else {"json": body}
        response = getattr(self.adapter, method)(url, microversion=microversion, **arguments)
        assert response.status_code in expect, (method, url, response.status_code, response.text)
        return response

    def get(self, url: str, **more: Any) -> Any:
        """Return the JSON of an answer."""
        return self.call("get", url, **more).json()

    def provider(
        self,
        name: str | None = None,
        parent: str | None = None,
        inventory: Inventory | None = None,
        traits: Iterable[str] = (),
        aggregates: Iterable[str] = (),
        key: str | None = None,
    ) -> str:
        """Make a provider with everything; returns its UUID."""
        key = key or new_uuid()
        name = name or f"provider-{key}"
        body = {"uuid": key, "name": name, "parent_provider_uuid": parent}
        self.call("post", "/resource_providers", body)
        if inventory:
            self.set_inventory(key, inventory)
        if traits:
            self.set_traits(key, traits)
        if aggregates:
            self.set_aspect(key, "aggregates", sorted(aggregates))
        return key

    def generation(self, key: str) -> int:
        return self.get(f"/resource_providers/{key}")["generation"]

    def set_aspect(self, key: str, aspect: str, value: object) -> None:
        """Replace the traits, aggregates or inventories, at the generation of the moment."""
        body = {"resource_provider_generation": self.generation(key), aspect: value}
        self.call("put", f"/resource_providers/{key}/{aspect}", body)

    def set_inventory(self, key: str, inventory: Inventory) -> None:
        """Replace the inventory; custom classes are made."""
        for name in inventory:
            if name.startswith("CUSTOM_"):
                self.call("put", f"/resource_classes/{name}")
        self.set_aspect(key, "inventories", {c: _record(r) for c, r in inventory.items()})

    def set_traits(self, key: str, traits: Iterable[str]) -> None:
        """Replace the traits; custom ones are made."""
        for name in traits:
            if name.startswith("CUSTOM_"):
                self.call("put", f"/traits/{name}")
        self.set_aspect(key, "traits", sorted(traits))

    def claim(
        self,
        places: Mapping[str, Mapping[str, int]],
        consumer: str | None = None,
        generation: int | None = None,
        microversion: str = "1.30",
        **more: object,
    ) -> str:
        """Allocate: provider UUID to class to amount; returns the consumer."""
        consumer = consumer or new_uuid()
        body = {
            "allocations": {key: {"resources": dict(r)} for key, r in places.items()},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": generation,
            **more,
        }
        self.call("put", f"/allocations/{consumer}", body, microversion=microversion)
        return consumer

    def release(self, consumer: str) -> None:
        self.call("delete", f"/allocations/{consumer}")

    def exists(self, key: str) -> bool:
        response = self.call("get", f"/resource_providers/{key}", expect=(200, 404))
        return response.status_code == 200

    def used(self, consumer: str) -> dict[str, dict[str, int]]:
        """Say what a consumer has: provider UUID to class to amount."""
        answer = self.get(f"/allocations/{consumer}")["allocations"]
        return {key: place["resources"] for key, place in answer.items()}

    def totals(self, key: str) -> dict[str, int]:
        """Say how much a provider has: class to total."""
        answer = self.get(f"/resource_providers/{key}/inventories")["inventories"]
        return {name: record["total"] for name, record in answer.items()}

    def traits(self, key: str) -> set[str]:
        return set(self.get(f"/resource_providers/{key}/traits")["traits"])

    def aggregates(self, key: str) -> set[str]:
        return set(self.get(f"/resource_providers/{key}/aggregates")["aggregates"])

    def state(self, *keys: str) -> dict[str, list[Any]]:
        """Everything about providers, generations included, to see that nothing changed."""
        return {
            key: [
                self.get(f"/resource_providers/{key}{part}")
                for part in ("", "/inventories", "/traits", "/aggregates", "/allocations")
            ]
            for key in keys
        }


def _record(record: int | Mapping[str, Any]) -> dict[str, Any]:
    return {"total": record} if isinstance(record, int) else dict(record)


class Recorder:
    """An adapter that notes requests, and lets somebody else act before one of them.

    URLs that start with ``hides`` are not found, as on a service that lacks them.
    """

    def __init__(self, adapter: adapter.Adapter) -> None:
        self.adapter = adapter
        self.requests: list[tuple[str, str]] = []
        self.statuses: list[int] = []
        self.hides: str | None = None
        self.interruptions: list[list[Any]] = []

    def before(self, method: str, part: str, act: Callable[[], object], times: int = 1) -> None:
        """Call ``act`` before the next request of this method whose URL holds ``part``."""
        self.interruptions.append([method, part, act, times])

    def writes(self) -> list[tuple[str, str]]:
        """Return method and URL of the requests that were no reads."""
        return [(method, url) for method, url in self.requests if method != "get"]

    def clear(self) -> None:
        """Forget the requests noted; interruptions stay."""
        self.requests.clear()
        self.statuses.clear()

    def _send(self, method: str, url: str, **arguments: Any) -> Response:
        for interruption in self.interruptions:
            if interruption[3] and interruption[0] == method and interruption[1] in url:
                interruption[3] -= 1
                interruption[2]()
        self.requests.append((method, url))
        if self.hides and url.startswith(self.hides):
            url = "/not/there"
        response = getattr(self.adapter, method)(url, **arguments)
        self.statuses.append(response.status_code)
        return response

    def get(self, url: str, **arguments: Any) -> Any:
        return self._send("get", url, **arguments)

    def put(self, url: str, **arguments: Any) -> Response:
        return self._send("put", url, **arguments)

    def post(self, url: str, **arguments: Any) -> Response:
        return self._send("post", url, **arguments)

    def delete(self, url: str, **arguments: Any) -> Response:
        return self._send("delete", url, **arguments)

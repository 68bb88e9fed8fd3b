"""The one that makes hosts: a plain second party, by whichever way the test asks the service."""

import uuid
from collections.abc import Iterable
from typing import Any

from tests.support import bodies
from tests.support.bodies import Sets, Stock
from tests.support.client import VERSION, Answer, Sender

FINE = (200, 201, 204)


def new_uuid() -> str:
    """Return a uuid that nothing has."""
    return str(uuid.uuid4())


class World:
    """Writes and reads plainly, and fails the test if the service does not do as asked."""

    def __init__(self, sender: Sender, version: str = VERSION) -> None:
        self._sender = sender
        self._version = version

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        version: str | None = None,
        expect: tuple[int, ...] = FINE,
    ) -> Answer:
        """Send a request, whose answer must have one of the statuses ``expect``."""
        answer = self._sender.send(method, path, body, version or self._version)
        assert answer.status in expect, (method, path, answer)
        return answer

    def get(self, path: str, version: str | None = None) -> Any:
        """Return the JSON of an answer."""
        return self.call("GET", path, version=version).json

    def provider(
        self,
        name: str | None = None,
        parent: str | None = None,
        inventory: Stock | None = None,
        traits: Iterable[str] = (),
        aggregates: Iterable[str] = (),
        key: str | None = None,
    ) -> str:
        """Make a provider with everything; return its uuid."""
        key = key or new_uuid()
        body = {"uuid": key, "name": name or f"provider-{key}"}
        if parent is not None:
            body["parent_provider_uuid"] = parent
        self.call("POST", "/resource_providers", body)
        generation = 0
        if inventory:
            generation = self.set_inventory(key, inventory, generation)
        if traits:
            generation = self.set_traits(key, traits, generation)
        if aggregates:
            self.replace(key, "aggregates", sorted(aggregates), generation)
        return key

    def host(self, key: str | None = None, **totals: int) -> str:
        """Make a root with these totals by class; return its uuid."""
        return self.provider(key=key, inventory=totals)

    def generation(self, key: str) -> int:
        """Return the generation of a provider."""
        generation: int = self.get(f"/resource_providers/{key}")["generation"]
        return generation

    def replace(self, key: str, part: str, value: Any, generation: int | None = None) -> int:
        """Replace the traits, aggregates or inventories; return the generation after it.

        :param generation: the one to send; that of the moment if it is not given.
        """
        now = self.generation(key) if generation is None else generation
        body = {"resource_provider_generation": now, part: value}
        answer = self.call("PUT", f"/resource_providers/{key}/{part}", body)
        after: int = answer.json["resource_provider_generation"]
        return after

    def set_inventory(self, key: str, inventory: Stock, generation: int | None = None) -> int:
        """Replace the inventory as :meth:`replace` does; custom classes are made."""
        for name in inventory:
            if name.startswith("CUSTOM_"):
                self.call("PUT", f"/resource_classes/{name}")
        records = bodies.stock(0, inventory)["inventories"]
        return self.replace(key, "inventories", records, generation)

    def set_traits(self, key: str, traits: Iterable[str], generation: int | None = None) -> int:
        """Replace the traits as :meth:`replace` does; custom ones are made."""
        for name in traits:
            if name.startswith("CUSTOM_"):
                self.call("PUT", f"/traits/{name}")
        return self.replace(key, "traits", sorted(traits), generation)

    def claim(
        self,
        sets: Sets,
        consumer: str | None = None,
        generation: int | None = None,
        version: str | None = None,
        **more: Any,
    ) -> str:
        """Replace what a consumer, a new one unless it is named, holds; return its uuid."""
        consumer, version = consumer or new_uuid(), version or self._version
        body = bodies.entry(sets, generation, **more)
        if int(version.partition(".")[2]) < 38:
            del body["consumer_type"]
        self.call("PUT", f"/allocations/{consumer}", body, version)
        return consumer

    def release(self, consumer: str) -> None:
        """Delete what a consumer holds."""
        self.call("DELETE", f"/allocations/{consumer}")

    def exists(self, key: str) -> bool:
        """Say whether there is a provider."""
        return self.call("GET", f"/resource_providers/{key}", expect=(200, 404)).status == 200

    def used(self, consumer: str) -> Sets:
        """Return what a consumer has."""
        shown = self.get(f"/allocations/{consumer}")["allocations"]
        return {key: place["resources"] for key, place in shown.items()}

    def usages(self, key: str) -> dict[str, int]:
        """Return what is in use of a provider, by class."""
        used: dict[str, int] = self.get(f"/resource_providers/{key}/usages")["usages"]
        return used

    def totals(self, key: str) -> dict[str, int]:
        """Return how much a provider has, by class."""
        shown = self.get(f"/resource_providers/{key}/inventories")["inventories"]
        return {name: record["total"] for name, record in shown.items()}

    def traits(self, key: str) -> set[str]:
        """Return the traits of a provider."""
        return set(self.get(f"/resource_providers/{key}/traits")["traits"])

    def aggregates(self, key: str) -> set[str]:
        """Return the aggregates of a provider."""
        return set(self.get(f"/resource_providers/{key}/aggregates")["aggregates"])

    def state(self, *keys: str) -> dict[str, list[Any]]:
        """Return everything about providers, generations included, to see that nothing changed."""
        return {
            key: [
                self.get(f"/resource_providers/{key}{part}")
                for part in ("", "/inventories", "/traits", "/aggregates", "/allocations")
            ]
            for key in keys
        }

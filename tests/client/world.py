"""Others who use the service: builders, a second writer, and a recorder of requests."""

import uuid


def new_uuid():
    return str(uuid.uuid4())


class World:
    """Writes and reads plainly, and fails the test if the service does not do as asked."""

    def __init__(self, adapter):
        self.adapter = adapter

    def call(self, method, url, body=None, microversion="1.30", expect=(200, 201, 204)):
        arguments = {} if body is None else {"json": body}
        response = getattr(self.adapter, method)(url, microversion=microversion, **arguments)
        assert response.status_code in expect, (method, url, response.status_code, response.text)
        return response

    def get(self, url, **more):
        return self.call("get", url, **more).json()

    def provider(self, name=None, parent=None, inventory=None, traits=(), aggregates=(), key=None):
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

    def generation(self, key):
        return self.get(f"/resource_providers/{key}")["generation"]

    def set_aspect(self, key, aspect, value):
        body = {"resource_provider_generation": self.generation(key), aspect: value}
        self.call("put", f"/resource_providers/{key}/{aspect}", body)

    def set_inventory(self, key, inventory):
        for name in inventory:
            if name.startswith("CUSTOM_"):
                self.call("put", f"/resource_classes/{name}")
        self.set_aspect(key, "inventories", {c: _record(r) for c, r in inventory.items()})

    def set_traits(self, key, traits):
        for name in traits:
            if name.startswith("CUSTOM_"):
                self.call("put", f"/traits/{name}")
        self.set_aspect(key, "traits", sorted(traits))

    def claim(self, places, consumer=None, generation=None, microversion="1.30", **more):
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

    def release(self, consumer):
        self.call("delete", f"/allocations/{consumer}")

    def exists(self, key):
        response = self.call("get", f"/resource_providers/{key}", expect=(200, 404))
        return response.status_code == 200

    def used(self, consumer):
        """Say what a consumer has: provider UUID to class to amount."""
        answer = self.get(f"/allocations/{consumer}")["allocations"]
        return {key: place["resources"] for key, place in answer.items()}

    def totals(self, key):
        answer = self.get(f"/resource_providers/{key}/inventories")["inventories"]
        return {name: record["total"] for name, record in answer.items()}

    def traits(self, key):
        return set(self.get(f"/resource_providers/{key}/traits")["traits"])

    def aggregates(self, key):
        return set(self.get(f"/resource_providers/{key}/aggregates")["aggregates"])

    def state(self, *keys):
        """Everything about providers, generations included, to see that nothing changed."""
        return {
            key: [
                self.get(f"/resource_providers/{key}{part}")
                for part in ("", "/inventories", "/traits", "/aggregates", "/allocations")
            ]
            for key in keys
        }


def _record(record):
    return {"total": record} if isinstance(record, int) else dict(record)


class Recorder:
    """An adapter that notes requests, and lets somebody else act before one of them."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.requests = []
        self.interruptions = []

    def before(self, method, part, act, times=1):
        """Call ``act`` before the next request of this method whose URL holds ``part``."""
        self.interruptions.append([method, part, act, times])

    def writes(self):
        return [(method, url) for method, url in self.requests if method != "get"]

    def clear(self):
        self.requests.clear()

    def _send(self, method, url, **arguments):
        for interruption in self.interruptions:
            if interruption[3] and interruption[0] == method and interruption[1] in url:
                interruption[3] -= 1
                interruption[2]()
        self.requests.append((method, url))
        return getattr(self.adapter, method)(url, **arguments)

    def get(self, url, **arguments):
        return self._send("get", url, **arguments)

    def put(self, url, **arguments):
        return self._send("put", url, **arguments)

    def post(self, url, **arguments):
        return self._send("post", url, **arguments)

    def delete(self, url, **arguments):
        return self._send("delete", url, **arguments)

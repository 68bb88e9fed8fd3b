"""Random writes of every kind, on a few providers and consumers, so that many meet and many are refused."""

import random
from collections.abc import Callable
from typing import Any

from tests.support.bodies import entry, stock
from tests.support.client import Answer, Sender

HOSTS = [f"1000000{n}-0000-4000-8000-000000000001" for n in range(6)]
CONSUMERS = [f"2000000{n}-0000-4000-8000-000000000002" for n in range(8)]
AGGREGATES = [f"3000000{n}-0000-4000-8000-000000000003" for n in range(3)]
TRAITS = ["HW_CPU_X86_AVX", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD"]
CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB"]
OWNERS = [("red", "ann"), ("red", "bob"), ("blue", "ann")]


class RandomWriter:
    """Sends one random write after the other, each with the generation that it has just read, or another.

    :param end_holds: lets all holds be over; the next who looks for room removes them.
    """

    def __init__(self, seed: int, sender: Sender, end_holds: Callable[[], object]) -> None:
        self._random = random.Random(seed)
        self._sender = sender
        self._end_holds = end_holds
        # Claims are what a cloud does most.
        self._deeds = [
            *(self._put_allocations,) * 4,
            *(self._delete_allocations, self._post_allocations, self._claim, self._stock) * 2,
            self._create_provider,
            self._create_provider,
            self._save_provider,
            self._delete_provider,
            self._stock_one,
            self._delete_inventories,
            self._set_traits,
            self._set_aggregates,
            self._reshape,
            self._confirm,
            self._let_holds_end,
        ]
        self.succeeded = 0

    def write_first(self) -> None:
        """Make hosts with room, so that not all that follows is refused."""
        for uuid in HOSTS:
            self._send("POST", "/resource_providers", {"uuid": uuid, "name": f"host {uuid[:8]}"})
            body = stock(self._generation(uuid), dict.fromkeys(CLASSES, 40))
            self._send("PUT", f"/resource_providers/{uuid}/inventories", body)

    def write(self) -> None:
        """Send the next one."""
        answer = self._random.choice(self._deeds)()
        assert answer.status < 500, answer
        self.succeeded += answer.status < 300

    # -- providers -------------------------------------------------------------------------------

    def _create_provider(self) -> Answer:
        uuid = self._host()
        parent = self._random.choice([None, self._host()])
        body = {"uuid": uuid, "name": f"host {uuid[:8]}", "parent_provider_uuid": parent}
        return self._send("POST", "/resource_providers", body)

    def _save_provider(self) -> Answer:
        uuid = self._host()
        body: dict[str, Any] = {"name": f"{self._random.choice('ab')} {uuid[:8]}"}
        if self._random.random() < 0.7:
            body["parent_provider_uuid"] = self._random.choice([None, self._host()])
        return self._send("PUT", f"/resource_providers/{uuid}", body)

    def _delete_provider(self) -> Answer:
        return self._send("DELETE", f"/resource_providers/{self._host()}")

    def _stock(self) -> Answer:
        uuid = self._host()
        body = stock(self._generation(uuid), self._records())
        return self._send("PUT", f"/resource_providers/{uuid}/inventories", body)

    def _stock_one(self) -> Answer:
        uuid, name = self._host(), self._random.choice(CLASSES)
        if self._random.random() < 0.5:
            body: dict[str, Any] = {"resource_class": name, "total": 9}
            return self._send("POST", f"/resource_providers/{uuid}/inventories", body)
        body = {"resource_provider_generation": self._generation(uuid), "total": 7, "reserved": 1}
        return self._send("PUT", f"/resource_providers/{uuid}/inventories/{name}", body)

    def _delete_inventories(self) -> Answer:
        name = self._random.choice(["", f"/{self._random.choice(CLASSES)}"])
        return self._send("DELETE", f"/resource_providers/{self._host()}/inventories{name}")

    def _set_traits(self) -> Answer:
        uuid = self._host()
        if self._random.random() < 0.2:
            return self._send("DELETE", f"/resource_providers/{uuid}/traits")
        body = {"resource_provider_generation": self._generation(uuid), "traits": self._some(TRAITS)}
        return self._send("PUT", f"/resource_providers/{uuid}/traits", body)

    def _set_aggregates(self) -> Answer:
        uuid = self._host()
        path = f"/resource_providers/{uuid}/aggregates"
        if self._random.random() < 0.3:
            return self._sender.send("PUT", path, self._some(AGGREGATES), "1.18")
        generation = self._generation(uuid)
        body = {"resource_provider_generation": generation, "aggregates": self._some(AGGREGATES)}
        return self._send("PUT", path, body)

    def _reshape(self) -> Answer:
        inventories = {
            uuid: stock(self._generation(uuid), self._records())
            for uuid in self._random.sample(HOSTS, 2)
        }
        allocations = {
            uuid: self._entry(uuid)
            for uuid in self._random.sample(CONSUMERS, self._random.randint(0, 3))
        }
        body = {"inventories": inventories, "allocations": allocations}
        return self._send("POST", "/reshaper", body)

    # -- consumers -------------------------------------------------------------------------------

    def _put_allocations(self) -> Answer:
        uuid = self._consumer()
        if self._random.random() < 0.2:
            given = self._entry(uuid)
            body = {name: given[name] for name in ("allocations", "project_id", "user_id")}
            # An empty set needs 1.28.
            if body["allocations"]:
                return self._sender.send("PUT", f"/allocations/{uuid}", body, "1.12")
        return self._send("PUT", f"/allocations/{uuid}", self._entry(uuid))

    def _post_allocations(self) -> Answer:
        uuids = self._random.sample(CONSUMERS, self._random.randint(1, 4))
        return self._send("POST", "/allocations", {uuid: self._entry(uuid) for uuid in uuids})

    def _delete_allocations(self) -> Answer:
        return self._send("DELETE", f"/allocations/{self._consumer()}")

    def _claim(self) -> Answer:
        uuids = self._random.sample(CONSUMERS, self._random.randint(1, 2))
        claims = [
            {
                "consumer_uuid": uuid,
                "query": "resources=VCPU:1",
                **{name: value for name, value in self._entry(uuid).items() if name != "allocations"},
            }
            for uuid in uuids
        ]
        body: dict[str, Any] = {"claims": claims}
        if self._random.random() < 0.7:
            body["hold_s"] = 900
        return self._send("POST", "/-/claims", body)

    def _confirm(self) -> Answer:
        return self._send("POST", f"/-/claims/{self._consumer()}/confirm")

    def _let_holds_end(self) -> Answer:
        self._end_holds()
        return self._send("GET", "/allocation_candidates?resources=VCPU:1")

    # -- what is drawn ---------------------------------------------------------------------------

    def _send(self, method: str, path: str, body: Any = None) -> Answer:
        return self._sender.send(method, path, body)

    def _host(self) -> str:
        return self._random.choice(HOSTS)

    def _consumer(self) -> str:
        return self._random.choice(CONSUMERS)

    def _some(self, names: list[str]) -> list[str]:
        return self._random.sample(names, self._random.randint(0, len(names)))

    def _records(self) -> dict[str, Any]:
        return {
            name: {
                "total": self._random.randint(4, 40),
                "allocation_ratio": self._random.choice([1, 1.5, 16.1]),
            }
            for name in self._some(CLASSES)
        }

    def _generation(self, uuid: str) -> int:
        answer = self._send("GET", f"/resource_providers/{uuid}")
        return int(answer.json["generation"]) if answer.status == 200 else 0

    def _entry(self, uuid: str) -> dict[str, Any]:
        shown = self._send("GET", f"/allocations/{uuid}").json
        project, user = self._random.choice(OWNERS)
        sets = {
            host: {name: self._random.randint(1, 3) for name in self._some(CLASSES)}
            for host in self._random.sample(HOSTS, self._random.choice([0, 1, 1, 1, 2]))
        }
        more = {"project_id": project, "user_id": user}
        more["consumer_type"] = self._random.choice(["INSTANCE", "MIGRATION"])
        filled = {host: held for host, held in sets.items() if held}
        return entry(filled, shown.get("consumer_generation"), **more)

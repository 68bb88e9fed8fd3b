"""Whoever searches after a write was acknowledged sees it, in any process (specification 04, PROMISE 8).

Every kind of write goes through one server process and is looked for through the others at once.
"""

import itertools
import random
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from placement.db import invariants, models
from placement.objects.picture import Picture
from placement.search.cloud import Cloud
from tests.support.racing import Arena, arena

AGGREGATE = "aaaaaaaa-0000-4000-8000-00000000000{}"
SHARING = "MISC_SHARES_VIA_AGGREGATE"


@pytest.fixture(scope="module", params=["postgresql", "mysql", "sqlite"])
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three servers on one database."""
    with arena(request.param) as made:
        yield made


class Writer:
    """Writes through the first server, searches through all, each in turn."""

    def __init__(self, place: Arena) -> None:
        self.place = place
        self.first, *_ = self.clients = place.clients(3)
        self.turns = itertools.cycle(self.clients)

    def write(self, method: str, path: str, body: Any = None, version: str = "1.38") -> Any:
        answer = self.first.send(method, path, body, version)
        assert answer.status < 300, answer.text
        return answer.json if answer.text else None

    def provider(self, parent: str | None = None) -> str:
        made = str(uuid.uuid4())
        body = {"name": made, "uuid": made, "parent_provider_uuid": parent}
        self.write("POST", "/resource_providers", body)
        return made

    def generation(self, provider: str) -> int:
        return self.first.send("GET", f"/resource_providers/{provider}").json["generation"]

    def put(self, provider: str, part: str, value: Any) -> None:
        body = {part: value, "resource_provider_generation": self.generation(provider)}
        self.write("PUT", f"/resource_providers/{provider}/{part}", body)

    def found(self, query: str) -> list[set[str]]:
        """Return which providers take part in some candidate, as each server sees it now."""
        seen = []
        for client in self.clients:
            answer = client.send("GET", f"/allocation_candidates?{query}")
            assert answer.status == 200, answer.text
            seen.append(
                {key for each in answer.json["allocation_requests"] for key in each["allocations"]}
            )
        return seen

    def listed(self, query: str) -> list[Any]:
        """Return the list of providers as each server shows it now."""
        answers = [client.send("GET", f"/resource_providers?{query}") for client in self.clients]
        return [answer.json["resource_providers"] for answer in answers]

    def used(self, query: str, provider: str, name: str) -> list[int]:
        """Return the usage of the provider that each server shows in its summaries."""
        return [
            client.send("GET", f"/allocation_candidates?{query}").json["provider_summaries"][
                provider
            ]["resources"][name]["used"]
            for client in self.clients
        ]


@pytest.fixture
def writer(place: Arena) -> Writer:
    """The writer and its servers."""
    return Writer(place)


def claim_of(provider: str, generation: int | None, **amounts: int) -> dict[str, Any]:
    """Return the body of a PUT."""
    return {
        "allocations": {provider: {"resources": amounts}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


def test_provider_and_inventory(writer: Writer) -> None:
    """A new host is found, a changed inventory counts, a deleted host is gone."""
    host = writer.provider()
    query = f"resources=VCPU:5&in_tree={host}"
    assert writer.found(query) == [set()] * 3
    writer.put(host, "inventories", {"VCPU": {"total": 8}})
    assert writer.found(query) == [{host}] * 3
    writer.put(host, "inventories", {"VCPU": {"total": 4}})
    assert writer.found(query) == [set()] * 3
    writer.put(host, "inventories", {"VCPU": {"total": 8}})
    assert writer.found(query) == [{host}] * 3
    writer.write("DELETE", f"/resource_providers/{host}/inventories")
    writer.write("DELETE", f"/resource_providers/{host}")
    assert writer.found(query) == [set()] * 3


def test_traits(writer: Writer) -> None:
    """Traits come and go."""
    host = writer.provider()
    writer.put(host, "inventories", {"VCPU": {"total": 8}})
    query = f"resources=VCPU:1&required=HW_CPU_X86_VMX&in_tree={host}"
    assert writer.found(query) == [set()] * 3
    writer.put(host, "traits", ["HW_CPU_X86_VMX"])
    assert writer.found(query) == [{host}] * 3
    writer.write("DELETE", f"/resource_providers/{host}/traits")
    assert writer.found(query) == [set()] * 3


def test_aggregates_below_and_above_1_19(writer: Writer) -> None:
    """Also the old form, which leaves the generation alone."""
    host, other = writer.provider(), AGGREGATE.format(1)
    writer.put(host, "inventories", {"VCPU": {"total": 8}})
    query = f"resources=VCPU:1&member_of={other}&in_tree={host}"
    before = writer.generation(host)
    path = f"/resource_providers/{host}/aggregates"
    writer.write("PUT", path, [other], version="1.18")
    assert writer.generation(host) == before
    assert writer.found(query) == [{host}] * 3
    writer.write("PUT", path, [], version="1.18")
    assert writer.found(query) == [set()] * 3
    writer.put(host, "aggregates", [other])
    assert writer.found(query) == [{host}] * 3


def test_allocations(writer: Writer) -> None:
    """Claims, replacements that leave a host, and DELETE, which moves no generation."""
    host, second = writer.provider(), writer.provider()
    for each in (host, second):
        writer.put(each, "inventories", {"VCPU": {"total": 8}})
    consumer = f"/allocations/{uuid.uuid4()}"
    query = f"resources=VCPU:1&in_tree={host}"
    writer.write("PUT", consumer, claim_of(host, None, VCPU=5))
    assert writer.used(query, host, "VCPU") == [5] * 3
    assert writer.found(f"resources=VCPU:4&in_tree={host}") == [set()] * 3
    writer.write("PUT", consumer, claim_of(second, 1, VCPU=5))
    assert writer.used(query, host, "VCPU") == [0] * 3
    assert writer.used(f"resources=VCPU:1&in_tree={second}", second, "VCPU") == [5] * 3
    writer.write("DELETE", consumer)
    assert writer.used(f"resources=VCPU:1&in_tree={second}", second, "VCPU") == [0] * 3


def test_trees_and_sharing(writer: Writer) -> None:
    """A subtree that moves is found in its new tree; a sharing provider serves whom it may."""
    first, second = writer.provider(), writer.provider()
    child = writer.provider(first)
    grandchild = writer.provider(child)
    writer.put(grandchild, "inventories", {"VCPU": {"total": 8}})
    assert writer.found(f"resources=VCPU:1&in_tree={first}") == [{grandchild}] * 3
    moved = {"name": child, "parent_provider_uuid": second}
    writer.write("PUT", f"/resource_providers/{child}", moved)
    assert writer.found(f"resources=VCPU:1&in_tree={first}") == [set()] * 3
    assert writer.found(f"resources=VCPU:1&in_tree={second}") == [{grandchild}] * 3

    pool, shared = writer.provider(), AGGREGATE.format(2)
    writer.put(pool, "inventories", {"DISK_GB": {"total": 100}})
    writer.put(pool, "aggregates", [shared])
    writer.put(second, "aggregates", [shared])
    query = f"resources1=VCPU:1&in_tree1={second}&resources2=DISK_GB:1&in_tree2={pool}"
    query += "&group_policy=none"
    assert writer.found(query) == [set()] * 3
    writer.put(pool, "traits", [SHARING])
    assert writer.found(query) == [{grandchild, pool}] * 3


def test_names_and_generations_in_lists(writer: Writer) -> None:
    """A list with ``resources`` comes from memory, and shows each provider as it is now."""
    host, above = writer.provider(), writer.provider()
    path, consumer = f"/resource_providers/{host}", f"/allocations/{uuid.uuid4()}"
    below = {"name": f"{host}-2", "parent_provider_uuid": above}
    writer.put(host, "inventories", {"VCPU": {"total": 8}})
    for write in (
        lambda: writer.write("PUT", path, {"name": f"{host}-1"}),
        lambda: writer.put(host, "inventories", {"VCPU": {"total": 9}}),
        lambda: writer.put(host, "traits", ["HW_CPU_X86_VMX"]),
        lambda: writer.put(host, "aggregates", [AGGREGATE.format(3)]),
        lambda: writer.write("PUT", consumer, claim_of(host, None, VCPU=1)),
        lambda: writer.write("DELETE", consumer),
        lambda: writer.write("PUT", path, below),
    ):
        write()
        now = writer.write("GET", path)
        assert writer.listed(f"resources=VCPU:1&uuid={host}") == [[now]] * 3
    assert now["root_provider_uuid"] == above
    assert now["name"] == f"{host}-2"
    assert writer.listed(f"resources=VCPU:1&name={host}-2") == [[now]] * 3
    assert writer.listed(f"resources=VCPU:1&name={host}-1") == [[]] * 3


def test_renamed_class(writer: Writer) -> None:
    """A class is asked for by its present name."""
    host, old, new = writer.provider(), "CUSTOM_OLD", "CUSTOM_NEW"
    writer.write("PUT", f"/resource_classes/{old}")
    writer.put(host, "inventories", {old: {"total": 8}})
    assert writer.found(f"resources={old}:1&in_tree={host}") == [{host}] * 3
    writer.write("PUT", f"/resource_classes/{old}", {"name": new}, version="1.6")
    assert writer.found(f"resources={new}:1&in_tree={host}") == [{host}] * 3
    for client in writer.clients:
        gone = client.send("GET", f"/allocation_candidates?resources={old}:1")
        assert gone.status == 400


def test_reshape(writer: Writer) -> None:
    """What moved in one request is seen moved."""
    host = writer.provider()
    writer.put(host, "inventories", {"VGPU": {"total": 4}})
    consumer = str(uuid.uuid4())
    writer.write("PUT", f"/allocations/{consumer}", claim_of(host, None, VGPU=2))
    child = writer.provider(host)
    reshape = {
        "inventories": {
            host: {"inventories": {}, "resource_provider_generation": writer.generation(host)},
            child: {"inventories": {"VGPU": {"total": 4}}, "resource_provider_generation": 0},
        },
        "allocations": {consumer: claim_of(child, 1, VGPU=2)},
    }
    writer.write("POST", "/reshaper", reshape)
    query = f"resources=VGPU:1&in_tree={host}"
    assert writer.found(query) == [{child}] * 3
    assert writer.used(query, child, "VGPU") == [2] * 3


def test_repair_behind_the_back_of_the_servers(writer: Writer, place: Arena) -> None:
    """The repair command moves revisions, so that running servers see what it mended."""
    host = writer.provider()
    writer.put(host, "inventories", {"VCPU": {"total": 8}})
    writer.write("PUT", f"/allocations/{uuid.uuid4()}", claim_of(host, None, VCPU=2))
    query = f"resources=VCPU:1&in_tree={host}"
    uuids = models.resource_providers.c
    place.db.write(
        lambda tx: tx.execute(update(models.inventories).values(used=models.inventories.c.used + 1))
    )
    place.db.write(
        lambda tx: tx.execute(
            update(models.resource_providers)
            .where(uuids.uuid == host)
            .values(revision=uuids.revision + 1)
        )
    )
    assert writer.used(query, host, "VCPU") == [3] * 3
    assert invariants.repair(place.db, invariants.COUNTERS) > 0
    assert writer.used(query, host, "VCPU") == [2] * 3


def described(cloud: Cloud) -> dict[str, Any]:
    """Return what a search can see, whatever the order in which it came in."""
    live = [index for index, key in enumerate(cloud.ids.tolist()) if key >= 0]
    return {
        cloud.uuids[index]: (
            cloud.uuids[int(cloud.parents[index])] if cloud.parents[index] >= 0 else None,
            cloud.uuids[int(cloud.roots[index])],
            cloud.traits[index],
            cloud.aggregates[index],
            cloud.inventories[index],
            cloud.names[index],
            int(cloud.generations[index]),
            int(cloud.modified[index]),
            int(cloud.revisions[index]),
        )
        for index in live
    }


def test_picture_kept_up_equals_picture_read_anew(place: Arena) -> None:
    """Under writes of every kind from several clients, refreshing and reading anew agree."""
    writer = Writer(place)
    hosts = [writer.provider() for _ in range(12)]
    for each in hosts:
        writer.put(each, "inventories", {"VCPU": {"total": 50}, "MEMORY_MB": {"total": 500}})
    kept = Picture(place.db)
    done = threading.Event()
    failures: list[str] = []

    def churn(seed: int) -> None:
        choice = random.Random(seed)
        client = place.clients(6)[3 + seed]
        consumers: list[str] = []
        while not done.is_set():
            action = choice.randrange(5)
            if action == 0 and consumers:
                client.send("DELETE", consumers.pop())
            elif action == 1:
                path = f"/resource_providers/{choice.choice(hosts)}/aggregates"
                client.send("PUT", path, [AGGREGATE.format(choice.randrange(3))], version="1.18")
            elif action == 2:
                name = {"name": str(uuid.uuid4())}
                client.send("PUT", f"/resource_providers/{choice.choice(hosts)}", name)
            else:
                path = f"/allocations/{uuid.uuid4()}"
                answer = client.send("PUT", path, claim_of(choice.choice(hosts), None, VCPU=1))
                if answer.status == 204:
                    consumers.append(path)
                elif answer.status != 409:
                    failures.append(answer.text)

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            kept.read(len)
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    assert not failures
    assert kept.read(described) == Picture(place.db).read(described)

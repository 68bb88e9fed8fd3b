"""A host is reshaped live while others claim on it, on several servers (PROMISE 1, 4, 7)."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from typing import Any

import pytest
from keystoneauth1 import adapter, session

from placement.client.drivers.split import Node, NodePart, VgpuDriver
from placement.client.report import ReportClient
from placement.client.tracker import ResourceTracker
from tests.support import bodies
from tests.support.client import HANGS_S, Answer, Client
from tests.support.processes import wait_until
from tests.support.racing import Arena, emptied_arena, in_arenas
from tests.support.world import World, new_uuid

CONSUMERS = 60
CLAIMERS = 3
PAUSE_S = 0.08
"""Between two boots of one scheduler: together more than 20 a second, which is what is promised."""
ROOM = {"VCPU": 100_000, "VGPU": 20_000}
SEEN = "Placement-Seen-Inventories"


@pytest.fixture(scope="module", params=in_arenas("sqlite", "postgresql", "mysql"))
def servers(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Servers on a database; the first shows whole trees, which all do."""
    with emptied_arena(request.param) as made:
        yield made


@pytest.fixture
def world(servers: Arena) -> World:
    """Who makes the hosts, and others who claim."""
    return World(servers)


def host(world: World, consumers: int) -> tuple[str, list[str]]:
    """Make a host with everything on its root, and consumers of it; return their uuids."""
    root = world.host(**ROOM)
    return root, [world.claim({root: {"VCPU": 1, "VGPU": 1}}) for _ in range(consumers)]


def is_booted(client: Client, path: str) -> bool:
    """Claim the first candidate; say whether that was granted.

    A candidate of before the reshape is refused, and there is none while what moves is closed.
    """
    candidates = client.send("GET", path).json["allocation_requests"]
    if not candidates:
        return False
    places = {key: held["resources"] for key, held in candidates[0]["allocations"].items()}
    answer = client.send("PUT", f"/allocations/{new_uuid()}", bodies.entry(places))
    assert answer.status in (204, 409), answer.text
    return answer.status == 204


def boot_until(ended: threading.Event, client: Client, root: str) -> int:
    """Ask for candidates and claim the first, again and again; return how many VGPU were claimed."""
    vgpus = number = 0
    while not ended.is_set():
        number += 1
        wanted = "VCPU:1" + (",VGPU:1" if number % 5 == 0 else "")
        path = f"/allocation_candidates?resources={wanted}&in_tree={root}&limit=5"
        wait_until("a boot finds a place", partial(is_booted, client, path), HANGS_S)
        vgpus += "VGPU" in wanted
        ended.wait(PAUSE_S)
    return vgpus


def start(servers: Arena, root: str, ended: threading.Event) -> None:
    """Start an agent whose driver wants the VGPU on two children."""
    connection = adapter.Adapter(
        session.Session(),
        service_type="placement",
        endpoint_override=f"http://127.0.0.1:{servers.ports[0]}",
        additional_headers={"X-Auth-Token": "admin", "X-Roles": "admin,service"},
    )
    parts = {name: NodePart({"VGPU": {"total": ROOM["VGPU"]}}) for name in ("gpu0", "gpu1")}
    driver = VgpuDriver({root: Node(root, parts)})
    try:
        tracker = ResourceTracker(ReportClient(connection), driver, reshape_timeout_s=HANGS_S / 2)
        tracker.update_available_resource(None, startup=True)
    finally:
        ended.set()
        connection.session.session.close()


def test_a_busy_host_is_reshaped_at_the_first_start(servers: Arena, world: World) -> None:
    """While three schedulers boot on it, none in vain; no unit is lost."""
    root, _ = host(world, CONSUMERS)
    ended = threading.Event()

    _, *booted = servers.race(
        [
            lambda _client: start(servers, root, ended),
            *[lambda client: boot_until(ended, client, root)] * CLAIMERS,
        ]
    )

    shown = world.get(f"/resource_providers?in_tree={root}")["resource_providers"]
    children = [one["uuid"] for one in shown if one["uuid"] != root]
    assert len(children) == 2
    assert world.usages(root).keys() == {"VCPU"}
    moved = sum(world.usages(child)["VGPU"] for child in children)
    assert moved == CONSUMERS + sum(booted)
    servers.assert_sound()


# ---- the header that lets a reshape follow claims (specification 05 section A8)


def post(servers: Arena, body: Any, seen: str | None = None) -> Answer:
    """Send a reshape with or without the tag of the inventories it was made from."""
    return servers.clients(1)[0].send("POST", "/reshaper", body, **{SEEN: seen} if seen else {})


def moving(world: World, root: str, consumers: list[str]) -> tuple[dict[str, Any], str]:
    """Return the body that moves the VGPU of the consumers to a new child, and its tag."""
    child = world.provider(parent=root)
    shown = world.get(f"/resource_providers/{root}/inventories")
    has = {root: shown["inventories"], child: {}}
    text = json.dumps(has, sort_keys=True, separators=(",", ":"))
    kept = {name: record for name, record in shown["inventories"].items() if name != "VGPU"}
    entry = bodies.entry({root: {"VCPU": 1}, child: {"VGPU": 1}}, 1)
    reshape = {
        "inventories": {
            root: bodies.stock(shown["resource_provider_generation"], kept),
            child: bodies.stock(0, {"VGPU": shown["inventories"]["VGPU"]}),
        },
        "allocations": dict.fromkeys(consumers, entry),
    }
    return reshape, blake2b(text.encode(), digest_size=16).hexdigest()


def test_with_the_tag_a_claim_of_what_stays_is_no_conflict(servers: Arena, world: World) -> None:
    """Without it the generation is binding, as everywhere."""
    root, consumers = host(world, 2)
    body, tag = moving(world, root, consumers)
    world.claim({root: {"VCPU": 3}})
    for seen in (None, tag[::-1], "nonsense"):
        refused = post(servers, body, seen)
        assert (refused.status, refused.code) == (409, "placement.concurrent_update")
    assert post(servers, body, tag).status == 204
    assert world.usages(root) == {"VCPU": 5}


def test_with_the_tag_a_claim_of_what_moves_is_in_use(servers: Arena, world: World) -> None:
    """Nothing is left behind on a class that goes."""
    root, consumers = host(world, 2)
    body, tag = moving(world, root, consumers)
    world.claim({root: {"VGPU": 1}})
    refused = post(servers, body, tag)
    assert (refused.status, refused.code) == (409, "placement.inventory.inuse")
    assert world.usages(root) == {"VCPU": 2, "VGPU": 3}


def test_with_the_tag_an_inventory_that_changed_is_a_conflict(servers: Arena, world: World) -> None:
    """What somebody else wrote is not overwritten."""
    root, consumers = host(world, 1)
    body, tag = moving(world, root, consumers)
    path = f"/resource_providers/{root}/inventories"
    shown = world.get(path)
    shown["inventories"]["VCPU"]["reserved"] = 7
    world.call("PUT", path, shown)
    refused = post(servers, body, tag)
    assert (refused.status, refused.code) == (409, "placement.concurrent_update")
    assert world.get(path)["inventories"]["VCPU"]["reserved"] == 7

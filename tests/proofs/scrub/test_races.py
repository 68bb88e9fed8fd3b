"""All writers at the same moment, through four servers, beside a scrub that goes round without a pause.

PROMISE 7 and 13. Nobody but services writes: no write is refused for the scrub, and it has nothing to mend.
"""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from placement.db import scrub
from tests.support import bodies
from tests.support.client import Client
from tests.support.databases import KINDS
from tests.support.effort import LONG, in_one_process
from tests.support.racing import Arena, arena
from tests.support.world import World, new_uuid

SERVERS = 4
WRITERS = 6
SECONDS = 120 if LONG else 2
OPTIONS = "[insight]\nenabled = true\n[placement_database]\nscrub_share = 50"

ROOM = 1_000_000
AGGREGATES = [new_uuid(), new_uuid()]


@pytest.fixture(scope="module", params=in_one_process("scrub races", *KINDS))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Four servers that take stretches along."""
    with arena(request.param, SERVERS, OPTIONS) as made:
        yield made


class Writer(World):
    """Writes in each way that there is, on hosts of all and a tree of its own; a refusal is a fault."""

    def __init__(self, client: Client, hosts: list[str], number: int) -> None:
        super().__init__(client)
        self.hosts, self.project = hosts, f"project-{number % 2}"
        self.root = self.provider(inventory={"DISK_GB": ROOM})

    def write_all(self) -> None:
        """Claim, move, replace, reshape, release."""
        self.write_the_ledger()
        child = self.provider(parent=self.root, inventory={"SRIOV_NET_VF": 8})
        self.write_a_provider(child)
        held = self.claim({child: {"SRIOV_NET_VF": 2}, self.root: {"DISK_GB": 1}}, project_id=self.project)
        self.reshape(child, held)
        self.release(held)
        self.call("DELETE", f"/resource_providers/{child}")

    def write_the_ledger(self) -> None:
        """With consumers of its own on hosts that all share, in either order."""
        first, second = random.sample(self.hosts, 2)
        one = self.claim({first: {"VCPU": 2}, second: {"VCPU": 1}}, project_id=self.project)
        self.claim({second: {"VCPU": 5}}, one, 1, project_id=self.project, user_id="bob")
        other = new_uuid()
        both = {
            one: bodies.entry({first: {"VCPU": 1}}, 2, project_id=self.project),
            other: bodies.entry({second: {"VCPU": 3}}, None),
        }
        self.call("POST", "/allocations", both)
        claims = [
            {
                "consumer_uuid": new_uuid(),
                "consumer_generation": None,
                **{"project_id": self.project, "user_id": "eve", "consumer_type": "VOLUME"},
                "query": "resources=VCPU:1",
            }
            for _ in range(2)
        ]
        self.call("POST", "/-/claims", {"claims": claims})
        for each in (one, other, *(claim["consumer_uuid"] for claim in claims)):
            self.release(each)
        self.begin_and_end_groups(claims)

    def begin_and_end_groups(self, claims: list[dict[str, Any]]) -> None:
        """Hold places for members of a new group; confirm one, and let both go: the group ends with them."""
        group = new_uuid()
        members = [{**each, "consumer_uuid": new_uuid(), "groups": [group]} for each in claims]
        rules = {group: {"rule": "apart"}}
        self.call("POST", "/-/claims", {"claims": members, "groups": rules, "hold_s": 900})
        first, second = (each["consumer_uuid"] for each in members)
        self.call("POST", f"/-/claims/{first}/confirm")
        self.release(first)
        self.release(second)

    def write_a_provider(self, key: str) -> None:
        """Everything that searches read of it."""
        path = f"/resource_providers/{key}"
        self.set_traits(key, ["HW_CPU_X86_AVX", "HW_CPU_X86_VMX"])
        self.replace(key, "aggregates", AGGREGATES)
        self.set_inventory(key, {"SRIOV_NET_VF": 16, "VGPU": 1})
        self.call("DELETE", f"{path}/inventories/VGPU")
        self.call("DELETE", f"{path}/traits")
        self.call("PUT", path, {"name": new_uuid(), "parent_provider_uuid": self.root})

    def reshape(self, child: str, consumer: str) -> None:
        """Move a class and what is held of it from the child to the root."""
        inventories = {
            child: bodies.stock(self.generation(child), {}),
            self.root: bodies.stock(
                self.generation(self.root), {"DISK_GB": ROOM, "SRIOV_NET_VF": 16}
            ),
        }
        held = {self.root: {"SRIOV_NET_VF": 2, "DISK_GB": 1}}
        moved = {consumer: bodies.entry(held, 1, project_id=self.project)}
        self.call("POST", "/reshaper", {"inventories": inventories, "allocations": moved})


def healed(place: Arena) -> list[list[str]]:
    """Return what each server has mended."""
    shown = [client.send("GET", "/-/metrics").text.splitlines() for client in place.clients(SERVERS)]
    return [[line for line in lines if line.startswith("placement_healed_total{")] for lines in shown]


def test_all_writers_beside_a_scrub_are_served_and_it_mends_nothing(place: Arena) -> None:
    world, end_s = World(place), time.monotonic() + SECONDS
    hosts = [world.host(VCPU=ROOM) for _ in range(3)]
    ended, before = threading.Event(), healed(place)

    def write(client: Client, number: int) -> int:
        writer, turns = Writer(client, hosts, number), 0
        while time.monotonic() < end_s or not turns:
            writer.write_all()
            turns += 1
        return turns

    found: list[scrub.Part] = []

    def go_round() -> None:
        # Beside the stretches that servers take along, so without the row that lets one worker compare.
        while not ended.wait(0.01):
            for stage in scrub.STAGES:
                options = scrub.ScrubOptions(thorough=True)
                found.append(stage.go_on(place.db, -scrub.BEYOND, stage.size, options))

    scrubbing = threading.Thread(target=go_round)
    scrubbing.start()
    try:
        turns = place.race(
            [lambda client, number=number: write(client, number) for number in range(WRITERS)],
            SECONDS + 60,
        )
    finally:
        ended.set()
        scrubbing.join()

    rounds = len(found) // len(scrub.STAGES)
    print(f"{sum(turns)} turns of {WRITERS} writers beside {rounds} rounds")
    assert rounds > 2
    assert not [part for part in found if part.healed or part.left]
    assert healed(place) == before
    for process in place.processes:
        assert "Not so" not in process.log.read_text()
    assert scrub.scrub_all(place.db) == ({}, [])
    place.assert_sound()

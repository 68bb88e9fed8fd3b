"""A mirror that lives on the changes alone equals a whole read (07 section 10), whoever writes.

Clients make, move, rename, fill and delete trees through three servers, claim over them, and place gangs that
are held for a second; the log overflows, and counters are repaired. The campaigns of faults and upgrades, and
the year, have a follower too, which meets killed workers, failovers and older releases.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from placement.db import invariants, models
from tests.support import bodies
from tests.support.book import Book, Violation
from tests.support.client import Client
from tests.support.effort import drawn_by_run
from tests.support.following import Follower
from tests.support.load import Actor, Caller, acting
from tests.support.processes import wait_until
from tests.support.racing import Arena, emptied_arena, in_arenas
from tests.support.world import World

ROOTS = 6
LASTS_S = 3.0


@pytest.fixture(params=in_arenas("sqlite", "postgresql", "mysql"))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three servers on one database."""
    with emptied_arena(request.param) as made:
        yield made


class Gardener(Actor):
    """Does at random whatever can be done to trees and to what is claimed of them."""

    def __init__(self, *given: Any, roots: list[str]) -> None:
        super().__init__(*given)
        self.roots = roots
        self.own: list[str] = []
        self.consumers: list[str] = []

    def act(self) -> None:
        shapes = (self.plant, self.move, self.rename, self.equip, self.fell)
        usage = (self.claim, self.claim, self.claim, self.release, self.place)
        self.random.choice((*shapes, *usage))()

    def write(self, method: str, path: str, body: Any = None) -> bool:
        """Send, and say whether it was done; any refusal will do."""
        return 200 <= self.caller.send(method, path, body).status < 300

    def any_root(self) -> str:
        return self.random.choice(self.roots)

    def plant(self) -> None:
        key = self.new_uuid()
        body = {"uuid": key, "name": key}
        if self.random.random() < 0.6:
            body["parent_provider_uuid"] = self.random.choice([*self.own, self.any_root()])
        if self.write("POST", "/resource_providers", body):
            self.own.append(key)
            self.write(
                "PUT", f"/resource_providers/{key}/inventories", bodies.stock(0, {"VCPU": 8})
            )

    def move(self) -> None:
        if self.own:
            key = self.random.choice(self.own)
            above = self.random.choice([None, self.any_root(), *self.own])
            self.write(
                "PUT", f"/resource_providers/{key}", {"name": key, "parent_provider_uuid": above}
            )

    def rename(self) -> None:
        key = self.any_root()
        self.write("PUT", f"/resource_providers/{key}", {"name": f"{self.name} {self.new_uuid()}"})

    def equip(self) -> None:
        key, part = self.any_root(), self.random.choice(("traits", "aggregates"))
        generation = self.caller.sure(f"/resource_providers/{key}")["generation"]
        value = ["HW_CPU_X86_VMX"] if part == "traits" else [self.new_uuid()]
        body = {"resource_provider_generation": generation, part: value}
        self.write("PUT", f"/resource_providers/{key}/{part}", body)

    def fell(self) -> None:
        if self.own:
            key = self.random.choice(self.own)
            if self.write("DELETE", f"/resource_providers/{key}"):
                self.own.remove(key)

    def claim(self) -> None:
        consumer = self.new_uuid()
        places = {key: {"VCPU": 1} for key in (self.any_root(), *self.own[-1:])}
        if self.write("PUT", f"/allocations/{consumer}", bodies.entry(places, None)):
            self.consumers.append(consumer)

    def release(self) -> None:
        if self.consumers:
            consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
            self.write("DELETE", f"/allocations/{consumer}")

    def place(self) -> None:
        name = self.new_uuid()
        claims = [
            {
                "consumer_uuid": self.new_uuid(),
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
                "query": "resources=VCPU:1",
                "project_id": "p",
                "user_id": "u",
                "groups": [name],
            }
            for _ in range(2)
        ]
        body = {
            "strategy": "any",
            "claims": claims,
            "groups": {name: {"rule": "apart"}},
            "hold_s": 1,
        }
        self.write("POST", "/-/claims", body)


def garden(place: Arena, book: Book, ports: list[int]) -> tuple[list[Actor], list[Follower]]:
    """Return six clients that write, and two that follow."""
    world, seed = World(place), str(drawn_by_run(__name__).randrange(10**9))
    print("seed", seed)
    roots = [world.host(VCPU=200) for _ in range(ROOTS)]

    def given(number: int, name: str) -> tuple[str, Caller, Book, str]:
        clients = [Client(port, kept=False) for port in ports]
        return f"{name} {number}", Caller(clients, book, number % len(ports)), book, seed

    writers: list[Actor] = [Gardener(*given(n, "gardener"), roots=roots) for n in range(6)]
    return writers, [Follower(*given(n, "follower")) for n in range(2)]


def overflow(place: Arena) -> None:
    """Cut the log: in each slot there is nothing but what was just written."""
    rows = models.provider_changes
    values = {"mark": rows.c.mark + 8 * 30, "recent": "8:1;" * 30}
    place.db.write(lambda tx: tx.connection.execute(update(rows).values(values)))


def damage_and_repair(place: Arena) -> None:
    """Give counters a wrong value that only the repair tells of."""
    rows = models.inventories
    place.db.write(
        lambda tx: tx.connection.execute(
            update(rows).values(used=rows.c.used + 1, updated_at=rows.c.updated_at)
        )
    )
    assert invariants.repair(place.db, invariants.COUNTERS) > 0


def test_a_mirror_misses_nothing_while_all_write(place: Arena) -> None:
    """Six clients through three servers, and while they write the log is cut."""
    book = Book()
    writers, followers = garden(place, book, list(place.ports))
    with acting([*writers, *followers]):
        end_s = time.monotonic() + LASTS_S
        wait_until(
            "the followers have read parts",
            lambda: time.monotonic() > end_s and all(each.parts > 5 for each in followers),
        )
        overflow(place)
        wholes = [each.whole for each in followers]
        wait_until(
            "the followers have read everything",
            lambda: all(
                each.whole > before for each, before in zip(followers, wholes, strict=True)
            ),
        )
    damage_and_repair(place)
    for follower in followers:
        follower.settle()
    assert book.violations == []
    # And once more from where they are, so that the comparison is not of two whole reads.
    writers[0].claim()  # type: ignore[attr-defined]
    for follower in followers:
        before = follower.whole
        follower.settle()
        assert follower.whole == before


def test_a_mirror_that_misses_a_change_is_noticed(place: Arena) -> None:
    """A change by hand, without a word in the log, is what no follower can see: the proof can fail."""
    _, (follower, _) = garden(place, Book(), list(place.ports))
    follower.settle()
    rows = models.resource_providers
    place.db.write(
        lambda tx: tx.connection.execute(update(rows).values(generation=rows.c.generation + 1))
    )
    with pytest.raises(Violation, match="missed a change"):
        follower.settle()
    place.db.write(
        lambda tx: tx.connection.execute(update(rows).values(own_generation=rows.c.generation))
    )

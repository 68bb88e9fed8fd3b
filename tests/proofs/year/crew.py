"""The clients of a year by the clock, each in a thread with a book of its own."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placement.db import invariants
from placement.db.coexistence.checksums import BLOCK_BITS
from placement.db.database import Database
from tests.proofs.replay.ledger import read_ledger
from tests.proofs.year.book import Book, Broken, unequal
from tests.proofs.year.player import Kind, Names, Player, Way
from tests.proofs.year.promises import History, find_healed, find_wrong_authors, find_wrong_reads
from tests.proofs.year.requests import KIND, OF_CLIENT
from tests.support import bodies
from tests.support import book as support
from tests.support.client import Client, Sender
from tests.support.load import Actor
from tests.support.world import World, new_uuid

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
FIRST = ("provider",) * 3 + ("stock",) * 4 + ("allocations",) * 2 + ("reshape",) * 2
LOOKED_FOR, MUCH = "CUSTOM_LOOKED_FOR", 4
"""A class that only the host of a looker has, and how much of it."""
QUESTIONS = "questions after a write"
WITH_CARD = f"resources_H={LOOKED_FOR}:{MUCH}&resources_C=VGPU:1&group_policy=none"


def make_common(world: World, count: int, capacity: int) -> list[str]:
    """Make hosts on which all clients claim, and which none changes."""
    stock = dict.fromkeys(CLASSES, capacity)
    return [world.host(f"10fffff{n}-0000-4000-8000-000000000000", **stock) for n in range(count)]


def make_player(
    number: int, name: str, way: Way, common: Sequence[str], authors: dict[str, tuple[str, str]], seed: object
) -> Player:
    """Return a client that claims on the common hosts and writes consumers and providers of its own."""
    book = Book(authors=authors)
    for uuid in common:
        book.providers[uuid] = {
            "generation": 0,
            "parent_provider_uuid": None,
            "name": uuid,
            "inventories": {each: {"total": 60} for each in CLASSES},
            "traits": [],
            "aggregates": [],
        }
    dice = random.Random(f"{seed} {number}")
    return Player(name, way, book, Names(number, common=common), dice, exact=False, excused=True)


class YearActor(Actor):
    """A client of the table of requests.

    :param lines: what it draws from, if not what its kind does.
    """

    def __init__(self, player: Player, *given: Any, lines: Sequence[Kind] = ()) -> None:
        super().__init__(*given)
        self.player = player
        self.lines = lines or OF_CLIENT[player.name]
        self.acts = 0
        # Writes without an answer may have happened, or may still happen.
        self.unsure: set[str] = set()

    def act(self) -> None:
        # A reshape needs what comes first here; by chance it would come late.
        names = FIRST if any(each.name == "reshape" for each in self.lines) else ()
        first = self.acts < len(names)
        kind = KIND[names[self.acts]] if first else self.random.choice(self.lines)
        self.acts += 1
        try:
            asked = kind.draw(self.player)
            if asked is None:
                return
            answer = self.player.send(kind, asked)
        except Broken as broken:
            raise support.Violation(str(broken)) from broken
        self.book.count(f"{self.player.name}: {kind.name} {answer.status or 'no answer'}")
        if answer.lost and kind.undo:
            self.unsure |= asked.uuids
            names = self.player.names
            names.epoch += 2 * bool(self.unsure.intersection(names.consumers))
            names.built += bool(self.unsure.intersection(names.providers))

    def differences(self, now: Any) -> Iterator[str]:
        """Yield where the tables are not what was acknowledged."""
        book, mine = self.player.book, str(self.player.names.owner)
        sure = {
            part: [uuid for uuid in book.ledger[part].keys() | now[part].keys() if self._knows(uuid)]
            for part in ("consumers", "providers")
        }
        for part, uuids in sure.items():
            for uuid in sorted(uuids):
                known, shown = book.ledger[part].get(uuid), now[part].get(uuid)
                for what in unequal(known, shown):
                    if part == "consumers" or not what.startswith("generation"):
                        yield f"{self.player.name} {mine}: {uuid}, by the book and as it is: {what}"

    def _knows(self, uuid: str) -> bool:
        owner = f"{self.player.names.owner:07x}"
        return uuid[1:8] == owner and uuid not in self.unsure and uuid not in self.player.book.held


class Looker(Actor):
    """Fills a host of its own and frees it, puts a card into it and takes it out, and asks what is there.

    :param sender: by which it writes; the caller is asked.
    :param apart: its providers share no block of ids with others, whose writes would show its own
        (``placement.db.coexistence.checksums``).
    """

    def __init__(self, *given: Any, sender: Sender, apart: bool) -> None:
        super().__init__(*given)
        self.sender, self.inside = sender, False
        world = World(self.caller)
        world.call("PUT", f"/resource_classes/{LOOKED_FOR}")
        between = [world.provider for _ in range(2**BLOCK_BITS * apart)]
        for make in between:
            make()
        self.host, self.card = world.host(**{LOOKED_FOR: MUCH}), world.provider()
        self.function = world.provider(parent=self.card, inventory={"VGPU": {"total": 1}})
        for make in between:
            make()

    def act(self) -> None:
        if self.random.random() < 0.3:
            above = None if self.inside else self.host
            body = {"name": self.card, "parent_provider_uuid": above}
            if self._write("PUT", f"/resource_providers/{self.card}", body):
                self.inside = not self.inside
                self._look(0)
            return
        path, body = f"/allocations/{new_uuid()}", bodies.entry({self.host: {LOOKED_FOR: MUCH}})
        if self._write("PUT", path, body):
            self._look(MUCH)
            self._require(self._write("DELETE", path), "a claim did not end")
            self._look(0)

    def _write(self, method: str, path: str, body: Any = None) -> bool:
        """Say whether it was done; one may be stopped again and again by transactions of others."""
        answer = self.sender.send(method, path, body)
        self._require(answer.status in (200, 204, 409), f"{method} {path}: {answer}")
        return answer.status < 300

    def _require(self, holds: bool, what: str) -> None:
        self.book.count(QUESTIONS)
        if not holds:
            raise support.Violation(f"7: {what}")

    def _look(self, used: int) -> None:
        """Ask for the host alone, and with the card; for what is in use, and for the tree."""
        alone, both = (self._offers(query) for query in (f"resources={LOOKED_FOR}:{MUCH}", WITH_CARD))
        shown = self.caller.sure(f"/resource_providers/{self.host}/usages")["usages"]
        listed = self.caller.sure(f"/resource_providers?in_tree={self.host}")["resource_providers"]
        card = {self.card, self.function} if self.inside else set()
        holds = (
            (alone == [{self.host}]) == (used == 0)
            and ({self.host, self.function} in both) == (self.inside and not used)
            and shown == {LOOKED_FOR: used}
            and {one["uuid"] for one in listed} == {self.host} | card
        )
        self._require(holds, f"{used} in use, card inside {self.inside}: {alone} {both} {shown} {listed}")

    def _offers(self, query: str) -> list[set[str]]:
        found = self.caller.sure(f"/allocation_candidates?{query}")["allocation_requests"]
        return [set(one["allocations"]) for one in found]


def find_differences(db: Database, clients: Sequence[Client], actors: Sequence[Any]) -> Iterator[str]:
    """Hold the books, and what each server shows, against a database that nobody writes now."""
    for client in clients[:1]:
        # Whoever looks for room removes expired holds.
        client.send("GET", "/allocation_candidates?resources=VCPU:1")
    now = read_ledger(db)
    for actor in actors:
        if isinstance(actor, YearActor):
            yield from actor.differences(now)
    for client in clients:
        yield from find_wrong_reads(client, now)


def find_wrong(
    db: Database, clients: Sequence[Client], actors: Sequence[Any], authors: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """Do so, and hold the database against what it says of itself."""
    yield from find_differences(db, clients, actors)
    yield from (f"{each.invariant.name}: {each.examples}" for each in invariants.violations(db))
    yield from find_healed(db)
    yield from (f"17: {each}" for each in find_wrong_authors(db, authors, History()))

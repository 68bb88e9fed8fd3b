"""The clients of a year by the clock, each in a thread with a book of its own."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

from placement.db import invariants
from placement.db.coexistence.checksums import BLOCK_BITS
from placement.db.database import Database
from tests.proofs.year.book import Book, Broken, Open, unequal
from tests.proofs.year.ledger import read_ledger
from tests.proofs.year.player import Asked, Kind, Names, Player, Way
from tests.proofs.year.promises import (
    History,
    find_healed,
    find_unlike_history,
    find_wrong_authors,
    find_wrong_reads,
)
from tests.proofs.year.requests import KIND, OF_CLIENT, OTHER
from tests.support import bodies
from tests.support import book as support
from tests.support.client import NOTHING, Answer, Sender
from tests.support.following import Follower
from tests.support.load import Actor, Caller, acting
from tests.support.processes import PATIENCE
from tests.support.world import World, new_uuid

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB")
FIRST = ("provider",) * 3 + ("stock",) * 4 + ("allocations",) * 2 + ("reshape",) * 2
LOOKED_FOR, MUCH = "CUSTOM_LOOKED_FOR", 4
"""A class that only the host of a looker has, and how much of it."""
MOVERS = ("agent", OTHER)
"""Kinds of clients that move providers between their trees."""
QUESTIONS = "questions after a write"
WITH_CARD = f"resources_H={LOOKED_FOR}:{MUCH}&resources_C=VGPU:1&group_policy=none"


class YearActor(Actor):
    """A client of the table of requests, which draws from these lines."""

    def __init__(self, player: Player, *given: Any, lines: Sequence[Kind]) -> None:
        super().__init__(*given)
        self.player, self.lines = player, lines
        self.acts = self._made = 0

    def act(self) -> None:
        # A reshape needs what comes first here; by chance it would come late.
        names = FIRST if any(each.name == "reshape" for each in self.lines) else ()
        first = self._made < len(names)
        kind = KIND[names[self._made]] if first else self.random.choice(self.lines)
        self._made += first
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
            self._note_open(kind, asked)
        elif kind.undo and answer.status < 300:
            for uuid in sorted(filter(self._can_look, asked.uuids)):
                self._look_at(uuid, asked)
        if answer.status == NOTHING:
            # What serves is being started again.
            self.stopping.wait(0.2)

    def _look_at(self, uuid: str, asked: Asked) -> None:
        """See that what was acknowledged is there."""
        book, is_consumer = self.player.book, uuid.startswith("5")
        part = next((each for each in ("traits", "aggregates") if each in asked.path), "inventories")
        path = f"/allocations/{uuid}" if is_consumer else f"/resource_providers/{uuid}/{part}"
        shown = self.player.ask(path)
        if shown is None:
            return
        if is_consumer:
            sets = {host: each["resources"] for host, each in shown["allocations"].items()}
            generation = book.consumers.get(uuid, {"generation": None})["generation"]
            pair: Any = (shown.get("consumer_generation"), sets), (generation, book.sets(uuid))
        else:
            there = shown[part]
            pair = sorted(there) if isinstance(there, list) else there, book.providers[uuid][part]
        if pair[0] != pair[1]:
            raise support.Violation(f"{asked} was acknowledged, and {uuid} is {pair[0]}, not {pair[1]}")

    def _note_open(self, kind: Kind, asked: Asked) -> None:
        """Note a write without an answer: it may have happened, or may still happen."""
        book, names = self.player.book, self.player.names
        uuids = {uuid for uuid in asked.uuids if self.owns(uuid) and uuid.startswith("5")}
        chosen, is_sent = kind.name == "claims", asked.path.startswith(("/allocations", "/reshaper"))
        # A hold can end by itself.
        if uuids and not uuids & book.held and (is_sent or (chosen and "hold_s" not in asked.body)):
            then = book.copied()
            if is_sent:
                kind.apply(replace(self.player, book=then), asked, Answer(204))
            before, after = ({uuid: each.consumers.get(uuid) for uuid in uuids} for each in (book, then))
            book.open.append(Open(str(asked), deepcopy(before), after if is_sent else None))
        book.unsure |= asked.uuids
        names.epoch += 2 * bool(book.unsure.intersection(names.consumers))
        if book.unsure.intersection(names.providers):
            names.built += 1
            self._made = 0

    def differences(self, now: Any) -> Iterator[str]:
        """Yield where the tables are not what was acknowledged."""
        book, mine = self.player.book, str(self.player.names.owner)
        for each in book.open:
            shown = {uuid: now["consumers"].get(uuid) for uuid in each.before}
            if not each.explains(shown):
                yield f"{self.player.name} {mine}: {each} was not answered, and left {shown}"
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

    def owns(self, uuid: str) -> bool:
        """Return whether nobody else writes it."""
        return uuid[1:8] == f"{self.player.names.owner:07x}"

    def _can_look(self, uuid: str) -> bool:
        """Return whether it is known and read quickly: a hold does not end at once."""
        book = self.player.book
        there = uuid.startswith("5") or uuid in book.providers
        return self.owns(uuid) and uuid not in book.unsure and there

    def _knows(self, uuid: str) -> bool:
        return self.owns(uuid) and self.player.book.knows(uuid)


class Crew:
    """Clients on one cloud, each with its book, and mirrors that follow; they are at work again and again.

    They claim on the common hosts, which none changes.

    :param names: the kinds of the clients.
    :param way: returns the way to the servers of the client with a number.
    :param owner: the number of the first client; a second crew on one database has others.
    :param lines: what each kind draws from.
    """

    ENDS_S = 60.0 * PATIENCE
    """Within which a client ends what it has begun."""

    def __init__(
        self, caller: Caller, book: support.Book, names: Sequence[str], way: Callable[[int], Way], seed: int,
        *, common: int = 6, capacity: int = 60, owner: int = 1,
        lines: Mapping[str, Sequence[Kind]] = OF_CLIENT
    ) -> None:  # fmt: skip
        self.caller, self.book, self.seed, self.lines = caller, book, seed, lines
        self.authors: dict[str, tuple[str, str]] = {}
        # Their number is no client's.
        digits, stock = f"1{owner + len(names):07x}-0000-4000-8000", dict.fromkeys(CLASSES, capacity)
        self.common = [World(caller).host(f"{digits}-{n:012x}", **stock) for n in range(common)]
        self.players = [self.player(owner + n, name, way(n)) for n, name in enumerate(names)]
        self.actors: list[YearActor] = []
        self.follower = Follower("follower", caller, book, str(seed))
        self._times = 0

    def player(self, number: int, name: str, way: Way) -> Player:
        """Return another client."""
        book = Book(authors=self.authors)
        for uuid in self.common:
            book.providers[uuid] = {
                "generation": 0,
                "parent_provider_uuid": None,
                "name": uuid,
                "inventories": {each: {"total": 60} for each in CLASSES},
                "traits": [],
                "aggregates": [],
            }
        names, dice = Names(number, common=self.common), random.Random(f"{self.seed} {number}")
        return Player(name, way, book, names, dice, exact=False, excused=True)

    def actor(self, player: Player, time: str) -> YearActor:
        """Return a client at work, whose draws at another time are others."""
        given = f"{player.name} {player.names.owner}", self.caller, self.book, f"{self.seed} {time}"
        return YearActor(player, *given, lines=self.lines[player.name])

    @contextmanager
    def at_work(self, *others: Actor) -> Iterator[None]:
        """Let all clients act, and a new mirror follow, until the end of the block.

        :param others: act too.
        """
        self._times += 1
        time = str(self._times)
        self.actors = [self.actor(each, time) for each in self.players]
        self.follower = Follower("follower", self.caller, self.book, f"{self.seed} {time}")
        with acting([*self.actors, *others, self.follower], self.ENDS_S):
            yield


class Looker(Actor):
    """Fills a host of its own and frees it, puts a card into it and takes it out, and asks what is there.

    :param sender: by which it writes; the caller is asked.
    :param apart: its providers share no block of ids with others, whose writes would show its own
        (``placement.db.coexistence.checksums``).
    """

    def __init__(self, *given: Any, sender: Sender, apart: bool) -> None:
        super().__init__(*given)
        self.sender, self.inside = sender, False
        self._written: list[str] = []
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
        self._written = [*self._written[-5:], f"{method} {path} {body}: {answer.status} {answer.text}"]
        self._require(answer.status in (200, 204, 409), f"{method} {path}: {answer}")
        return answer.status < 300

    def _require(self, holds: bool, what: str) -> None:
        self.book.count(QUESTIONS)
        if not holds:
            raise support.Violation(f"7: {what}; after {self._written}")

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


def find_differences(db: Database, clients: Sequence[Sender], actors: Sequence[Any]) -> Iterator[str]:
    """Hold the books, and what each server shows, against a database that nobody writes now."""
    for client in clients[:1]:
        # Whoever looks for room removes expired holds.
        client.send("GET", "/allocation_candidates?resources=VCPU:1")
    now = read_ledger(db)
    for actor in actors:
        if isinstance(actor, YearActor):
            yield from actor.differences(now)
    players = [each.player for each in actors if isinstance(each, YearActor)]
    groups = {name for each in players for name in each.book.groups}
    stay = {uuid[1:8] for each in players if each.name not in MOVERS for uuid in each.names.roots}
    for client in clients:
        yield from find_wrong_reads(client, now)
        for name in sorted(groups):
            answer = client.send("GET", f"/-/groups/{name}")
            if answer.status == 200 and is_broken(answer.json, stay):
                yield f"the rule of a group is broken: {answer.text}"


def is_broken(group: Any, stay: Collection[str]) -> bool:
    """Return whether claims have broken a rule. Whoever moves a provider to another tree may break one.

    :param stay: the numbers of owners that move none.
    """
    counts = Counter(uuid for each in group["members"] for uuid in each["domains"])
    sure = {uuid: count for uuid, count in counts.items() if uuid[1:8] in stay}
    if group["kept"] or group["rule"] == "together":
        return not group["kept"] and sure == counts
    return any(count > group["at_most"] for count in sure.values())


def find_wrong(
    db: Database, clients: Sequence[Sender], actors: Sequence[Any], authors: Mapping[str, tuple[str, str]],
    is_recorded: bool = False,
) -> Iterator[str]:
    """Do so, and hold the database against what it says of itself.

    :param is_recorded: each server has kept the history all the time.
    """
    yield from find_differences(db, clients, actors)
    yield from (f"{each.invariant.name}: {each.examples}" for each in invariants.violations(db))
    yield from find_healed(db)
    yield from (f"17: {each}" for each in find_wrong_authors(db, authors, History()))
    if is_recorded:
        now, history = read_ledger(db), History()
        # What the OpenStack service writes beside is in no history.
        mine = [each for each in actors if isinstance(each, YearActor) and each.player.name != OTHER]
        unlike = find_unlike_history(db, now, history, lambda uuid: any(each.owns(uuid) for each in mine))
        yield from (f"17: {each}" for each in unlike)

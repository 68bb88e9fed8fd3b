"""The OpenStack service and ours write to one database at the same moment (specification 06 section 13.1).

Processes of the old service claim, swap, free, rename and put into aggregates, each on hosts of its own
(two of them on one host would grant too much between themselves) and on a host that only it uses, into
which it puts a card and takes it out again. Our servers claim and free everywhere, move cards between
hosts, and reshape: the inventory of a NUMA node comes and goes with what is held there, while the old
service claims on it. After each write on its own host a process asks one of our servers what it sees of it.
A watcher looks at the ledger all the time. ::

    python -m tests.proofs.races.coexistence --database mysql --seconds 3600 --pause 0.05 --seed 7
"""

import argparse
import multiprocessing
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import func, select

from placement.db import invariants, models
from placement.db.coexistence import takeover
from tests.support import bodies
from tests.support.bodies import Sets
from tests.support.book import Book, ConsumerPage, Violation
from tests.support.campaign import CampaignReport, command, main
from tests.support.client import Client
from tests.support.databases import KINDS
from tests.support.following import Follower
from tests.support.load import Caller, acting
from tests.support.old_service import Conflict, OldService, Refused, new_uuid
from tests.support.racing import Arena, arena

UNITS = 10
MUCH = 4 * UNITS
"""What only the hosts that one old process has for itself can give."""
HOSTS = [f"11111111-1111-4111-8111-00000000000{number}" for number in range(4)]
OWN = [f"11111111-1111-4111-8111-00000000001{number}" for number in range(2)]
NODES = [f"11111111-1111-4111-8111-00000000002{number}" for number in range(2)]
"""NUMA nodes, each below the host of the same number: one of our clients reshapes it."""
CARDS = [f"11111111-1111-4111-8111-00000000003{number}" for number in range(4)]
"""The first two are moved by a process of the old service each, the others by one of our clients each."""
FUNCTIONS = [f"11111111-1111-4111-8111-00000000004{number}" for number in range(4)]
"""Each below the card of the same number, with one unit of VGPU."""
AGGREGATES = [f"33333333-3333-4333-8333-00000000000{number}" for number in range(4)]
OURS = 4
ANSWER_S = 300


@dataclass(frozen=True)
class Length:
    """How long each writer goes on: so many writes, or so many seconds."""

    writes: int = 2**31
    seconds: float = 2.0**31
    pause_s: float = 0.0

    def turns(self, draw: random.Random) -> Iterator[int]:
        """Count the writes, with a pause of random length after each."""
        end_s = time.monotonic() + self.seconds
        for turn in range(self.writes):
            if time.monotonic() > end_s:
                return
            yield turn
            time.sleep(draw.uniform(0, 2 * self.pause_s))


@dataclass(frozen=True)
class Stock:
    """What a provider has, and what is allocated of it; all classes together, since it has one."""

    total: int
    used: int


@dataclass
class Watched:
    """Committed states that were looked at, and in which of them a provider held too much."""

    looks: int = 0
    too_much: list[dict[str, Stock]] = field(default_factory=list)


@dataclass
class CoexistenceReport(CampaignReport):
    """What came of it."""

    theirs: Counter[str] = field(default_factory=Counter)
    ours: Counter[tuple[str, int]] = field(default_factory=Counter)
    watched: Watched = field(default_factory=Watched)

    def broken(self) -> list[str]:
        """Return everything that should not have been."""
        statuses = [f"our answer {each}" for each in self.ours if each[1] not in (200, 204, 409)]
        return [*map(str, self.watched.too_much), *self.violations, *statuses]

    def require_kept(self) -> None:
        """Fail, too, unless each has written."""
        super().require_kept()
        for what in ("claims", "questions to ours", "moves of cards"):
            assert self.theirs[what] > 0
        for what, statuses in (("claims", [204]), ("moves of cards", [200]), ("reshapes", [])):
            assert self.answered(what, *statuses) > 0

    def answered(self, what: str, *statuses: int) -> int:
        """Return how often one of our servers answered so to writes of a kind; any status if none."""
        return sum(
            number
            for (kind, status), number in self.ours.items()
            if kind == what and (not statuses or status in statuses)
        )

    def notes(self) -> Iterator[str]:
        """Yield what both have written."""
        theirs = ", ".join(f"{number} {what}" for what, number in sorted(self.theirs.items()))
        ours = ", ".join(
            f"{number} {what} {status}" for (what, status), number in sorted(self.ours.items())
        )
        yield f"the old service: {theirs}"
        yield f"this service: {ours}"
        yield f"committed states looked at: {self.watched.looks}"


def old_url(place: Arena) -> str:
    """Return the URL for the old service, which keeps the isolation of the server."""
    url = place.db.engine.url
    if url.get_backend_name() in ("mysql", "mariadb"):
        url = url.set(drivername="mysql+pymysql", query={})
    return url.render_as_string(hide_password=False)


def prepare(place: Arena, url: str) -> None:
    """Make the hosts, nodes and cards, as the old service does, and share the database."""
    old = OldService(url)
    for number, host in enumerate((*HOSTS, *OWN)):
        old.create_provider(host, f"host-{number}")
        old.set_inventory(host, {"VCPU": {"total": MUCH if host in OWN else UNITS}})
    for number, node in enumerate(NODES):
        old.create_provider(node, f"node-{number}", HOSTS[number])
    for number, (card, function) in enumerate(zip(CARDS, FUNCTIONS, strict=True)):
        old.create_provider(card, f"card-{number}")
        old.create_provider(function, f"function-{number}", card)
        old.set_inventory(function, {"VGPU": {"total": 1}})
    old.dispose()
    takeover.release(place.db)


class OldWriter:
    """One process of the old service."""

    def __init__(self, url: str, port: int, place: int, draw: random.Random) -> None:
        self.old, self.client = OldService(url), Client(port)
        self.hosts, self.own, self.draw = HOSTS[place::2], OWN[place], draw
        self.node, self.card, self.function = NODES[place], CARDS[place], FUNCTIONS[place]
        self.inside = False
        self.held: list[str] = []
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def begin(self) -> None:
        """Write what is too seldom to come by chance in every short run."""
        self._move_card()

    def write(self) -> None:
        """Write something at random."""
        kind = self.draw.random()
        if kind < 0.10:
            self._look()
        elif kind < 0.15:
            self._move_card()
        elif self.held and kind < 0.35:
            self.old.release(self.held.pop(self.draw.randrange(len(self.held))))
            self.done["deletions"] += 1
        elif self.held and kind < 0.45:
            self._claim(self.draw.choice(self.held), "moves")
        elif self.held and kind < 0.55:
            # As a migration: two consumers at once.
            consumer, migration = self.held[-1], new_uuid()
            amounts = ({h: {"VCPU": self.draw.randint(1, 3)}} for h in self.hosts)
            self.old.claim_many(dict(zip((consumer, migration), amounts, strict=False)))
            self.held.append(migration)
            self.done["swaps"] += 1
        elif kind < 0.65:
            self._change(self.draw.choice(self.hosts))
        else:
            consumer = new_uuid()
            self._claim(consumer, "claims")
            self.held.append(consumer)

    def _claim(self, consumer: str, kind: str) -> None:
        amount, project = self.draw.randint(1, 4), self.draw.choice("pq")
        # Seldom on the node: while anything is held there, its inventory cannot go.
        place = self.node if self.draw.random() < 0.1 else self.draw.choice(self.hosts)
        self.old.claim(consumer, {place: {"VCPU": amount}}, project)
        self.done[kind] += 1

    def _change(self, host: str) -> None:
        kind = self.draw.randrange(3)
        if kind == 0:
            self.old.rename_provider(host, new_uuid())
        elif kind == 1:
            wanted = set(self.draw.sample(AGGREGATES, 2))
            self.old.set_aggregates(host, wanted, steps=self.draw.random() < 0.5)
        else:
            self.old.set_one_inventory(host, "VCPU", {"total": UNITS})
        self.done["changes of hosts"] += 1

    def _look(self) -> None:
        """Take all of the own host and free it; ask one of our servers after either."""
        consumer = new_uuid()
        self.old.claim(consumer, {self.own: {"VCPU": MUCH}})
        self._expect(MUCH)
        self.old.release(consumer)
        self._expect(0)
        self.done["questions to ours"] += 4

    def _move_card(self) -> None:
        """Put the card with its function into the own host, or take it out; ask one of our servers."""
        self.inside = not self.inside
        self.old.move_provider(self.card, self.own if self.inside else None)
        search = f"resources_H=VCPU:{MUCH}&resources_C=VGPU:1&group_policy=none"
        found = self.client.send("GET", f"/allocation_candidates?{search}").json
        pair = {self.own, self.function}
        offered = any(pair == set(one["allocations"]) for one in found["allocation_requests"])
        listed = self.client.send("GET", f"/resource_providers?in_tree={self.own}").json
        tree = {one["uuid"] for one in listed["resource_providers"]}
        wanted = {self.own, self.card, self.function} if self.inside else {self.own}
        if offered != self.inside or tree != wanted:
            self.wrong.append(f"{self.card} inside: {self.inside}; offered {offered}, tree {tree}")
        self.done["moves of cards"] += 1
        self.done["questions to ours"] += 2

    def _expect(self, used: int) -> None:
        self.wrong += wrong_of(lambda path: self.client.send("GET", path).json, self.own, used)


def wrong_of(read: Callable[[str], Any], own: str, used: int) -> list[str]:
    """Say what is wrong with what is read of a host of ``MUCH``, all of which is used, or nothing."""
    requests = read(f"/allocation_candidates?resources=VCPU:{MUCH}")["allocation_requests"]
    offered = any(own in one["allocations"] for one in requests)
    shown = read(f"/resource_providers/{own}/usages")["usages"]
    if offered == (used == 0) and shown == {"VCPU": used}:
        return []
    return [f"{own} uses {used}: offered {offered}, shown {shown}"]


def write_as_the_old_service(
    url: str, port: int, place: int, seed: int, length: Length
) -> tuple[Counter[str], list[str]]:
    """Write at random; return how often what was done, and what our servers answered wrongly."""
    draw = random.Random(seed)
    writer = OldWriter(url, port, place, draw)
    for turn in length.turns(draw):
        try:
            writer.write() if turn else writer.begin()
        except Refused:
            writer.done["refusals"] += 1
        except Conflict:
            writer.done["conflicts"] += 1
    writer.old.dispose()
    writer.client.close()
    return writer.done, writer.wrong


class OurWriter:
    """One client of ours. The first two reshape a node each, the others move a card each."""

    def __init__(self, client: Client, number: int, draw: random.Random) -> None:
        self.client, self.number, self.draw = client, number, draw
        self.places = [*HOSTS, *NODES[number : number + 1]]
        self.book = Book()
        self.held: list[ConsumerPage] = []
        self.ended: list[ConsumerPage] = []
        self.done: Counter[tuple[str, int]] = Counter()

    def begin(self) -> None:
        """Write what is too seldom to come by chance in every short run."""
        if self.number < len(NODES):
            self._reshape(HOSTS[self.number], NODES[self.number])
        else:
            self._move(CARDS[self.number])

    def write(self) -> None:
        """Write something at random."""
        kind = self.draw.random()
        if kind < 0.1:
            self.begin()
        elif self.held and kind < 0.45:
            page = self.held.pop(self.draw.randrange(len(self.held)))
            self._send("deletions", "DELETE", f"/allocations/{page.uuid}", None, [(page, {})])
        else:
            page = ConsumerPage(new_uuid(), self.book)
            sets = {self.draw.choice(self.places): {"VCPU": self.draw.randint(1, 4)}}
            path, body = f"/allocations/{page.uuid}", bodies.entry(sets)
            self._send("claims", "PUT", path, body, [(page, sets)])

    def _send(
        self,
        what: str,
        method: str,
        path: str,
        body: object,
        written: Sequence[tuple[ConsumerPage, Sets]] = (),
    ) -> None:
        """Send a write of these sets, and put each consumer where it belongs."""
        answer = self.client.send(method, path, body)
        self.done[what, answer.status] += 1
        for page, sets in written:
            page.answered(answer, sets)
            (self.held if page.sets else self.ended).append(page)

    def wrong_at_the_end(self) -> list[str]:
        """Return where a consumer has not what was acknowledged, by what the database says now."""
        for page in (*self.held, *self.ended):
            shown = self.client.send("GET", f"/allocations/{page.uuid}").json
            sets = {place: held["resources"] for place, held in shown["allocations"].items()}
            try:
                page.read(shown.get("consumer_generation"), sets)
            except Violation as violation:
                self.book.blame(str(violation))
        return self.book.violations

    def _reshape(self, host: str, node: str) -> None:
        """Give the node inventory, and what we hold of the host; or take both away from it."""
        stocks = {each: self._inventories(each) for each in (host, node)}
        goes = bool(stocks[node]["inventories"])
        stocks[node]["inventories"] = {} if goes else {"VCPU": {"total": UNITS}}
        origin, target = (node, host) if goes else (host, node)
        moved = [page for page in self.held if origin in page.sets]
        self.held = [page for page in self.held if origin not in page.sets]
        written = [(page, {target: page.sets[origin]}) for page in moved]
        body = {
            "inventories": stocks,
            "allocations": {
                page.uuid: bodies.entry(sets, page.generation) for page, sets in written
            },
        }
        self._send("reshapes", "POST", "/reshaper", body, written)

    def _inventories(self, uuid: str) -> dict[str, Any]:
        """Return the inventories of a provider with its generation, as a reshape wants them."""
        path = f"/resource_providers/{uuid}/inventories"
        found: dict[str, Any] = self.client.send("GET", path).json
        return found

    def _move(self, card: str) -> None:
        """Put the card with its function into another host, or nowhere."""
        above = self.draw.choice([*HOSTS, None])
        body = {"name": new_uuid(), "parent_provider_uuid": above}
        self._send("moves of cards", "PUT", f"/resource_providers/{card}", body)


def write_as_we_do(
    client: Client, number: int, seed: int, length: Length
) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Write at random; return how many answers to what had which status, and what is wrong at the end."""
    draw = random.Random(seed)
    writer = OurWriter(client, number, draw)
    for turn in length.turns(draw):
        writer.write() if turn else writer.begin()
    return writer.done, writer.wrong_at_the_end()


def ledger(place: Arena) -> dict[str, Stock]:
    """Return what each provider has and what is allocated of it in one committed state."""
    providers = models.resource_providers
    sums = [
        select(func.coalesce(func.sum(column), 0))
        .where(column.table.c.resource_provider_id == providers.c.id)
        .scalar_subquery()
        for column in (models.inventories.c.total, models.allocations.c.used)
    ]
    rows = place.db.read(lambda tx: tx.connection.execute(select(providers.c.uuid, *sums)).all())
    return {uuid: Stock(int(total), int(used)) for uuid, total, used in rows}


@contextmanager
def watching(place: Arena, watched: Watched, pause_s: float) -> Iterator[None]:
    """Look at committed states until the end."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(pause_s):
            stocks = ledger(place)
            watched.looks += 1
            watched.too_much += [
                {uuid: stock} for uuid, stock in stocks.items() if stock.used > stock.total
            ]

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def play(place: Arena, urls: Sequence[str], length: Length, seed: int) -> CoexistenceReport:
    """Let both write, and look at the end as well.

    :param urls: of the database, one for each process of the old service.
    """
    report = CoexistenceReport("beside the OpenStack service", seed)
    began = time.monotonic()
    patience_s = (length.seconds if length.seconds < 2**31 else 0) + ANSWER_S
    book = Book(report.counts, report.violations)
    caller = Caller([Client(port, kept=False) for port in place.ports], book)
    follower = Follower("follower", caller, book, str(seed))
    with watching(place, report.watched, length.pause_s), acting([follower]):
        theirs = [
            _processes(len(urls)).submit(
                *(write_as_the_old_service, url, place.ports[n % len(place.ports)]),
                *(n, seed + 100 + n, length),
            )
            for n, url in enumerate(urls)
        ]
        works = [
            lambda client, n=n: write_as_we_do(client, n, seed + n, length) for n in range(OURS)
        ]
        for done, wrong in place.race(works, patience_s):
            report.ours += done
            report.violations += wrong
        for each in theirs:
            their_done, wrong = each.result(timeout=patience_s)
            report.theirs += their_done
            report.violations += wrong
    try:
        follower.settle()
    except Violation as violation:
        report.violations.append(f"{violation}")
    report.violations += wrong_at_the_end(place)
    report.seconds = time.monotonic() - began
    return report


@cache
def _processes(count: int) -> ProcessPoolExecutor:
    """Return processes of the old service, which go on: their imports take longer than a short race."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))


def wrong_at_the_end(place: Arena) -> list[str]:
    """Compare what all servers answer with the database; then end the coexistence, and check."""
    wrong, stocks, trees = [], ledger(place), trees_of(place)
    for client in place.clients(3):
        for uuid in (*HOSTS, *NODES):
            stock = stocks[uuid]
            shown = client.send("GET", f"/resource_providers/{uuid}/usages").json["usages"]
            if shown != ({"VCPU": stock.used} if stock.total else {}):
                wrong.append(f"{uuid} has {stock}, shown {shown}")
        for amount in range(1, UNITS + 1):
            found = client.send("GET", f"/allocation_candidates?resources=VCPU:{amount}").json
            offered = {uuid for one in found["allocation_requests"] for uuid in one["allocations"]}
            room = {
                uuid
                for uuid in (*HOSTS, *NODES)
                if stocks[uuid].used + amount <= stocks[uuid].total
            }
            if offered != room | set(OWN):
                wrong.append(f"{amount} units: offered {offered}, there is room on {room}")
        for root, tree in trees.items():
            listed = client.send("GET", f"/resource_providers?in_tree={root}").json
            shown = {one["uuid"] for one in listed["resource_providers"]}
            if shown != tree:
                wrong.append(f"{root} has below it {tree}, shown {shown}")
    takeover.finish(place.db)
    return wrong + [
        f"{found.invariant.name}: {found.examples}" for found in invariants.violations(place.db)
    ]


def trees_of(place: Arena) -> dict[str, set[str]]:
    """Return all providers of each tree, by its root, as their parents have it."""
    columns = models.resource_providers.c
    rows = place.db.read(
        lambda tx: tx.connection.execute(
            select(columns.id, columns.uuid, columns.parent_provider_id)
        ).all()
    )
    above = {key: parent for key, _, parent in rows}
    names = {key: uuid for key, uuid, _ in rows}
    trees: dict[str, set[str]] = {}
    for key in above:
        root = key
        while above[root] is not None:
            root = above[root]
        trees.setdefault(names[root], set()).add(names[key])
    return trees


def run(options: argparse.Namespace) -> Iterator[CampaignReport]:
    """Run one campaign."""
    with arena(options.database) as place:
        url = old_url(place)
        prepare(place, url)
        length = Length(seconds=options.seconds, pause_s=options.pause)
        yield play(place, [url, url], length, options.seed)


if __name__ == "__main__":
    parser = command("tests.proofs.races.coexistence", KINDS, "mysql")
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds between two writes")
    sys.exit(main(parser, run))

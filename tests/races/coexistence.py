"""The OpenStack service and ours write to one database at the same moment (specification 06 section 13.1).

Processes of the old service claim, swap, free, rename and put into aggregates, each on hosts of its own
(two of them on one host would grant too much between themselves) and on a host that only it uses; our
servers claim and free everywhere. After each write on its own host a process asks one of our servers what
it sees of it. A watcher looks at the ledger all the time. ::

    python -m tests.races.coexistence --database mysql --seconds 3600 --pause 0.05 --seed 7
"""

import argparse
import multiprocessing
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import func, select

from placement.db import invariants, models
from placement.objects import coexistence
from tests.support.databases import KINDS
from tests.support.old_service import Conflict, OldService, Refused, new_uuid
from tests.support.racing import Arena, Client, arena

UNITS = 10
MUCH = 4 * UNITS
"""What only the hosts that one old process has for itself can give."""
HOSTS = [f"11111111-1111-4111-8111-00000000000{number}" for number in range(4)]
OWN = [f"11111111-1111-4111-8111-00000000001{number}" for number in range(2)]
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


@dataclass
class Report:
    """What came of it; all lists are empty when the promise was kept."""

    seed: int
    theirs: Counter[str] = field(default_factory=Counter)
    ours: Counter[int] = field(default_factory=Counter)
    looks: int = 0
    too_much: list[dict[str, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def violations(self) -> list[object]:
        """Return everything that should not have been."""
        statuses = [f"our answer {status}" for status in self.ours if status not in (204, 409)]
        return [*self.too_much, *self.wrong, *statuses]

    def lines(self) -> list[str]:
        """Return the report for a person."""
        theirs = ", ".join(f"{number} {what}" for what, number in sorted(self.theirs.items()))
        ours = ", ".join(
            f"{number} answers {status}" for status, number in sorted(self.ours.items())
        )
        return [
            f"seed {self.seed}",
            f"the old service: {theirs}",
            f"this service: {ours}",
            f"committed states looked at: {self.looks}",
            f"violations: {len(self.violations())}",
            *map(str, self.violations()[:20]),
        ]


def old_url(place: Arena) -> str:
    """Return the URL for the old service, which keeps the isolation of the server."""
    url = place.db.engine.url
    if url.get_backend_name() in ("mysql", "mariadb"):
        url = url.set(drivername="mysql+pymysql", query={})
    return url.render_as_string(hide_password=False)


def prepare(place: Arena, url: str) -> None:
    """Make the hosts, as the old service does, and share the database."""
    old = OldService(url)
    for number, host in enumerate((*HOSTS, *OWN)):
        old.create_provider(host, f"host-{number}")
        old.set_inventory(host, {"VCPU": {"total": MUCH if host in OWN else UNITS}})
    old.dispose()
    coexistence.release(place.db)


class OldWriter:
    """One process of the old service."""

    def __init__(self, url: str, port: int, place: int, draw: random.Random) -> None:
        self.old, self.client = OldService(url), Client(port)
        self.hosts, self.own, self.draw = HOSTS[place::2], OWN[place], draw
        self.held: list[str] = []
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []

    def write(self) -> None:
        """Write something at random."""
        kind = self.draw.random()
        if kind < 0.15:
            self._look()
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
        self.old.claim(consumer, {self.draw.choice(self.hosts): {"VCPU": amount}}, project)
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

    def _expect(self, used: int) -> None:
        search = f"/allocation_candidates?resources=VCPU:{MUCH}"
        requests = self.client.send("GET", search).json["allocation_requests"]
        offered = any(self.own in one["allocations"] for one in requests)
        path = f"/resource_providers/{self.own}/usages"
        shown = self.client.send("GET", path).json["usages"]
        if offered != (used == 0) or shown != {"VCPU": used}:
            self.wrong.append(f"{self.own} uses {used}: offered {offered}, shown {shown}")


def write_as_the_old_service(
    url: str, port: int, place: int, seed: int, length: Length
) -> tuple[Counter[str], list[str]]:
    """Write at random; return how often what was done, and what our servers answered wrongly."""
    draw = random.Random(seed)
    writer = OldWriter(url, port, place, draw)
    for _ in length.turns(draw):
        try:
            writer.write()
        except Refused:
            writer.done["refusals"] += 1
        except Conflict:
            writer.done["conflicts"] += 1
    writer.old.dispose()
    writer.client.close()
    return writer.done, writer.wrong


def write_as_we_do(client: Client, seed: int, length: Length) -> Counter[int]:
    """Claim and free at random; return how many answers had which status."""
    draw, held = random.Random(seed), []
    statuses: Counter[int] = Counter()
    for _ in length.turns(draw):
        if held and draw.random() < 0.4:
            answer = client.send("DELETE", f"/allocations/{held.pop(draw.randrange(len(held)))}")
        else:
            consumer, host = new_uuid(), draw.choice(HOSTS)
            body = {
                "allocations": {host: {"resources": {"VCPU": draw.randint(1, 4)}}},
                "project_id": "ours",
                "user_id": "ours",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            answer = client.send("PUT", f"/allocations/{consumer}", body)
            if answer.status == 204:
                held.append(consumer)
        statuses[answer.status] += 1
    return statuses


def ledger(place: Arena) -> dict[str, int]:
    """Return what is allocated of each host in one committed state."""
    providers, allocations = models.resource_providers, models.allocations
    rows = place.db.read(
        lambda reader: reader.execute(
            select(providers.c.uuid, func.coalesce(func.sum(allocations.c.used), 0))
            .outerjoin(allocations, allocations.c.resource_provider_id == providers.c.id)
            .group_by(providers.c.uuid)
        ).all()
    )
    return {uuid: int(used) for uuid, used in rows}


@contextmanager
def watched(place: Arena, report: Report, pause_s: float) -> Iterator[None]:
    """Look at committed states until the end."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(pause_s):
            used = ledger(place)
            report.looks += 1
            if max(used[host] for host in HOSTS) > UNITS:
                report.too_much.append(used)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def play(place: Arena, urls: Sequence[str], length: Length, seed: int) -> Report:
    """Let both write, and look at the end as well.

    :param urls: of the database, one for each process of the old service.
    """
    report = Report(seed)
    patience_s = (length.seconds if length.seconds < 2**31 else 0) + ANSWER_S
    with (
        watched(place, report, length.pause_s),
        ProcessPoolExecutor(len(urls), multiprocessing.get_context("spawn")) as pool,
    ):
        theirs = [
            pool.submit(
                *(write_as_the_old_service, url, place.ports[n % len(place.ports)]),
                *(n, seed + 100 + n, length),
            )
            for n, url in enumerate(urls)
        ]
        works = [lambda client, n=n: write_as_we_do(client, seed + n, length) for n in range(OURS)]
        for statuses in place.race(works, patience_s):
            report.ours += statuses
        for each in theirs:
            done, wrong = each.result(timeout=patience_s)
            report.theirs += done
            report.wrong += wrong
    report.wrong += wrong_at_the_end(place)
    return report


def wrong_at_the_end(place: Arena) -> list[str]:
    """Compare what all servers answer with the ledger; then end the coexistence, and check."""
    wrong, used = [], ledger(place)
    for client in place.clients(3):
        for host in HOSTS:
            shown = client.send("GET", f"/resource_providers/{host}/usages").json["usages"]
            if shown != {"VCPU": used[host]}:
                wrong.append(f"{host} uses {used[host]}, shown {shown}")
        for amount in range(1, UNITS + 1):
            found = client.send("GET", f"/allocation_candidates?resources=VCPU:{amount}").json
            offered = {uuid for one in found["allocation_requests"] for uuid in one["allocations"]}
            room = {host for host in HOSTS if used[host] + amount <= UNITS}
            if offered != room | set(OWN):
                wrong.append(f"{amount} units: offered {offered}, there is room on {room}")
    coexistence.finish(place.db)
    return wrong + [
        f"{found.invariant.name}: {found.examples}" for found in invariants.violations(place.db)
    ]


def main() -> int:
    """Run one campaign and print what came of it; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.races.coexistence")
    parser.add_argument("--database", choices=KINDS, default="mysql")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--pause", type=float, default=0.0, help="mean seconds between two writes")
    parser.add_argument("--seed", type=int, default=None, help="repeats order and choices")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1, 2**31)
    with arena(options.database) as place:
        url = old_url(place)
        prepare(place, url)
        length = Length(seconds=options.seconds, pause_s=options.pause)
        report = play(place, [url, url], length, seed)
    print("\n".join(report.lines()))
    return 1 if report.violations() else 0


if __name__ == "__main__":
    sys.exit(main())

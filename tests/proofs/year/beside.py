"""The OpenStack service and ours write to one database at the same moment (specification 06 section 13.1).

Clients of the table of requests claim on the same hosts through our servers and through processes of the
other service. Each of these has hosts of its own, since two of them on one host would grant too much between
themselves. It also claims on hosts that one of ours reshapes. Lookers ask our servers after each write of the
other service what they see of it.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from placement.db.coexistence import takeover
from tests.proofs.year.crew import QUESTIONS, Crew, Looker, YearActor, find_differences, find_wrong
from tests.proofs.year.other_service import OtherService, url_of
from tests.proofs.year.player import OverHTTP
from tests.proofs.year.requests import OF_CLIENT, OTHER
from tests.support.book import Book
from tests.support.campaign import CampaignReport
from tests.support.client import Client
from tests.support.load import Actor, Caller, settle
from tests.support.processes import wait_until
from tests.support.racing import SERVING_CLAIMS, WITHOUT_SCRUB, Arena, arena
from tests.support.watching import watching

COMMON, CAPACITY = 4, 12
OURS = ("nova", "nova", "agent")
RACING = [each for each in OF_CLIENT[OTHER] if each.name not in ("provider deleted", "class", "trait")]
"""That service does not lock what it deletes, nor the numbers that it gives."""
WRITES = {name: [each for each in OF_CLIENT[name] if each.undo] for name in OURS}
ENDS_S = 300.0


@contextmanager
def other_actors(
    urls: Sequence[str], crew: Crew, ports: Sequence[int], seed: int, apart: bool = False
) -> Iterator[list[Actor]]:
    """Yield a client for each URL, and a looker, which write by processes of the other service."""
    actors: list[Actor] = []
    given = crew.caller, crew.book, str(seed)
    agents = [uuid for each in crew.players if each.name == "agent" for uuid in each.names.hosts[:2]]
    with ExitStack() as stack:
        for number, url in enumerate(urls):
            dice = random.Random(f"{seed} other {number}")
            other = OtherService(url, OverHTTP(ports, dice))
            stack.callback(other.dispose)
            player = crew.player(2**20 + dice.randrange(2**20), OTHER, other)
            player.names.common = [*crew.common[number :: len(urls)], *agents[number :: len(urls)]]
            player.excused = False
            actors.append(YearActor(player, f"the other service {number}", *given, lines=RACING))
            if not number:
                actors.append(Looker("looker", *given, sender=other, apart=apart))
        yield actors


def run(kind: str, seconds: float, seed: int) -> CampaignReport:
    """Let both write for so long on a new database of this kind."""
    with arena(kind, options=f"{SERVING_CLAIMS}\n{WITHOUT_SCRUB}") as place:
        return play(place, [url_of(place.db)] * 2, seed, 0, seconds)


def play(
    place: Arena, urls: Sequence[str], seed: int, acts: int, seconds: float = 0.0
) -> CampaignReport:
    """Let both write so many times each, and for so long, and look at the end as well.

    :param urls: of the database, one for each process of the other service.
    """
    began, book = time.monotonic(), Book()
    report = CampaignReport("beside the OpenStack service", seed, book.counts, book.violations)
    caller = Caller([Client(port, kept=False) for port in place.ports], book)

    def way(number: int) -> OverHTTP:
        return OverHTTP(place.ports, random.Random(f"{seed} way {number}"))

    crew = Crew(caller, book, OURS, way, seed, common=COMMON, capacity=CAPACITY, lines=WRITES)
    takeover.release(place.db)
    with other_actors(urls, crew, place.ports, seed, apart=True) as others:
        with watching(place.db, book, 0.01, crew.common), crew.at_work(*others):
            actors = [*crew.actors, *others]
            time.sleep(seconds)
            has_all = partial(_have_acted, book, actors, acts)
            wait_until("all have written", lambda: report.violations or has_all(), ENDS_S)
        if not report.violations:
            settle([crew.follower])
            for what in _wrong_at_the_end(place, crew, actors):
                book.blame(what)
    report.seconds = time.monotonic() - began
    return report


def _wrong_at_the_end(place: Arena, crew: Crew, actors: Sequence[Any]) -> Iterator[str]:
    """Look at the end of the coexistence, and once more after it."""
    clients = place.clients(3)
    yield from find_differences(place.db, clients, actors)
    takeover.finish(place.db)
    yield from find_wrong(place.db, clients, actors, crew.authors)


def _have_acted(book: Book, actors: Sequence[Any], acts: int) -> bool:
    players = [each for each in actors if isinstance(each, YearActor)]
    counts = [each.player.counts for each in players if each.player.name in ("agent", OTHER)]
    reshaped = all(each.get("reshape 204", 0) for each in counts)
    return reshaped and book.counts[QUESTIONS] >= acts and all(each.acts >= acts for each in players)

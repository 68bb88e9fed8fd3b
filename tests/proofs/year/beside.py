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
from placement.db.database import Database
from tests.proofs.year import crew
from tests.proofs.year.other_service import OtherService, url_of
from tests.proofs.year.player import OverHTTP, Player
from tests.proofs.year.requests import OF_CLIENT, OTHER
from tests.support.book import Book
from tests.support.campaign import CampaignReport
from tests.support.client import Client
from tests.support.following import Follower
from tests.support.load import Actor, Caller, acting, settle
from tests.support.processes import wait_until
from tests.support.racing import SERVING_CLAIMS, WITHOUT_SCRUB, Arena, arena
from tests.support.watching import watching
from tests.support.world import World

COMMON, CAPACITY = 4, 12
OURS = ("nova", "nova", "agent")
RACING = [each for each in OF_CLIENT[OTHER] if each.name not in ("provider deleted", "class", "trait")]
"""That service does not lock what it deletes, nor the numbers that it gives."""
WRITES = {name: [each for each in OF_CLIENT[name] if each.undo] for name in OURS}
ENDS_S = 300.0


@contextmanager
def other_actors(
    urls: Sequence[str], ours: Sequence[Player], common: Sequence[str], ports: Sequence[int],
    caller: Caller, book: Book, seed: int, apart: bool = False
) -> Iterator[list[Actor]]:
    """Yield a client for each URL, and a looker, which write by processes of the other service."""
    actors: list[Actor] = []
    agents = [uuid for each in ours if each.name == "agent" for uuid in each.names.hosts[:2]]
    with ExitStack() as stack:
        for number, url in enumerate(urls):
            dice = random.Random(f"{seed} other {number}")
            other = OtherService(url, OverHTTP(ports, dice))
            stack.callback(other.dispose)
            hosts = [*common[number :: len(urls)], *agents[number :: len(urls)]]
            owner = 2**20 + dice.randrange(2**20)
            player = crew.make_player(owner, OTHER, other, common[number :: len(urls)], {}, seed)
            player.names.common, player.excused = hosts, False
            name = f"the other service {number}"
            actors.append(crew.YearActor(player, name, caller, book, str(seed), lines=RACING))
            if not number:
                actors.append(crew.Looker("looker", caller, book, str(seed), sender=other, apart=apart))
        yield actors


def wrong_at_the_end(db: Database, clients: Sequence[Client], actors: Sequence[Any]) -> Iterator[str]:
    """Look at the end of the coexistence, and once more after it."""
    yield from crew.find_differences(db, clients, actors)
    takeover.finish(db)
    yield from crew.find_wrong(db, clients, actors, {})


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
    common = crew.make_common(World(caller), COMMON, CAPACITY)
    takeover.release(place.db)
    ours = [
        crew.make_player(n, name, OverHTTP(place.ports, random.Random(f"{seed} way {n}")), common, {}, seed)
        for n, name in enumerate(OURS, 1)
    ]
    clients = [
        crew.YearActor(each, f"{each.name} {n}", caller, book, str(seed), lines=WRITES[each.name])
        for n, each in enumerate(ours)
    ]
    follower = Follower("follower", caller, book, str(seed))
    with other_actors(urls, ours, common, place.ports, caller, book, seed, apart=True) as others:
        actors = [*clients, *others]
        with watching(place.db, book, 0.01, common), acting([*actors, follower], ENDS_S):
            time.sleep(seconds)
            has_all = partial(_have_acted, book, actors, acts)
            wait_until("all have written", lambda: report.violations or has_all(), ENDS_S)
        if not report.violations:
            settle([follower])
            for what in wrong_at_the_end(place.db, place.clients(3), actors):
                book.blame(what)
    report.seconds = time.monotonic() - began
    return report


def _have_acted(book: Book, actors: Sequence[Any], acts: int) -> bool:
    players = [each for each in actors if isinstance(each, crew.YearActor)]
    counts = [each.player.counts for each in players if each.player.name in ("agent", OTHER)]
    reshaped = all(each.get("reshape 204", 0) for each in counts)
    return reshaped and book.counts[crew.QUESTIONS] >= acts and all(each.acts >= acts for each in players)

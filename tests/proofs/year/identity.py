"""Keystone is killed or frozen while a worker asks it who its clients are (specification 01 section 13.1).

The worker goes on to serve those whom it knows, and refuses all others within a bound.
"""

import http.client
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.proofs.year.crew import Crew, YearActor
from tests.proofs.year.player import SLOW_S, Asked, OverHTTP
from tests.support.book import Book
from tests.support.campaign import Servers
from tests.support.client import NOTHING, Answer, Client
from tests.support.keystone import MIDDLEWARE, PASSWORD, Keystone, KeystoneServer
from tests.support.load import acting

NAMES = ("nova", "agent")
OWNER = 2**25
"""The number of the first client; no other has one as large."""
UNKNOWN = 12
"""Requests with unknown tokens at a time, more than a worker has threads."""
LASTS_S = 1.5


class AsUser(OverHTTP):
    """A way on which a client has the token that Keystone has given to its user.

    ``tokens``: by the id of the user. ``book``: blames each answer that does not know the user.
    """

    def __init__(self, port: int, dice: random.Random, book: Book) -> None:
        super().__init__([port], dice)
        self.tokens, self._book = dict[str, str](), book

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request."""
        user, _, _ = (asked.token or token).partition(":")
        answer = super().deliver(replace(asked, token=self.tokens[user]), token)
        if answer.status in (401, 403) or "identity service" in answer.text:
            self._book.blame(f"{asked} of a user that is known: {answer}")
        return answer


@contextmanager
def lost(server: KeystoneServer, is_frozen: bool) -> Iterator[None]:
    """Let Keystone be killed or frozen until the end of the block."""
    (server.freeze if is_frozen else server.kill)()
    try:
        yield
    finally:
        (server.thaw if is_frozen else server.start)()


class Authenticated:
    """A worker that asks Keystone, and a few clients with tokens of Keystone.

    :param settings: of a worker of the year.
    """

    def __init__(self, keystone: Keystone, crew: Crew, folder: Path, settings: str) -> None:
        self._keystone, self._crew = keystone, crew
        keystone.make_account()
        self._project = keystone.create_project("red")
        middleware = MIDDLEWARE.format(url=keystone.url, password=PASSWORD)
        self.worker = Servers(folder, [settings.replace("noauth2", "keystone") + middleware])
        way = AsUser(self.worker.ports[0], random.Random(crew.seed), crew.book)
        self.players = [crew.player(OWNER + n, name, way) for n, name in enumerate(NAMES)]
        for player in self.players:
            player.user = keystone.create_user(player.name, {self._project: "service"})
            way.tokens[player.user] = self._token(player.name)

    def _token(self, name: str = NAMES[0]) -> str:
        return self._keystone.token(name, project="red")

    def actors(self, time: str) -> list[YearActor]:
        """Return the clients at work."""
        return [self._crew.actor(each, time) for each in self.players]

    def live_without(self, is_frozen: bool, actors: list[YearActor]) -> None:
        """Lose Keystone for a while, and ask as those who are known and as those who are not."""
        known, after, unknown = (self._token() for _ in range(3))
        invented = [f"no token {number}" for number in range(UNKNOWN - 1)]
        self._require(known, 200)
        for player in self.players:
            # Its token is known from now on.
            player.ask("/resource_classes")
        with acting(actors, Crew.ENDS_S), ThreadPoolExecutor(UNKNOWN) as threads:
            with lost(self._keystone.server, is_frozen):
                until_s = time.monotonic() + LASTS_S
                refused = [
                    threads.submit(self._require, each, 503) for each in (unknown, *invented)
                ]
                while time.monotonic() < until_s or not all(each.done() for each in refused):
                    self._require(known, 200)
                    self._require(None, 401)
                for each in refused:
                    each.result()
            for token in (after, unknown):
                self._require(token, 200)
            self._require(invented[0], 401)

    def _require(self, token: str | None, status: int) -> None:
        """Fail unless this is the answer to a request with a token."""
        began = time.monotonic()
        client = Client(self.worker.ports[0], kept=False, timeout_s=SLOW_S)
        try:
            answer = client.send("GET", "/resource_classes", x_auth_token=token)
        except (OSError, http.client.HTTPException) as failure:
            answer = Answer(NOTHING, repr(failure))
        took = time.monotonic() - began
        assert answer.status == status, f"{token}: {answer}, not {status}, after {took:.1f} s"
        assert status != 503 or "Retry-After" in answer.headers, answer

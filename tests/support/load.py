"""The one load: clients that write and read without pause, each in a thread of its own."""

import http.client
import itertools
import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.book import Book, Violation
from tests.support.client import NOTHING, VERSION, Answer, Sender


class Caller:
    """A way to the servers: each request to the next one."""

    def __init__(self, servers: Sequence[Sender], book: Book, first: int = 0) -> None:
        self._servers = itertools.cycle([*servers[first:], *servers[:first]])
        self._book = book

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send once. An answer that is lost says nothing of the outcome; 500 is a broken promise."""
        try:
            answer = next(self._servers).send(method, path, body, version)
        except (OSError, http.client.HTTPException) as failure:
            self._book.count("no answer")
            return Answer(NOTHING, repr(failure))
        self._book.answered(method, answer, f"{method} {path}")
        if answer.status >= 500 and not answer.lost:
            return Answer(NOTHING, answer.text)
        return answer

    def sure(self, path: str) -> Any:
        """Read until there is an answer."""
        while True:
            answer = self.send("GET", path)
            if answer.status == 200:
                return answer.json


class Actor(threading.Thread):
    """One client: does one thing after another until it is told to stop."""

    def __init__(self, name: str, caller: Caller, book: Book, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.caller = caller
        self.book = book
        self.random = random.Random(f"{seed} {name}")
        self.stopping = threading.Event()

    def run(self) -> None:
        """Act, and note what must not be."""
        while not self.stopping.is_set():
            try:
                self.act()
            except Violation as violation:
                self.book.blame(f"{self.name}: {violation}")
                return
            except Exception as failure:
                self.book.blame(f"{self.name} failed: {failure!r}")
                return

    def act(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def settle(self) -> None:
        """Read everything once more, after all servers have ended what they had begun."""

    def new_uuid(self) -> str:
        """Return a uuid that the seed determines."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))


@contextmanager
def acting(actors: Sequence[Actor], patience_s: float = 150.0) -> Iterator[None]:
    """Let the clients act until the end of the block; one that does not stop is blamed."""
    for actor in actors:
        actor.start()
    try:
        yield
    finally:
        for actor in actors:
            actor.stopping.set()
        for actor in actors:
            actor.join(patience_s)
            if actor.is_alive():
                actor.book.blame(f"{actor.name} hangs")


def settle(actors: Sequence[Actor]) -> None:
    """Let all clients read everything once more, and blame what they find."""
    for actor in actors:
        try:
            actor.settle()
        except AssertionError as violation:
            actor.book.blame(f"{actor.name}: {violation}")

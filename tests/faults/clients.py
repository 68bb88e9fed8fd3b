"""Clients that write and read without pause, and know what they may believe."""

import contextlib
import http.client
import itertools
import json
import random
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.faults.history import AggregatesBook, Books, ConsumerBook, Sets, Violation

TIMEOUT_S = 10.0
"""A client that waits longer than this gives the answer up."""

CAPACITY = 8
VERSION = "placement 1.38"


class Answer(NamedTuple):
    """What came back; ``status`` is 0 if nothing did, or nothing that says what happened."""

    status: int
    body: Any = None

    @property
    def code(self) -> str:
        """The code of the error."""
        return self.body["errors"][0]["code"] if self.status >= 400 else ""


class Caller:
    """A way to the servers: each request to the next one, over a connection of its own."""

    def __init__(self, ports: Sequence[int], books: Books, first: int = 0) -> None:
        self._ports = itertools.cycle([*ports[first:], *ports[:first]])
        self._books = books

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Send once. 503, like no answer, says nothing of the outcome; 500 is a broken promise."""
        connection = http.client.HTTPConnection("127.0.0.1", next(self._ports), timeout=TIMEOUT_S)
        headers = {
            "X-Auth-Token": "admin",
            "X-Roles": "admin,service",
            "OpenStack-API-Version": VERSION,
            "Content-Type": "application/json",
        }
        with contextlib.closing(connection):
            try:
                connection.request(method, path, json.dumps(body) if body else None, headers)
                response = connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException):
                self._books.count("no answer")
                return Answer(0)
        self._books.count(f"{method} {response.status}")
        if response.status == 503:
            return Answer(0)
        if response.status >= 500:
            self._books.blame(f"{method} {path}: {response.status} {text.decode()[:500]}")
            return Answer(0)
        return Answer(response.status, json.loads(text) if text else None)

    def sure(self, path: str) -> Any:
        """Read until there is an answer; :class:`Stopped` ends it."""
        while True:
            answer = self.send("GET", path)
            if answer.status == 200:
                return answer.body


class Actor(threading.Thread):
    """One client: does one thing after another until it is told to stop."""

    def __init__(self, name: str, caller: Caller, books: Books, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.caller = caller
        self.books = books
        self.random = random.Random(f"{seed} {name}")
        self.stopping = threading.Event()

    def run(self) -> None:
        """Act, and note what must not be."""
        while not self.stopping.is_set():
            try:
                self.act()
            except Violation as violation:
                self.books.blame(f"{self.name}: {violation}")
                return
            except Exception as failure:
                self.books.blame(f"{self.name} failed: {failure!r}")
                return

    def act(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def settle(self) -> None:
        """Read everything once more, after all servers have ended what they had begun."""

    def new_uuid(self) -> str:
        """Return a uuid that the seed determines."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))


def entry(sets: Sets, generation: int | None) -> dict[str, Any]:
    """Return what a body says of one consumer."""
    return {
        "allocations": {host: {"resources": dict(held)} for host, held in sets.items()},
        "project_id": "red",
        "user_id": "ann",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


def read_consumer(caller: Caller, book: ConsumerBook) -> None:
    """Read a consumer into its book."""
    body = caller.sure(f"/allocations/{book.uuid}")
    sets = {host: held["resources"] for host, held in body["allocations"].items()}
    book.read(body.get("consumer_generation"), sets)


class Claimant(Actor):
    """Claims, changes and releases sets over the hosts."""

    def __init__(self, *given: Any, hosts: Sequence[str]) -> None:
        super().__init__(*given)
        self.hosts = hosts
        self.living: list[ConsumerBook] = []
        self.ended: set[str] = set()

    def act(self) -> None:
        if len(self.living) < 4:
            self.living.append(ConsumerBook(self.new_uuid(), self.books))
        book = self.random.choice(self.living)
        if book.generation is not None and book.may_end and self.random.random() < 0.3:
            self.write(book, {})
        else:
            self.write(book, self.some_sets())
        if book.generation is None and not book.open and not book.sets:
            self.living.remove(book)
            self.ended.add(book.uuid)

    def some_sets(self) -> Sets:
        """Return a claim of one or two hosts."""
        hosts = self.random.sample(self.hosts, self.random.randint(1, 2))
        return {
            host: {"VCPU": self.random.randint(1, 3), "MEMORY_MB": self.random.randint(1, 3)}
            for host in hosts
        }

    def write(self, book: ConsumerBook, sets: Sets) -> None:
        """Send a replacement; after a lost answer read again, or send it again as it was."""
        sent = book.generation
        for _ in range(2):
            answer = self.caller.send("PUT", f"/allocations/{book.uuid}", entry(sets, sent))
            if answer.status == 204:
                book.applied(sets)
                return
            if answer.status != 0:
                break
            book.open.append((sent, sets))
            if self.random.random() < 0.5:
                break
        if answer.status not in (0, 409):
            raise Violation(f"a claim was answered {answer}")
        if answer.status == 0 or answer.code == "placement.concurrent_update":
            read_consumer(self.caller, book)

    def settle(self) -> None:
        for book in self.living:
            read_consumer(self.caller, book)


class Grouper(Actor):
    """Replaces the aggregates of hosts that others claim from, with the generation it read."""

    def __init__(self, *given: Any, hosts: Sequence[str]) -> None:
        super().__init__(*given)
        self.kept = [AggregatesBook(host, self.books) for host in hosts]

    def act(self) -> None:
        book = self.random.choice(self.kept)
        generation = self.read(book)
        name = self.new_uuid()
        body = {"resource_provider_generation": generation, "aggregates": [name]}
        answer = self.caller.send("PUT", self.path(book), body)
        if answer.status == 200:
            book.applied(name, generation)
        elif answer.status == 0:
            book.open.append((generation, name))
        elif answer.status != 409:
            raise Violation(f"aggregates were answered {answer}")

    def path(self, book: AggregatesBook) -> str:
        """Return the path of a host's aggregates."""
        return f"/resource_providers/{book.provider}/aggregates"

    def read(self, book: AggregatesBook) -> int:
        """Read a host's aggregates into the book; return the generation."""
        body = self.caller.sure(self.path(book))
        generation: int = body["resource_provider_generation"]
        book.read(generation, body["aggregates"])
        return generation

    def settle(self) -> None:
        for book in self.kept:
            self.read(book)


class Reshaper(Actor):
    """Moves the inventory of one provider, and its consumer, to another and back."""

    def __init__(self, *given: Any, pair: tuple[str, str], consumer: str) -> None:
        super().__init__(*given)
        self.pair = pair
        self.consumer = consumer

    def state(self) -> tuple[str, dict[str, int], int]:
        """Return where everything is, generations by provider, and the consumer's.

        :raises Violation: it is in two places, or in none.
        """
        while True:
            read = [self.caller.sure(f"/resource_providers/{p}/inventories") for p in self.pair]
            held = self.caller.sure(f"/allocations/{self.consumer}")
            again = [self.caller.sure(f"/resource_providers/{p}/inventories") for p in self.pair]
            if read == again:
                break
        places = [p for p, body in zip(self.pair, read, strict=True) if body["inventories"]]
        if len(places) != 1 or list(held["allocations"]) != places:
            raise Violation(f"a reshape is half there: {read}, {held}")
        generations = {
            p: body["resource_provider_generation"] for p, body in zip(self.pair, read, strict=True)
        }
        return places[0], generations, held["consumer_generation"]

    def act(self) -> None:
        source, generations, generation = self.state()
        target = next(each for each in self.pair if each != source)
        body = {
            "inventories": {
                source: {
                    "resource_provider_generation": generations[source],
                    "inventories": {},
                },
                target: {
                    "resource_provider_generation": generations[target],
                    "inventories": {"VCPU": {"total": CAPACITY}},
                },
            },
            "allocations": {self.consumer: entry({target: {"VCPU": 2}}, generation)},
        }
        answer = self.caller.send("POST", "/reshaper", body)
        if answer.status == 204 and self.state()[0] != target:
            raise Violation("an acknowledged reshape is not there")
        if answer.status not in (0, 204, 409):
            raise Violation(f"a reshape was answered {answer}")

    def settle(self) -> None:
        self.state()


class Exchanger(Actor):
    """Passes units between two consumers that fill a host together."""

    def __init__(self, *given: Any, host: str, pair: tuple[str, str]) -> None:
        super().__init__(*given)
        self.host = host
        self.pair = pair

    def state(self) -> list[tuple[int, int]]:
        """Return (generation, units) of both consumers.

        :raises Violation: they do not hold all units together.
        """
        path = f"/resource_providers/{self.host}/allocations"
        listed = self.caller.sure(path)["allocations"]
        held = [
            (listed[each]["consumer_generation"], listed[each]["resources"]["VCPU"])
            for each in self.pair
        ]
        if sum(units for _, units in held) != CAPACITY or held[0][0] != held[1][0]:
            raise Violation(f"an exchange is half there: {held}")
        return held

    def act(self) -> None:
        before = self.state()
        first = self.random.randint(1, CAPACITY - 1)
        body = {
            each: entry({self.host: {"VCPU": units}}, generation)
            for each, units, (generation, _) in zip(
                self.pair, (first, CAPACITY - first), before, strict=True
            )
        }
        answer = self.caller.send("POST", "/allocations", body)
        if answer.status == 204:
            after = self.state()
            if after[0] != (before[0][0] + 1, first):
                raise Violation(f"an acknowledged exchange is not there: {before}, {after}")
        if answer.status not in (0, 204, 409):
            raise Violation(f"an exchange was answered {answer}")

    def settle(self) -> None:
        self.state()


class Seeker(Actor):
    """Asks for candidates and compares each answer with itself and with what hosts can hold."""

    def act(self) -> None:
        wanted = {"VCPU": self.random.randint(1, 4), "MEMORY_MB": 1}
        asked = ",".join(f"{name}:{amount}" for name, amount in wanted.items())
        answer = self.caller.send("GET", f"/allocation_candidates?resources={asked}")
        if answer.status == 0:
            return
        if answer.status != 200:
            raise Violation(f"candidates were answered {answer}")
        for request in answer.body["allocation_requests"]:
            for host, held in request["allocations"].items():
                summary = answer.body["provider_summaries"][host]["resources"]
                for name, amount in held["resources"].items():
                    room = summary[name]
                    fits = room["used"] >= 0 and room["used"] + amount <= room["capacity"]
                    if not fits or room["capacity"] != CAPACITY:
                        raise Violation(f"capacity was invented: {host} {name} {amount} {room}")


def crew(ports: Sequence[int], books: Books, seed: int, world: dict[str, list[str]]) -> list[Actor]:
    """Return the clients: each has its own way to the servers and its own things to write."""

    def given(number: int, name: str) -> tuple[str, Caller, Books, str]:
        return name, Caller(ports, books, number % len(ports)), books, str(seed)

    hosts = world["hosts"]
    make: list[Callable[[int], Actor]] = [
        lambda n: Claimant(*given(n, f"claimant {n}"), hosts=hosts),
        lambda n: Claimant(*given(n, f"claimant {n}"), hosts=hosts),
        lambda n: Claimant(*given(n, f"claimant {n}"), hosts=hosts),
        lambda n: Grouper(*given(n, "grouper"), hosts=hosts),
        lambda n: Reshaper(
            *given(n, "reshaper"),
            pair=(world["pair"][0], world["pair"][1]),
            consumer=world["moved"][0],
        ),
        lambda n: Exchanger(
            *given(n, "exchanger"),
            host=world["exchange"][0],
            pair=(world["partners"][0], world["partners"][1]),
        ),
        lambda n: Seeker(*given(n, "seeker")),
    ]
    return [each(number) for number, each in enumerate(make)]

"""What the clients of a campaign write and read, each with its own thing to know."""

from collections.abc import Sequence
from typing import Any

from tests.proofs.faults.gangs import Ganger
from tests.proofs.faults.planners import Planner
from tests.support import bodies
from tests.support.book import AggregatesPage, Book, Violation
from tests.support.client import Client
from tests.support.following import Follower
from tests.support.load import Actor, Caller, Claimant

TIMEOUT_S = 10.0
"""A client that waits longer than this gives the answer up."""

CAPACITY = 8


def servers(ports: Sequence[int]) -> list[Client]:
    """Return ways to servers on these ports; each request has a connection of its own."""
    return [Client(port, kept=False, timeout_s=TIMEOUT_S) for port in ports]


class Grouper(Actor):
    """Replaces the aggregates of hosts that others claim from, with the generation it read."""

    def __init__(self, *given: Any, hosts: Sequence[str]) -> None:
        super().__init__(*given)
        self.kept = [AggregatesPage(host, self.book) for host in hosts]

    def act(self) -> None:
        page = self.random.choice(self.kept)
        generation = self.read(page)
        name = self.new_uuid()
        body = {"resource_provider_generation": generation, "aggregates": [name]}
        answer = self.caller.send("PUT", self.path(page), body)
        if answer.status == 200:
            page.applied(name, generation)
        elif answer.lost:
            page.open.append((generation, name))
        elif answer.status != 409:
            raise Violation(f"aggregates were answered {answer}")

    def path(self, page: AggregatesPage) -> str:
        """Return the path of a host's aggregates."""
        return f"/resource_providers/{page.provider}/aggregates"

    def read(self, page: AggregatesPage) -> int:
        """Read a host's aggregates into its page; return the generation."""
        body = self.caller.sure(self.path(page))
        generation: int = body["resource_provider_generation"]
        page.read(generation, body["aggregates"])
        return generation

    def settle(self) -> None:
        for page in self.kept:
            self.read(page)


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
                source: bodies.stock(generations[source], {}),
                target: bodies.stock(generations[target], {"VCPU": CAPACITY}),
            },
            "allocations": {self.consumer: bodies.entry({target: {"VCPU": 2}}, generation)},
        }
        answer = self.caller.send("POST", "/reshaper", body)
        if answer.status == 204 and self.state()[0] != target:
            raise Violation("an acknowledged reshape is not there")
        if not answer.lost and answer.status not in (204, 409):
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
            each: bodies.entry({self.host: {"VCPU": units}}, generation)
            for each, units, (generation, _) in zip(
                self.pair, (first, CAPACITY - first), before, strict=True
            )
        }
        answer = self.caller.send("POST", "/allocations", body)
        if answer.status == 204:
            after = self.state()
            if after[0] != (before[0][0] + 1, first):
                raise Violation(f"an acknowledged exchange is not there: {before}, {after}")
        if not answer.lost and answer.status not in (204, 409):
            raise Violation(f"an exchange was answered {answer}")

    def settle(self) -> None:
        self.state()


class Seeker(Actor):
    """Asks for candidates and compares each answer with itself and with what hosts can hold."""

    def act(self) -> None:
        wanted = {"VCPU": self.random.randint(1, 4), "MEMORY_MB": 1}
        asked = ",".join(f"{name}:{amount}" for name, amount in wanted.items())
        answer = self.caller.send("GET", f"/allocation_candidates?resources={asked}")
        if answer.lost:
            return
        if answer.status != 200:
            raise Violation(f"candidates were answered {answer}")
        for request in answer.json["allocation_requests"]:
            for host, held in request["allocations"].items():
                summary = answer.json["provider_summaries"][host]["resources"]
                for name, amount in held["resources"].items():
                    room = summary[name]
                    fits = room["used"] >= 0 and room["used"] + amount <= room["capacity"]
                    if not fits or room["capacity"] != CAPACITY:
                        raise Violation(f"capacity was invented: {host} {name} {amount} {room}")


def crew(ports: Sequence[int], book: Book, seed: int, world: dict[str, list[str]]) -> list[Actor]:
    """Return the clients: each has its own way to the servers and its own things to write."""

    def given(number: int, name: str) -> tuple[str, Caller, Book, str]:
        return name, Caller(servers(ports), book, number % len(ports)), book, str(seed)

    hosts = world["hosts"]
    pair, partners = ((uuids[0], uuids[1]) for uuids in (world["pair"], world["partners"]))
    return [
        *(Claimant(*given(n, f"claimant {n}"), hosts=hosts) for n in range(3)),
        Grouper(*given(3, "grouper"), hosts=hosts),
        Reshaper(*given(4, "reshaper"), pair=pair, consumer=world["moved"][0]),
        Exchanger(*given(5, "exchanger"), host=world["exchange"][0], pair=partners),
        Seeker(*given(6, "seeker")),
        *(Ganger(*given(n, f"ganger {n}"), among=world["rack"][0]) for n in (7, 8)),
        Follower(*given(9, "follower")),
        Planner(*given(10, "planner"), hosts=world["shelves"], servers=world["on shelves"]),
    ]

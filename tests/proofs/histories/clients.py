"""Clients that write and read the same few providers and consumers, and what they note of it.

Each draws from a seed of its own what it does and with what; what it sends as generation is what it saw last.
"""

import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import bodies, registers, whole
from tests.support.book import Book
from tests.support.checker import Effect
from tests.support.client import UNKNOWN, VERSION, Answer, Client
from tests.support.whole import Effects, Told

CLASSES = ("VCPU", "MEMORY_MB")
PROVIDERS, CONSUMERS = 3, 6
HOLD_S = 1
LOOKS_FIRST = 0.4
"""How often a client reads before it sends a generation, though it has seen one."""


@dataclass
class History(Book):
    """What every client did to each of these providers and consumers, by uuid, and to a group."""

    providers: list[str] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    group: str = ""
    until: float = 0.0
    """When the first holds have been over for a while: nobody stops before."""
    epoch: float = field(default_factory=lambda: time.time() - time.monotonic())
    """What the clock of operations lacks to the one on the wall."""

    @classmethod
    def empty(cls, chance: random.Random) -> "History":
        """Return one of providers and consumers that nobody has used."""

        def names(count: int) -> list[str]:
            return [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(count)]

        until = time.monotonic() + 1.5 * HOLD_S
        [group] = names(1)
        return cls(providers=names(PROVIDERS), consumers=names(CONSUMERS), group=group, until=until)


class Caller:
    """One client. ``seen``: the last state of each provider and consumer that it knows."""

    def __init__(self, client: Client, history: History, seed: str) -> None:
        self._client = client
        self._history = history
        self._chance = random.Random(seed)
        self._seen: dict[str, Any] = {}
        self._called = 0.0
        self._actions = [action for action, weight in self._choices() for _ in range(weight)]

    def _choices(self) -> Sequence[tuple[Callable[[], None], int]]:
        """Return what it does, and how often."""
        return (
            (self.put, 12),
            (self.post, 6),
            (self.delete, 2),
            (self.reshape, 3),
            (self.put_inventories, 4),
            (self.add_inventory, 2),
            (self.delete_inventory, 1),
            (self.delete_inventories, 1),
            (self.put_traits, 2),
            (self.put_aggregates, 2),
            (self.create_provider, 4),
            (self.delete_provider, 1),
            (self.look_at_provider, 3),
            (self.look_at_consumer, 3),
        )

    def run(self, requests: int) -> None:
        """Send this many random requests, and more until holds have ended."""
        sent = 0
        while sent < requests or time.monotonic() < self._history.until:
            self._chance.choice(self._actions)()
            sent += 1

    # What is drawn

    def _provider(self) -> str:
        return self._chance.choice(self._history.providers)

    def _consumer(self) -> str:
        return self._chance.choice(self._history.consumers)

    def _generation(self, name: str) -> int | None:
        """Return the generation to send: what was seen last, or is looked up now."""
        if name not in self._seen or self._chance.random() < LOOKS_FIRST:
            in_pool = name in self._history.providers
            (self.look_at_provider if in_pool else self.look_at_consumer)(name)
        state = self._seen.get(name)
        return None if state is None else state[0]

    def _held(self) -> dict[str, dict[str, int]]:
        chosen = self._chance.sample(self._history.providers, self._chance.choice((1, 1, 1, 2)))
        return {name: {self._chance.choice(CLASSES): self._chance.randint(1, 2)} for name in chosen}

    def _stock(self) -> dict[str, int]:
        names = self._chance.choice((CLASSES, CLASSES, CLASSES, CLASSES[:1], ()))
        return {name: self._chance.randint(4, 12) for name in names}

    # Sending

    def _do(
        self,
        what: str,
        method: str,
        path: str,
        body: Any,
        read: Callable[[Answer], Effects | Told],
        version: str = VERSION,
    ) -> None:
        """Send a request and note what ``read`` takes from its answer."""
        called = self._called = time.monotonic()
        answer = self._client.send(method, path, body, version)
        self._history.note(what, called, answer, read(answer), f"{method} {path} {body}")

    # Allocations

    def put(self) -> None:
        """Replace the allocations of a consumer; at times without a generation, or with nothing."""
        name, chance = self._consumer(), self._chance.random()
        held = {} if chance < 0.1 else self._held()
        sent = self._generation(name)
        body = bodies.entry(held, sent)
        if chance < 0.9:
            entries = {name: (sent, held)}
            self._do("PUT", "PUT", f"/allocations/{name}", body, lambda a: self._wrote(a, entries))
            return
        old = {name: (registers.ANY, held)}
        read = lambda a: self._wrote(a, old)  # noqa: E731
        self._do("PUT 1.12", "PUT", f"/allocations/{name}", bodies.entry_1_12(held), read, "1.12")

    def post(self) -> None:
        """Replace the allocations of two consumers, at times by taking from one of them."""
        names = self._chance.sample(self._history.consumers, 2)
        entries = self._entries(names)
        body = {name: bodies.entry(held, sent) for name, (sent, held) in entries.items()}
        self._do("POST", "POST", "/allocations", body, lambda a: self._wrote(a, entries))

    def _entries(self, names: Iterable[str]) -> dict[str, tuple[Any, Any]]:
        return {
            name: (
                self._generation(name),
                {} if self._seen.get(name) and self._chance.random() < 0.3 else self._held(),
            )
            for name in names
        }

    def _wrote(
        self, answer: Answer, entries: Mapping[str, tuple[Any, Any]], reshaped: str | None = None
    ) -> Told:
        if answer.status in UNKNOWN | {204}:
            if answer.status == 204:
                self._remember(entries)
            held = {name: registers.triples(held) for name, (_, held) in entries.items()}
            effects = {
                name: registers.wrote(sent, held[name]) for name, (sent, _) in entries.items()
            }
            return Told([effects | self._steps(entries)], [whole.moved(held, reshaped)])
        return self._refused(answer, entries)

    def _remember(self, entries: Mapping[str, tuple[Any, Any]]) -> None:
        for name, (sent, held) in entries.items():
            # Without a generation sent it is not known which there is now: whoever guesses is refused.
            after = (0 if sent is registers.ANY else (sent or 0)) + 1
            self._seen[name] = (after, registers.triples(held)) if held else None

    def _steps(self, entries: Mapping[str, tuple[Any, Any]]) -> dict[str, Effect]:
        """Every provider that is named moves once; one that only loses its consumer moves too."""
        named = {name for _, held in entries.values() for name in held}
        effects = {name: registers.stepped(1) for name in named}
        if any(not held for _, held in entries.values()):
            for name in set(self._history.providers) - named:
                effects[name] = _perhaps(registers.stepped(1))
        return effects

    def _refused(self, answer: Answer, entries: Mapping[str, tuple[Any, Any]]) -> Told:
        """Return what is said by the refusal of a write of allocations."""
        self._count_reason(answer)
        if reason(answer) in ("capacity_exceeded", "no_inventory"):
            held = {name: registers.triples(has) for name, (_, has) in entries.items()}
            return Told([{}], [whole.too_much(held, self._called)])
        return self._refused_consumer(answer, {name: sent for name, (sent, _) in entries.items()})

    def _refused_consumer(self, answer: Answer, sent: Mapping[str, Any]) -> Told:
        if reason(answer) != "consumer_generation":
            return Told([{}])
        for name in sent:
            self._look_again(name)
        effects = {name: registers.refused(each) for name, each in sent.items()}
        rule = whole.other_generation(sent, self._called)
        return Told([effects if len(effects) == 1 else {}], [rule])

    def _look_again(self, name: str) -> None:
        """Forget a generation that was refused: None is the next guess, or what is read then."""
        self._seen.pop(name, None)

    def delete(self) -> None:
        """Delete a consumer's allocations."""
        name = self._consumer()

        def read(answer: Answer) -> Effects:
            if answer.status in UNKNOWN | {204}:
                self._seen[name] = None
                return {name: registers.removed()}
            return {name: registers.absent()} if answer.status == 404 else {}

        self._do("DELETE", "DELETE", f"/allocations/{name}", None, read)

    def reshape(self) -> None:
        """Replace the inventories of a provider and the allocations of at most one consumer."""
        name = self._provider()
        sent = self._generation(name) or 0
        stock = self._stock() or {"VCPU": 9}
        entries = self._entries(self._chance.sample(self._history.consumers, 1))
        body = {
            "inventories": {name: bodies.stock(sent, stock)},
            "allocations": {one: bodies.entry(held, seen) for one, (seen, held) in entries.items()},
        }

        def read(answer: Answer) -> Effects | Told:
            if answer.status not in UNKNOWN | {204}:
                self._count_reason(answer)
                if reason(answer) == "provider_generation":
                    self._look_again(name)
                    return {name: registers.refused(sent)}
                return self._refused_consumer(
                    answer, {one: seen for one, (seen, _) in entries.items()}
                )
            told = self._wrote(answer, entries, reshaped=name)
            effects = dict(*told.ways)
            # One step as the new records come, one as the old ones go, one if it is claimed of.
            claimed = any(name in held for _, held in entries.values())
            gone = any(not held for _, held in entries.values())
            steps = (3,) if claimed else (2, 3) if gone else (2,)
            effects[name] = registers.stocked(sent, frozenset(stock.items()), None, steps)
            self._seen.pop(name, None)
            return Told([effects], told.rules)

        self._do("reshape", "POST", "/reshaper", body, read)

    # Providers

    def put_inventories(self) -> None:
        """Replace all inventories of a provider."""
        name, stock = self._provider(), self._stock()
        sent = self._generation(name) or 0
        body = bodies.stock(sent, stock)
        pairs = frozenset(stock.items())
        effect = lambda answered: registers.stocked(sent, pairs, answered)  # noqa: E731
        self._write_provider(name, "inventories", body, sent, effect)

    def put_traits(self) -> None:
        """Replace the traits of a provider."""
        name = self._provider()
        sent = self._generation(name) or 0
        traits = frozenset([self._chance.choice(("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"))])
        body = {"resource_provider_generation": sent, "traits": sorted(traits)}
        effect = lambda answered: registers.characterised(sent, traits, answered)  # noqa: E731
        self._write_provider(name, "traits", body, sent, effect)

    def put_aggregates(self) -> None:
        """Replace the aggregates of a provider."""
        name = self._provider()
        sent = self._generation(name) or 0
        body = {"resource_provider_generation": sent, "aggregates": [self._provider()]}
        effect = lambda answered: registers.aggregated(sent, answered)  # noqa: E731
        self._write_provider(name, "aggregates", body, sent, effect)

    def _write_provider(
        self, name: str, part: str, body: Any, sent: int, effect: Callable[[int | None], Effect]
    ) -> None:
        """Replace a part of a provider, with a generation."""

        def read(answer: Answer) -> Effects | Told:
            self._count_reason(answer)
            if answer.status in UNKNOWN:
                return {name: effect(None)}
            if answer.status == 200:
                answered = answer.json["resource_provider_generation"]
                self._seen.pop(name, None)
                return {name: effect(answered)}
            if reason(answer) == "provider_generation":
                self._look_again(name)
                return {name: registers.refused(sent)}
            if reason(answer) == "inventory_in_use":
                lost = set(CLASSES) - body["inventories"].keys()
                return Told([{name: registers.present()}], [whole.in_use(name, lost, self._called)])
            return {name: registers.absent()} if answer.status == 404 else {}

        self._do(f"PUT {part}", "PUT", f"/resource_providers/{name}/{part}", body, read)

    def add_inventory(self) -> None:
        """Add the record of a class without a generation."""
        name, kind, total = self._provider(), self._chance.choice(CLASSES), 7
        path = f"/resource_providers/{name}/inventories"

        def read(answer: Answer) -> Effects:
            if answer.status in UNKNOWN:
                return {name: registers.added(kind, total, None)}
            if answer.status == 201:
                answered = answer.json["resource_provider_generation"]
                return {name: registers.added(kind, total, answered)}
            if reason(answer) == "inventory_exists":
                return {name: registers.had(kind)}
            return {name: registers.absent()} if answer.status == 404 else {}

        self._do("POST inventories", "POST", path, {"resource_class": kind, "total": total}, read)

    def delete_inventory(self) -> None:
        """Delete the record of a class."""
        name, kind = self._provider(), self._chance.choice(CLASSES)

        def read(answer: Answer) -> Effects | Told:
            if answer.status in UNKNOWN | {204}:
                return {name: registers.lost(kind)}
            if answer.status == 404:
                return {name: registers.lacked(kind)}
            return Told([{name: registers.had(kind)}], [whole.in_use(name, [kind], self._called)])

        path = f"/resource_providers/{name}/inventories/{kind}"
        self._do("DELETE inventory", "DELETE", path, None, read)

    def delete_inventories(self) -> None:
        """Delete all records."""
        name = self._provider()
        path = f"/resource_providers/{name}/inventories"
        self._remove("DELETE inventories", path, name, registers.emptied())

    def delete_provider(self) -> None:
        """Delete a provider, which is refused while it is used."""
        name = self._provider()
        self._remove("DELETE provider", f"/resource_providers/{name}", name, registers.removed())

    def _remove(self, what: str, path: str, name: str, effect: Effect) -> None:
        def read(answer: Answer) -> Effects | Told:
            if answer.status in UNKNOWN | {204}:
                return {name: effect}
            if answer.status == 404:
                return {name: registers.absent()}
            return Told([{name: registers.present()}], [whole.in_use(name, CLASSES, self._called)])

        self._do(what, "DELETE", path, None, read)

    def create_provider(self) -> None:
        """Make a provider, which is refused while there is one."""
        name = self._provider()

        def read(answer: Answer) -> Effects:
            made = answer.status in UNKNOWN | {200}
            return {name: registers.created() if made else registers.present()}

        body = {"name": name, "uuid": name}
        self._do("POST provider", "POST", "/resource_providers", body, read)

    # Reading

    def look_at_provider(self, name: str | None = None) -> None:
        """Read the inventories of a provider."""
        name = name or self._provider()

        def read(answer: Answer) -> Effects:
            if answer.status != 200:
                self._seen[name] = None
                return {name: registers.absent()} if answer.status == 404 else {}
            records = answer.json["inventories"].items()
            stock = frozenset((kind, record["total"]) for kind, record in records)
            generation = answer.json["resource_provider_generation"]
            self._seen[name] = (generation,)
            return {name: registers.shown(generation, stock)}

        self._do("GET provider", "GET", f"/resource_providers/{name}/inventories", None, read)

    def look_at_consumer(self, name: str | None = None) -> None:
        """Read a consumer, with the generations of its providers."""
        name = name or self._consumer()

        def read(answer: Answer) -> Effects:
            if answer.status != 200:
                return {}
            shown = answer.json["allocations"]
            held = {provider: each["resources"] for provider, each in shown.items()}
            state = (answer.json["consumer_generation"], registers.triples(held)) if held else None
            self._seen[name] = state
            effects = {p: registers.seen_at(each["generation"]) for p, each in shown.items()}
            return effects | {name: registers.seen(state)}

        self._do("GET consumer", "GET", f"/allocations/{name}", None, read)

    def _count_reason(self, answer: Answer) -> None:
        if answer.status == 409:
            self._history.counts[f"refused: {reason(answer)}"] += 1


def reason(answer: Answer) -> str | None:
    """Return the reason of a refusal, which versions before 1.23 do not tell."""
    if answer.status < 400:
        return None
    reason = answer.json["errors"][0].get("reason")
    return None if reason is None else str(reason)


def _perhaps(effect: Effect) -> Effect:
    """It took place for this object or did not concern it."""
    return lambda state: [state, *effect(state)]

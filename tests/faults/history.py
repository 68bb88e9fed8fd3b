"""What clients did and what came of it: the books that the database must agree with at the end.

A write whose answer was lost is *open*: it may have happened, or may still happen as long as the
generation it carries is the present one. Reading again settles it (PROMISE 6).
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Sets = Mapping[str, Mapping[str, int]]
"""Amounts by class by provider uuid."""


class Violation(AssertionError):
    """The service broke a promise."""


@dataclass
class Books:
    """What all clients know together. ``steps``: applied writes that move a provider's generation."""

    counts: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """Count an event."""
        with self._lock:
            self.counts[what] += 1

    def step(self, provider_uuids: Any) -> None:
        """Note that a write which names these providers was applied."""
        with self._lock:
            self.steps.update(provider_uuids)

    def blame(self, violation: str) -> None:
        """Note a broken promise."""
        with self._lock:
            self.violations.append(violation)


@dataclass
class ConsumerBook:
    """The life of one consumer, of which one client is the only writer.

    ``generation`` is None while there is no consumer. ``open``: (generation sent, sets) of writes whose
    outcome is unknown and that may still happen.
    """

    uuid: str
    books: Books
    generation: int | None = None
    sets: Sets = field(default_factory=dict)
    open: list[tuple[int | None, Sets]] = field(default_factory=list)

    def applied(self, sets: Sets) -> None:
        """A write took place: every open one of the generation before it never will."""
        self.books.step(list(sets or self.sets))
        self.generation = ((self.generation or 0) + 1) if sets else None
        self.sets = sets
        # A creation may come true whenever there is no consumer; see ``may_end``.
        self.open = [each for each in self.open if each[0] is None]

    @property
    def may_end(self) -> bool:
        """No creation is open that could bring the consumer back."""
        return not any(generation is None for generation, _ in self.open)

    def read(self, generation: int | None, sets: Sets) -> None:
        """Compare with what the service says, which settles open writes.

        :raises Violation: it is neither the last known state nor an open write.
        """
        if generation == self.generation and sets == self.sets:
            return
        expected = ((self.generation or 0) + 1) if sets else None
        if generation == expected and (self.generation, sets) in self.open:
            self.books.count("settled: had happened")
            self.open.remove((self.generation, sets))
            self.applied(sets)
            return
        raise Violation(
            f"consumer {self.uuid} is {generation}, {sets}; known is {self.generation}, "
            f"{self.sets}; open are {self.open}"
        )


@dataclass
class AggregatesBook:
    """The aggregates of one provider, of which one client is the only writer."""

    provider: str
    books: Books
    known: str | None = None
    open: list[tuple[int, str]] = field(default_factory=list)
    highest: int = 0

    def applied(self, name: str, generation: int) -> None:
        """The write that was sent with this generation took place."""
        self.books.step([self.provider])
        self.known = name
        self.open = [each for each in self.open if each[0] > generation]

    def read(self, generation: int, names: list[str]) -> None:
        """Compare with what the service says, which settles open writes.

        :raises Violation: a write is half there, or the generation went back.
        """
        if generation < self.highest:
            raise Violation(f"generation of {self.provider} went back to {generation}")
        self.highest = generation
        shown = names[0] if names else None
        if shown != self.known:
            sent = {name: sent for sent, name in self.open}
            if len(names) != 1 or shown not in sent or sent[shown] >= generation:
                raise Violation(f"aggregates of {self.provider} are {names}, known {self.known}")
            self.books.count("settled: had happened")
            self.applied(shown, sent[shown])
        self.open = [each for each in self.open if each[0] >= generation]

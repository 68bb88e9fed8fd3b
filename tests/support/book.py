"""What clients did and what came of it: the one book, kept while they write and judged afterwards.

Two ways to note a write. What many clients write is noted as operations, on single objects and on all of them
together, of which the checker finds whether any order explains them. What only one client writes has a page
of its own, which says at each answer whether it can be: a write whose answer was lost is *open*, it may have
happened or may still happen as long as the generation it carries is the present one. Reading again settles
it (PROMISE 6).
"""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from tests.support import checker, registers, whole
from tests.support.bodies import Sets
from tests.support.checker import Operation
from tests.support.client import Answer
from tests.support.whole import Effects, Told


class Violation(AssertionError):
    """The service broke a promise."""


@dataclass
class Book:
    """What all clients know together. ``steps``: applied writes that move a provider's generation."""

    counts: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    operations: defaultdict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    together: list[Operation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """Count an event."""
        with self._lock:
            self.counts[what] += 1

    def step(self, provider_uuids: Iterable[str]) -> None:
        """Note that a write which names these providers was applied."""
        with self._lock:
            self.steps.update(list(provider_uuids))

    def blame(self, violation: str) -> None:
        """Note a broken promise."""
        with self._lock:
            self.violations.append(violation)

    def answered(self, what: str, answer: Answer, sent: str) -> None:
        """Count an answer; an error of the service is a broken promise."""
        self.count(f"{what} {answer.status or 'no answer'}")
        if answer.status >= 500 and not answer.lost:
            self.blame(f"{sent}: {answer.status} {answer.text[:500]}")

    def note(
        self, what: str, called: float, answer: Answer, told: Effects | Told, sent: str
    ) -> None:
        """Add one request to the operations, with what its answer says."""
        returned = math.inf if answer.lost else time.monotonic()
        self.answered(what, answer, sent)
        text = f"{sent} {answer.status} {answer.text[:160]}"
        self._add(called, returned, told if isinstance(told, Told) else Told([told]), text)

    def note_end(self, consumer: str, hold: registers.Hold) -> None:
        """Note that a hold may end by itself when it is over."""
        told = Told([{consumer: registers.ended(hold)}])
        self._add(hold[0], math.inf, told, "the hold is over")

    def _add(self, called: float, returned: float, told: Told, text: str) -> None:
        when = f"{called:.6f} to {returned:.6f}"
        with self._lock:
            for name, effect in told.each.items():
                operation = Operation(called, returned, effect, f"{when} {name[:4]}: {text}")
                self.operations[name].append(operation)
            if told.says_something:
                operation = Operation(called, returned, told.together, f"{when}: {text}")
                self.together.append(operation)

    def judge(self) -> int:
        """Blame each history that no order explains; return how many configurations were tried."""
        tried = sum(self._judged(name, each, None) for name, each in self.operations.items())
        if self.violations:
            # What is wrong with one object is wrong with all, and told in more lines.
            return tried
        return tried + self._judged("together", self.together, whole.start(self.operations))

    def _judged(self, name: str, operations: Iterable[Operation], initial: Hashable) -> int:
        try:
            return checker.check(operations, initial)
        except (checker.NotLinearizable, checker.Undecided) as wrong:
            self.blame(f"{name}: {wrong}")
            return 0


@dataclass
class ConsumerPage:
    """The life of one consumer, of which one client is the only writer.

    ``generation`` is None while there is no consumer. ``open``: (generation sent, sets) of writes whose
    outcome is unknown and that may still happen.
    """

    uuid: str
    book: Book
    generation: int | None = None
    sets: Sets = field(default_factory=dict)
    open: list[tuple[int | None, Sets]] = field(default_factory=list)

    def answered(self, answer: Answer, sets: Sets) -> bool:
        """Note the answer to a write of these sets; return whether it was applied."""
        if answer.status == 204:
            self.applied(sets)
        elif answer.lost:
            self.open.append((self.generation, sets))
        return answer.status == 204

    def applied(self, sets: Sets) -> None:
        """A write took place: every open one of the generation before it never will."""
        self.book.step(sets or self.sets)
        self.generation = registers.generation_after(self.generation, sets)
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
        expected = registers.generation_after(self.generation, sets)
        if generation == expected and (self.generation, sets) in self.open:
            self.book.count("settled: had happened")
            self.open.remove((self.generation, sets))
            self.applied(sets)
            return
        raise Violation(
            f"consumer {self.uuid} is {generation}, {sets}; known is {self.generation}, "
            f"{self.sets}; open are {self.open}"
        )


@dataclass
class AggregatesPage:
    """The aggregates of one provider, of which one client is the only writer."""

    provider: str
    book: Book
    known: str | None = None
    open: list[tuple[int, str]] = field(default_factory=list)
    highest: int = 0

    def applied(self, name: str, generation: int) -> None:
        """The write that was sent with this generation took place."""
        self.book.step([self.provider])
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
            self.book.count("settled: had happened")
            self.applied(shown, sent[shown])
        self.open = [each for each in self.open if each[0] >= generation]

"""What clients did and what came of it: the one book, kept while they write and judged afterwards.

What many clients write is noted as operations, on single objects and on all of them together. The checker
finds whether any order explains them.
"""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from tests.support import checker, registers, whole
from tests.support.checker import Operation
from tests.support.client import Answer
from tests.support.whole import Effects, Told


class Violation(AssertionError):
    """The service broke a promise."""


@dataclass
class Book:
    """What all clients know together."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    operations: defaultdict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    together: list[Operation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """Count an event."""
        with self._lock:
            self.counts[what] += 1

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

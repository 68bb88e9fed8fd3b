"""What clients did and what came of it: the one book, kept while they write and judged afterwards."""

import threading
from collections import Counter
from dataclasses import dataclass, field

from tests.support.client import Answer


class Violation(AssertionError):
    """The service broke a promise."""


@dataclass
class Book:
    """What all clients know together."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
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

"""Questions that arrive while others are being answered: those that waited are answered together.

One thread of a process has a turn at a time. What arrives meanwhile waits, and the first of those that waited
leads: its turn is that of them all.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from placement import errors

Q = TypeVar("Q")
A = TypeVar("A")

MOST = 32
"""The largest number of questions that are answered together."""

PATIENCE_S = 0.5
"""The time after which a question whose turn has not come is answered alone: the others may wait for a lock
that it does not need.
"""


@dataclass(slots=True, eq=False)
class Participant(Generic[Q, A]):
    """A question, and what became of it while it waited.

    ``led``: the questions that are answered in this turn, this one first; none if it did not wait, or was
    not the first of those that waited. ``answer``: None if it is to be answered alone.
    """

    question: Q
    led: "Sequence[Participant[Q, A]]" = ()
    answer: A | None = None
    error: type[errors.PlacementError] | None = None
    woken: threading.Event = field(default_factory=threading.Event)

    def tell(self, answers: Sequence[A]) -> None:
        """Answer all that are led, which continue at once."""
        for each, answer in zip(self.led, answers, strict=True):
            each.answer = answer
            each.woken.set()


class ClaimBatcher(Generic[Q, A]):
    """Batches the questions of one kind that threads of a process ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Participant[Q, A]] = deque()
        self._is_busy = False

    @contextmanager
    def take_turn(self, question: Q) -> Iterator[Participant[Q, A]]:
        """Wait while another thread has its turn; that of this one is over with the block.

        :raises OutcomeUnknown: as the block that led this question did.
        """
        mine = Participant[Q, A](question)
        with self._lock:
            waits, self._is_busy = self._is_busy, True
            if waits:
                self._waiting.append(mine)
        if waits:
            self._wait(mine)
            if mine.error is not None:
                raise mine.error
            if not mine.led:
                yield mine
                return
        try:
            yield mine
        except errors.OutcomeUnknown:
            # The COMMIT was that of all claims. Each may be stored: asked again by itself, a claim would be
            # refused for what may be its own.
            for each in mine.led:
                each.error = errors.OutcomeUnknown
            raise
        finally:
            for each in mine.led:
                each.woken.set()
            # All that came meanwhile continue as one turn, which the first of them leads. It is still busy
            # then: nobody who comes now passes them.
            with self._lock:
                led = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
                self._is_busy = bool(led)
            if led:
                led[0].led = led
                led[0].woken.set()

    def _wait(self, mine: Participant[Q, A]) -> None:
        if mine.woken.wait(PATIENCE_S):
            return
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        # Another has taken it up by now: its answer is on its way.
        mine.woken.wait()

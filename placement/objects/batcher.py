"""Batches of questions: questions that arrive while others are answered are answered together.

One thread of a process answers at a time. Questions that arrive meanwhile wait, and the thread of the first
one then answers them all. After an answer to several, it first waits a moment for as many again: otherwise
those that were just answered would always come too late, and wait for the answer to the few that were there.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from placement import errors

LOG = logging.getLogger(__name__)

Q = TypeVar("Q")
A = TypeVar("A")

MOST = 32
"""The largest number of questions that are answered together."""

PATIENCE_S = 0.5
"""The time after which a waiting question is answered alone: the others may wait for a lock that it does
not need.
"""

GATHER_SHARE, MOST_GATHER_S = 0.5, 0.05
"""The longest wait for as many questions as were answered last: a share of the time that this took, and a
bound for answers that waited for a lock.
"""


@dataclass(slots=True, eq=False)
class Participant(Generic[Q, A]):
    """A question, and its result while it waited.

    ``led``: the questions that this thread answers, its own first; empty if it does not have the turn.
    ``answer``: None if the question must be answered alone.
    """

    question: Q
    led: "Sequence[Participant[Q, A]]" = ()
    answer: A | type[errors.PlacementError] | None = None
    woken: threading.Event = field(default_factory=threading.Event)

    def answer_together(
        self,
        answer_all: Callable[[Sequence[Q]], Sequence[A | type[errors.PlacementError] | None]],
        alone: A | None = None,
    ) -> None:
        """Answer the led questions together, if there are several.

        :param answer_all: the function that returns the answers to some questions, in order.
        :param alone: the answer to each question if the function fails.
        """
        if len(self.led) < 2:
            return
        answers: Sequence[A | type[errors.PlacementError] | None] = [alone] * len(self.led)
        try:
            answers = answer_all([each.question for each in self.led])
        except errors.OutcomeUnknown:
            # All of them shared the COMMIT, and each may be stored. A repeated claim could be refused because
            # of its own allocations.
            answers = [errors.OutcomeUnknown] * len(self.led)
        except errors.PlacementError:
            # The error belongs to one of the questions, and must not be the answer to the others.
            pass
        except Exception as error:
            # So does this error, for example that of a trigger which an operator has added.
            LOG.warning("Requests are answered one by one, since all together failed: %s", error)
        self.tell(answers)

    def tell(self, answers: Sequence[A | type[errors.PlacementError] | None]) -> None:
        """Give their answers to all led questions, whose threads continue at once.

        :param answers: in the order of ``led``; an error is raised by the thread that asked.
        """
        for each, answer in zip(self.led, answers, strict=True):
            each.answer = answer
            each.woken.set()

    def result(self) -> A | None:
        """Return the answer, None if the question must be answered alone; raise an error."""
        if isinstance(self.answer, type):
            raise self.answer
        return self.answer


class Batcher(Generic[Q, A]):
    """A batcher of the questions of one kind that threads of a process ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._waiting: deque[Participant[Q, A]] = deque()
        self._is_busy = self._is_slow = False
        self._expected, self._gather_until_s = 0, 0.0

    @contextmanager
    def take_turn(self, question: Q) -> Iterator[Participant[Q, A]]:
        """Wait while another thread answers; this thread can answer until the end of the block."""
        mine = Participant[Q, A](question)
        with self._lock:
            waits, passes = self._is_busy, self._is_slow
            self._is_busy = True
            if not waits:
                mine.led = [mine]
            elif not passes:
                self._waiting.append(mine)
                if len(self._waiting) >= self._expected - 1:
                    self._arrived.notify()
        if waits and not passes:
            self._wait(mine)
        if not mine.led:
            yield mine
            return
        began_s = monotonic()
        try:
            self._gather(mine)
            began_s = monotonic()
            yield mine
        finally:
            self._end_turn(mine, monotonic() - began_s)

    def _gather(self, mine: Participant[Q, A]) -> None:
        """Wait until as many questions are there as were answered together last; lead all that are there."""
        with self._lock:
            left_s = self._gather_until_s - monotonic()
            if left_s > 0:
                self._arrived.wait_for(
                    lambda: self._is_slow or len(self._waiting) >= self._expected - 1, left_s
                )
            number = min(len(self._waiting), MOST - 1)
            mine.led = [mine, *(self._waiting.popleft() for _ in range(number))]

    def _end_turn(self, mine: Participant[Q, A], took_s: float) -> None:
        """Let the first question that waits have the next turn."""
        for each in mine.led:
            each.woken.set()
        with self._lock:
            self._expected = len(mine.led)
            # If half as many questions wait already, clients ask without waiting for these answers. The wait
            # would then only cost time.
            gathers = self._expected > 1 and len(self._waiting) < self._expected / 2
            wait_s = min(GATHER_SHARE * took_s, MOST_GATHER_S) if gathers else 0.0
            self._gather_until_s = monotonic() + wait_s
            # The batcher stays busy, so that no later question passes those that wait.
            self._is_busy, self._is_slow = bool(self._waiting), False
            if self._waiting:
                first = self._waiting.popleft()
                first.led = [first]
                first.woken.set()
        # Without this reference of the participant to itself it is freed at once.
        mine.led = ()

    def _wait(self, mine: Participant[Q, A]) -> None:
        try:
            self._wait_for_answer(mine)
        except BaseException:
            # An exception ends this thread, so no other question may wait for this one.
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
            if mine.led:
                self._end_turn(mine, 0.0)
            raise

    def _wait_for_answer(self, mine: Participant[Q, A]) -> None:
        if mine.woken.wait(PATIENCE_S):
            return
        with self._lock:
            if mine in self._waiting:
                # The present answer takes long. No other question waits for it: neither those that wait
                # already, nor those that come before the answer is there.
                self._is_slow = True
                self._arrived.notify()
                for each in self._waiting:
                    each.woken.set()
                self._waiting.clear()
                return
        # Another thread has taken the question up by now, and its answer will arrive.
        mine.woken.wait()

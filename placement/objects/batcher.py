"""Batches of questions: questions that arrive while others are answered are answered together.

One thread of a process answers at a time. Questions that arrive meanwhile wait, and the thread of the first
one then answers them all. If a COMMIT takes long, the next turn begins with it, not after it.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
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

SLOW_COMMIT_S = 0.004
"""The duration of COMMITs from which on the next turn begins with one: docs/performance.rst, "Many clients at
once".
"""


@dataclass(slots=True, eq=False)
class Participant(Generic[Q, A]):
    """A question, and its result while it waited.

    ``led``: the questions that this thread answers together, its own first; empty if it did not wait, or was
    not the first that waited. ``answer``: None if the question must be answered alone. ``turn``: the
    batcher whose turn this thread has. ``committing_s``: when its COMMIT began, and ``has_passed``: whether
    the next turn began with it.
    """

    question: Q
    led: "Sequence[Participant[Q, A]]" = ()
    answer: A | type[errors.PlacementError] | None = None
    woken: threading.Event = field(default_factory=threading.Event)
    turn: "Batcher[Q, A] | None" = None
    committing_s: float | None = None
    has_passed: bool = False

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

    def note_commit(self) -> None:
        """Note that the COMMIT begins; the next turn begins with it if the last one took long."""
        if self.turn is not None and not self.has_passed:
            self.committing_s = perf_counter()
            self.has_passed = self.turn.begin_next_if_slow()

    def result(self) -> A | None:
        """Return the answer, None if the question must be answered alone; raise an error."""
        if isinstance(self.answer, type):
            raise self.answer
        return self.answer


class Batcher(Generic[Q, A]):
    """A batcher of the questions of one kind that threads of a process ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Participant[Q, A]] = deque()
        self._is_busy = self._is_slow = False
        # The shortest of the last ones counts: others may only have waited for the processor.
        self._commits_s = deque([0.0], maxlen=8)

    @contextmanager
    def take_turn(self, question: Q) -> Iterator[Participant[Q, A]]:
        """Wait while another thread answers; this thread can answer until the end of the block."""
        mine = Participant[Q, A](question)
        with self._lock:
            waits, passes = self._is_busy, self._is_slow
            self._is_busy = True
            if waits and not passes:
                self._waiting.append(mine)
        if waits:
            if not passes:
                self._wait(mine)
            if not mine.led:
                yield mine
                return
        mine.turn = self
        try:
            yield mine
        finally:
            self._end_turn(mine)

    def begin_next_if_slow(self) -> bool:
        """Begin the next turn, if the last COMMIT took long; return whether it has begun."""
        # It needs nothing of this turn that the database does not make it wait for.
        with self._lock:
            is_slow = min(self._commits_s) > SLOW_COMMIT_S
        if is_slow:
            self._begin_next_turn()
        return is_slow

    def _end_turn(self, mine: Participant[Q, A]) -> None:
        # What is written alone may wait for a lock in the same message as COMMIT.
        if mine.committing_s is not None and len(mine.led) > 1:
            with self._lock:
                self._commits_s.append(perf_counter() - mine.committing_s)
        for each in mine.led:
            each.woken.set()
        if not mine.has_passed:
            self._begin_next_turn()

    def _begin_next_turn(self) -> None:
        """Let all questions that have arrived continue as one batch, led by the first."""
        # The batcher stays busy, so that no later question passes those that wait.
        with self._lock:
            led = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
            self._is_busy, self._is_slow = bool(led), False
        if led:
            led[0].led = led
            led[0].woken.set()

    def _wait(self, mine: Participant[Q, A]) -> None:
        try:
            self._wait_for_answer(mine)
        except BaseException:
            # Something ended this thread. Nobody may wait for it.
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
            if mine.led:
                self._end_turn(mine)
            raise

    def _wait_for_answer(self, mine: Participant[Q, A]) -> None:
        if mine.woken.wait(PATIENCE_S):
            return
        with self._lock:
            if mine in self._waiting:
                # The present answer takes long. Nobody else waits for it: neither those who wait already, nor
                # those who come before it is there.
                self._is_slow = True
                for each in self._waiting:
                    each.woken.set()
                self._waiting.clear()
                return
        # Another thread has taken the question up by now, and its answer will arrive.
        mine.woken.wait()

"""Queues: for the one writer of a SQLite file, and for a database that does not answer."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from sqlalchemy import exc

from placement import errors
from placement.db import driver_errors

SILENCE_S = 2.0
"""A connection that is lost, or not made, after a longer wait than this means that the database is silent."""

TURN_S = 0.5
"""How long other requests wait for the result of the one that tries a silent database."""


class FrozenDatabaseGuard:
    """A guard that remembers whether the database answered when it was last used.

    A frozen database would block every thread of a server until the deadlines. After the first failed wait,
    one thread at a time tries, and the other requests are refused after ``TURN_S``.
    """

    def __init__(self) -> None:
        self._is_silent = False
        self._trial = threading.Lock()

    @contextmanager
    def notice(self) -> Iterator[None]:
        """Use the database in the block, and remember whether it was silent.

        :raises errors.DatabaseUnavailable: the database is silent, and another thread is trying it.
        """
        on_trial = self._is_silent
        if on_trial and not self._trial.acquire(timeout=TURN_S):
            raise errors.DatabaseUnavailable()
        began = time.monotonic()
        try:
            yield
        except exc.TimeoutError:
            # All connections are in use, which says nothing about the database.
            raise
        except BaseException as error:
            lost = isinstance(error, errors.OutcomeUnknown) or driver_errors.is_disconnect(error)
            self._is_silent = lost and time.monotonic() - began > SILENCE_S
            raise
        else:
            self._is_silent = False
        finally:
            if on_trial:
                self._trial.release()


PATIENT_WRITERS = 3
"""The number of threads that may wait up to the deadline. The others are needed for reading."""

PATIENCE_S = 3.0
"""How long any further thread waits for one writer, which takes milliseconds. A writer waits longer for
other processes, which SQLite does by polling: with four processes of eight writers each, without a pause,
0.5 % were refused after 1 s and none of 12,000 after 3 s.
"""

SHORTEST_WAIT_S = 0.05


class WriterQueue:
    """A queue that lets one thread write; a re-entrant context manager.

    If another program has locked the file, the writing thread waits in the database, and all other writers
    wait here. The limit of waiting threads leaves threads for reads, which remain possible.

    :param deadline_s: the longest wait of the first threads in the queue.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._turn = threading.RLock()
        self._count = threading.Lock()
        self._waiting = 0
        self._writing_since = time.monotonic()

    def __enter__(self) -> Self:
        """Wait until this thread can write.

        :raises errors.DatabaseBusy: another thread writes for too long.
        """
        with self._count:
            patient = self._waiting < PATIENT_WRITERS
            self._waiting += 1
        try:
            self._wait(patient)
        finally:
            with self._count:
                self._waiting -= 1
        self._writing_since = time.monotonic()
        return self

    def enter_within(self, wait_s: float) -> None:
        """Wait at most this time until this thread can write.

        :raises errors.DatabaseBusy: another thread still writes.
        """
        if not self._turn.acquire(timeout=wait_s):
            raise errors.DatabaseBusy()
        self._writing_since = time.monotonic()

    def _wait(self, patient: bool) -> None:
        deadline = time.monotonic() + self._deadline_s
        end = deadline
        while True:
            since = self._writing_since
            if not patient:
                end = min(deadline, since + PATIENCE_S)
            left_s = end - time.monotonic()
            if self._turn.acquire(timeout=max(left_s, SHORTEST_WAIT_S)):
                return
            # If another thread was faster, the wait begins again, until the deadline.
            if left_s <= 0.0 and (end == deadline or self._writing_since == since):
                raise errors.DatabaseBusy()

    def __exit__(self, *_: object) -> None:
        self._writing_since = time.monotonic()
        self._turn.release()


@dataclass(frozen=True)
class BriefQueue:
    """A queue that is entered within a number of seconds or not at all; a context manager."""

    queue: WriterQueue
    wait_s: float

    def __enter__(self) -> Self:
        """Enter the queue; raise the errors of :meth:`WriterQueue.enter_within`."""
        self.queue.enter_within(self.wait_s)
        return self

    def __exit__(self, *_: object) -> None:
        self.queue.__exit__()

"""The queue of those who write to a file that has one writer at a time (SQLite)."""

import threading
import time
from typing import Self

from placement import errors

PATIENT_WRITERS = 3
"""How many threads may wait as long as it takes, up to the deadline. The others are needed for reading."""

PATIENCE_S = 3.0
"""How long the others wait for one and the same writer.

A transaction takes milliseconds, so nobody is refused for the company of other writers of this process. He
who writes may have to wait for other processes, and SQLite has no queue for them, it polls: of four
processes with eight writers each, without a pause, 0.5 % were refused after 1 s and none of 12,000 after 3.
"""

SHORTEST_WAIT_S = 0.05


class WriterQueue:
    """Lets one thread write; a context manager, for one thread also inside itself.

    When the file is locked by another program, he who writes waits in the database and everybody else
    here. A server would soon have no thread left to read with, which is possible all the time.

    :param deadline_s: how long the first in line wait.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._turn = threading.RLock()
        self._count = threading.Lock()
        self._waiting = 0
        self._writing_since = time.monotonic()

    def __enter__(self) -> Self:
        """Wait for the turn.

        :raises errors.DatabaseBusy: somebody holds it for too long.
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
            # Somebody else who has got the turn meanwhile begins anew to be waited for.
            if left_s <= 0.0 and (patient or self._writing_since == since):
                raise errors.DatabaseBusy()

    def __exit__(self, *_: object) -> None:
        self._writing_since = time.monotonic()
        self._turn.release()

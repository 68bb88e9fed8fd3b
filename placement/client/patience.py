"""How often and for how long a client starts over after conflicts (specification 05 section C8)."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from placement.client import exceptions as exc

LOG = logging.getLogger(__name__)

ATTEMPTS = 4
RESHAPE_TIMEOUT_S = 60.0

# The pause between two attempts is a random part of this value, so that conflicting agents fall out of step.
PAUSE_AT_MOST_S = 0.05

_T = TypeVar("_T")


@dataclass(frozen=True)
class Patience:
    """The bounds of repetition:

    a reshape is tried for ``reshape_s`` seconds, and any change at least ``attempts`` times. Claims on a busy
    host move its generation many times a second, and each can cost one attempt.
    """

    attempts: int = ATTEMPTS
    reshape_s: float = RESHAPE_TIMEOUT_S
    clock: Callable[[], float] = time.monotonic

    def redrive(self, attempt: Callable[[], _T]) -> _T:
        """Repeat an attempt while it ends in conflicts.

        After the last attempt a reshape raises ReshapeFailed; any other change raises the last conflict.
        """
        until = self.clock() + self.reshape_s
        number = 0
        while True:
            number += 1
            try:
                return attempt()
            except exc.PlacementAPIConflict as conflict:
                reshaping = isinstance(conflict, exc.ReshapeConflict)
                if number >= self.attempts and not (reshaping and self.clock() < until):
                    if not reshaping:
                        raise
                    raise exc.ReshapeFailed(
                        f"{number} attempts met conflicts, the last: {conflict.error}",
                        request_id=conflict.request_id,
                    ) from conflict
                LOG.info("Attempt %d starts over: %s", number, conflict)
            time.sleep(random.uniform(0, PAUSE_AT_MOST_S))  # noqa: S311

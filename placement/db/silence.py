"""Whether the database has fallen silent: then one waits for it, and the others need not."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from placement import errors
from placement.db import driver_errors

LONG_S = 2.0
"""Whoever loses, or does not get, a connection after waiting for longer has met silence."""

TURN_S = 0.5
"""How long the others wait for news from the one who tries."""


class Silence:
    """What those who used the database last found.

    A frozen database would take every thread of a server for as long as the deadlines allow, one
    request after the other. Once a thread has waited in vain, one at a time tries, and the others are
    refused after ``TURN_S``, until somebody has heard the database again: the server stays able to say so.
    """

    def __init__(self) -> None:
        self._is_silent = False
        self._trial = threading.Lock()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Use the database inside, and learn from what comes of it.

        :raises errors.DatabaseUnavailable: it is silent, and somebody else waits for it already.
        """
        on_trial = self._is_silent and self._take_turn()
        began = time.monotonic()
        try:
            yield
        except exc.TimeoutError:
            # All connections are in use, which tells nothing of the database.
            raise
        except BaseException as error:
            lost = isinstance(error, errors.OutcomeUnknown) or driver_errors.is_disconnect(error)
            self._is_silent = lost and time.monotonic() - began > LONG_S
            raise
        else:
            self._is_silent = False
        finally:
            if on_trial:
                self._trial.release()

    def _take_turn(self) -> bool:
        if not self._trial.acquire(timeout=TURN_S):
            raise errors.DatabaseUnavailable()
        return True

"""The removal of old rows of the history in small parts, after answers (specification 07 section 11.4)."""

import logging
import random
import threading
import time

from sqlalchemy import exc

from placement import errors
from placement.db.database import Database
from placement.extensions.history import history_rows

LOG = logging.getLogger(__name__)

MOST_AT_ONCE = 500
"""The number of rows that one transaction deletes."""

PAUSES_S = (1.0, 60.0)
"""The pauses between two parts: while more rows remain, and otherwise."""


class Trimmer:
    """A remover of the old rows of one database, made with the application. Each worker has one.

    :param days: the number of days for which a row is kept.
    """

    def __init__(self, db: Database, days: float) -> None:
        self._db = db
        self._days = days
        self._one = threading.Lock()
        self._next_s = time.monotonic() + _vary(PAUSES_S[1])

    def is_due(self) -> bool:
        """Return whether some rows may be too old, without a query."""
        return time.monotonic() >= self._next_s

    def go_on(self) -> None:
        """Delete a part of the rows that are too old; database errors are caught."""
        if not self._one.acquire(blocking=False):
            return
        try:
            done = self._db.write(
                lambda tx: history_rows.remove_old(tx, self._days, MOST_AT_ONCE)
            )
            self._next_s = time.monotonic() + _vary(PAUSES_S[done < MOST_AT_ONCE])
        except (errors.PlacementError, exc.SQLAlchemyError) as error:
            self._next_s = time.monotonic() + PAUSES_S[1]
            LOG.warning("Old rows of the history stay for the moment: %s", error)
        finally:
            self._one.release()


def _vary(seconds: float) -> float:
    # The first time is random, because the workers of a server start at once.
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311

"""A line in the log while connections to the database are lost (specification 06 section 5).

Transactions are begun again, so clients see nothing, and without the log operators would not notice an
unstable database.
"""

import logging
import math
import threading
import time
from collections.abc import Callable

LOG = logging.getLogger(__name__)

PAUSE_S = 60
"""The shortest time between two lines of the log."""


class LostConnections:
    """A counter of the lost connections of this process.

    There is no thread for the log: the first loss is logged at once, later ones after a minute, by the next
    loss or use of the database. ``untold``: some losses are not logged yet.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lost = self._repeated = 0
        self._next_s = -math.inf
        self._last = ""
        self.untold = False

    def note(self, error: BaseException, *, is_repeated: bool) -> None:
        """Count a connection lost with this error, and whether its transaction is begun again."""
        with self._lock:
            self._lost += 1
            self._repeated += is_repeated
            self._last = " ".join(str(error).split())
            self.untold = True
        self.tell_if_due()

    def tell_if_due(self) -> None:
        """Log the number of losses since the last line, unless that line is less than a minute old."""
        with self._lock:
            now_s = self._clock()
            if not self.untold or now_s < self._next_s:
                return
            told = self._lost, self._repeated, self._last
            self._lost = self._repeated = 0
            self.untold = False
            self._next_s = now_s + PAUSE_S
        LOG.warning(
            "Connections to the database that were lost since the last such line: %d; transactions begun "
            "again after that: %d. The last error: %s",
            *told,
        )

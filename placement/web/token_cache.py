"""The tokens that this process has validated, for all its threads."""

import threading
from time import monotonic

MOST = 10_000
"""The number of tokens that are kept; one with its catalogue has a few kilobytes."""


class TokenCache:
    """What keystonemiddleware uses of a client of memcached.

    Without memcached, the middleware has a dictionary for each thread that looks at the same moment, and each
    knows other tokens: while the identity service was down, 2 of 1,600 requests with a validated token were
    refused.

    :param most: the number of entries; the oldest are dropped.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        # The time at which each ends, on the monotonic clock. The first entry is the oldest.
        self._entries: dict[str, tuple[float, bytes]] = {}

    @property
    def size(self) -> int:
        """The number of entries. (The middleware does not use a cache that is false.)"""
        return len(self._entries)

    def get(self, key: str) -> bytes | None:
        """Return the value of a key; None if it is unknown or too old."""
        with self._lock:
            ends_s, value = self._entries.get(key, (0.0, None))
        return value if monotonic() < ends_s else None

    def set(self, key: str, value: bytes, time: int) -> None:
        """Keep a value for a number of seconds. The name of the parameter is the middleware's."""
        now_s = monotonic()
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = now_s + time, value
            while self.size > self._most or (self._entries and self._is_first_over(now_s)):
                del self._entries[next(iter(self._entries))]

    def _is_first_over(self, now_s: float) -> bool:
        ends_s, _ = next(iter(self._entries.values()))
        return ends_s <= now_s

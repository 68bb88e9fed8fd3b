"""Tables of what is in force from which microversion on."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Windows(Generic[T]):
    """Values by the minor version since which they hold, each until the next begins."""

    def __init__(self, since: Mapping[int, T]) -> None:
        self._minors = sorted(since)
        self._values = [since[minor] for minor in self._minors]

    def at(self, minor: int) -> T:
        """Return the value in force at 1.``minor``.

        :raises LookupError: the first window begins later.
        """
        place = bisect_right(self._minors, minor) - 1
        if place < 0:
            raise LookupError(f"nothing is in force at 1.{minor}")
        return self._values[place]

"""Tables of what is in force from which microversion on."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Windows(Generic[T]):
    """Values by the minor version since which they hold, each until the next begins."""

    def __init__(self, since: Mapping[int, T]) -> None:
        self._minors = sorted(since)
        self._values = [since[minor] for minor in self._minors]

    def items(self) -> Iterable[tuple[int, T]]:
        """Return each value with the minor version since which it holds."""
        return zip(self._minors, self._values, strict=True)

    def at(self, minor: int) -> T:
        """Return the value in force at 1.``minor``.

        :raises LookupError: the first window begins later.
        """
        place = bisect_right(self._minors, minor) - 1
        if place < 0:
            raise LookupError(f"nothing is in force at 1.{minor}")
        return self._values[place]

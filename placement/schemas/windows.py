"""Tables of values by microversion, and the functions that write schemas."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

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


# The order of the keys is visible: a report prints the schema that failed.


def allow_only(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object with these properties and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def allow_keys(pattern: str, value: Any, least: int | None = None) -> dict[str, Any]:
    """Return the schema of an object whose keys match a pattern, with at least ``least`` members."""
    bound = {} if least is None else {"minProperties": least}
    members = {"patternProperties": {pattern: value}, "additionalProperties": False}
    return {"type": "object", **bound, **members}

"""The budget of one request: placements tried and time, over all its searches and all hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

WORK_LIMIT = 2_000_000
"""The number of placements tried for one request before it gives up, even before the deadline."""

PATIENCE_SHARE = 20
"""The divisor of the limit for one kind of tree without a further result."""

FIRST_PATIENCE = 5000
"""The placements after which a kind of tree without a solution is set aside until all others were tried."""

CHECK_EVERY = 64
"""The number of placements between two checks of the time."""


def endless() -> float:
    """Return the remaining seconds if there is no deadline."""
    return inf


class WorkEnded(Exception):
    """The time ended before anything could be found."""


@dataclass(slots=True)
class Work:
    """The bounds of one request, and how much of them was spent.

    ``limit``: the most placements. ``remaining_s``: returns the remaining seconds; the time has ended at
    ``reserve_s``. ``done``: the placements tried. ``timed_out``: the time has ended, and nothing more is
    tried. ``cut_short``: a bound was reached, or problems were ``set_aside``, so that the result may be
    incomplete. ``stuck``: by slot, how often nothing could be found for it.
    """

    limit: int = WORK_LIMIT
    remaining_s: Callable[[], float] = endless
    reserve_s: float = 0.0
    done: int = 0
    timed_out: bool = False
    cut_short: bool = False
    set_aside: int = 0
    stuck: dict[int, int] = field(default_factory=dict)
    check_at: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be tried."""
        return self.timed_out or self.done >= self.limit

    def spend(self, cost: int) -> bool:
        """Count placements; return False if no more may be tried."""
        self.done += cost
        return self.done < self.check_at or self.may_go_on()

    def may_go_on(self) -> bool:
        """Check the bounds when due, at ``check_at`` placements; return False if one is reached."""
        if self.done >= self.check_at:
            self.check_time()
        if self.timed_out or self.done > self.limit:
            self.cut_short = True
            return False
        return True

    def check_time(self) -> bool:
        """Check the time; return False if it has ended."""
        if not self.timed_out and self.remaining_s() <= self.reserve_s:
            self.timed_out = self.cut_short = True
        self.check_at = 0 if self.timed_out else min(self.done + CHECK_EVERY, self.limit + 1)
        return not self.timed_out

    def was_stuck(self, slot: int) -> None:
        """Count that nothing could be found for a slot."""
        self.stuck[slot] = self.stuck.get(slot, 0) + 1

    def go_on(self) -> None:
        """Check the time.

        :raises WorkEnded: the time has ended
        """
        if not self.check_time():
            raise WorkEnded

    def leave_half(self) -> None:
        """Reserve half of the time for later work."""
        left_s = self.remaining_s() - self.reserve_s
        if left_s < inf:
            self.reserve_s += max(left_s, 0.0) / 2

    @contextmanager
    def part(self, share: float, most: int | None = None) -> Iterator[Work]:
        """Give a search a part of the rest, and count what it spends.

        :param share: the divisor: 4 is a quarter of placements and time, 4 / 3 is three quarters.
        :param most: the most placements; None for the same share of them.
        """
        left = max(self.limit - self.done, 0)
        part = Work(-int(-left // share) if most is None else min(left, most), self.remaining_s)
        remaining_s = self.remaining_s() - self.reserve_s
        if remaining_s < inf:
            part.reserve_s = self.reserve_s + remaining_s * (share - 1) / share
        try:
            yield part
        finally:
            self.done += part.done
            self.check_time()

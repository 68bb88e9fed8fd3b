"""Where claims meet that arrive at one process at the same time (placement.objects.batcher.py)."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from placement.extensions.claims import shortcuts, writing
from placement.objects import batcher
from tests.support.processes import PATIENCE, wait_until

T = TypeVar("T")


def waiting() -> int:
    """Return how many claims wait for their turn, in this process."""
    desks = list(shortcuts._DESKS.values())
    return sum(len(meeting._waiting) for desk in desks for meeting in list(desk.batchers.values()))


def send_at_once(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], T], others: Sequence[Callable[[], T]]
) -> tuple[T, list[T], list[int]]:
    """Send claims that all arrive while a first one is placed, each in a thread of its own.

    :returns: the answer to the first, those to the others, and how many claims were tried together each time.
    """
    hangs_s, sizes = 30.0 * PATIENCE, []
    first_may_go_on, write, try_together = (
        threading.Event(),
        writing._write,
        shortcuts._try_together,
    )

    def wait(*args: Any) -> Any:
        assert first_may_go_on.wait(hangs_s)
        return write(*args)

    def count(db: Any, picture: Any, desk: Any, orders: Any, work: Any) -> Any:
        sizes.append(len(orders))
        return try_together(db, picture, desk, orders, work)

    monkeypatch.setattr(batcher, "PATIENCE_S", hangs_s)
    monkeypatch.setattr(writing, "_write", wait)
    monkeypatch.setattr(shortcuts, "_try_together", count)
    with ThreadPoolExecutor(len(others) + 1) as threads:
        leading = threads.submit(first)
        wait_until(
            "the first is placed", lambda: any(map(_is_busy, list(shortcuts._DESKS.values())))
        )
        following = [threads.submit(each) for each in others]
        wait_until("the others wait", lambda: waiting() == len(others))
        first_may_go_on.set()
        return leading.result(hangs_s), [each.result(hangs_s) for each in following], sizes


def _is_busy(desk: Any) -> bool:
    return any(meeting._is_busy for meeting in list(desk.batchers.values()))

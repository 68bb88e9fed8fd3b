"""Where requests meet that arrive at one process at the same time (placement/objects/batcher.py)."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from placement.extensions.claims import shortcuts, writing
from placement.objects import allocation, batcher
from placement.objects.batcher import Batcher
from tests.support.processes import PATIENCE, wait_until

T = TypeVar("T")


def _batchers() -> list[Batcher[Any, Any]]:
    desks = list(shortcuts._DESKS.values())
    of_claims = [each for desk in desks for each in list(desk.batchers.values())]
    return [*of_claims, *list(allocation._BATCHERS.values())]


def waiting() -> int:
    """Return how many requests wait for their turn, in this process."""
    return sum(len(meeting._waiting) for meeting in _batchers())


def send_at_once(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], T], others: Sequence[Callable[[], T]]
) -> tuple[T, list[T], list[int]]:
    """Send requests that all arrive while a first one is written, each in a thread of its own.

    The requests are claims of one consumer, or changes of allocations.

    :returns: the answer to the first, those to the others, and how many were tried together each time.
    """
    hangs_s, sizes = 30.0 * PATIENCE, []
    first_may_go_on = threading.Event()

    def wait_before(module: Any, name: str) -> None:
        write = getattr(module, name)

        def wait(*args: Any) -> Any:
            assert first_may_go_on.wait(hangs_s)
            return write(*args)

        monkeypatch.setattr(module, name, wait)

    def count(module: Any, name: str, at: int) -> None:
        try_together = getattr(module, name)

        def counted(*args: Any) -> Any:
            sizes.append(len(args[at]))
            return try_together(*args)

        monkeypatch.setattr(module, name, counted)

    monkeypatch.setattr(batcher, "PATIENCE_S", hangs_s)
    wait_before(writing, "_write")
    wait_before(allocation, "replace")
    count(shortcuts, "_try_together", at=3)
    count(allocation, "_write_together", at=1)
    with ThreadPoolExecutor(len(others) + 1) as threads:
        leading = threads.submit(first)
        wait_until("the first is written", lambda: any(each._is_busy for each in _batchers()))
        following = [threads.submit(each) for each in others]
        wait_until("the others wait", lambda: waiting() == len(others))
        first_may_go_on.set()
        return leading.result(hangs_s), [each.result(hangs_s) for each in following], sizes

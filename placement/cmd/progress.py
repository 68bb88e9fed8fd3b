"""The progress of a command: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from tqdm import tqdm

from placement.client.gathering import ProgressCallback, logged


@contextlib.contextmanager
def shown() -> Iterator[ProgressCallback]:
    """Yield a callback of the client that moves a bar on stderr and writes to the log."""
    with tqdm(disable=None, leave=False) as bar:

        def tell(what: str, done: int, total: int) -> None:
            logged(what, done, total)
            bar.set_description(what, refresh=False)
            bar.total, bar.n = total, done
            bar.refresh()

        yield tell


LINE_EVERY_S = 5.0


@contextlib.contextmanager
def of_rows(every_s: float = LINE_EVERY_S) -> Iterator[ProgressCallback]:
    """Yield a callback for the rows done in a step: what is being done, rows done, rows in all.

    It moves a bar on stderr; where that is not a terminal, it prints a line every few seconds, and none
    for a shorter step.
    """
    said_s = time.monotonic()
    with tqdm(disable=None, leave=False, unit=" rows") as bar:

        def tell(what: str, done: int, total: int) -> None:
            nonlocal said_s
            if not bar.disable:
                bar.set_description(what, refresh=False)
                bar.total, bar.n = total, done
                bar.refresh()
            elif time.monotonic() - said_s >= every_s:
                said_s = time.monotonic()
                print(f"{what}: {done} of {total} rows", file=sys.stderr, flush=True)

        yield tell

"""How far a command is: a bar on a terminal, lines in the log elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from tqdm import tqdm

from placement.client.gathering import Progress, logged


@contextlib.contextmanager
def shown() -> Iterator[Progress]:
    """Yield what is told about progress; the bar is on stderr and goes away at the end."""
    with tqdm(disable=None, leave=False) as bar:

        def tell(what: str, done: int, total: int) -> None:
            logged(what, done, total)
            bar.set_description(what, refresh=False)
            bar.total, bar.n = total, done
            bar.refresh()

        yield tell


LINE_EVERY_S = 5.0


@contextlib.contextmanager
def of_rows(every_s: float = LINE_EVERY_S) -> Iterator[Progress]:
    """Yield what is told how many rows of a step are done.

    On a terminal stderr has a bar, which goes away at the end; elsewhere a line every few seconds, none
    of a step that takes less.
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

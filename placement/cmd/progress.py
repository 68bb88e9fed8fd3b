"""How far a command is: a bar on a terminal, lines in the log elsewhere."""

from __future__ import annotations

import contextlib
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

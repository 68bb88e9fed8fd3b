"""The progress of a command: a line that changes on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

from placement.client.gathering import ProgressCallback, log_progress
from placement.printable import escape_lines, escape_unprintable

DRAWN_EVERY_S = 0.1
LINE_EVERY_S = 5.0
ERASE = "\r\x1b[K"
WIDTH = 20
"""The number of characters of the bar itself."""


class Bar:
    """A line on stderr that shows the progress; on terminals only, and erased at the end.

    :param unit: what is counted.
    :param total: the number of units; None if it is not known.
    """

    def __init__(self, unit: str = "", total: int | None = None) -> None:
        self.on_terminal = sys.stderr.isatty()
        self.total = total
        self._unit, self._what, self._done, self._drawn_s = unit, "", 0, 0.0

    def __enter__(self) -> Bar:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._write(ERASE)

    def update(self, more: int = 1) -> None:
        """Add to the number of units done."""
        self._done += more
        if time.monotonic() - self._drawn_s >= DRAWN_EVERY_S:
            self._draw()

    def show(self, what: str, done: int, total: int | None) -> None:
        """Show the work, the number of units done, and their total."""
        self._what, self._done, self.total = f"{escape_unprintable(what)}: ", done, total
        self._draw()

    def reset(self) -> None:
        """Start again at 0."""
        self._done = 0

    def print(self, line: str) -> None:
        """Print a lasting line to stderr, above the progress line."""
        self._write(ERASE)
        print(escape_lines(line), file=sys.stderr, flush=True)

    def _draw(self) -> None:
        self._drawn_s = time.monotonic()
        if not self.on_terminal:
            return
        bar = total = ""
        if self.total is not None:
            total = f"/{self.total}"
            filled = WIDTH * min(self._done, self.total) // max(self.total, 1)
            bar = f"[{'#' * filled}{'.' * (WIDTH - filled)}] "
        line = f"{bar}{self._done}{total} {self._unit}"
        # A line that wraps on a narrow terminal could not be erased completely.
        room = _count_columns() - 1
        self._write(ERASE + (self._what + line if len(self._what + line) <= room else line[:room]))

    def _write(self, text: str) -> None:
        if self.on_terminal:
            sys.stderr.write(text)
            sys.stderr.flush()


def _count_columns() -> int:
    """Return the width of the terminal of stderr, 80 if the width is not known."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


@contextlib.contextmanager
def show_progress() -> Iterator[ProgressCallback]:
    """Yield a callback of the client that moves a bar and writes to the log."""
    with Bar() as bar:

        def tell(what: str, done: int, total: int) -> None:
            log_progress(what, done, total)
            bar.show(what, done, total)

        yield tell


@contextlib.contextmanager
def show_rows(every_s: float = LINE_EVERY_S, bar: Bar | None = None) -> Iterator[ProgressCallback]:
    """Yield a callback that takes the work, the rows done in a step and the rows in all.

    The callback moves a bar. If stderr is not a terminal it prints a line every few seconds, and nothing for
    a shorter step.
    """
    said_s = time.monotonic()
    with bar or Bar("rows") as bar:

        def tell(what: str, done: int, total: int) -> None:
            nonlocal said_s
            if bar.on_terminal:
                bar.show(what, done, total)
            elif time.monotonic() - said_s >= every_s:
                said_s = time.monotonic()
                print(
                    f"{escape_unprintable(what)}: {done} of {total} rows",
                    file=sys.stderr,
                    flush=True,
                )

        yield tell

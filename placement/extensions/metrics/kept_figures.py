"""Figures that take seconds to compute: one process computes them seldom, for all (07 section 6)."""

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from placement import errors

LOG = logging.getLogger(__name__)


class Kept(NamedTuple):
    """Figures, and the seconds since they were made."""

    figures: Any
    age_s: float


class KeptFigures:
    """Figures computed at most once per interval; processes that share a directory compute them once.

    :param directory: the place of the file NAME.json; None if this process does not share its figures.
    """

    def __init__(self, directory: Path | None, name: str, interval_s: float) -> None:
        self._file = None if directory is None else directory / f"{name}.json"
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._made_s = 0.0
        self._figures: Any = None

    def read_or_make(self, make: Callable[[], Any]) -> Kept | None:
        """Return the figures; compute new ones if due and if no other thread or process does.

        :param make: returns a value for JSON. While it cannot reach the database the old figures remain.
        :return: None if there are no figures yet.
        """
        if self._read_age_s() >= self._interval_s:
            with self._alone() as mine:
                # Another process may have computed the figures while this one waited.
                if mine and self._read_age_s() >= self._interval_s:
                    try:
                        self._keep(make())
                    except errors.Unavailable as error:
                        LOG.warning("Metrics without new figures: %s", error)
        age_s = self._read_age_s()
        return None if self._figures is None else Kept(self._figures, age_s)

    def _read_age_s(self) -> float:
        """Return the age of the figures, after reading figures that another process has made."""
        if self._file is not None:
            with suppress(FileNotFoundError):
                self._made_s, self._figures = json.loads(self._file.read_bytes())
        return max(time.time() - self._made_s, 0.0)

    def _keep(self, figures: Any) -> None:
        self._made_s, self._figures = time.time(), figures
        if self._file is not None:
            # The file is replaced in one step: other processes read it at any time.
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps([self._made_s, figures]))
            part.replace(self._file)

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yield whether no other thread or process is in the block; the kernel frees locks of dead ones."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            if self._file is None:
                yield True
                return
            # The suffix is not .lock, which is for the numbers of the processes.
            path = self._file.with_suffix(".making")
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                yield _lock(file)
            finally:
                os.close(file)
        finally:
            self._lock.release()


def _lock(file: int) -> bool:
    """Lock the file without waiting; return whether that succeeded."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

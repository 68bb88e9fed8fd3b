"""Editions: the clouds that threads read, and when one may change. Threads alone; no rows.

A cloud that is being read does not change: a change waits a moment for its readers, and goes into a copy if
they stay. So there are never more clouds than threads. A cloud that nobody reads changes in place: a copy
takes 0.1 us for each provider, and one would be made after each claim. That is why no edition is handed out
as a value that lasts: whoever has entered one leaves it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from placement.db.change_rows import Log
from placement.objects.cloud_changes import Mark
from placement.search.cloud import Cloud

COPY_S_PER_PROVIDER = 1e-7
"""The time for copying the columns of a cloud; a change waits as long for readers before it makes a copy."""


@dataclass(slots=True)
class Edition:
    """A cloud, how later changes will be noticed, and how many threads read it.

    ``total``: of the log; None where another service writes too. ``number``: of the refresh that last found
    it up to date. ``shown_s``: when that began, by the monotonic clock.
    """

    cloud: Cloud
    mark: Mark
    total: int | None
    number: int
    shown_s: float
    readers: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether another service could write to the database when the cloud was read."""
        return not isinstance(self.mark, Log)

    def is_recent(self, age_s: float) -> bool:
        """Return whether it was up to date not longer ago than that; not where another service writes too."""
        return not self.is_shared and self.shown_s >= time.monotonic() - age_s

    def is_up_to_date(self, arrived: int, total: int | None) -> bool:
        """Return whether it shows what was written before a call arrived.

        It does if a refresh has found so that began later than the call arrived.

        :param arrived: the number of refreshes then.
        :param total: of the log, as the database was seen to have it since; None if it was not asked.
        """
        return self.number > arrived or (total is not None and self.total == total)


class Editions:
    """The newest edition, and by their readers those before it that are still read.

    ``refreshing`` is held by the one thread that asks the database what has changed, from
    :meth:`begin_refresh` until it has called one of :meth:`publish`, :meth:`confirm` and :meth:`change`.
    """

    def __init__(self) -> None:
        self.newest: Edition | None = None
        self.refreshing = threading.Lock()
        self.refreshes = 0
        # Held for moments: while readers are counted, and while a cloud changes that no thread reads.
        self._editing = threading.Condition()
        self._begun_s = 0.0

    def enter(self, is_fit: Callable[[Edition], bool]) -> Edition | None:
        """Begin to read the newest edition if it is fit; each reader leaves it once."""
        # Test and count are one step: between them another thread would change the cloud in place.
        with self._editing:
            newest = self.newest
            if newest is None or not is_fit(newest):
                return None
            newest.readers += 1
            return newest

    def leave(self, edition: Edition) -> None:
        """Read an edition no more."""
        with self._editing:
            edition.readers -= 1
            self._editing.notify_all()

    def begin_refresh(self) -> Edition | None:
        """Return the edition that is to be refreshed."""
        # Counted before the database is asked: who comes later cannot know whether it was asked after what
        # he must see was written.
        self.refreshes += 1
        self._begun_s = time.monotonic()
        return self.newest

    def publish(self, cloud: Cloud, mark: Mark) -> Edition:
        """Make a cloud that no other thread has the newest edition, and enter it."""
        edition = Edition(cloud, mark, _total_of(mark), self.refreshes, self._begun_s, readers=1)
        with self._editing:
            self.newest = edition
        return edition

    def confirm(self, edition: Edition, mark: Mark) -> Edition:
        """Note that the newest edition is up to date, and enter it."""
        with self._editing:
            edition.mark, edition.total = mark, _total_of(mark)
            edition.number, edition.shown_s = self.refreshes, self._begun_s
            edition.readers += 1
        return edition

    def change(self, edition: Edition, apply: Callable[[Cloud], None], mark: Mark) -> Edition:
        """Change the cloud of the newest edition, in place or as a copy, and enter what comes of it."""
        cloud = edition.cloud
        with self._editing:
            # Most readers end before a copy could be made. New readers may start meanwhile, who do not need
            # the change: so the wait is no longer than a copy takes.
            patience_s = COPY_S_PER_PROVIDER * len(cloud)
            if self._editing.wait_for(lambda: not edition.readers, patience_s):
                try:
                    apply(cloud)
                except BaseException:
                    # A cloud that was changed half way is worse than none: the next one is read from nothing.
                    self.newest = None
                    raise
                return self.publish(cloud, mark)
        # The copy is made outside the lock: meanwhile threads start and stop reading the old cloud.
        twin = cloud.snapshot()
        apply(twin)
        return self.publish(twin, mark)


def _total_of(mark: Mark) -> int | None:
    return mark.total if isinstance(mark, Log) else None

"""Editions: the clouds that threads read, and the times when one may change. No rows, only threads.

A cloud that is being read does not change: a change waits a moment for its readers, and goes into a copy if
they stay. So there are never more clouds than threads. A cloud without readers changes in place: a copy takes
0.1 us for each provider, and would be made after each claim. That is why no edition is a lasting value: a
thread that has entered an edition must leave it.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from placement.db.change_rows import Log
from placement.objects.cloud_changes import Mark
from placement.search.cloud import Cloud

COPY_S_PER_PROVIDER = 1e-7
"""The time for copying a cloud's columns; a change waits this long for readers before it makes a copy."""


@dataclass(slots=True)
class Edition:
    """A cloud, the means to notice later changes, and the number of its readers.

    ``total``: the total of the log; None if another service writes too. ``number``: the number of the refresh
    that last found the cloud up to date. ``shown_s``: the start of that refresh, on the monotonic clock.
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
        """Return whether it was up to date within this time; False if another service writes too."""
        return not self.is_shared and self.shown_s >= time.monotonic() - age_s

    def is_up_to_date(self, arrived: int, total: int | None) -> bool:
        """Return whether it shows everything that was written before a call arrived.

        This is true if a refresh that began after the arrival has confirmed it.

        :param arrived: the number of refreshes at the arrival.
        :param total: the total of the log in the database since then; None if it was not read.
        """
        return self.number > arrived or (total is not None and self.total == total)


class Editions:
    """The newest edition, and older ones that are still read.

    The one thread that reads the changes holds ``refreshing``, from :meth:`begin_refresh` until it has called
    one of :meth:`publish`, :meth:`confirm` and :meth:`change`.
    """

    def __init__(self) -> None:
        self.newest: Edition | None = None
        self.refreshing = threading.Lock()
        self.refreshes = 0
        # The lock is held for moments: to count readers, and to change a cloud without readers.
        self._editing = threading.Condition()
        self._begun_s = 0.0

    def enter(self, is_fit: Callable[[Edition], bool]) -> Edition | None:
        """Begin to read the newest edition if it is recent enough; each reader leaves it once."""
        # Test and count are one step: between them another thread could change the cloud in place.
        with self._editing:
            newest = self.newest
            if newest is None or not is_fit(newest):
                return None
            newest.readers += 1
            return newest

    def leave(self, edition: Edition) -> None:
        """Stop reading an edition."""
        with self._editing:
            edition.readers -= 1
            self._editing.notify_all()

    def begin_refresh(self) -> Edition | None:
        """Return the edition to refresh."""
        # The refresh is counted before the database is read: a call that arrives later cannot know whether
        # the reading covers the writes that it must see.
        self.refreshes += 1
        self._begun_s = time.monotonic()
        return self.newest

    def publish(self, cloud: Cloud, mark: Mark) -> Edition:
        """Publish a cloud that no other thread has as the newest edition, and enter it."""
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
        """Change the cloud of the newest edition, in place or as a copy, and enter the result."""
        cloud = edition.cloud
        with self._editing:
            # Most readers end before a copy could be made. New readers, which do not need the change, may
            # start meanwhile, so the wait is limited to the time of a copy.
            patience_s = COPY_S_PER_PROVIDER * len(cloud)
            if self._editing.wait_for(lambda: not edition.readers, patience_s):
                try:
                    apply(cloud)
                except BaseException:
                    # A half-changed cloud is worse than none, so the next one is read completely.
                    self.newest = None
                    raise
                return self.publish(cloud, mark)
        # The copy is made outside the lock, so that other threads can start and stop reading the old cloud.
        twin = cloud.snapshot()
        apply(twin)
        return self.publish(twin, mark)


def _total_of(mark: Mark) -> int | None:
    return mark.total if isinstance(mark, Log) else None

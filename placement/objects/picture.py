"""The picture: a ``Cloud`` in memory, brought up to date from the database before every use.

Each use asks the database whether the log of changes has grown, and reads again the providers that it names
(:mod:`placement.objects.cloud_changes`). So a search sees every write that was acknowledged before it, by any
process. Once a minute all revisions are compared in any case, because the log does not name changes by hand.
Any number of threads can read at once (:mod:`placement.objects.cloud_editions`).
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from placement import telemetry
from placement.db import cloud_rows, freshness, named_rows
from placement.db.change_rows import NO_LOG, Log
from placement.db.coexistence import state
from placement.db.coexistence.watch import ForeignWriteWatch
from placement.db.database import Database
from placement.db.statements import batches
from placement.objects.cloud_changes import CloudUpdate, read_update
from placement.objects.cloud_editions import Edition, Editions
from placement.search.cloud import Cloud
from placement.search.garbage import pause_collection
from placement.search.records import CloudRows
from placement.search.request import NameSets

LOG = logging.getLogger(__name__)

COMPARE_EVERY_S = 60.0
"""The longest time between two comparisons of revisions, independent of the log."""

MOST_TOLD = 10
"""The most ids of each table that the line about missing rows names."""

NO_NAMES = NameSets()


@dataclass(slots=True)
class Look:
    """A cloud that does not change until the look ends: ``with picture.look() as look``.

    The reader must not change the cloud, and keeps at most a snapshot. ``known``: the requested names that
    exist although no provider of the cloud has them. ``log``: the log when the cloud was last found up to
    date.
    """

    cloud: Cloud
    known: NameSets
    log: Log
    end: Callable[[], object]

    def __enter__(self) -> "Look":
        return self

    def __exit__(self, *error: object) -> None:
        # The cloud can change from here on: a later use must be an error at once, not a wrong answer.
        del self.cloud
        self.end()


class Picture:
    """The copy of one database in the memory of a process; the application makes and owns it.

    One thread at a time reads the changes from the database; the others wait for that, never for a search.

    :param finish_after_s: the time without foreign writes after which a coexistence ends; 0 for never.
    """

    def __init__(self, db: Database, finish_after_s: int = 0) -> None:
        self.db = db
        self.watch = ForeignWriteWatch(db, finish_after_s)
        self._editions = Editions()
        self._next_comparison_s = 0.0
        # If the last search found changes, this one probably does too, and asking first would be a wasted
        # statement.
        self._moving = True
        self._told: Mapping[str, Sequence[int]] = {}

    def look(self, named: NameSets = NO_NAMES, age_s: float = 0.0) -> Look:
        """Open a cloud that is at least as new as this call.

        The cost is one statement if nothing changed; two, in one snapshot, after claims, and four more after
        other changes. Names that no provider has cost one more for traits and one for classes.

        :param named: all names that the question mentions.
        :param age_s: the allowed age of the cloud, if no other service writes; a young enough cloud costs no
            statement.
        """
        edition = self._enter(age_s)
        try:
            # The names are checked after the cloud is open: otherwise the last provider could lose a trait
            # meanwhile, and the trait would count as unknown.
            known = find_existing(self.db, unseen_in(edition.cloud, named))
        except BaseException:
            self._editions.leave(edition)
            raise
        return self._begin(edition, known)

    @property
    def is_shared(self) -> bool:
        """Whether another service wrote too when the cloud was last read."""
        newest = self._editions.newest
        return newest is not None and newest.is_shared

    def look_as_it_is(self) -> Look | None:
        """Open the present cloud of any age, without a query; None if none was read yet."""
        edition = self._editions.enter(lambda newest: True)
        return None if edition is None else self._begin(edition, NO_NAMES)

    def copy_cloud(self) -> Cloud:
        """Return a snapshot of the present cloud, for callers that use it for long or change it."""
        with self.look() as look:
            return look.cloud.snapshot()

    def shared_since(self) -> datetime | None:
        """Return the time since which another service may write too, or None. One statement."""
        return self.db.read(state.read_begin)

    def _begin(self, edition: Edition, known: NameSets) -> Look:
        log = edition.mark if isinstance(edition.mark, Log) else NO_LOG
        return Look(edition.cloud, known, log, partial(self._editions.leave, edition))

    def _enter(self, age_s: float) -> Edition:
        """Begin to read the newest edition if it is new enough, otherwise a refreshed one."""
        self.watch.check()
        editions, arrived, total = self._editions, self._editions.refreshes, None
        edition = editions.enter(lambda newest: newest.is_recent(age_s)) if age_s else None
        if edition is None:
            if not self._moving and time.monotonic() < self._next_comparison_s:
                total = self.db.read(cloud_rows.total)
            edition = editions.enter(lambda newest: newest.is_up_to_date(arrived, total))
        if edition is None:
            with editions.refreshing:
                # While this thread waited, another may have refreshed the cloud.
                edition = editions.enter(lambda newest: newest.is_up_to_date(arrived, total))
                if edition is None:
                    return self._refresh()
        telemetry.note_refresh("nothing", 0, len(edition.cloud))
        return edition

    def _refresh(self) -> Edition:
        """Read what has changed, and enter the edition that shows it."""
        old = self._editions.begin_refresh()
        cloud, mark = (old.cloud, old.mark) if old else (None, None)
        compare = time.monotonic() >= self._next_comparison_s
        read = partial(read_update, cloud=cloud, mark=mark, compare=compare)
        with pause_collection():
            # Expired allocations are removed first, so that no request is refused because of them.
            found = freshness.look_without_expired(
                self.db, lambda: self.db.snapshot(read), lambda found: found.any_expired
            )
            # The cloud is made after the end of the snapshot, since that takes seconds for a million
            # providers.
            edition = self._show(found, old)
        self._moving = found.news is not None
        if found.compared:
            self._next_comparison_s = time.monotonic() + COMPARE_EVERY_S
        return edition

    def _show(self, found: CloudUpdate, old: Edition | None) -> Edition:
        if isinstance(found.news, CloudRows):
            cloud = Cloud.load(found.news)
            self._warn_of_lost(cloud.lost)
            return self._editions.publish(cloud, found.mark)
        assert old is not None, "without a picture everything is read"
        if found.news is None:
            return self._editions.confirm(old, found.mark)
        return self._editions.change(old, found.news.apply_to, found.mark)

    def _warn_of_lost(self, lost: Mapping[str, Sequence[int]]) -> None:
        """Log once that providers have rows that refer to deleted traits or classes."""
        if lost and lost != self._told:
            named = "; ".join(f"{table}: {ids[:MOST_TOLD]}" for table, ids in lost.items())
            LOG.warning(
                "Resource providers refer to deleted rows, which searches leave out (%s)."
                " placement-manage db check names it",
                named,
            )
        self._told = lost


def unseen_in(cloud: Cloud, named: NameSets) -> NameSets:
    """Return the names that no provider of a cloud has."""
    return NameSets(
        frozenset(name for name in named.traits if not cloud.has_trait(name)),
        frozenset(name for name in named.classes if not cloud.has_class(name)),
    )


def find_existing(db: Database, named: NameSets) -> NameSets:
    """Return the names that exist; one statement per thousand traits or classes."""

    def find(names: frozenset[str], key: named_rows.Key) -> frozenset[str]:
        # Each batch is a separate read: names are few, and a snapshot would cost two more messages.
        reads = (partial(named_rows.ids, key=key, names=batch) for batch in batches(sorted(names)))
        return frozenset().union(*map(db.read, reads))

    return NameSets(find(named.traits, named_rows.TRAITS), find(named.classes, named_rows.CLASSES))

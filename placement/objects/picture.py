"""The picture: a ``Cloud`` in memory, brought up to date from the database before every use.

Every write of what a search reads moves the revision of the provider and names it in a log
(:mod:`placement.db.change_rows`), in its own transaction. Each use asks the database whether the log has
grown, and reads again the providers that it names; after claims only their inventories and usage. So a search
sees every write that was acknowledged before it, by any process.

If the log has been cut since, digests of blocks of ids are compared, then the revisions within the blocks
that differ; once a minute in any case, because the log does not name changes by hand. During a coexistence
each search compares all that another service could change.
"""

import gc
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from placement import telemetry
from placement.db import cloud_rows, named_rows, tree_rows
from placement.db.change_rows import NO_LOG, Changed, Log
from placement.db.coexistence import state
from placement.db.coexistence.signs import Signs, read_signs
from placement.db.coexistence.watch import ForeignWriteWatch
from placement.db.database import Access, Database, Snapshot
from placement.db.statements import batches
from placement.objects import holds
from placement.search.cloud import BLOCK, Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.records import CloudRows, ProviderRecord, Stock, UsedInventory
from placement.search.request import CandidateRequest, NameSets, UnknownName
from placement.search.unmet import Unmet, find_unmet

LOG = logging.getLogger(__name__)
T = TypeVar("T")

RELOAD_FRACTION = 0.25
"""Of the providers changed, above which reading everything is cheaper than reading by id."""

COMPARE_EVERY_S = 60.0
"""At least so often revisions are compared, whatever the log says."""

MOST_TOLD = 10
"""Ids that are in the line about what is gone, of each table."""

COPY_S_PER_PROVIDER = 1e-7
"""What it takes to copy the columns of a cloud: so long a refresh waits for readers before it does that."""

assert BLOCK == 2**cloud_rows.BLOCK_BITS, "digests are compared block by block"


class _Reading(NamedTuple):
    """What one snapshot has shown, to be put into the cloud when the snapshot is over.

    Exactly one of ``rows``, all there are, ``changes`` and nothing: that the cloud was up to date.
    ``compared``: all revisions were. ``log`` has no slots during a coexistence; then there are ``signs``.
    ``any_over``: some hold is, and its room should be free.
    """

    log: Log
    rows: CloudRows | None = None
    changes: "_Changes | None" = None
    compared: bool = False
    signs: Signs | None = None
    any_over: bool = False


class _Changes(NamedTuple):
    """Providers to be stored whole, ids of those that are gone, and what claims have changed of others."""

    records: list[ProviderRecord]
    removed: set[int]
    stocks: list[Stock]

    def into(self, cloud: Cloud) -> None:
        """Bring a cloud up to date."""
        if self.records or self.removed:
            cloud.replace(self.records, self.removed)
        cloud.restock(self.stocks)


@dataclass(slots=True)
class _Edition:
    """A cloud, how later changes will be noticed, and how many read it: it changes in place if none does.

    ``number``: of the refresh that last found it up to date. ``total``: of the log. ``signs``: of a cloud
    that was read during a coexistence. ``shown_s``: when it was last known to be up to date, by the
    monotonic clock.
    """

    cloud: Cloud
    log: Log
    total: int
    signs: Signs | None
    number: int
    shown_s: float
    readers: int = 0


class Picture:
    """What one process keeps in memory of one database; made with the application, and its own.

    :param finish_after_s: a coexistence ends after so long without a write of another service; 0 for never.

    Any number of threads read it at once. One at a time asks the database what has changed; the others
    wait for that, never for a search. A cloud that is being read does not change: the refresh
    waits a moment for its readers, and then changes a copy. So there are no more clouds than threads.
    """

    def __init__(self, db: Database, finish_after_s: int = 0) -> None:
        self._db = db
        self._newest: _Edition | None = None
        self._next_comparison_s = 0.0
        self._watch = ForeignWriteWatch(db, finish_after_s)
        self._refreshing = threading.Lock()
        # Held for moments: while readers are counted, and while a cloud changes that no thread reads.
        self._editing = threading.Condition()
        self._refreshes = 0
        # Whether the last search found changes: then this one probably does too, and asking first
        # whether it does would be a wasted statement.
        self._moving = True
        self._told: Mapping[str, Sequence[int]] = {}

    def read(self, work: Callable[[Cloud], T]) -> T:
        """Return ``work(cloud)`` on a cloud at least as new as this call, which stays as it is meanwhile.

        ``work`` changes nothing, and keeps nothing of the cloud but a snapshot. Cost: one statement when
        nothing changed; two, in one snapshot, after claims, and four more after other changes.
        """
        return self._read_edition(lambda edition: work(edition.cloud))

    def _read_edition(self, work: Callable[[_Edition], T], age_s: float = 0.0) -> T:
        self._watch.look()
        arrived, total = self._refreshes, None
        if age_s and (recent := self._entered_recent(age_s)) is not None:
            return self._done_with(recent, work)
        if not self._moving and time.monotonic() < self._next_comparison_s:
            total = self._db.read(cloud_rows.total)
        edition = self._entered(arrived, total) or self._entered_after_refresh(arrived, total)
        return self._done_with(edition, work)

    def _done_with(self, edition: _Edition, work: Callable[[_Edition], T]) -> T:
        try:
            return work(edition)
        finally:
            self._left(edition)

    def shared_since(self) -> datetime | None:
        """Return since when another service may write too, None if none may. One statement."""
        return self._db.read(state.since)

    def _entered(self, arrived: int, total: int | None) -> _Edition | None:
        """Begin to read the newest edition, if it is up to date.

        It is if the log has the total that the database was seen to have, or if a refresh has found so
        that began later than the call arrived.
        """
        with self._editing:
            newest = self._newest
            if newest is None or not (newest.number > arrived or newest.total == total):
                return None
            newest.readers += 1
        telemetry.note_refresh("nothing", 0, len(newest.cloud))
        return newest

    def _entered_recent(self, age_s: float) -> _Edition | None:
        """Begin to read the newest edition, if it was up to date not longer ago than that."""
        with self._editing:
            newest = self._newest
            if newest is None or newest.signs is not None:
                return None
            if newest.shown_s < time.monotonic() - age_s:
                return None
            newest.readers += 1
        telemetry.note_refresh("nothing", 0, len(newest.cloud))
        return newest

    def _entered_after_refresh(self, arrived: int, total: int | None) -> _Edition:
        with self._refreshing:
            edition = self._entered(arrived, total)
            if edition is None:
                self._refreshes += 1
                edition = self._refreshed()
        return edition

    def _refreshed(self) -> _Edition:
        """Read what has changed, and begin to read the cloud that shows it."""
        old, begun_s = self._newest, time.monotonic()
        with _no_collection():
            found = self._db.snapshot(lambda tx: self._reading(tx, old))
            # Nobody is refused for the sake of a hold that is over.
            while found.any_over and holds.expire(self._db):
                found = self._db.snapshot(lambda tx: self._reading(tx, old))
            edition = self._shown(found, old)
        edition.shown_s = begun_s
        self._moving = found.rows is not None or found.changes is not None
        if found.compared:
            self._next_comparison_s = time.monotonic() + COMPARE_EVERY_S
        return edition

    def _shown(self, found: _Reading, old: _Edition | None) -> _Edition:
        """Publish what was read, and count its first reader."""
        if old is None or found.rows is not None:
            assert found.rows is not None, "without a picture everything is read"
            # Made of the rows when the snapshot is over: that takes seconds for a million providers.
            cloud = Cloud.load(found.rows)
            self._tell(cloud.lost)
            return self._published(cloud, found)
        with self._editing:
            if found.changes is not None:
                patience_s = COPY_S_PER_PROVIDER * len(old.cloud)
                if self._editing.wait_for(lambda: not old.readers, patience_s):
                    self._change_in_place(old.cloud, found.changes)
                    return self._published(old.cloud, found)
            else:
                old.log, old.total, old.signs = found.log, found.log.total, found.signs
                old.number = self._refreshes
                old.readers += 1
                return old
        twin = old.cloud.snapshot()
        found.changes.into(twin)
        return self._published(twin, found)

    def _tell(self, lost: Mapping[str, Sequence[int]]) -> None:
        """Say once what providers have that is of nothing."""
        if lost and lost != self._told:
            named = "; ".join(f"{table}: {ids[:MOST_TOLD]}" for table, ids in lost.items())
            LOG.warning(
                "Resource providers have what is gone, and searches leave it out (%s)."
                " placement-manage db check names it",
                named,
            )
        self._told = lost

    def _change_in_place(self, cloud: Cloud, changes: _Changes) -> None:
        try:
            changes.into(cloud)
        except BaseException:
            # A cloud that was changed half way is worse than none.
            self._newest = None
            raise

    def _published(self, cloud: Cloud, found: _Reading) -> _Edition:
        log = found.log
        edition = _Edition(cloud, log, log.total, found.signs, self._refreshes, 0.0, readers=1)
        with self._editing:
            self._newest = edition
        return edition

    def read_knowing(self, named: NameSets, work: Callable[[Cloud, NameSets], T]) -> T:
        """Return ``work(cloud, known)``, where ``known`` are the names that exist but no provider has.

        The database is asked for these first, in one statement for traits and one for classes, and
        only for names that no provider has; most questions have none.

        :param named: all names that the question mentions.
        :raises UnknownName: by ``work``, for a name that neither the cloud has nor is known.
        """
        return self.read_logged(named, lambda cloud, known, log: work(cloud, known))

    def read_logged(
        self, named: NameSets, work: Callable[[Cloud, NameSets, Log], T], age_s: float = 0.0
    ) -> T:
        """Do the same with the log as it was when the cloud was last found up to date.

        :param age_s: how old the cloud may be, where no other service writes: nothing is asked then.
        """

        def on_edition(edition: _Edition) -> T:
            return work(edition.cloud, known, edition.log)

        asked = self._unseen(named)
        known = self._existing(asked)
        try:
            return self._read_edition(on_edition, age_s)
        except UnknownName as unknown:
            if unknown.is_among(asked):
                raise
        # The last provider that had it has lost it since.
        known = self._existing(named)
        return self._read_edition(on_edition)

    def read_for(self, question: CandidateRequest, work: Callable[[Cloud, NameSets], T]) -> T:
        """Return ``work(cloud, known)`` as :meth:`read_knowing` does, on as much as the question needs.

        To find out what has changed costs most during a coexistence: 35 ms of the database with 200,000
        consumers, and 180 after a claim. There a question about one tree reads that tree, in six
        statements; and one that asks for what no provider has or could hold is answered from the cloud as
        it is, when one to three statements have shown that this is still so.
        """
        newest = self._newest
        if newest is not None and newest.signs is not None:
            self._watch.look()
            tree = question.only_tree
            done = self._of_tree(tree, question.names, work) if tree else None
            done = done or self._of_unmet(question, work)
            if done:
                return done[0]
        return self.read_knowing(question.names, work)

    def _of_tree(
        self, uuid: str, named: NameSets, work: Callable[[Cloud, NameSets], T]
    ) -> tuple[T] | None:
        """Work on a cloud that is the tree of a provider; None outside a coexistence."""
        cloud = self._db.snapshot(lambda tx: _tree(tx, uuid))
        if cloud is None:
            return None
        known = self._existing(_unseen_in(cloud, named))
        return (work(cloud, known),)

    def _of_unmet(
        self, question: CandidateRequest, work: Callable[[Cloud, NameSets], T]
    ) -> tuple[T] | None:
        """Work on the cloud as it is, if nothing that has changed since can matter; else return None."""
        with self._editing:
            newest = self._newest
            if newest is None:
                return None
            newest.readers += 1
        try:
            lacking = find_unmet(newest.cloud, question)
            if lacking is None or self._db.read(lambda tx: _is_met(tx, lacking)):
                return None
            known = self._existing(question.names)
            if known != question.names:
                return None
            telemetry.note_refresh("nothing", 0, len(newest.cloud))
            return (work(newest.cloud, known),)
        finally:
            self._left(newest)

    def _left(self, edition: _Edition) -> None:
        with self._editing:
            edition.readers -= 1
            self._editing.notify_all()

    def _unseen(self, named: NameSets) -> NameSets:
        """Return the names that no provider has in the cloud as it was last read; without the lock."""
        newest = self._newest
        if newest is None:
            return named
        return _unseen_in(newest.cloud, named)

    def _existing(self, named: NameSets) -> NameSets:
        return NameSets(
            self._those(named.traits, named_rows.TRAITS),
            self._those(named.classes, named_rows.CLASSES),
        )

    def _those(self, names: frozenset[str], key: named_rows.Key) -> frozenset[str]:
        def ask(batch: Sequence[str]) -> dict[str, int]:
            return self._db.read(lambda reader: named_rows.ids(reader, key, batch))

        return frozenset().union(*map(ask, batches(sorted(names))))

    def _reading(self, tx: Snapshot, old: _Edition | None) -> _Reading:
        log, any_over = cloud_rows.log(tx)
        found = self._as_others_write(tx, old) if log is None else self._as_logged(tx, old, log)
        return found._replace(any_over=any_over)

    def _as_logged(self, tx: Snapshot, old: _Edition | None, log: Log) -> _Reading:
        if old is None or old.signs is not None:
            return _Reading(log, rows=_everything(tx), compared=True)
        changed = None
        if time.monotonic() < self._next_comparison_s:
            changed = log.changed_since(old.log)
        compared = changed is None
        if changed is None:
            changed = Changed(_differing(tx, old.cloud), Counter())
        if any(changed):
            found = _changes(tx, old.cloud, changed)
            if found is None:
                return _Reading(log, rows=_everything(tx), compared=compared)
            return _Reading(log, changes=found, compared=compared)
        telemetry.note_refresh("nothing", 0, len(old.cloud))
        return _Reading(log, compared=compared)

    def _as_others_write(self, tx: Snapshot, old: _Edition | None) -> _Reading:
        """Return what has changed during a coexistence: blocks of providers, or all if the shape has."""
        before = old.signs if old else None
        signs = read_signs(tx, before)
        ranges = signs.changed_since(before) if before else None
        if old is None or ranges is None:
            return _Reading(NO_LOG, rows=_everything(tx), signs=signs)
        if not ranges:
            telemetry.note_refresh("nothing", 0, len(old.cloud))
            return _Reading(NO_LOG, signs=signs)
        found = _changes(tx, old.cloud, Changed(_held(old.cloud, ranges), Counter()))
        if found is None:
            return _Reading(NO_LOG, rows=_everything(tx), signs=signs)
        return _Reading(NO_LOG, changes=found, signs=signs)


def _unseen_in(cloud: Cloud, named: NameSets) -> NameSets:
    return NameSets(
        frozenset(name for name in named.traits if not cloud.has_trait(name)),
        frozenset(name for name in named.classes if not cloud.has_class(name)),
    )


def _tree(tx: Snapshot, uuid: str) -> Cloud | None:
    """Return the tree of a provider, an empty cloud if there is none.

    None outside a coexistence, and where some hold is over, whose room should be free.
    """
    log, any_over = cloud_rows.log(tx)
    if log is not None or any_over:
        return None
    cloud = Cloud()
    ids = [member.id for member in tree_rows.members(tx, uuid)]
    if ids:
        cloud.replace(records_of(tree_rows.contents(tx, ids)), set())
    telemetry.note_refresh("part", len(ids), len(ids))
    return cloud


def _is_met(tx: Access, condition: Unmet) -> bool:
    """Tell whether some provider in the database meets the condition by now."""
    if condition.traits:
        return cloud_rows.any_has_trait(tx, condition.traits)
    if condition.aggregates:
        return cloud_rows.any_is_in_aggregate(tx, condition.aggregates)
    assert condition.amount is not None
    name, amount = condition.amount
    # A larger one would not even be a number of every database.
    return amount <= LARGEST_AMOUNT and cloud_rows.any_could_hold(tx, name, amount)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for garbage in what is being read: a large load makes no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _everything(tx: Snapshot) -> CloudRows:
    contents, names = cloud_rows.everything(tx)
    LOG.debug("Read all %d resource providers for the search", len(contents.providers))
    telemetry.note_refresh("whole", len(contents.providers), len(contents.providers))
    return CloudRows(*contents, *names)


def _held(cloud: Cloud, ranges: Iterable[range]) -> set[int]:
    """Return the ids of the providers among these."""
    return {id_ for ids in ranges for id_ in ids if id_ in cloud.index_of}


def _differing(tx: Snapshot, cloud: Cloud) -> set[int]:
    """Return the ids of the providers that are not, or not of the same revision, in both."""
    theirs, ours = cloud_rows.digests_by_block(tx), cloud.block_digests()
    blocks = {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}
    existing = blocks & theirs.keys()
    revisions = cloud_rows.revisions(tx, existing) if existing else {}
    held: dict[int, int] = {}
    for block in blocks:
        held |= cloud.block_revisions(block)
    return {key for key in held.keys() | revisions.keys() if held.get(key) != revisions.get(key)}


def _changes(tx: Snapshot, cloud: Cloud, changed: Changed) -> _Changes | None:
    """Return these providers as they are now, None where they are so many that all are to be read."""
    stocks = {}
    if changed.stock:
        stocks = _stocks(cloud_rows.stocks(tx, changed.stock.keys()))
    explained = {
        key for key, stock in stocks.items() if _is_explained(cloud, stock, changed.stock[key])
    } - changed.whole
    whole = changed.whole | (changed.stock.keys() - explained)
    if len(whole) > RELOAD_FRACTION * len(cloud) + BLOCK:
        return None
    records = records_of(cloud_rows.contents(tx, whole)) if whole else []
    found = {record.provider_id: record.uuid for record in records}
    # Gone, or, of an id that was used before (SQLite may do that), another one now.
    removed = {
        key
        for key in whole
        if key in cloud.index_of and cloud.uuids[cloud.index_of[key]] != found.get(key)
    }
    telemetry.note_refresh("part", len(whole) + len(explained), len(cloud))
    return _Changes(records, removed, [stocks[key] for key in explained])


def _is_explained(cloud: Cloud, stock: Stock, times: int) -> bool:
    """Tell whether the writes that the log names are all that has moved the revision.

    Otherwise a change by hand beside them would never be seen.
    """
    index = cloud.index_of.get(stock.provider_id)
    return index is not None and int(cloud.revisions[index]) + times == stock.revision


def _stocks(rows: Iterable[Sequence[Any]]) -> dict[int, Stock]:
    found: dict[int, Stock] = {}
    for key, revision, generation, modified, name, *amounts in rows:
        stock = found.get(key)
        if stock is None:
            stock = found[key] = Stock(key, revision, generation, modified, {})
        if name is not None:
            stock.inventories[name] = UsedInventory.of(amounts)
    return found


def records_of(contents: cloud_rows.Contents) -> list[ProviderRecord]:
    """Return what the search knows of these providers."""
    inventories = _by_provider(contents.inventories)
    traits = _by_provider(contents.traits)
    aggregates = _by_provider(contents.aggregates)
    return [
        ProviderRecord(
            provider_id=provider_id,
            uuid=uuid,
            revision=revision,
            parent_id=parent_id,
            root_id=root_id,
            inventories={
                held: UsedInventory.of(amounts) for held, *amounts in inventories[provider_id]
            },
            traits=frozenset(trait for (trait,) in traits[provider_id]),
            aggregates=frozenset(aggregate for (aggregate,) in aggregates[provider_id]),
            name=name,
            generation=generation,
            modified=modified,
        )
        for (
            provider_id,
            uuid,
            revision,
            parent_id,
            root_id,
            name,
            generation,
            modified,
        ) in contents.providers
    ]


def _by_provider(rows: Iterable[Sequence[Any]]) -> defaultdict[int, list[Sequence[Any]]]:
    grouped: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for provider_id, *rest in rows:
        grouped[provider_id].append(rest)
    return grouped

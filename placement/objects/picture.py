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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from placement import telemetry
from placement.db import cloud_rows, coexistence_rows, named_rows
from placement.db.change_rows import NO_LOG, Changed, Log
from placement.db.database import Database, Snapshot
from placement.db.statements import batches
from placement.objects.coexistence import ForeignWriteWatch
from placement.search.cloud import BLOCK, Cloud
from placement.search.records import CloudRows, ProviderRecord, Stock, UsedInventory
from placement.search.request import NameSets, UnknownName

LOG = logging.getLogger(__name__)
T = TypeVar("T")

RELOAD_FRACTION = 0.25
"""Of the providers changed, above which reading everything is cheaper than reading by id."""

COMPARE_EVERY_S = 60.0
"""At least so often revisions are compared, whatever the log says."""

assert BLOCK == 2**cloud_rows.BLOCK_BITS, "digests are compared block by block"


class _CloudSnapshot(NamedTuple):
    """What one snapshot has shown: the cloud as it was then, and how later changes will be noticed.

    ``cloud``: rows if all were read: to make a cloud of a million takes seconds, after the transaction.
    ``changed``: the cloud was not up to date. ``compared``: all revisions were. During a coexistence ``log``
    has no slots, and there are ``signs``.
    """

    cloud: Cloud | CloudRows
    changed: bool
    compared: bool = False
    log: Log = NO_LOG
    signs: coexistence_rows.Signs | None = None


class Picture:
    """What one process keeps in memory of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cloud: Cloud | None = None
        # The log as it was when the cloud was read, and its total.
        self._log, self._total = NO_LOG, 0
        self._next_comparison_s = 0.0
        # Of a cloud that was read during a coexistence.
        self._signs: coexistence_rows.Signs | None = None
        self._watch = ForeignWriteWatch(db)
        self._lock = threading.Lock()
        # The last search found changes: this one probably does too, and need not ask first.
        self._moving = True

    def read(self, work: Callable[[Cloud], T]) -> T:
        """Return ``work(cloud)`` on a cloud at least as new as this call.

        ``work`` runs under the lock of the picture, asks the database nothing, and keeps nothing of the
        cloud. Cost: one statement when nothing changed; two after claims, and four more after other changes.
        """
        self._watch.look()
        seen = None
        if not self._moving and time.monotonic() < self._next_comparison_s:
            seen = self._db.read(cloud_rows.total)
        with self._lock:
            if self._cloud is None or seen is None or seen != self._total:
                try:
                    cloud = self._read_now()
                except BaseException:
                    # A cloud that was changed half way is worse than none.
                    self._cloud = None
                    raise
            else:
                cloud = self._cloud
                _note("nothing", 0, len(cloud))
            return work(cloud)

    def _read_now(self) -> Cloud:
        """Read what has changed, and remember it only then: a snapshot that breaks off has shown nothing."""
        with _no_collection():
            taken = self._db.snapshot(self._brought_up_to_date)
            shown = taken.cloud
            cloud = Cloud.load(shown) if isinstance(shown, CloudRows) else shown
        self._cloud, self._signs, self._moving = cloud, taken.signs, taken.changed
        self._log, self._total = taken.log, taken.log.total
        if taken.compared:
            self._next_comparison_s = time.monotonic() + COMPARE_EVERY_S
        return cloud

    def read_knowing(self, named: NameSets, work: Callable[[Cloud, NameSets], T]) -> T:
        """Return ``work(cloud, known)``, where ``known`` are the names that exist but no provider has.

        The database is asked for these first, in one statement for traits and one for classes, and
        only for names that no provider has; most questions have none.

        :param named: all names that the question mentions.
        :raises UnknownName: by ``work``, for a name that neither the cloud has nor is known.
        """
        asked = self._unseen(named)
        known = self._existing(asked)
        try:
            return self.read(lambda cloud: work(cloud, known))
        except UnknownName as unknown:
            if unknown.is_among(asked):
                raise
        # The last provider that had it has lost it since.
        known = self._existing(named)
        return self.read(lambda cloud: work(cloud, known))

    def _unseen(self, named: NameSets) -> NameSets:
        """Return the names that no provider has in the cloud as it was last read; without the lock."""
        cloud = self._cloud
        if cloud is None:
            return named
        return NameSets(
            frozenset(name for name in named.traits if not cloud.has_trait(name)),
            frozenset(name for name in named.classes if not cloud.has_class(name)),
        )

    def _existing(self, named: NameSets) -> NameSets:
        return NameSets(
            self._those(named.traits, named_rows.TRAITS),
            self._those(named.classes, named_rows.CLASSES),
        )

    def _those(self, names: frozenset[str], key: named_rows.Key) -> frozenset[str]:
        def ask(batch: Sequence[str]) -> dict[str, int]:
            return self._db.read(lambda reader: named_rows.ids(reader, key, batch))

        return frozenset().union(*map(ask, batches(sorted(names))))

    def _brought_up_to_date(self, tx: Snapshot) -> _CloudSnapshot:
        log, cloud = cloud_rows.log(tx), self._cloud
        if log is None:
            return self._as_others_write(tx)
        if cloud is None or self._signs is not None:
            return _CloudSnapshot(_everything(tx), True, True, log)
        changed = None
        if time.monotonic() < self._next_comparison_s:
            changed = log.changed_since(self._log)
        compared = changed is None
        if changed is None:
            changed = Changed(_differing(tx, cloud), Counter())
        if any(changed):
            return _CloudSnapshot(_refreshed(tx, cloud, changed), True, compared, log)
        _note("nothing", 0, len(cloud))
        return _CloudSnapshot(cloud, False, compared, log)

    def _as_others_write(self, tx: Snapshot) -> _CloudSnapshot:
        """Return the cloud during a coexistence, read whole after any change."""
        signs = coexistence_rows.signs(tx)
        if self._cloud is None or signs != self._signs:
            return _CloudSnapshot(_everything(tx), True, signs=signs)
        _note("nothing", 0, len(self._cloud))
        return _CloudSnapshot(self._cloud, False, signs=signs)


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


def _note(kind: str, read: int, providers: int) -> None:
    telemetry.current().refreshes += ((kind, read, providers),)


def _everything(tx: Snapshot) -> CloudRows:
    contents, names = cloud_rows.everything(tx)
    LOG.debug("Read all %d resource providers for the search", len(contents.providers))
    _note("whole", len(contents.providers), len(contents.providers))
    return CloudRows(*contents, *names)


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


def _refreshed(tx: Snapshot, cloud: Cloud, changed: Changed) -> Cloud | CloudRows:
    """Return the cloud with these providers as they are now; the rows of all where these are too many."""
    stocks = {}
    if changed.stock:
        stocks = _stocks(cloud_rows.stocks(tx, changed.stock.keys()))
    explained = {
        key for key, stock in stocks.items() if _is_explained(cloud, stock, changed.stock[key])
    } - changed.whole
    whole = changed.whole | (changed.stock.keys() - explained)
    if len(whole) > RELOAD_FRACTION * len(cloud) + BLOCK:
        return _everything(tx)
    if whole:
        _replace(tx, cloud, whole)
    cloud.restock(stocks[key] for key in explained)
    _note("part", len(whole) + len(explained), len(cloud))
    return cloud


def _is_explained(cloud: Cloud, stock: Stock, times: int) -> bool:
    """Tell whether the writes that the log names are all that has moved the revision.

    Otherwise a change by hand beside them would never be seen.
    """
    index = cloud.index_of.get(stock.provider_id)
    return index is not None and int(cloud.revisions[index]) + times == stock.revision


def _replace(tx: Snapshot, cloud: Cloud, changed: set[int]) -> None:
    records = _records(cloud_rows.contents(tx, changed))
    found = {record.provider_id: record.uuid for record in records}
    # Gone, or, of an id that was used before (SQLite may do that), another one now.
    removed = {
        key
        for key in changed
        if key in cloud.index_of and cloud.uuids[cloud.index_of[key]] != found.get(key)
    }
    cloud.replace(records, removed)


def _stocks(rows: Iterable[Sequence[Any]]) -> dict[int, Stock]:
    found: dict[int, Stock] = {}
    for key, revision, generation, modified, name, *amounts in rows:
        stock = found.get(key)
        if stock is None:
            stock = found[key] = Stock(key, revision, generation, modified, {})
        if name is not None:
            stock.inventories[name] = UsedInventory.of(amounts)
    return found


def _records(contents: cloud_rows.Contents) -> list[ProviderRecord]:
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
            provider_id, uuid, revision, parent_id, root_id, name, generation, modified
        ) in contents.providers
    ]


def _by_provider(rows: Iterable[Sequence[Any]]) -> defaultdict[int, list[Sequence[Any]]]:
    grouped: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for provider_id, *rest in rows:
        grouped[provider_id].append(rest)
    return grouped

"""The picture: a ``Cloud`` in memory, brought up to date from the database before every use.

There is no background thread. Every write of what a search reads moves the revision of the provider and
names it in a log (:mod:`placement.db.change_rows`), in its own transaction. Whoever reads the picture asks
the database one question, whether the log has grown; when it has, it says which providers are to be read
again, and of which, after claims, inventories and usage alone. So whoever searches after a write was
acknowledged, in whichever process, sees it.

The log is short. Where it has been cut since, digests over (id, revision) are compared, of blocks of ids,
then the revisions of those blocks that differ. Once a minute that is done anyway, so that rows which
somebody has changed by hand, without a word in the log, are seen then. While another service may write
too, everything is compared that it could change, before each search.
"""

import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from placement import telemetry
from placement.db import class_rows, cloud_rows, coexistence_rows, trait_rows
from placement.db.change_rows import NO_LOG, Changed, Log
from placement.db.database import Access, Database, Snapshot
from placement.db.in_list import batches
from placement.objects.coexistence import Watch
from placement.search.cloud import BLOCK, Cloud
from placement.search.records import CloudRows, Inventory, ProviderRecord, Stock
from placement.search.request import Names, UnknownName

LOG = logging.getLogger(__name__)
T = TypeVar("T")

RELOAD_FRACTION = 0.25
"""Of the providers changed, above which reading everything is cheaper than reading by id."""

COMPARE_EVERY_S = 60.0
"""At least so often revisions are compared, whatever the log says."""

assert BLOCK == 2**cloud_rows.BLOCK_BITS, "digests are compared block by block"


class _Reading(NamedTuple):
    """What one snapshot has shown: the cloud as it was then, and how later changes will be noticed.

    ``cloud``: its rows, where all of them were read. A cloud of them is made when the snapshot is over: that
    takes seconds for a million providers, which no transaction should last without need.
    ``changed``: the cloud was not up to date. ``compared``: all revisions were. ``log`` has no slots during a
    coexistence; then there are ``signs``.
    """

    cloud: Cloud | CloudRows
    changed: bool
    compared: bool = False
    log: Log = NO_LOG
    signs: coexistence_rows.Signs | None = None


class Picture:
    """What one process keeps in memory of one database; made with the application, and its own."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cloud: Cloud | None = None
        # The log as it was when the cloud was read, and its total.
        self._log, self._total = NO_LOG, 0
        self._next_comparison_s = 0.0
        # Of a cloud that was read during a coexistence.
        self._signs: coexistence_rows.Signs | None = None
        self._watch = Watch(db)
        self._lock = threading.Lock()
        # Whether the last search found changes: then this one probably does too, and asking first
        # whether it does would be a wasted statement.
        self._moving = True

    def read(self, work: Callable[[Cloud], T]) -> T:
        """Return ``work(cloud)`` on a cloud at least as new as this call.

        ``work`` runs under the lock of the picture, asks the database nothing, and keeps nothing of
        the cloud. Cost: one statement when nothing changed; two, in one snapshot, after claims, and four more
        after other changes.
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
                telemetry.refreshed("nothing", 0, len(cloud))
            return work(cloud)

    def _read_now(self) -> Cloud:
        with _no_collection():
            reading = self._db.snapshot(self._brought_up_to_date)
            shown = reading.cloud
            cloud = Cloud.load(shown) if isinstance(shown, CloudRows) else shown
        self._keep(cloud, reading)
        return cloud

    def _keep(self, cloud: Cloud, reading: _Reading) -> None:
        """Remember what a snapshot has shown; one that breaks off and is begun again has shown nothing."""
        self._cloud, self._signs, self._moving = cloud, reading.signs, reading.changed
        self._log, self._total = reading.log, reading.log.total
        if reading.compared:
            self._next_comparison_s = time.monotonic() + COMPARE_EVERY_S

    def read_knowing(self, named: Names, work: Callable[[Cloud, Names], T]) -> T:
        """Return ``work(cloud, known)``, where ``known`` are the names that exist but nobody has.

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

    def _unseen(self, named: Names) -> Names:
        """Return the names that nobody has in the cloud as it was last read; without the lock."""
        cloud = self._cloud
        if cloud is None:
            return named
        return Names(
            frozenset(name for name in named.traits if not cloud.has_trait(name)),
            frozenset(name for name in named.classes if not cloud.has_class(name)),
        )

    def _existing(self, named: Names) -> Names:
        return Names(
            self._those(named.traits, trait_rows.existing),
            self._those(named.classes, class_rows.existing),
        )

    def _those(
        self, names: frozenset[str], existing: Callable[[Access, Sequence[str]], set[str]]
    ) -> frozenset[str]:
        def ask(batch: Sequence[str]) -> set[str]:
            return self._db.read(lambda reader: existing(reader, batch))

        return frozenset().union(*map(ask, batches(sorted(names))))

    def _brought_up_to_date(self, tx: Snapshot) -> _Reading:
        log, cloud = cloud_rows.log(tx), self._cloud
        if log is None:
            return self._as_others_write(tx)
        if cloud is None or self._signs is not None:
            return _Reading(_everything(tx), True, True, log)
        changed = None
        if time.monotonic() < self._next_comparison_s:
            changed = log.changed_since(self._log)
        compared = changed is None
        if changed is None:
            changed = Changed(_differing(tx, cloud), Counter())
        if any(changed):
            return _Reading(_refreshed(tx, cloud, changed), True, compared, log)
        telemetry.refreshed("nothing", 0, len(cloud))
        return _Reading(cloud, False, compared, log)

    def _as_others_write(self, tx: Snapshot) -> _Reading:
        """Return the cloud during a coexistence, read whole after any change."""
        signs = coexistence_rows.signs(tx)
        if self._cloud is None or signs != self._signs:
            return _Reading(_everything(tx), True, signs=signs)
        telemetry.refreshed("nothing", 0, len(self._cloud))
        return _Reading(self._cloud, False, signs=signs)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for garbage in what is being read: there is none, and it is much."""
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
    telemetry.refreshed("whole", len(contents.providers), len(contents.providers))
    return CloudRows(
        providers=contents.providers,
        inventories=contents.inventories,
        traits=contents.traits,
        aggregates=contents.aggregates,
        class_names=names.classes,
        trait_names=names.traits,
        aggregate_uuids=names.aggregates,
    )


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
    telemetry.refreshed("part", len(whole) + len(explained), len(cloud))
    return cloud


def _is_explained(cloud: Cloud, stock: Stock, times: int) -> bool:
    """Tell whether the writes that the log names are all that has moved the revision.

    What somebody has changed by hand beside them would never be seen otherwise.
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
            stock.inventories[name] = Inventory(*amounts)
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
            inventories={name: Inventory(*amounts) for name, *amounts in inventories[provider_id]},
            traits=frozenset(name for (name,) in traits[provider_id]),
            aggregates=frozenset(uuid for (uuid,) in aggregates[provider_id]),
            name=name,
            generation=generation,
            modified=modified,
        )
        for provider_id, uuid, revision, parent_id, root_id, *shown in contents.providers
        for name, generation, modified in [shown]
    ]


class _Rows(dict[int, list[Sequence[Any]]]):
    def __missing__(self, provider_id: int) -> list[Sequence[Any]]:
        return []


def _by_provider(rows: Iterable[Sequence[Any]]) -> _Rows:
    grouped = _Rows()
    for provider_id, *rest in rows:
        grouped.setdefault(provider_id, []).append(rest)
    return grouped

"""The picture: a ``Cloud`` in memory, brought up to date from the database before every use.

There is no change log and no background thread. Whoever reads the picture asks the database one
question, the digest over (id, revision) of all providers; when it differs from that of the cloud in
memory, the blocks of ids that differ are found, then the providers, and only those are read again.
Every committed change to what a search reads moves a revision, so whoever searches after a write
was acknowledged, in whichever process, sees it.
"""

import gc
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from placement import telemetry
from placement.db import class_rows, cloud_rows, coexistence_rows, trait_rows
from placement.db.database import Access, Database, Snapshot
from placement.db.in_list import batches
from placement.objects.coexistence import Watch
from placement.search.cloud import BLOCK, Cloud
from placement.search.records import CloudRows, Inventory, ProviderRecord
from placement.search.request import Names, UnknownName

LOG = logging.getLogger(__name__)
T = TypeVar("T")

RELOAD_FRACTION = 0.25
"""Of the providers changed, above which reading everything is cheaper than reading by id."""

assert BLOCK == 2**cloud_rows.BLOCK_BITS, "digests are compared block by block"


class Picture:
    """What one process keeps in memory of one database; made with the application, and its own."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cloud: Cloud | None = None
        # Of a cloud that was read during a coexistence.
        self._signs: coexistence_rows.Signs | None = None
        self._watch = Watch(db)
        self._lock = threading.Lock()
        # Whether the last search found changes: then this one probably does too, and asking first
        # whether it does would be a wasted pass over the providers.
        self._moving = True

    def read(self, work: Callable[[Cloud], T]) -> T:
        """Return ``work(cloud)`` on a cloud at least as new as this call.

        ``work`` runs under the lock of the picture, asks the database nothing, and keeps nothing of
        the cloud. Cost: one statement when nothing changed; six, in one snapshot, when something did.
        """
        self._watch.look()
        seen = None if self._moving else self._db.read(cloud_rows.digest)
        with self._lock:
            if self._cloud is None or seen is None or seen != self._cloud.digest():
                try:
                    self._cloud = self._db.snapshot(self._brought_up_to_date)
                except BaseException:
                    # A cloud that was changed half way is worse than none.
                    self._cloud = None
                    raise
            else:
                telemetry.refreshed("nothing", 0, len(self._cloud))
            return work(self._cloud)

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

    def _brought_up_to_date(self, tx: Snapshot) -> Cloud:
        theirs = cloud_rows.digests_by_block(tx)
        if theirs is None:
            return self._as_others_write(tx)
        if self._cloud is None or self._signs is not None:
            self._signs = None
            return _loaded(tx)
        ours = self._cloud.block_digests()
        differing = {
            block for block in theirs.keys() | ours.keys() if theirs.get(block) != ours.get(block)
        }
        self._moving = bool(differing)
        if not differing:
            telemetry.refreshed("nothing", 0, len(self._cloud))
            return self._cloud
        existing = differing & theirs.keys()
        revisions = cloud_rows.revisions(tx, existing) if existing else {}
        return _refreshed(tx, self._cloud, differing, revisions)

    def _as_others_write(self, tx: Snapshot) -> Cloud:
        """Return the cloud during a coexistence, read whole after any change."""
        signs = coexistence_rows.signs(tx)
        self._moving = self._cloud is None or signs != self._signs
        if self._cloud is None or self._moving:
            self._signs = signs
            return _loaded(tx)
        telemetry.refreshed("nothing", 0, len(self._cloud))
        return self._cloud


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


@_no_collection()
def _loaded(tx: Snapshot) -> Cloud:
    contents, names = cloud_rows.everything(tx)
    LOG.debug("Read all %d resource providers for the search", len(contents.providers))
    telemetry.refreshed("whole", len(contents.providers), len(contents.providers))
    return Cloud.load(
        CloudRows(
            providers=contents.providers,
            inventories=contents.inventories,
            traits=contents.traits,
            aggregates=contents.aggregates,
            class_names=names.classes,
            trait_names=names.traits,
            aggregate_uuids=names.aggregates,
        )
    )


def _refreshed(
    tx: Snapshot, cloud: Cloud, differing: set[int], revisions: Mapping[int, int]
) -> Cloud:
    """Return the cloud with the providers of the differing blocks as they are now.

    :param revisions: by id, of all providers that these blocks have.
    """
    held: dict[int, int] = {}
    for block in differing:
        held |= cloud.block_revisions(block)
    changed = [key for key, revision in revisions.items() if held.get(key) != revision]
    if len(changed) > RELOAD_FRACTION * len(cloud) + BLOCK:
        return _loaded(tx)
    records = _records(cloud_rows.contents(tx, changed)) if changed else []
    # An id that was used before (SQLite may do that) belongs to another provider now.
    reused = {
        record.provider_id
        for record in records
        if record.provider_id in held
        and cloud.uuids[cloud.index_of[record.provider_id]] != record.uuid
    }
    cloud.replace(records, (held.keys() - revisions.keys()) | reused)
    telemetry.refreshed("part", len(records), len(cloud))
    return cloud


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

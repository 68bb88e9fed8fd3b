"""The cloud in memory: filled from the database, and brought up to date before every search.

There is no change log and no background thread. A search asks the database one question, the
digest over (id, revision) of all providers; when it differs from that of the picture in memory, the
blocks of ids that differ are found, then the providers, and only those are read again. Every
committed change to what a search reads moves a revision, so whoever searches after a write was
acknowledged, in whichever process, sees it.
"""

import gc
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from placement.db import class_rows, cloud_rows, trait_rows
from placement.db.api import Database, Transaction
from placement.search.cloud import BLOCK, Cloud
from placement.search.records import CloudRows, Inventory, ProviderRecord

LOG = logging.getLogger(__name__)
T = TypeVar("T")

RELOAD_FRACTION = 0.25
"""Of the providers changed, above which reading everything is cheaper than reading by id."""

assert BLOCK == 2**cloud_rows.BLOCK_BITS, "digests are compared block by block"


class LivingCloud:
    """The picture that one process keeps of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cloud: Cloud | None = None
        self._lock = threading.Lock()
        # Whether the last search found changes: then this one probably does too, and asking first
        # whether it does would be a wasted pass over the providers.
        self._moving = True

    def search(self, work: Callable[[Cloud], T]) -> T:
        """Return ``work(cloud)`` on a picture at least as new as this call.

        ``work`` runs under the lock of the picture and keeps nothing of it. Cost: one statement
        when nothing changed; six, in one snapshot, when something did.
        """
        seen = None if self._moving else self._db.read(cloud_rows.digest)
        with self._lock:
            if self._cloud is None or seen != self._cloud.digest():
                try:
                    self._cloud = self._db.snapshot(self._brought_up_to_date)
                except BaseException:
                    # A picture that was changed half way is worse than none.
                    self._cloud = None
                    raise
            return work(self._cloud)

    def _brought_up_to_date(self, tx: Transaction) -> Cloud:
        if self._cloud is None:
            return _loaded(tx)
        theirs = cloud_rows.digests_by_block(tx)
        ours = self._cloud.block_digests()
        differing = {
            block for block in theirs.keys() | ours.keys() if theirs.get(block) != ours.get(block)
        }
        self._moving = bool(differing)
        if not differing:
            return self._cloud
        existing = differing & theirs.keys()
        revisions = cloud_rows.revisions(tx, existing) if existing else {}
        return _refreshed(tx, self._cloud, differing, revisions)


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
def _loaded(tx: Transaction) -> Cloud:
    contents, names = cloud_rows.everything(tx)
    LOG.debug("Read all %d resource providers for the search", len(contents.providers))
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
    tx: Transaction, cloud: Cloud, differing: set[int], revisions: Mapping[int, int]
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


_clouds: WeakKeyDictionary[Database, LivingCloud] = WeakKeyDictionary()
_clouds_lock = threading.Lock()


def search(db: Database, work: Callable[[Cloud], T]) -> T:
    """Return ``work(cloud)`` on this process's picture of the database (contract 04).

    See :meth:`LivingCloud.search`.
    """
    with _clouds_lock:
        living = _clouds.get(db)
        if living is None:
            living = _clouds[db] = LivingCloud(db)
    return living.search(work)


def trait_exists(db: Database, name: str) -> bool:
    """Say whether there is a trait of this name, on any provider or on none. One statement."""
    return bool(db.read(lambda tx: trait_rows.ids(tx, [name])))


def class_exists(db: Database, name: str) -> bool:
    """Say whether there is a resource class of this name. One statement."""
    return bool(db.read(lambda tx: class_rows.ids(tx, [name])))

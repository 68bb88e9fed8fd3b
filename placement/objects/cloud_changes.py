"""Changes of a cloud: the data of the database that the cloud lacks. This module has rows and no threads.

Every write of search data moves the revision of the provider and names it in a log
(:mod:`placement.db.change_rows`), in its own transaction. So the log says which providers to read again;
after claims only their inventories and usage. If the log has been cut since, digests of blocks of ids are
compared, then the revisions in the differing blocks. During a coexistence checksums of everything that
another service could change are compared.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from placement import telemetry
from placement.db import cloud_rows
from placement.db.change_rows import Changed, Log
from placement.db.coexistence.checksums import ForeignChangeChecksums, read_checksums
from placement.db.database import Snapshot
from placement.search.cloud import BLOCK, Cloud
from placement.search.records import CloudRows, ProviderRecord, Stock, UsedInventory

LOG = logging.getLogger(__name__)

RELOAD_FRACTION = 0.25
"""The share of changed providers above which reading everything is cheaper than reading by id."""

assert BLOCK == 2**cloud_rows.BLOCK_BITS, "digests are compared block by block"

Mark = Log | ForeignChangeChecksums
"""The mark by which later changes of a cloud are noticed: the log, or during a coexistence the checksums."""


class Changes(NamedTuple):
    """Changes of a cloud: providers to store whole, ids of deleted ones, and changes by claims."""

    records: list[ProviderRecord]
    removed: set[int]
    stocks: list[Stock]

    def apply_to(self, cloud: Cloud) -> None:
        """Bring a cloud up to date."""
        if self.records or self.removed:
            cloud.replace(self.records, self.removed)
        cloud.restock(self.stocks)


class CloudUpdate(NamedTuple):
    """The contents of one snapshot that a cloud lacks: everything, changes, or None for nothing.

    ``compared``: whether all revisions were compared. ``any_expired``: whether some allocations have expired,
    so that their room must be freed.
    """

    mark: Mark
    news: CloudRows | Changes | None
    compared: bool
    any_expired: bool


def read_update(
    tx: Snapshot, cloud: Cloud | None, mark: Mark | None, *, compare: bool
) -> CloudUpdate:
    """Read the changes since the state of a cloud; everything if there is no cloud.

    One statement if the log names nothing; one more after claims, four more after other changes.

    :param compare: compare revisions too, since the log does not name changes by hand.
    """
    log, any_expired = cloud_rows.log(tx)
    if log is None:
        before = mark if isinstance(mark, ForeignChangeChecksums) else None
        checksums = read_checksums(tx, before)
        ranges = checksums.changed_since(before) if before else None
        # Checksums do not cover rows that were read before the coexistence, so everything is read again.
        if cloud is None or ranges is None:
            return CloudUpdate(checksums, _read_everything(tx), False, any_expired)
        ids = {id_ for each in ranges for id_ in each if id_ in cloud.index_of}
        return CloudUpdate(checksums, _read_changes(tx, cloud, Changed(ids, Counter())), False, any_expired)
    if cloud is None or not isinstance(mark, Log):
        # The other service's writes before the end did not move revisions, so a comparison would not find
        # them.
        return CloudUpdate(log, _read_everything(tx), True, any_expired)
    changed = None if compare else log.changed_since(mark)
    compared = changed is None
    if changed is None:
        changed = Changed(_find_differing(tx, cloud), Counter())
    return CloudUpdate(log, _read_changes(tx, cloud, changed), compared, any_expired)


def _read_everything(tx: Snapshot) -> CloudRows:
    contents, names = cloud_rows.everything(tx)
    LOG.debug("Read all %d resource providers for the search", len(contents.providers))
    telemetry.note_refresh("whole", len(contents.providers), len(contents.providers))
    # The cloud is made after the snapshot: that takes seconds for a million providers, and a server can end a
    # transaction meanwhile.
    return CloudRows(*contents, *names)


def _find_differing(tx: Snapshot, cloud: Cloud) -> set[int]:
    """Return the ids of the providers that are missing on one side or differ in their revisions."""
    theirs, ours = cloud_rows.digests_by_block(tx), cloud.block_digests()
    blocks = {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}
    existing = blocks & theirs.keys()
    revisions = cloud_rows.revisions(tx, existing) if existing else {}
    held: dict[int, int] = {}
    for block in blocks:
        held |= cloud.block_revisions(block)
    return {key for key in held.keys() | revisions.keys() if held.get(key) != revisions.get(key)}


def _read_changes(tx: Snapshot, cloud: Cloud, changed: Changed) -> CloudRows | Changes | None:
    """Read these providers as they are now; everything if they are too many, nothing if there are none."""
    if not any(changed):
        telemetry.note_refresh("nothing", 0, len(cloud))
        return None
    stocks: dict[int, Stock] = {}
    rows = cloud_rows.stocks(tx, changed.stock.keys()) if changed.stock else ()
    for key, revision, generation, modified, name, *amounts in rows:
        if key not in stocks:
            stocks[key] = Stock(key, revision, generation, modified, {})
        # A provider without inventory has one row without a class.
        if name is not None:
            stocks[key].inventories[name] = UsedInventory.from_amounts(amounts)
    explained = {
        key for key, stock in stocks.items() if _is_explained(cloud, stock, changed.stock[key])
    } - changed.whole
    whole = changed.whole | (changed.stock.keys() - explained)
    if len(whole) > RELOAD_FRACTION * len(cloud) + BLOCK:
        return _read_everything(tx)
    records = make_records(cloud_rows.contents(tx, whole)) if whole else []
    found = {record.provider_id: record.uuid for record in records}
    # The provider was deleted, or its id was reused for another provider, which SQLite can do.
    removed = {
        key
        for key in whole
        if key in cloud.index_of and cloud.uuids[cloud.index_of[key]] != found.get(key)
    }
    telemetry.note_refresh("part", len(whole) + len(explained), len(cloud))
    return Changes(records, removed, [stocks[key] for key in explained])


def _is_explained(cloud: Cloud, stock: Stock, times: int) -> bool:
    """Return whether the writes in the log explain the whole move of the revision.

    If not, there was a change by hand too, which would otherwise never be seen.
    """
    index = cloud.index_of.get(stock.provider_id)
    return index is not None and int(cloud.revisions[index]) + times == stock.revision


def make_records(contents: cloud_rows.Contents) -> list[ProviderRecord]:
    """Return the search's records of these providers."""
    inventories = _group_by_provider(contents.inventories)
    traits = _group_by_provider(contents.traits)
    aggregates = _group_by_provider(contents.aggregates)
    return [
        ProviderRecord(
            provider_id=provider_id,
            uuid=uuid,
            revision=revision,
            parent_id=parent_id,
            root_id=root_id,
            inventories={
                held: UsedInventory.from_amounts(amounts) for held, *amounts in inventories[provider_id]
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


def _group_by_provider(rows: Iterable[Sequence[Any]]) -> defaultdict[int, list[Sequence[Any]]]:
    grouped: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for provider_id, *rest in rows:
        grouped[provider_id].append(rest)
    return grouped

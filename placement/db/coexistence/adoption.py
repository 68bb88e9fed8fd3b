"""Adoption of another service's writes: its providers are counted again from the ledger and marked."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from sqlalchemy import exists, func, literal, or_, select, update

from placement.db import allocation_rows, counters, digests, models, provider_rows, writes
from placement.db.change import Change
from placement.db.coexistence.state import IS_FOREIGN, IS_NOTED, is_under_way
from placement.db.database import MOST_TURNS, Access, Database, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.provider_rows import LockedProvider
from placement.db.statements import is_one_of
from placement.printable import escape_unprintable

LOG = logging.getLogger(__name__)

BATCH = 500
"""The number of providers that one transaction counts again."""

_providers = models.resource_providers
_inventories = models.inventories

# The ids of a provider and of a resource class.
_Key = tuple[int, int]


def recount_doubted(
    tx: Transaction,
    providers: Collection[LockedProvider],
    inventories: dict[_Key, InventoryRow],
    written: Mapping[_Key, int],
) -> dict[_Key, InventoryRow]:
    """Return the inventories of locked providers, counted from the ledger where a counter may be wrong.

    Providers that another service wrote after the coexistence are marked as ours again.

    :param written: the amounts by which this transaction has already changed the ledger.
    """
    doubted = {provider.id: provider for provider in providers if not provider.counted}
    if not doubted:
        return inventories
    sums = allocation_rows.sums(tx, doubted)
    right = {
        key: replace(row, used=sums.get(key, 0) - written.get(key, 0))
        for key, row in inventories.items()
        if key[0] in doubted
    }
    # During a coexistence the counters stay wrong. Correcting them would change the sums by which the watch
    # notices foreign writes, and the watch would never find the other service quiet.
    if not is_under_way(tx):
        counters.correct(tx, {row.id: row.used for row in right.values()})
        mark_ours(tx, doubted)
        for provider in doubted.values():
            log_foreign_write(provider.uuid)
    return inventories | right


def adopt_foreign(db: Database) -> None:
    """Count again the providers that another service wrote after the coexistence, and log them."""
    for _ in range(MOST_TURNS):
        names = db.write(partial(adopt_some, most=BATCH))
        for name in names:
            log_foreign_write(name)
        if not names:
            return


def log_foreign_write(name: str) -> None:
    """Log that another service wrote a provider, and that the provider was counted again."""
    LOG.error(
        "Another service wrote resource provider %s although the coexistence has ended; its usage was"
        " counted again. Stop that service, or run placement-manage db release",
        escape_unprintable(name),
    )


def adopt_some(tx: Transaction, most: int) -> list[str]:
    """Count providers again that another service wrote, mark them as ours, and return their names."""
    rows = tx.rows(
        select(_providers.c.id, func.coalesce(_providers.c.name, _providers.c.uuid))
        .where(IS_FOREIGN)
        .order_by(_providers.c.id)
        .limit(most)
    )
    names = {row[0]: row[1] for row in rows}
    # A write that stepped a provider meanwhile has already done this; a repetition is harmless.
    ids = [provider.id for provider in provider_rows.lock(tx, (), names).values()]
    adopt(tx, ids)
    writes.finish(tx, Change())
    return [names[id_] for id_ in ids]


def adopt(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Count the usage of locked providers from the ledger, and mark them as ours. Two statements."""
    if not provider_ids:
        return
    tx.change(
        update(_inventories)
        .where(is_one_of(_inventories.c.resource_provider_id, sorted(provider_ids)))
        .values(used=counters.LEDGER_SUM, updated_at=_inventories.c.updated_at)
    )
    mark_ours(tx, provider_ids)


def mark_ours(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Mark locked providers as ours; their counters are right. One statement."""
    tx.change(
        update(_providers)
        .where(is_one_of(_providers.c.id, sorted(provider_ids)))
        .ordered_values(
            # Older services could store a generation of NULL, which reads as 0, so it must not look foreign.
            (_providers.c.generation, func.coalesce(_providers.c.generation, 0)),
            (_providers.c.own_generation, func.coalesce(_providers.c.generation, 0)),
            # The other service does not move revisions: without this move no search would read its writes.
            *digests.revise().items(),
            (_providers.c.updated_at, _providers.c.updated_at),
        )
    )
    # The log cannot name the providers: the other service may have moved some out of another tree, which only
    # the old rows would show.
    tx.is_unnamed = True


def is_quiet(access: Access) -> bool:
    """Return whether the other service wrote no provider and every counter equals the ledger.

    Both must have been true for long: a scrub that corrects a counter restarts the time.
    """
    foreign_one = exists(select(literal(1)).select_from(_providers).where(IS_FOREIGN))
    # A deletion of allocations by the other service does not step the generation of a provider.
    wrong = exists(
        select(literal(1))
        .select_from(_inventories)
        .where(_inventories.c.used != counters.LEDGER_SUM)
    )
    return not access.value(select(or_(foreign_one, wrong, ~IS_NOTED)))

"""Data migrations that run at the same time as the service, from schema b4ed3a175331 on.

Specification 06 section 7.4.

A statement that names a column of a later schema first checks whether the column exists.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, inspect, select, update

from placement import installed
from placement.db import models, named_rows, owner_usage_rows, writes
from placement.db.change import Change
from placement.db.consumer_rows import UUIDS_WITHOUT_RECORD
from placement.db.database import Database, StaleRead, Transaction
from placement.db.owner_usage_rows import Account
from placement.db.statements import is_one_of

_providers = models.resource_providers
_allocations = models.allocations
_consumers = models.consumers


@dataclass(frozen=True, slots=True)
class IncompleteIds:
    """The external ids of the owner of allocations that were written without one."""

    project: str
    user: str


Migration = Callable[[Database, IncompleteIds, int], tuple[int, int]]
"""Changes at most so many rows, in one transaction; returns how many were found and changed."""

NamedMigrations = tuple[tuple[str, Migration], ...]
"""Migrations with their names, for which scripts look in the output of the command."""


def set_root_provider_ids(
    database: Database, _ids: IncompleteIds, max_count: int
) -> tuple[int, int]:
    """Make every provider without a root its own root: the provider is older than nesting."""
    done = database.write(lambda tx: _set_roots(tx, max_count))
    return done, done


def _set_roots(tx: Transaction, max_count: int) -> int:
    wanted = (
        select(_providers.c.id)
        .where(_providers.c.root_provider_id.is_(None))
        .order_by(_providers.c.id)
        .limit(max_count)
    )
    ids = tx.column(wanted)
    if not ids:
        return 0
    done = tx.change(
        update(_providers)
        .where(is_one_of(_providers.c.id, ids), _providers.c.root_provider_id.is_(None))
        .values(root_provider_id=_providers.c.id, updated_at=models.now())
    )
    # A searching worker must see the new root.
    writes.finish(tx, Change(touched=ids if _is_searched(tx) else ()))
    return done


def create_incomplete_consumers(
    database: Database, ids: IncompleteIds, max_count: int
) -> tuple[int, int]:
    """Create the missing consumer records of allocations; their owner has the incomplete ids."""
    done = database.write(lambda tx: _create_consumers(tx, ids, max_count))
    return done, done


def _create_consumers(tx: Transaction, ids: IncompleteIds, max_count: int) -> int:
    owner = {
        "project_id": named_rows.create(tx, named_rows.PROJECTS, [ids.project])[ids.project],
        "user_id": named_rows.create(tx, named_rows.USERS, [ids.user])[ids.user],
    }
    missing = tx.column(
        UUIDS_WITHOUT_RECORD.order_by(_allocations.c.consumer_id).limit(max_count)
    )
    # The rows are locked, so that no consumer is made for allocations that are being deleted.
    held = (
        select(_allocations.c.consumer_id)
        .where(is_one_of(_allocations.c.consumer_id, missing))
        .order_by(_allocations.c.id)
        .with_for_update()
    )
    uuids = sorted(set(tx.column(held))) if missing else []
    # Generations are left out: the column has a default, and the oldest schema has no such column.
    common = {**owner, "created_at": models.now()}
    done = tx.insert_missing(_consumers, [{"uuid": uuid, **common} for uuid in uuids])
    if done < len(uuids):
        # Another writer was faster. If this error repeats, something is wrong (on PostgreSQL, copied
        # rows with ids that their sequence has not reached), and "complete" would be false.
        raise StaleRead("a consumer could not be inserted")
    if not uuids:
        return done
    held_on, sums = set[int](), dict[Account, int]()
    if _is_searched(tx):
        # Trees show the owners of their allocations.
        placed = select(_allocations.c.resource_provider_id).where(
            is_one_of(_allocations.c.consumer_id, uuids)
        )
        held_on.update(tx.column(placed))
    if inspect(tx.connection).has_table(models.owner_usages.name):
        sums = _count_for_owner(tx, uuids, **owner)
    writes.finish(tx, Change(touched=held_on, owner_usages=sums))
    return done


def _is_searched(tx: Transaction) -> bool:
    """Return whether workers of this release can run: the schema has the log of changes that they read."""
    return inspect(tx.connection).has_table(models.provider_changes.name)


def _count_for_owner(
    tx: Transaction, uuids: list[str], project_id: int, user_id: int
) -> dict[Account, int]:
    """Return the amounts by which the sums of the new owner of these consumers increase."""
    of_class = _allocations.c.resource_class_id
    sums = (
        select(of_class, func.sum(_allocations.c.used))
        .where(is_one_of(_allocations.c.consumer_id, uuids))
        .group_by(of_class)
    )
    amounts = {class_id: int(amount) for class_id, amount in tx.rows(sums)}
    amounts[owner_usage_rows.CONSUMERS] = len(uuids)
    return {
        Account(project_id, user_id, owner_usage_rows.NO_TYPE, class_id): amount
        for class_id, amount in amounts.items()
    }


MIGRATIONS: NamedMigrations = (
    ("set_root_provider_ids", set_root_provider_ids),
    ("create_incomplete_consumers", create_incomplete_consumers),
)


def list_migrations() -> NamedMigrations:
    """Return the migrations in the order of their execution, those of the installed extensions last."""
    others = installed.find_modules("data_migrations").values()
    return (*MIGRATIONS, *(each for module in others for each in module.MIGRATIONS))

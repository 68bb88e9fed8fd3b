"""The two calls of every write: :func:`take` when its rows are locked, :func:`finish` as its last line.

``finish`` writes all that depends on a change: usage counters, generations and revisions of providers, the
log of changed providers, and the sums of owners. It also notifies the watchers of the transaction. A
transaction that changes what the API shows and ends without ``finish`` is rolled back
(:meth:`placement.db.database.Database.write`).

If the driver accepts several statements, they are sent with COMMIT (:meth:`Transaction.change_later`). Then
no answer of the database is waited for while a provider is locked.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, bindparam, func, select, update

from placement import telemetry
from placement.db import change_rows, counters, digests, models, statements
from placement.db.change import Change
from placement.db.database import Transaction
from placement.db.owner_usage_rows import SLOTS, Account
from placement.db.statements import CompiledStatement, Statement

_providers = models.resource_providers
_inventories = models.inventories


class UncheckedPlace(NamedTuple):
    """The provider of an everyday claim, which the transaction has not locked.

    ``revision``: the required revision; None for any.
    """

    provider_id: int
    revision: int | None = None


def take(
    tx: Transaction,
    *,
    providers: Collection[str] = (),
    consumers: Collection[str] = (),
    new_consumers: Collection[str] = (),
) -> None:
    """Let the watchers read the rows before the write changes them.

    Call this when no other transaction can change them any more: providers are locked or do not exist yet,
    and a concurrent write of a consumer makes this write fail.

    :param providers: uuids of providers that are written themselves, not only their usage.
    :param consumers: uuids of consumers; ``new_consumers``: the uuids of those that do not exist yet.
    """
    for watcher in tx.watchers:
        tx.watching.append(watcher.take(tx, providers, consumers, new_consumers))


def finish(tx: Transaction, change: Change, place: UncheckedPlace | None = None) -> None:
    """Write all that follows from a change; the last line of a write whose providers are locked.

    :param place: the one provider of a claim, with the amounts of the change, at most
        ``statements.SIZES[-1]`` records. The provider is not locked: a condition of the statement checks the
        room.
    :raises StaleRead: the generation of a provider has changed since it was read; or ``place`` is full, was
        deleted, has a wrong counter, or has another revision.
    """
    # The order is: inventories, the log, then owners. Every writer locks in this order
    # (docs/maintainers/writes.rst).
    if place is None:
        for part in statements.batch_pairs(sorted(change.counters)):
            tx.change_later(_add_to_counters(part))
        _advance(tx, change)
    else:
        _claim_if_room(tx, change, place)
    _write_log(tx, change)
    _add_owner_usages(tx, change.owner_usages)
    for tell in tx.watching:
        tell(change)
    tx.watching.clear()
    tx.unfinished = ""


# -- providers -----------------------------------------------------------------------------------


def _advance(tx: Transaction, change: Change) -> None:
    """Move generations and revisions. One statement for each number of steps, and for each other kind."""
    # The rows are locked, but only one node of a Galera cluster knows a lock: two nodes collide on the
    # comparison of generations.
    step, touch = (_STEP, _TOUCH) if change.usage_only else (_STEP_CHANGED, _TOUCH_CHANGED)
    for steps, providers in sorted(change.stepped.items()):
        for part in statements.batch_pairs(sorted(providers)):
            given = statements.as_read(part) | {"steps": steps, "now": models.now()}
            tx.change_later(step, given, expected_rows=len(part))
    if change.touched:
        tx.change_later(touch, {"touched": sorted(change.touched)})
    for class_id in change.renamed_classes:
        tx.change(_MOVE_REVISIONS_WITH_CLASS, {"class": class_id})


_steps = {
    _providers.c.generation: func.coalesce(_providers.c.generation, 0) + bindparam("steps"),
    # The own generation is added to, not set: steps of another service remain as the difference of the two,
    # by which its writes are noticed (placement.db.coexistence).
    _providers.c.own_generation: _providers.c.own_generation + bindparam("steps"),
}
_times: dict[Any, ColumnElement[Any]] = {_providers.c.updated_at: bindparam("now")}
# The API shows the provider unchanged, so its modified time stays.
_no_times: dict[Any, ColumnElement[Any]] = {_providers.c.updated_at: _providers.c.updated_at}
# The own revision is added to as well: a worker of a release without digests moves only the revision.
_revised = {
    _providers.c.own_revision: _providers.c.own_revision + 1,
    _providers.c.revision: _providers.c.revision + 1,
}
_step = update(_providers).values({**_steps, **_revised, **_times})
_step_changed = update(_providers).ordered_values(
    *{**_steps, **digests.revise(), **_times}.items()
)
_touch = update(_providers).values({**_revised, **_no_times})
_touch_changed = update(_providers).ordered_values(*{**digests.revise(), **_no_times}.items())

_STEP, _STEP_CHANGED = (
    CompiledStatement(each.where(*statements.are_unmoved(_providers)), *statements.AS_READ)
    for each in (_step, _step_changed)
)
_TOUCH, _TOUCH_CHANGED = (
    CompiledStatement(each.where(statements.is_among(_providers.c.id, "touched")), "touched")
    for each in (_touch, _touch_changed)
)
# The providers are not locked, so the scrub writes their digests: their own revision lags behind.
_MOVE_REVISIONS_WITH_CLASS = CompiledStatement(
    update(_providers)
    .values({_providers.c.revision: _providers.c.revision + 1, **_no_times})
    .where(
        _providers.c.id.in_(
            select(_inventories.c.resource_provider_id).where(
                _inventories.c.resource_class_id == bindparam("class")
            )
        )
    )
)


def _write_log(tx: Transaction, change: Change) -> None:
    """Log the changed providers. Usually one statement."""
    # The log is written last, when all providers are locked: two writers that took a slot first could
    # deadlock.
    advanced = {*change.touched, *(id_ for each in change.stepped.values() for id_, _ in each)}
    if change.usage_only:
        change_rows.note(tx, advanced, stock_only=True)
        advanced = set()
    change_rows.note(tx, advanced.union(change.written))
    if change.left is not None:
        change_rows.note(tx, change.left.provider_ids, left=change.left.root_uuid)
    # A class can have thousands of providers, and an entry of the log only fits a few dozen ids.
    if change.is_unnamed or change.renamed_classes or tx.is_unnamed:
        change_rows.note_unnamed(tx)
        tx.is_unnamed = False


# -- an everyday claim ---------------------------------------------------------------------------


def _claim_if_room(tx: Transaction, change: Change, place: UncheckedPlace) -> None:
    # The check is only approximate here: the statement also waits for the lock, in the same message as
    # everything that follows.
    telemetry.note_lock()
    given = {"provider": place.provider_id, "steps": 1, "now": models.now()}
    if place.revision is None:
        tx.change_later(_STEP_IF_COUNTED, given, expected_rows=1)
    else:
        tx.change_later(_STEP_IF_UNMOVED, {**given, "seen": place.revision}, expected_rows=1)
    # A record without room is missing in the count, which undoes the whole write: an amount is never written
    # in part.
    adding = _add_to_counters(sorted(change.counters), _ADD_IF_ROOM)
    tx.change_later(adding, expected_rows=len(change.counters))
    change_rows.note(tx, [place.provider_id], stock_only=True)


# Any generation matches: the claim does not depend on anything that was read of the provider.
_if_counted = _step.where(_providers.c.id == bindparam("provider"), counters.ARE_RIGHT)
_STEP_IF_COUNTED = CompiledStatement(_if_counted)
# The condition says that the provider's search data is unchanged.
_STEP_IF_UNMOVED = CompiledStatement(
    _if_counted.where(_providers.c.revision == bindparam("seen"))
)


# -- counters of usage ---------------------------------------------------------------------------

_amount = statements.by_key(_inventories.c.id, _inventories.c.used, "key", "by")
_counters = (
    update(_inventories)
    .where(statements.is_among(_inventories.c.id, "key"))
    # The API shows the record unchanged, so its modified time stays.
    .values(used=_inventories.c.used + _amount, updated_at=_inventories.c.updated_at)
)
_ADD = CompiledStatement(_counters, "key", "by")
# This is the rule of placement.objects.replacement.has_room, on the row at the time of the write: UPDATE
# locks the row and checks its newest values. Values read without a lock only show whether a try is
# worthwhile.
_ADD_IF_ROOM = CompiledStatement(
    _counters.where(
        _inventories.c.min_unit <= _amount,
        _inventories.c.max_unit >= _amount,
        _amount % statements.step_of(_inventories) == 0,
        # The product is not rounded down: usage is a whole number, so it fits both or neither.
        _inventories.c.used + _amount <= statements.capacity_of(_inventories),
    ),
    "key",
    "by",
)


def _add_to_counters(
    changes: Sequence[tuple[int, int]], statement: CompiledStatement = _ADD
) -> Statement:
    given = {"key": [key for key, _ in changes], "by": [amount for _, amount in changes]}
    return Statement(statement, given)


# -- sums of owners ------------------------------------------------------------------------------

_ON_CONFLICT = (
    " ON CONFLICT (project_id, user_id, consumer_type_id, resource_class_id, slot) "
    "DO UPDATE SET used = owner_usages.used + excluded.used"
)
# VALUES(used) is deprecated by MySQL since 8.0.20, but MariaDB has no alias for the new row.
_OR_ADD = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": " ON DUPLICATE KEY UPDATE used = used + VALUES(used)",
}


def _add_owner_usages(tx: Transaction, changes: Mapping[Account, int]) -> None:
    """Add to the sums of owners. One statement, the last of a transaction: it locks a slot until COMMIT."""
    # Transactions that share this slot share the slot of the log too, and have already queued there.
    slot = tx.slot_seed % SLOTS
    columns = tuple(models.owner_usages.c.keys())
    # The rows are sorted, since an upsert of several rows locks them one after the other.
    rows = sorted((*account, slot, change) for account, change in changes.items() if change)
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    tx.insert_later(models.owner_usages, named, or_add=_OR_ADD[tx.dialect])

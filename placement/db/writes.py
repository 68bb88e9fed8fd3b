"""The two calls of every write: :func:`take` when its rows are locked, :func:`finish` as its last line.

``finish`` writes all that depends on a change: usage counters, generations and revisions of providers, the
log of changed providers, the sums of owners; and it tells the watchers of the transaction. A transaction that
changes what the API shows and ends without ``finish`` is rolled back
(:meth:`placement.db.database.Database.write`).

The statements are sent with COMMIT where the driver takes several (:meth:`Transaction.change_later`), so that
there is no round trip between the lock on a provider and the commit.
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

    ``revision``: the one that it must have; None for any.
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
    """Let the watchers see what is there before the write changes it.

    To be called when nobody else can change it any more: providers are locked, or not there yet; a concurrent
    write of a consumer makes this one fail.

    :param providers: uuids of providers that are written themselves, not only what is used of them.
    :param consumers: uuids of consumers; ``new_consumers``: of those that do not exist yet.
    """
    for watcher in tx.watchers:
        tx.watching.append(watcher.take(tx, providers, consumers, new_consumers))


def finish(tx: Transaction, change: Change, place: UncheckedPlace | None = None) -> None:
    """Write all that follows from a change; the last line of a write whose providers are locked.

    :param place: the one provider of a claim, with the amounts of the change, at most
        ``statements.SIZES[-1]`` records. It is not locked: whether there is room is a condition of the
        statement.
    :raises StaleRead: the generation of a provider is not the one that was read; for ``place``: there is no
        room, or the provider no longer exists, or its counters are not right, or its revision is another one.
    """
    # Inventories, the log, then owners: every writer takes locks in this order (docs/maintainers/writes.rst).
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
    """Move generations and revisions. A statement for each number of steps, and for each other kind."""
    # The rows are locked, but a lock is known to one node of a Galera cluster only: the comparison of
    # generations is what two nodes collide on.
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
    # Added to, not set: what another service has stepped meanwhile remains as the difference of the two, by
    # which its writes are noticed (placement.db.coexistence).
    _providers.c.own_generation: _providers.c.own_generation + bindparam("steps"),
}
_times: dict[Any, ColumnElement[Any]] = {_providers.c.updated_at: bindparam("now")}
# The provider as the API shows it does not change, so its modified time stays.
_no_times: dict[Any, ColumnElement[Any]] = {_providers.c.updated_at: _providers.c.updated_at}
# Added to as well: a worker of a release without digests moves the revision alone.
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
# The providers are not locked, so the scrub writes their digests: their own revision is behind.
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
    """Name in the log what has changed. As a rule one statement."""
    # Last, when all providers are locked: two writers that took a slot first could wait for one another.
    advanced = {*change.touched, *(id_ for each in change.stepped.values() for id_, _ in each)}
    if change.usage_only:
        change_rows.note(tx, advanced, stock_only=True)
        advanced = set()
    change_rows.note(tx, advanced.union(change.written))
    if change.left is not None:
        change_rows.note(tx, change.left.provider_ids, left=change.left.root_uuid)
    # The providers of a class may be thousands, and an entry of the log has room for a few dozen ids.
    if change.is_unnamed or change.renamed_classes or tx.is_unnamed:
        change_rows.note_unnamed(tx)
        tx.is_unnamed = False


# -- an everyday claim ---------------------------------------------------------------------------


def _claim_if_room(tx: Transaction, change: Change, place: UncheckedPlace) -> None:
    # Nearly: the statement waits for the lock as well, in the same message as all that follows.
    telemetry.note_lock()
    given = {"provider": place.provider_id, "steps": 1, "now": models.now()}
    if place.revision is None:
        tx.change_later(_STEP_IF_COUNTED, given, expected_rows=1)
    else:
        tx.change_later(_STEP_IF_UNMOVED, {**given, "seen": place.revision}, expected_rows=1)
    # A record without room is missing in the count, which undoes everything: an amount is never written in
    # part.
    adding = _add_to_counters(sorted(change.counters), _ADD_IF_ROOM)
    tx.change_later(adding, expected_rows=len(change.counters))
    change_rows.note(tx, [place.provider_id], stock_only=True)


# Whatever its generation is: the claim depends on nothing that was read of the provider.
_if_counted = _step.where(_providers.c.id == bindparam("provider"), counters.ARE_RIGHT)
_STEP_IF_COUNTED = CompiledStatement(_if_counted)
# The condition: nothing that searches read of the provider has changed.
_STEP_IF_UNMOVED = CompiledStatement(
    _if_counted.where(_providers.c.revision == bindparam("seen"))
)


# -- counters of usage ---------------------------------------------------------------------------

_amount = statements.by_key(_inventories.c.id, _inventories.c.used, "key", "by")
_counters = (
    update(_inventories)
    .where(statements.is_among(_inventories.c.id, "key"))
    # The record as the API shows it did not change: its modified time stays.
    .values(used=_inventories.c.used + _amount, updated_at=_inventories.c.updated_at)
)
_ADD = CompiledStatement(_counters, "key", "by")
# The rule of placement.objects.replacement.has_room, on the row as it is when it is written: UPDATE locks
# it and looks at its newest values, so what was read without a lock only says whether this is worth trying.
_ADD_IF_ROOM = CompiledStatement(
    _counters.where(
        _inventories.c.min_unit <= _amount,
        _inventories.c.max_unit >= _amount,
        _amount % statements.step_of(_inventories) == 0,
        # The product is not rounded down: what is used is a whole number, and so fits both or neither.
        _inventories.c.used + _amount
        <= (_inventories.c.total - _inventories.c.reserved) * _inventories.c.allocation_ratio,
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
    # Transactions that share this slot share the slot of the log too, and have queued up there already.
    slot = tx.slot_seed % SLOTS
    columns = tuple(models.owner_usages.c.keys())
    # Sorted: an upsert of several rows locks them one after the other.
    rows = sorted((*account, slot, change) for account, change in changes.items() if change)
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    tx.insert_later(models.owner_usages, named, or_add=_OR_ADD[tx.dialect])

"""The truths of every committed state, one query each; tests and ``db check`` share them.

The query of an invariant returns a row for each violation, with columns that an operator understands. A
violation that can be corrected without losing data has a repair.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Label,
    Select,
    Table,
    cast,
    delete,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
    union_all,
    update,
)

from placement import authorship, installed
from placement.db import (
    change_rows,
    consumer_rows,
    counters,
    lost_rows,
    models,
    owner_usage_rows,
    provider_rows,
    scrub_rows,
    sequences,
    standard_names,
    unreadable_values,
    writes,
)
from placement.db.change import Change, ConsumerOutcome
from placement.db.coexistence.adoption import adopt_some
from placement.db.coexistence.state import IS_FOREIGN, UNDER_WAY
from placement.db.database import MOST_TURNS, Access, Database, Snapshot, Transaction
from placement.db.lost_rows import BATCH
from placement.db.owner_usage_rows import Account
from placement.db.statements import (
    NOTHING,
    CompiledStatement,
    Parameters,
    capacity_of,
    is_one_of,
    ratio_of,
    step_of,
    within_reach,
)

_providers = models.resource_providers
_inventories = models.inventories
_allocations = models.allocations
_consumers = models.consumers
_classes = models.resource_classes

LOG = logging.getLogger(__name__)

EXAMPLES = 3

REPAIR = "placement-manage db check --repair"


@dataclass(frozen=True, slots=True)
class Invariant:
    """One line of the promise.

    :param look: a function that finds the violations if no query can; the query then returns no rows.
    :param repair: changes up to ``BATCH`` rows and returns their number.
    :param broken: whether a violation is a fault; otherwise a later change of inventory can cause it, and it
        is only reported.
    :param is_in_trees: whether the repair can change the trees that followers read.
    :param shows_all: whether every violation is an example, because each needs its own remedy.
    """

    name: str
    query: Select[Any]
    repair: Callable[[Transaction], int] | None = None
    advice: str = REPAIR
    broken: bool = True
    look: Callable[[Access], Sequence[str]] | None = None
    is_in_trees: bool = True
    shows_all: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """How often one invariant is violated, with examples."""

    invariant: Invariant
    count: int
    examples: tuple[str, ...]


def check(database: Database) -> list[Finding]:
    """Return one finding per invariant, even if it holds. All queries see one committed state."""
    return database.snapshot(lambda tx: [examine(tx, invariant) for invariant in list_invariants()])


def violations(database: Database) -> list[Finding]:
    """Return the findings that are faults; an empty list means that all invariants hold."""
    return [found for found in check(database) if found.count and found.invariant.broken]


def examine(tx: Snapshot, invariant: Invariant) -> Finding:
    """Return how often one invariant is violated."""
    if invariant.look is not None:
        told = invariant.look(tx)
        return Finding(invariant, len(told), tuple(told if invariant.shows_all else told[:EXAMPLES]))
    count = tx.value(_compile_count(invariant)) or 0
    if not count:
        return Finding(invariant, 0, ())
    names = invariant.query.selected_columns.keys()
    rows = tx.rows(invariant.query.limit(EXAMPLES))
    examples = (
        ", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True)) for row in rows
    )
    return Finding(invariant, count, tuple(examples))


@cache
def _compile_count(invariant: Invariant) -> CompiledStatement:
    """Return the statement that counts the violations; compiling it each time took half of a check."""
    return CompiledStatement(select(func.count()).select_from(invariant.query.subquery()))


def repair(
    database: Database, invariant: Invariant, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Repair the violations of an invariant, in short transactions, safe while the service runs.

    :param progress: a function called with the number of rows of each transaction.
    :returns: the number of changed rows; 0 for an invariant without a repair.
    """
    total = 0
    for done in repairs(database, invariant):
        progress(done)
        total += done
    return total


def repairs(database: Database, invariant: Invariant) -> Iterator[int]:
    """Repair in transactions, and yield the number of rows of each; the last one finds no rows."""
    if invariant.repair is None:
        return
    for _ in range(MOST_TURNS):
        done = database.write(partial(_repair_some, invariant=invariant))
        yield done
        if not done:
            return
    LOG.warning("%s: the repair was stopped after %d transactions", invariant.name, MOST_TURNS)


def _repair_some(tx: Transaction, invariant: Invariant) -> int:
    assert invariant.repair is not None
    done = invariant.repair(tx)
    # The content of trees may change in ways that the log cannot name, such as the owner of a consumer or the
    # root of a tree, so followers read everything again. Sums of owners are in no tree, and follow the log in
    # the order of locks.
    if done and invariant.is_in_trees:
        writes.finish(tx, Change(is_unnamed=True))
    return done


# Counters

_ledger_sum = counters.LEDGER_SUM

_wrong_counters = select(
    _inventories.c.resource_provider_id.label("provider"),
    _inventories.c.resource_class_id.label("class"),
    _inventories.c.used.label("counter"),
    _ledger_sum.label("ledger"),
).where(_inventories.c.used != _ledger_sum, ~UNDER_WAY)


def _repair_counters(tx: Transaction) -> int:
    named = select(_inventories.c.resource_provider_id).where(_inventories.c.used != _ledger_sum)
    provider_ids = set(tx.column(named.limit(BATCH)))
    if not provider_ids:
        return 0
    # Writers of allocations lock these rows while they move a counter.
    provider_rows.lock(tx, (), provider_ids)
    done = tx.change(
        update(_inventories)
        .where(
            is_one_of(_inventories.c.resource_provider_id, sorted(provider_ids)),
            _inventories.c.used != _ledger_sum,
        )
        .values(used=_ledger_sum, updated_at=_inventories.c.updated_at)
    )
    writes.finish(tx, Change(touched=provider_ids))
    return done


_foreign = select(
    _providers.c.uuid.label("provider"),
    _providers.c.generation,
    _providers.c.own_generation.label("as this service left it"),
).where(IS_FOREIGN, ~UNDER_WAY)


_usages = models.owner_usages
_type_id = func.coalesce(_consumers.c.consumer_type_id, owner_usage_rows.NO_TYPE)
_owned = (_consumers.c.project_id, _consumers.c.user_id, _type_id)
_holds = exists().where(_allocations.c.consumer_id == _consumers.c.uuid)


def select_wrong_owner_usages(
    is_meant: Callable[[ColumnElement[int]], ColumnElement[bool]],
) -> Select[Any]:
    """Return the sums of owners that are wrong: an :class:`Account` with its surplus.

    :param is_meant: takes a column with project ids, and returns the condition for the wanted ones.
    """
    # The ledger is counted one way and subtracted the other way: any remainder is an error. One join with the
    # ledger serves the amounts and the number of consumers: all are counted, and those without allocations
    # are subtracted. Adding up each side before joining took a fifth less time.
    class_id = func.coalesce(_allocations.c.resource_class_id, owner_usage_rows.CONSUMERS)
    both_ways = union_all(
        select(
            _usages.c.project_id.label("project"),
            _usages.c.user_id.label("user"),
            _usages.c.consumer_type_id.label("type"),
            _usages.c.resource_class_id.label("class"),
            within_reach(_usages.c.used).label("amount"),
        ).where(is_meant(_usages.c.project_id)),
        select(*_owned, class_id, func.sum(func.coalesce(-_allocations.c.used, 1)))
        .outerjoin(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
        .where(is_meant(_consumers.c.project_id))
        .group_by(*_owned, class_id),
        select(*_owned, literal(owner_usage_rows.CONSUMERS), -func.count())
        .where(is_meant(_consumers.c.project_id))
        .group_by(*_owned),
    ).subquery()
    account = tuple(both_ways.c[name] for name in ("project", "user", "type", "class"))
    surplus = func.sum(both_ways.c.amount)
    return select(*account, surplus.label("surplus")).group_by(*account).having(surplus != 0)


_wrong_owner_usages = select_wrong_owner_usages(lambda project_id: true())
# Nothing reads these sums during a coexistence.
_wrong_owner_usages_shown = _wrong_owner_usages.where(~UNDER_WAY)


def wrong_owner_usages(tx: Snapshot) -> int:
    """Return how many sums of projects and users are wrong, also during a coexistence."""
    counted = select(func.count()).select_from(_wrong_owner_usages.subquery())
    return int(tx.value(counted) or 0)


def _repair_owner_usages(tx: Transaction) -> int:
    return len(subtract_surplus(tx, _wrong_owner_usages.limit(BATCH)))


_REMOVE_BEYOND = CompiledStatement(
    delete(_usages).where(_usages.c.used != within_reach(_usages.c.used))
)


def subtract_surplus(
    tx: Transaction, wrong: CompiledStatement | Select[Any], given: Parameters = NOTHING
) -> dict[Account, int]:
    """Correct sums of owners, and finish the write; return the surplus of each.

    The surplus is read in one statement, and other writers do not change it. A repair does, so repairs run
    one after the other.
    """
    scrub_rows.step_mendings(tx)
    # These values cannot be subtracted from; only the rest is compared.
    tx.change(_REMOVE_BEYOND)
    surplus = {Account(*row[:4]): int(row[4]) for row in tx.rows(wrong, given)}
    mending = {account: -amount for account, amount in surplus.items()}
    writes.finish(tx, Change(owner_usages=mending))
    return surplus


# Capacity and units

def _select_names(table: Table) -> tuple[Label[str], Label[str]]:
    """Return the uuid of the provider and the name of the class of a row."""
    of_provider = _providers.c.id == table.c.resource_provider_id
    of_class = _classes.c.id == table.c.resource_class_id
    return (
        select(_providers.c.uuid).where(of_provider).scalar_subquery().label("provider"),
        select(_classes.c.name).where(of_class).scalar_subquery().label("class"),
    )


_over_capacity = select(
    *_select_names(_inventories),
    # The sum is read from the ledger, because a counter can be wrong.
    _ledger_sum.label("used"),
    cast(capacity_of(_inventories), Float).label("capacity"),
    # A reshape can write inventory with a negative capacity, which alone is not an excess.
).where(_ledger_sum > 0, _ledger_sum > capacity_of(_inventories))

_of_inventory = (_allocations.c.resource_provider_id == _inventories.c.resource_provider_id) & (
    _allocations.c.resource_class_id == _inventories.c.resource_class_id
)

_against_units = (
    select(_allocations.c.consumer_id.label("consumer"), *_select_names(_allocations), _allocations.c.used)
    .join(_inventories, _of_inventory)
    .where(
        or_(
            _allocations.c.used < _inventories.c.min_unit,
            _allocations.c.used > _inventories.c.max_unit,
            _allocations.c.used % step_of(_inventories) != 0,
        )
    )
)

# The ledger

_dangling = (
    select(
        _allocations.c.consumer_id.label("consumer"),
        _allocations.c.resource_provider_id.label("provider"),
        _allocations.c.resource_class_id.label("class"),
        _allocations.c.used,
    )
    .outerjoin(_inventories, _of_inventory)
    .outerjoin(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .where(or_(_inventories.c.id.is_(None), _providers.c.id.is_(None)))
)

_idle = ~_holds
_without_allocations = select(_consumers.c.uuid.label("consumer")).where(_idle)


def _remove_idle_consumers(tx: Transaction) -> int:
    uuids = sorted(tx.column(_without_allocations.limit(BATCH)))
    if not uuids:
        return 0
    named = is_one_of(_consumers.c.uuid, uuids)
    # Writers lock the consumer before they write its allocations, so the query runs again under the lock.
    tx.rows(select(_consumers.c.id).where(named).order_by(_consumers.c.uuid).with_for_update())
    idle = tx.column(select(_consumers.c.uuid).where(named, _idle))
    writes.take(tx, consumers=idle)
    done = tx.change(delete(_consumers).where(is_one_of(_consumers.c.uuid, idle)))
    removed = ConsumerOutcome(authorship.current(), held={})
    writes.finish(tx, Change(consumers=dict.fromkeys(idle, removed)))
    return done


# Trees


def _select_true_roots() -> Any:
    """Return (id, root) of the providers that reach a root over any number of parents."""
    tree = (
        select(_providers.c.id, _providers.c.id.label("root"))
        .where(_providers.c.parent_provider_id.is_(None))
        .cte("tree", recursive=True)
    )
    child = _providers.alias("child")
    below = select(child.c.id, tree.c.root).join(tree, child.c.parent_provider_id == tree.c.id)
    return tree.union_all(below)


_tree = _select_true_roots()

_without_root_above = (
    select(_providers.c.uuid.label("provider"), _providers.c.parent_provider_id.label("parent"))
    .outerjoin(_tree, _tree.c.id == _providers.c.id)
    .where(_tree.c.id.is_(None))
)

_is_wrong_root = or_(
    _providers.c.root_provider_id.is_(None), _providers.c.root_provider_id != _tree.c.root
)
_wrong_roots = (
    select(
        _providers.c.uuid.label("provider"),
        _providers.c.root_provider_id.label("root"),
        _tree.c.root.label("true root"),
    )
    .join(_tree, _tree.c.id == _providers.c.id)
    .where(_is_wrong_root)
)


def _repair_roots(tx: Transaction) -> int:
    wrong = (
        select(_providers.c.id, _tree.c.root)
        .join(_tree, _tree.c.id == _providers.c.id)
        .where(_is_wrong_root)
    )
    found: dict[int, int] = dict(tx.rows(wrong.limit(BATCH)))
    if not found:
        return 0
    # A tree cannot change while its members are locked, so it is read again after locking.
    provider_rows.lock(tx, (), set(found) | set(found.values()))
    true: dict[int, int] = dict(tx.rows(wrong.where(is_one_of(_providers.c.id, list(found)))))
    by_root: dict[int, list[int]] = {}
    for provider_id, root in true.items():
        by_root.setdefault(root, []).append(provider_id)
    for root, members in sorted(by_root.items()):
        tx.change(
            update(_providers)
            .where(is_one_of(_providers.c.id, members))
            .values(root_provider_id=root, updated_at=models.now())
        )
    writes.finish(tx, Change(touched=true.keys()))
    return len(true)


# The log of what searches see

_none = select(literal(1)).where(false())


def _tell_of_sequences(access: Access) -> list[str]:
    return [
        f"table {each.table}, highest id {each.highest_id}: {each.remedy};"
        for each in sequences.find_lagging(access)
    ]


COUNTERS = Invariant(
    "usage counters equal the sums of the ledger", _wrong_counters, _repair_counters
)
OWNER_USAGES = Invariant(
    "usages of projects and users equal the sums of the ledger",
    _wrong_owner_usages_shown,
    _repair_owner_usages,
    is_in_trees=False,
)
DANGLING = Invariant(
    "allocations have a provider with inventory of their class",
    _dangling,
    advice="Delete the allocations of these consumers, or create the inventory again.",
)
CLASSES = Invariant(
    "inventories have a class",
    lost_rows.CLASSLESS,
    lost_rows.restore_classes,
    f"{REPAIR} names the class CUSTOM_LOST_<id>: rename or delete it.",
)
RATIOS = Invariant(
    "allocation ratios are within their bounds",
    select(*_select_names(_inventories), _inventories.c.allocation_ratio).where(
        ratio_of(_inventories) != _inventories.c.allocation_ratio
    ),
    advice="Give these inventories another allocation_ratio (PUT). Until then it counts as 0.",
)
VALUES = Invariant(
    "values can be read",
    _none,
    advice="Write a value of the type of the column: a time such as 2026-11-27 09:30:00 in UTC, or NULL. "
    "Until then a wrong number counts as its first digits or 0, a wrong time as NULL, a blob as a text.",
    look=unreadable_values.describe,
    shows_all=True,
)
WITHOUT_CONSUMER = Invariant(
    "allocations have a consumer",
    consumer_rows.UUIDS_WITHOUT_RECORD,
    advice="placement-manage db online_data_migrations",
)
OWNERS = Invariant(
    "owners and types of consumers exist",
    lost_rows.OWNERLESS,
    lost_rows.restore_owners,
    f"{REPAIR} names the project or user lost-<id>, and the type LOST_<id>.",
)
IDLE = Invariant("consumers have allocations", _without_allocations, _remove_idle_consumers)
BARE = Invariant("every provider has a name and a generation", lost_rows.BARE, lost_rows.name_bare)
PARTS = Invariant(
    "inventories, traits and aggregates have a provider",
    lost_rows.WITHOUT_PROVIDER,
    lost_rows.remove_parts,
)
NAMELESS = Invariant(
    "traits and aggregates of providers exist", lost_rows.NAMELESS, lost_rows.remove_nameless
)
ROOTLESS = Invariant(
    "every provider hangs on a root",
    _without_root_above,
    advice="Its parent is missing, or the parents form a ring: set parent_provider_id by hand.",
)
ROOTS = Invariant("every provider names the root of its tree", _wrong_roots, _repair_roots)
SLOTS = Invariant(
    "the log of changed providers has all its slots",
    _none,
    change_rows.restore,
    look=change_rows.find_faults,
)
SEQUENCES = Invariant(
    "sequences of PostgreSQL are not behind their tables",
    # Only the database knows the names of these rows.
    _none,
    sequences.set_lagging,
    f"A restore of rows alone leaves them behind. Run these statements, or {REPAIR}.",
    look=_tell_of_sequences,
    is_in_trees=False,
    shows_all=True,
)
STANDARD_CLASSES = Invariant(
    "the ids of standard resource classes are their own",
    _none,
    advice="They were changed by hand, and a start may be refused. Change them back by SQL.",
    look=standard_names.describe_misplaced,
    shows_all=True,
)

_OF_CORE: tuple[Invariant, ...] = (
    COUNTERS,
    Invariant(
        "no other service has written resource providers",
        _foreign,
        lambda tx: len(adopt_some(tx, BATCH)),
        f"Stop that service, then {REPAIR}.",
    ),
    OWNER_USAGES,
    Invariant(
        "used is within capacity",
        _over_capacity,
        advice="An inventory was made smaller than what was in use; nothing more can be claimed of it.",
        broken=False,
    ),
    Invariant(
        "allocations fit min_unit, max_unit and step_size",
        _against_units,
        advice="The inventory was changed after the allocation was made.",
        broken=False,
    ),
    DANGLING,
    CLASSES,
    STANDARD_CLASSES,
    RATIOS,
    VALUES,
    WITHOUT_CONSUMER,
    OWNERS,
    IDLE,
    BARE,
    PARTS,
    NAMELESS,
    ROOTLESS,
    ROOTS,
)


@cache
def list_of_extensions() -> tuple[Invariant, ...]:
    """Return the invariants of the installed extensions: ``INVARIANTS`` in each ``invariants.py``."""
    found = installed.find_modules("invariants").values()
    return tuple(chain.from_iterable(module.INVARIANTS for module in found))


@cache
def list_invariants() -> tuple[Invariant, ...]:
    """Return all invariants, in the order in which ``db check`` shows them."""
    return (*_OF_CORE, *list_of_extensions(), SLOTS, SEQUENCES)

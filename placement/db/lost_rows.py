"""Rows that refer to a missing row, or are wrongly NULL: queries, and repairs that do not lose data.

Foreign keys do not prevent all of these, and another service or an operator can switch them off.
:mod:`placement.db.invariants` says what each query means.
"""

from collections.abc import Sequence
from typing import Any

import os_resource_classes
from sqlalchemy import (
    ColumnElement,
    Select,
    String,
    Table,
    case,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)

from placement.db import models, named_rows, provider_rows, writes
from placement.db.change import Change
from placement.db.database import Transaction
from placement.db.statements import is_one_of

_providers = models.resource_providers
_inventories = models.inventories
_consumers = models.consumers
_classes = models.resource_classes

BATCH = 500
"""Rows repaired in one transaction."""

CLASSLESS = select(
    _inventories.c.resource_provider_id.label("provider"),
    _inventories.c.resource_class_id.label("class"),
    _inventories.c.total,
).where(
    ~exists().where(_classes.c.id == _inventories.c.resource_class_id),
    # A start adds the standard classes, which databases of nova do not have as rows.
    _inventories.c.resource_class_id >= len(os_resource_classes.STANDARDS),
)


def restore_classes(tx: Transaction) -> int:
    """Insert the missing classes under new names: no inventory and no allocation is lost."""
    missing = sorted(set(tx.column(CLASSLESS.with_only_columns(_inventories.c.resource_class_id))))
    for class_id in missing[:BATCH]:
        named_rows.restore(tx, named_rows.CLASSES, class_id, f"CUSTOM_LOST_{class_id}")
    writes.finish(tx, Change(renamed_classes=missing[:BATCH]))
    return len(missing[:BATCH])


_OWNERS = (
    (named_rows.PROJECTS, _consumers.c.project_id, "lost-{}"),
    (named_rows.USERS, _consumers.c.user_id, "lost-{}"),
    (named_rows.TYPES, _consumers.c.consumer_type_id, "LOST_{}"),
)


def _lacks(key: named_rows.Key, refers_to: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that the referenced row is missing or without a name."""
    return ~exists().where(key.table.c.id == refers_to, key.is_not(None))


OWNERLESS = select(
    _consumers.c.uuid.label("consumer"),
    _consumers.c.project_id.label("project"),
    _consumers.c.user_id.label("user"),
    _consumers.c.consumer_type_id.label("type"),
).where(or_(*(of.is_not(None) & _lacks(key, of) for key, of, _ in _OWNERS)))


def restore_owners(tx: Transaction) -> int:
    """Insert the missing rows under new names: neither consumers nor their sums are lost."""
    done = 0
    for key, of, name in _OWNERS:
        missing = select(of).distinct().where(of.is_not(None), _lacks(key, of)).limit(BATCH)
        for row_id in sorted(tx.column(missing)):
            named_rows.restore(tx, key, row_id, name.format(row_id))
            done += 1
    return done


# Associations of providers.

BARE = select(
    _providers.c.uuid.label("provider"), _providers.c.name, _providers.c.generation
).where(or_(_providers.c.name.is_(None), _providers.c.generation.is_(None)))


def name_bare(tx: Transaction) -> int:
    """Give providers without a name their shown name, the uuid, and give them a generation."""
    ids = tx.column(BARE.with_only_columns(_providers.c.id).limit(BATCH))
    if not ids:
        return 0
    writes.take(tx, providers=provider_rows.lock(tx, (), ids))
    # Clients read a missing generation as 0; a generation that exists never goes back.
    last = case((_providers.c.own_generation > 0, _providers.c.own_generation), else_=0)
    shown = {
        "name": provider_rows.NAME,
        "generation": func.coalesce(_providers.c.generation, last),
        "updated_at": _providers.c.updated_at,
    }
    tx.change(update(_providers).where(is_one_of(_providers.c.id, ids)).values(shown))
    writes.finish(tx, Change(touched=ids))
    return len(ids)


_has_trait, _is_in = models.resource_provider_traits, models.resource_provider_aggregates
_PARTS = (
    (_inventories, _inventories.c.resource_class_id),
    (_has_trait, _has_trait.c.trait_id),
    (_is_in, _is_in.c.aggregate_id),
)


def _select_parts(tables: Sequence[tuple[Table, ColumnElement[int], ColumnElement[bool]]]) -> Select[Any]:
    """Return the association and inventory rows of providers that meet a condition."""
    rows = (
        select(
            literal(table.name, String).label("table"),
            table.c.resource_provider_id.label("provider"),
            refers_to.label("of"),
        ).where(condition)
        for table, refers_to, condition in tables
    )
    return select(union_all(*rows).subquery())


def _lacks_provider(table: Table) -> ColumnElement[bool]:
    return ~exists().where(_providers.c.id == table.c.resource_provider_id)


WITHOUT_PROVIDER = _select_parts([(table, of, _lacks_provider(table)) for table, of in _PARTS])


def remove_parts(tx: Transaction) -> int:
    """Remove rows that nothing shows because their provider no longer exists."""
    return sum(tx.change(delete(table).where(_lacks_provider(table))) for table, _ in _PARTS)


_NAMED_PARTS = (
    (_has_trait, _has_trait.c.trait_id, named_rows.TRAITS),
    (_is_in, _is_in.c.aggregate_id, named_rows.AGGREGATES),
)
NAMELESS = _select_parts([(table, of, _lacks(key, of)) for table, of, key in _NAMED_PARTS])


def remove_nameless(tx: Transaction) -> int:
    """Remove associations with traits that do not have a name, as a deletion of the trait would."""
    done, touched = 0, set[int]()
    for table, of, key in _NAMED_PARTS:
        of_provider = table.c.resource_provider_id
        ids = tx.column(select(of_provider).distinct().where(_lacks(key, of)).limit(BATCH))
        if ids:
            provider_rows.lock(tx, (), ids)
            done += tx.change(delete(table).where(is_one_of(of_provider, ids), _lacks(key, of)))
            touched.update(ids)
    writes.finish(tx, Change(touched=touched))
    return done

"""Groups of consumers with a broken rule or without members."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, union_all

from placement.db import models
from placement.db.database import Transaction
from placement.db.lost_rows import BATCH
from placement.db.statements import is_one_of
from placement.extensions.claims import tables
from placement.extensions.claims.consumer_keys import names_consumer

_providers = models.resource_providers
_allocations = models.allocations
_consumers = models.consumers
_groups, _members = tables.consumer_groups, tables.consumer_group_members
_in_aggregate, _aggregates = models.resource_provider_aggregates, models.placement_aggregates
_root_of = func.coalesce(_providers.c.root_provider_id, _providers.c.id)


def _shares(provider_id: ColumnElement[int]) -> ColumnElement[bool]:
    has = models.resource_provider_traits.c
    return exists().where(
        has.resource_provider_id == provider_id,
        has.trait_id == models.traits.c.id,
        models.traits.c.name == "MISC_SHARES_VIA_AGGREGATE",
    )


_others = _allocations.alias("of_member")
_has_own = exists().where(
    _others.c.consumer_id == _consumers.c.uuid, ~_shares(_others.c.resource_provider_id)
)
_placed = (
    select(_members.c.group_id, _members.c.consumer_id, _root_of.label("root"))
    .distinct()
    .join(_consumers, names_consumer(_members))
    .join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    # A sharing provider counts only for a member that has nothing else.
    .where(or_(~_shares(_providers.c.id), ~_has_own))
    .subquery()
)
_trees_in = (
    select(_root_of.label("root"), _aggregates.c.uuid)
    .distinct()
    .join(_in_aggregate, _in_aggregate.c.resource_provider_id == _providers.c.id)
    .join(_aggregates, _aggregates.c.id == _in_aggregate.c.aggregate_id)
    .subquery()
)
_is_domain = _groups.c.aggregates.contains(_trees_in.c.uuid)
_in_domain = union_all(
    select(_placed.c.group_id, _placed.c.consumer_id, _trees_in.c.uuid.label("domain"))
    .join(_groups, _groups.c.id == _placed.c.group_id)
    .join(_trees_in, (_trees_in.c.root == _placed.c.root) & _is_domain),
    select(_placed.c.group_id, _placed.c.consumer_id, _providers.c.uuid)
    .join(_groups, _groups.c.id == _placed.c.group_id)
    .join(_providers, _providers.c.id == _placed.c.root)
    .where(
        or_(
            _groups.c.aggregates.is_(None),
            ~exists(select(1).where(_trees_in.c.root == _placed.c.root, _is_domain)),
        )
    ),
).subquery()
_number = func.count(_in_domain.c.consumer_id.distinct())
_by_domain = (
    select(_in_domain.c.group_id, _number.label("members"))
    .group_by(_in_domain.c.group_id, _in_domain.c.domain)
    .subquery()
)
_in_all = (
    select(_placed.c.group_id, func.count(_placed.c.consumer_id.distinct()).label("members"))
    .group_by(_placed.c.group_id)
    .subquery()
)
BROKEN = (
    select(_groups.c.name.label("group"), _groups.c.rule, func.max(_in_all.c.members).label("of"))
    .join(_by_domain, _by_domain.c.group_id == _groups.c.id)
    .join(_in_all, _in_all.c.group_id == _groups.c.id)
    .group_by(_groups.c.name, _groups.c.rule, _groups.c.at_most)
    .having(
        or_(
            (_groups.c.rule == "apart") & (func.max(_by_domain.c.members) > _groups.c.at_most),
            (_groups.c.rule == "together")
            & (func.max(_by_domain.c.members) < func.max(_in_all.c.members)),
            # Only SQL by hand writes such a rule.
            (_groups.c.rule != "apart") & (_groups.c.rule != "together"),
            _groups.c.at_most < 1,
        )
    )
)

WITHOUT_MEMBERS = select(_groups.c.name.label("group")).where(
    ~exists().where(_members.c.group_id == _groups.c.id)
)


def remove_empty(tx: Transaction) -> int:
    """Remove some groups without members; return their number."""
    ids = tx.column(WITHOUT_MEMBERS.with_only_columns(_groups.c.id).limit(BATCH))
    return remove_without_members(tx, ids)


def remove_without_members(tx: Transaction, ids: Collection[int]) -> int:
    """Delete those groups that have neither members nor a lock; return their number.

    Two statements.
    """
    # A claim locks the group before it adds a member, so members are read again under the lock. Locked groups
    # are skipped, so that tidying up never makes a claim wait.
    free = select(_groups.c.id).where(is_one_of(_groups.c.id, sorted(ids)))
    ids = tx.column(free.with_for_update(skip_locked=True))
    if not ids:
        return 0
    named = is_one_of(_groups.c.id, ids)
    has_members = select(_members.c.group_id).where(_members.c.group_id == _groups.c.id).exists()
    return tx.change(delete(_groups).where(named, ~has_members))

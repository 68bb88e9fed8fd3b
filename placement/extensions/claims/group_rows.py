"""Statements on groups of consumers, and on the trees of their members (specification 09 section 4)."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, Float, bindparam, cast, delete, func, select, update

from placement.db import models, statements
from placement.db.database import Access, StaleRead, Transaction
from placement.db.statements import CompiledStatement, Row, is_among
from placement.extensions.claims import tables
from placement.extensions.claims.consumer_keys import names_consumer

_groups = tables.consumer_groups
_members = tables.consumer_group_members
_consumers = models.consumers
_allocations = models.allocations
_providers = models.resource_providers
_roots = models.resource_providers.alias("root")
_in_aggregate = models.resource_provider_aggregates
_aggregates = models.placement_aggregates

FIRST_GENERATION = 1


class GroupRow(NamedTuple):
    """A group with its rule. ``aggregates``: its domains; empty if trees are the domains."""

    id: int
    rule: str
    at_most: int
    aggregates: tuple[str, ...]


class MemberRow(NamedTuple):
    """A provider with allocations of a member. ``shares``: whether it is a sharing provider."""

    group_id: int
    consumer_uuid: str
    generation: int
    root_uuid: str
    shares: bool


_ROW = select(
    _groups.c.name, _groups.c.id, _groups.c.rule, _groups.c.at_most, _groups.c.aggregates
).where(is_among(_groups.c.name, "name"))
_OF = CompiledStatement(_ROW, "name")
_LOCK = CompiledStatement(
    _ROW.add_columns(_groups.c.generation).order_by(_groups.c.name).with_for_update(), "name"
)
_STEP = CompiledStatement(
    update(_groups)
    .where(is_among(_groups.c.id, "id"))
    .values(generation=_groups.c.generation + 1, updated_at=_groups.c.updated_at),
    "id",
)


def find(access: Access, names: Collection[str]) -> dict[str, GroupRow]:
    """Return the groups with these names, even without members. One statement."""
    return _by_name(access.rows_of_all(_OF, "name", names))


def _by_name(rows: Sequence[Row]) -> dict[str, GroupRow]:
    return {
        name: GroupRow(id_, rule, at_most, tuple(domains.split(",")) if domains else ())
        for name, id_, rule, at_most, domains, *_ in rows
    }


def lock(
    tx: Transaction, rules: Mapping[str, tuple[str, int, Sequence[str]]]
) -> dict[str, GroupRow]:
    """Lock the groups in the order of their names, and return them; new groups are inserted.

    Locking writes the rows, so that two nodes of a cluster collide on them. Two statements, five for new
    groups.

    :param rules: by name, the rule, ``at_most``, and the aggregates that are its domains.
    """
    found = _by_name(tx.rows_of_all(_LOCK, "name", rules))
    if missing := sorted(rules.keys() - found.keys()):
        now = models.now()
        columns = ("name", "rule", "at_most", "aggregates", "generation", "created_at")
        rows = [
            (name, rule, at_most, ",".join(domains) or None, FIRST_GENERATION, now)
            for name in missing
            for rule, at_most, domains in [rules[name]]
        ]
        tx.insert_missing(_groups, [dict(zip(columns, row, strict=True)) for row in rows])
        # All groups are read again, not only the new ones: another request may have inserted them first, with
        # its own rule.
        locked = tx.rows_of_all(_LOCK, "name", rules)
        found = _by_name(locked)
        # A database can give the id of a group to another one. A group that another request has begun is no
        # longer new, since each claim that names a group steps it.
        new = sorted(row[1] for row in locked if row[5] == FIRST_GENERATION)
        if new:
            tx.change_later(_LEAVE_NEW, {"id": new})
    if len(found) < len(rules):
        raise StaleRead("a group was deleted meanwhile")
    # No statement compares this generation: the row is written because Galera's certification compares
    # written rows.
    tx.change_later(_STEP, {"id": sorted(row.id for row in found.values())})
    return found


def redefine(
    tx: Transaction, group_id: int, rule: str, at_most: int, aggregates: Sequence[str]
) -> None:
    """Set a new rule for a locked group without members. One statement."""
    tx.change(
        update(_groups)
        .where(_groups.c.id == group_id)
        .values(
            rule=rule,
            at_most=at_most,
            aggregates=",".join(aggregates) or None,
            updated_at=models.now(),
        )
    )


def find_without_members(reader: Access, share: float, most: int) -> list[int]:
    """Return the ids of groups without members, among a number of successive ones. One statement.

    :param share: the position among all groups at which these begin, from 0 to 1.
    """
    return [int(id_) for (id_,) in reader.rows(_WITHOUT_MEMBERS, {"share": share, "most": most})]


# The position is found from the range of ids: counting rows would read the whole table.
_newest = select(func.max(_groups.c.id)).scalar_subquery()
_row = (
    select(_groups.c.id)
    # The value is cast to an integer, so that the index is used.
    .where(_groups.c.id > cast(bindparam("share", type_=Float) * _newest, BigInteger))
    .order_by(_groups.c.id)
    .limit(bindparam("most"))
    .subquery()
)
_has_members = select(_members.c.group_id).where(_members.c.group_id == _row.c.id).exists()
_WITHOUT_MEMBERS = CompiledStatement(select(_row.c.id).where(~_has_members))


def read_members(access: Access, group_ids: Collection[int]) -> list[MemberRow]:
    """Return the providers of the groups' members, in the order of the members' uuids. One statement."""
    return [MemberRow(*row) for row in access.rows_of_all(_MEMBERS, "id", group_ids)]


def names_by_consumer(access: Access, consumer_uuids: Collection[str]) -> dict[str, list[str]]:
    """Return the groups of each consumer, in the order of their names. One statement."""
    found: dict[str, list[str]] = {}
    for uuid, name in access.rows_of_all(_NAMES, "uuid", consumer_uuids):
        found.setdefault(uuid, []).append(name)
    return {uuid: sorted(names) for uuid, names in found.items()}


_NAMES = CompiledStatement(
    select(_consumers.c.uuid, _groups.c.name)
    .select_from(_members)
    .join(_consumers, names_consumer(_members))
    .join(_groups, _groups.c.id == _members.c.group_id)
    .where(is_among(_consumers.c.uuid, "uuid")),
    "uuid",
)
_root_id = func.coalesce(_providers.c.root_provider_id, _providers.c.id)
# A subquery returns a number; a join would multiply the member's row by the provider's many traits.
_shares = (
    select(func.count())
    .select_from(models.resource_provider_traits)
    .join(models.traits, models.traits.c.id == models.resource_provider_traits.c.trait_id)
    .where(
        models.resource_provider_traits.c.resource_provider_id == _providers.c.id,
        models.traits.c.name == "MISC_SHARES_VIA_AGGREGATE",
    )
    .correlate(_providers)
    .scalar_subquery()
)
_MEMBERS = CompiledStatement(
    select(
        _members.c.group_id, _consumers.c.uuid, _consumers.c.generation, _roots.c.uuid, _shares > 0
    )
    .distinct()
    .select_from(_members)
    .join(_consumers, names_consumer(_members))
    .join(_allocations, _allocations.c.consumer_id == _consumers.c.uuid)
    .join(_providers, _providers.c.id == _allocations.c.resource_provider_id)
    .join(_roots, _roots.c.id == _root_id)
    .where(is_among(_members.c.group_id, "id"))
    .order_by(_consumers.c.uuid),
    "id",
)


def find_trees_in(access: Access, aggregates: Collection[str]) -> list[tuple[str, str]]:
    """Return pairs of uuids of a root and of an aggregate of its tree. One statement."""
    return [(root, uuid) for root, uuid in access.rows_of_all(_TREES_IN, "uuid", aggregates)]


_TREES_IN = CompiledStatement(
    select(_roots.c.uuid, _aggregates.c.uuid)
    .distinct()
    .select_from(_aggregates)
    .join(_in_aggregate, _in_aggregate.c.aggregate_id == _aggregates.c.id)
    .join(_providers, _providers.c.id == _in_aggregate.c.resource_provider_id)
    .join(_roots, _roots.c.id == _root_id)
    .where(is_among(_aggregates.c.uuid, "uuid")),
    "uuid",
)


def leave(tx: Transaction, consumer_ids: Collection[int]) -> None:
    """Remove consumers from all groups. One statement."""
    for part in statements.batches(sorted(consumer_ids)):
        tx.change_later(_LEAVE, {"id": part})


_LEAVE_NEW = CompiledStatement(delete(_members).where(is_among(_members.c.group_id, "id")), "id")
_LEAVE = CompiledStatement(delete(_members).where(is_among(_members.c.consumer_id, "id")), "id")


class NewMember(NamedTuple):
    """A consumer that is to be a member of a group."""

    consumer_id: int
    consumer_uuid: str
    group_id: int


def join(tx: Transaction, members: Sequence[NewMember]) -> None:
    """Add consumers to groups. One statement per 64 members."""
    # A deletion by hand can leave a row of an earlier consumer with this id.
    tx.insert_later(_members, [each._asdict() for each in members], or_add=_OR_REPLACE[tx.dialect])


_ON_CONFLICT = (
    " ON CONFLICT (consumer_id, group_id) DO UPDATE SET consumer_uuid = excluded.consumer_uuid"
)
_OR_REPLACE = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": " ON DUPLICATE KEY UPDATE consumer_uuid = VALUES(consumer_uuid)",
}

"""The premises of an order that are not in the picture, read without locks: holdings and groups."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placement import errors
from placement.db import ledger_rows, tree_rows
from placement.db.database import Access
from placement.extensions.claims import group_rows
from placement.extensions.claims.group_rows import GroupRow, MemberRow
from placement.extensions.claims.groups import aggregates_by_root, rule_of
from placement.extensions.claims.orders import Order
from placement.objects import ledger, replacement
from placement.placing.wishes import GroupState
from placement.search.group_rules import GroupRule, domains_by_member


class GroupRuleDiffers(errors.Conflict):
    """A claim names a group with another rule."""

    code = "placement.group_rule"
    reason = "group_rule"
    of_consumers = True
    text = "The group {name} exists with another rule: {rule}, at most {at_most} per {level}"
    name: str
    rule: str
    at_most: int
    level: str


class GroupUndefined(errors.BadRequest):
    """A claim names a group that does not exist, without a rule for it."""

    reason = "unknown_group"
    about = "name"
    text = 'The group {name} does not exist: its rule must be given in "groups".'
    name: str


class FoundGroup(NamedTuple):
    """A group as the claims find it. ``roots``: the roots of the trees of all members that stay.

    ``is_new``: whether no group of this name is stored.
    """

    state: GroupState
    roots: frozenset[str]
    is_new: bool


class Premises(NamedTuple):
    """The generations and holdings of the consumers of an order, and its groups by name.

    ``generations``: of consumers with allocations, by uuid. ``held``: only of consumers that the order knows.
    """

    generations: Mapping[str, int]
    held: Sequence[tree_rows.HeldBy]
    groups: Mapping[str, FoundGroup]


NO_PREMISES = Premises({}, (), {})
"""The premises of an order that names no existing consumer and no group."""


def read_premises(tx: Access, order: Order, *, requires_generations: bool = False) -> Premises:
    """Read the generations of the consumers, the holdings of existing ones, and the members of the groups.

    :param requires_generations: the generations must be those that were sent.
    :raises ConsumerConflict: 409, a consumer has another generation than the one sent
    :raises GroupRuleDiffers: 409, a group has another rule
    :raises GroupUndefined: 400, a group neither exists nor has a rule
    """
    reading = ledger_rows.read(tx, {"consumers": [claim.consumer_uuid for claim in order.claims]})
    if requires_generations:
        changes = [claim.change_to({}) for claim in order.claims]
        ledger.note_unseen(tx, changes, reading)
        replacement.require_generations(changes, reading)
    generations = {
        uuid: row.generation for uuid, row in reading.consumers.items() if uuid in reading.allocations
    }
    replaced = [claim.consumer_uuid for claim in order.claims if claim.generation is not None]
    held = tree_rows.allocations_of_all(tx, replaced) if replaced else ()
    rows = group_rows.find(tx, order.group_names) if order.group_names else {}
    members = group_rows.read_members(tx, [row.id for row in rows.values()]) if rows else []
    alive = {member.group_id for member in members}
    rules = {}
    for name in order.group_names:
        row, given = rows.get(name), order.rules.get(name)
        # A row without members is left over from a group that has ended, which may begin again with another
        # rule.
        old = rule_of(row) if row is not None and row.id in alive else None
        if old is not None and given not in (None, old):
            raise GroupRuleDiffers(name=name, rule=old.rule, at_most=old.at_most, level=old.level)
        rule = old or given
        if rule is None:
            raise GroupUndefined(name=name)
        rules[name] = rule
    return Premises(generations, held, find_groups(tx, order, rules, rows, members))


def find_groups(
    tx: Access,
    order: Order,
    rules: Mapping[str, GroupRule],
    rows: Mapping[str, GroupRow],
    members: Sequence[MemberRow],
) -> dict[str, FoundGroup]:
    """Return the groups without the members that are claimed again, which leave and can rejoin."""
    claimed = {claim.consumer_uuid for claim in order.claims}
    stay: dict[int, list[MemberRow]] = {}
    for member in members:
        if member.consumer_uuid not in claimed:
            stay.setdefault(member.group_id, []).append(member)
    aggregates = aggregates_by_root(tx, rules.values())
    groups = {}
    for name, rule in rules.items():
        mine = stay.get(rows[name].id, []) if name in rows else []
        domains = domains_by_member(rule, mine, aggregates)
        state = GroupState(rule, list(domains.values()), aggregates)
        roots = frozenset(member.root_uuid for member in mine)
        groups[name] = FoundGroup(state, roots, name not in rows)
    return groups

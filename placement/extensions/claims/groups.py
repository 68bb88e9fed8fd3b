"""Stored groups: their rules, and the removal of groups that have ended (09 section 4)."""

import logging
import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from placement import errors
from placement.db.database import Access, Database
from placement.db.statements import batches
from placement.extensions.claims import broken_groups, group_rows
from placement.extensions.claims.group_rows import GroupRow
from placement.search.group_rules import Domains, GroupRule, Occupancy, domains_by_member

LOG = logging.getLogger(__name__)

DRAW = random.SystemRandom()

LOOKED_AT, FOR_EACH = 20, 4
"""The least number of successive groups that are checked when new ones have begun, and the number for each
new one; those without members are removed.
"""


class GroupNotFound(errors.NotFound):
    """The group does not have members."""

    text = "No group {name} found"
    name: str


def rule_of(row: GroupRow) -> GroupRule:
    """Return the rule of a group that was read."""
    return GroupRule("apart" if row.rule == "apart" else "together", row.at_most, row.aggregates)


def aggregates_by_root(tx: Access, rules: Iterable[GroupRule]) -> dict[str, Domains]:
    """Return the domain aggregates of each tree, by the uuid of its root."""
    named = {uuid for rule in rules for uuid in rule.of}
    found: dict[str, set[str]] = {}
    for root, uuid in group_rows.find_trees_in(tx, named) if named else ():
        found.setdefault(root, set()).add(uuid)
    return {root: frozenset(uuids) for root, uuids in found.items()}


def remove_ended(db: Database, begun: int) -> int:
    """Remove some groups that have ended with their last member; return their number.

    Claims that begin groups call this, and it removes more groups than have begun, so that few ended ones are
    left.
    """
    most, removed = max(LOOKED_AT, FOR_EACH * begun), 0
    # The start is random: processes that start at the same end would meet the same rows, and groups with
    # members there would hide the rows after them.
    try:
        ids = db.read(lambda reader: group_rows.find_without_members(reader, DRAW.random(), most))
        for part in batches(ids):
            removed += db.write(partial(broken_groups.remove_without_members, ids=part))
    except (errors.Unavailable, errors.Conflict) as refused:
        LOG.info("Groups without members stay for the moment: %s", refused)
    except Exception:
        # The claim is already stored, so an error here must not be its answer.
        LOG.exception("Groups without members could not be removed")
    return removed


class ShownMember(NamedTuple):
    """A member of a group with its domains."""

    consumer_uuid: str
    consumer_generation: int
    domains: Sequence[str]


class ShownGroup(NamedTuple):
    """A group with its members; ``kept``: whether its rule is kept."""

    name: str
    rule: GroupRule
    members: Sequence[ShownMember]
    kept: bool


def show_group(db: Database, name: str) -> ShownGroup:
    """Return a group.

    :raises GroupNotFound: 404, the group does not have members
    """

    def read(tx: Access) -> ShownGroup:
        row = group_rows.find(tx, [name]).get(name)
        members = group_rows.read_members(tx, [row.id]) if row is not None else []
        if row is None or not members:
            raise GroupNotFound(name=name)
        rule = rule_of(row)
        domains = domains_by_member(rule, members, aggregates_by_root(tx, [rule]))
        generations = {member.consumer_uuid: member.generation for member in members}
        shown = [
            ShownMember(uuid, generations[uuid], sorted(each)) for uuid, each in domains.items()
        ]
        return ShownGroup(name, rule, shown, Occupancy.with_members(rule, domains.values()).kept)

    return db.snapshot(read)

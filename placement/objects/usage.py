"""Usage: what is allocated, of one provider or by one owner (specification 02 section 9)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placement.db import owner_usage_rows
from placement.db.database import Database
from placement.objects import inventory

ALL = "all"
"""Asks for one group of everything. No type has this name: theirs are upper-case."""

UNKNOWN = "unknown"
"""The group of the consumers that have no type."""


class ProviderUsage(NamedTuple):
    """What is used of a provider, for every class it has inventory of."""

    generation: int
    used_by_class: Mapping[str, int]


@dataclass(slots=True)
class GroupUsage:
    """What the consumers of a group use, and how many of them hold anything."""

    consumer_count: int = 0
    used_by_class: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def of_provider(db: Database, provider_uuid: str) -> ProviderUsage:
    """Return what is used of a provider, from the counters. One statement.

    :raises resource_provider.ProviderNotFound:
    """
    found = inventory.of_provider(db, provider_uuid)
    used = {record.class_name: record.used for record in found.records}
    return ProviderUsage(found.generation, used)


def by_class(db: Database, project: str, user: str | None = None) -> dict[str, int]:
    """Return what the consumers of a project, and of a user in it, use by class. See ``by_group``."""
    groups = by_group(db, project, user, ALL)
    return dict(groups[ALL].used_by_class) if groups else {}


def by_group(
    db: Database, project: str, user: str | None = None, consumer_type: str | None = None
) -> dict[str, GroupUsage]:
    """Return the same by group of consumers. One statement, two during a coexistence.

    :param consumer_type: None: a group per type; ``all`` or ``unknown``: that group; else the group
        of this type. A group without allocations is missing.
    """
    rows = db.read(lambda reader: owner_usage_rows.of_project(reader, project, user))
    if rows is None:
        rows = db.read(lambda reader: owner_usage_rows.of_project_in_ledger(reader, project, user))
    groups: dict[str, GroupUsage] = defaultdict(GroupUsage)
    for row in rows:
        name = row.type_name or UNKNOWN
        if consumer_type not in (None, ALL, name):
            continue
        group = groups[ALL if consumer_type == ALL else name]
        if row.class_name is None:
            group.consumer_count += row.amount
        else:
            group.used_by_class[row.class_name] += row.amount
    return dict(groups)

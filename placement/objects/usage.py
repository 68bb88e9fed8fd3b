"""Usage: the amounts allocated by one owner (specification 02 section 9)."""

from collections import defaultdict
from dataclasses import dataclass, field

from placement.db import owner_usage_rows
from placement.db.database import Database

ALL = "all"
"""The word for one group of everything. No type has this name, since types are upper-case."""

UNKNOWN = "unknown"
"""The group of the consumers without a type."""


@dataclass(slots=True)
class GroupUsage:
    """The usage of a group's consumers, and how many of them have allocations."""

    consumer_count: int = 0
    used_by_class: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def by_group(
    db: Database, project: str, user: str | None = None, consumer_type: str | None = None
) -> dict[str, GroupUsage]:
    """Return the usage of a project's consumers, or of one user's in it, by group of consumers.

    One statement, two if the sums may be wrong.

    :param consumer_type: None gives a group per type; ``all`` or ``unknown`` gives that group; otherwise the
        group of this type. A group without allocations is missing.
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

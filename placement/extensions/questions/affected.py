"""The consumers of trees with their groups, as what-if and survival read them (07 sections 4 and 9)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from placement.db import tree_rows
from placement.db.database import Access
from placement.db.statements import batches
from placement.db.tree_rows import HeldBy
from placement.extensions.claims import group_rows, hold_rows
from placement.extensions.claims.group_rows import MemberRow
from placement.extensions.claims.groups import rule_of
from placement.placing.members import Members
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.work import Work

Place = TypeVar("Place")
"""A tree, or several that belong together."""


@dataclass(slots=True, eq=False)
class AffectedConsumer:
    """A consumer with its amounts by provider id; a consumer that a change placed does not have a uuid.

    ``kept_out_by``: for a homeless consumer, the groups whose rules alone excluded a place.
    """

    uuid: str | None
    project: str | None
    user: str | None
    type: str | None
    held: dict[int, dict[str, int]] = field(default_factory=dict)
    lost: dict[str, dict[str, int]] = field(default_factory=dict)
    kept_out_by: tuple[str, ...] = ()


def list_consumers(rows: Iterable[HeldBy]) -> list[AffectedConsumer]:
    """Return the consumers in the order of their first allocations."""
    consumers: dict[str, AffectedConsumer] = {}
    for row in rows:
        consumer = consumers.get(row.consumer_uuid)
        if consumer is None:
            consumer = AffectedConsumer(row.consumer_uuid, row.project, row.user, row.type)
            consumers[row.consumer_uuid] = consumer
        consumer.held.setdefault(row.provider_id, {})[row.class_name] = row.used
    return list(consumers.values())


def read_members(tx: Access, held: Sequence[HeldBy]) -> Members:
    """Return the groups of the consumers with these allocations, which were read by provider.

    One statement if no consumer of the cloud is in a group or held, two if none of these is.
    """
    if not held or not hold_rows.are_claims_used(tx):
        return Members()
    return read_members_of(tx, {row.consumer_uuid for row in held})


def read_members_of(tx: Access, consumer_uuids: Collection[str]) -> Members:
    """Return the groups of consumers. One statement if none of these is a member of a group."""
    groups_of = group_rows.names_by_consumer(tx, sorted(consumer_uuids))
    if not groups_of:
        return Members()
    groups = group_rows.find(tx, sorted({name for names in groups_of.values() for name in names}))
    rows: dict[int, list[MemberRow]] = {}
    for row in group_rows.read_members(tx, [group.id for group in groups.values()]):
        rows.setdefault(row.group_id, []).append(row)
    return Members(
        {name: rule_of(group) for name, group in groups.items()},
        {name: rows.get(group.id, []) for name, group in groups.items()},
        # By hand SQLite holds a name that is not found as it is shown, such as one in Latin-1.
        {uuid: [name for name in names if name in groups] for uuid, names in groups_of.items()},
    )


def read_others(tx: Access, rows: Sequence[HeldBy], work: Work) -> list[HeldBy]:
    """Return all allocations of the consumers that have more than these rows, such as rows by provider.

    :raises WorkEnded: the time ended before all were read.
    """
    here = Counter(row.consumer_uuid for row in rows)
    others = {row.consumer_uuid for row in rows if row.in_all > here[row.consumer_uuid]}
    found: list[HeldBy] = []
    for batch in batches(sorted(others)):
        work.go_on()
        found += tree_rows.allocations_of_all(tx, batch)
    return found


def put_pools_last(cloud: Cloud, roots: Iterable[int]) -> list[int]:
    """Return trees with sharing trees last, since a pool has the consumers of a thousand hosts."""
    return sorted(roots, key=cloud.with_trait(SHARING_TRAIT).__getitem__)


def batch_trees(
    cloud: Cloud,
    places: Iterable[Place],
    roots_of: Callable[[Place], Sequence[int]],
    most: int,
) -> Iterator[list[Place]]:
    """Yield batches of places; one statement reads the allocations of a batch, more for one large place.

    :param most: the number of providers whose allocations one statement reads.
    """
    counts = np.bincount(cloud.roots[cloud.forest.alive], minlength=cloud.size).tolist()
    batch: list[Place] = []
    providers = 0
    for place in places:
        count = sum(counts[root] for root in roots_of(place))
        if batch and providers + count > most:
            yield batch
            batch, providers = [], 0
        batch.append(place)
        providers += count
    if batch:
        yield batch

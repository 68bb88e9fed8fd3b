"""The ledger of a plan, read in one snapshot, the trees that matter first (10 section 4.2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from placement.db import hold_rows, tree_rows
from placement.db.database import Database, Snapshot
from placement.db.statements import MOST, batches
from placement.db.tree_rows import HeldBy
from placement.extensions.claims import group_rows
from placement.extensions.claims.groups import GroupNotFound
from placement.extensions.plans.wanted import Ownership
from placement.extensions.questions.affected import batch_trees, put_pools_last, read_members
from placement.placing.members import Members
from placement.search.cloud import Cloud
from placement.search.work import Work, WorkEnded

MOST_READ = 300_000
"""Allocations that are read: no more trees after so many. Some 350 bytes each."""


@dataclass(slots=True)
class Resident:
    """A consumer with amounts by class, by provider index: in all trees, also in those that were not read.

    ``is_fixed``: no step may touch it.
    """

    uuid: str
    generation: int
    owner: Ownership
    held: dict[int, dict[str, int]] = field(default_factory=dict)
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """The rows that were read. ``unread``: roots of the trees that were not."""

    holders: Sequence[Resident]
    members: Members
    unread: Collection[int]


def read_ledger(
    db: Database, cloud: Cloud, first: Sequence[int], groups: Sequence[str], work: Work
) -> Ledger:
    """Read who has what, and let the cloud's usage be that of the same snapshot, where it was read.

    :param first: roots of trees to be read before the others; those with members of ``groups`` before them.
    :raises GroupNotFound: 404, one of the groups has no members.
    :raises WorkEnded: what the groups depend on could not be read.
    """
    return db.snapshot(lambda tx: _read(tx, cloud, first, groups, work))


def _read(
    tx: Snapshot, cloud: Cloud, first: Sequence[int], groups: Sequence[str], work: Work
) -> Ledger:
    members_first = [cloud.index_of_uuid.get(uuid, -1) for uuid in _find_roots(tx, groups)]
    chosen = [root for root in dict.fromkeys((*members_first, *first)) if root >= 0]
    # The order is by age: the order in memory is another in each process.
    others = sorted(set(cloud.forest.roots.tolist()).difference(chosen), key=cloud.ids.__getitem__)
    rows: list[HeldBy] = []
    read: set[int] = set()
    # The first ones are read apart from the others, which may have a hundred times as many consumers.
    for batch in chain.from_iterable(
        batch_trees(cloud, put_pools_last(cloud, roots), lambda root: [root])
        for roots in (chosen, others)
    ):
        # At least one batch is read: without it there is no answer.
        if read and (len(rows) >= MOST_READ or not work.look()):
            break
        rows += tree_rows.allocations(tx, _ids_of(cloud, batch))
        read.update(batch)
    _align(cloud, read, rows)
    members = read_members(tx, rows)
    if not members.rules.keys() >= set(groups):
        raise WorkEnded
    holders = _list_holders(cloud, rows)
    read -= _read_elsewhere(tx, cloud, rows, holders, work)
    if any(row.claims_are_used for row in rows):
        # A step would end the hold, and what was held would stay for good.
        for hold in hold_rows.list_valid(tx, MOST_READ, project=None, group=None, after=None):
            if hold.consumer_uuid in holders:
                holders[hold.consumer_uuid].is_fixed = True
    return Ledger([*holders.values()], members, {*chosen, *others} - read)


def _read_elsewhere(
    tx: Snapshot, cloud: Cloud, rows: Sequence[HeldBy], holders: dict[str, Resident], work: Work
) -> set[int]:
    """Add what consumers have in trees that were not read, since it is part of each write.

    :return: roots of the trees with consumers for which there was no time: these are no longer among the
        holders, and the trees count as unread.
    """
    elsewhere = _find_elsewhere(rows)
    for number, batch in enumerate(batches(elsewhere, MOST)):
        # At least some are read: without the first trees there is no answer.
        if number and not work.look():
            dropped = elsewhere[number * MOST :]
            break
        for row in tree_rows.allocations_of_all(tx, batch):
            index = cloud.index_of.get(row.provider_id)
            holder = holders[row.consumer_uuid]
            if index is None:
                # A provider that is newer than the cloud: nobody can say what such a step would do.
                holder.is_fixed = True
            else:
                holder.held.setdefault(index, {})[row.class_name] = row.used
    else:
        return set()
    return {int(cloud.roots[i]) for uuid in dropped for i in holders.pop(uuid).held}


def _find_roots(tx: Snapshot, groups: Sequence[str]) -> list[str]:
    """Return the roots of the trees in which groups have members."""
    if not groups:
        return []
    stored = group_rows.of(tx, groups)
    rows = group_rows.read_members(tx, [row.id for row in stored.values()])
    alive = {row.group_id for row in rows}
    for name in groups:
        if name not in stored or stored[name].id not in alive:
            raise GroupNotFound(name=name)
    return [row.root_uuid for row in rows]


def _ids_of(cloud: Cloud, roots: Sequence[int]) -> list[int]:
    ids: list[int] = cloud.ids[cloud.forest.trees(np.array(roots))[0]].tolist()
    return ids


def _align(cloud: Cloud, roots: Collection[int], rows: Iterable[HeldBy]) -> None:
    """Let the usage of trees be that of their allocations, which may be newer than the cloud.

    Otherwise a consumer that came between the two would leave room behind that was never counted as taken.
    """
    used: dict[int, dict[str, int]] = {}
    for row in rows:
        mine = used.setdefault(cloud.index_of[row.provider_id], {})
        mine[row.class_name] = mine.get(row.class_name, 0) + row.used
    for index in cloud.forest.trees(np.array(sorted(roots)))[0].tolist() if roots else ():
        mine = used.get(index, {})
        off = {
            name: mine.get(name, 0) - counted
            for name, _, counted, _ in cloud.inventories[index]
            if mine.get(name, 0) != counted
        }
        if off:
            cloud.use(index, off)


def _list_holders(cloud: Cloud, rows: Iterable[HeldBy]) -> dict[str, Resident]:
    """Return the consumers in the order of their first allocations, as the rows came."""
    holders: dict[str, Resident] = {}
    for row in rows:
        holder = holders.get(row.consumer_uuid)
        if holder is None:
            holder = Resident(
                row.consumer_uuid,
                row.generation or 0,
                Ownership(row.project or "", row.user or "", row.type),
                # Allocations without a record of their consumer: no write may leave it anything.
                is_fixed=row.generation is None or row.project is None,
            )
            holders[row.consumer_uuid] = holder
        holder.held.setdefault(cloud.index_of[row.provider_id], {})[row.class_name] = row.used
    return holders


def _find_elsewhere(rows: Iterable[HeldBy]) -> list[str]:
    """Return the consumers of which not all allocations are among these."""
    left: dict[str, int] = {}
    for row in rows:
        left[row.consumer_uuid] = left.get(row.consumer_uuid, row.in_all) - 1
    return [uuid for uuid, number in left.items() if number]


def hold_by_root(
    cloud: Cloud, held: Mapping[int, Mapping[str, int]], unread: Collection[int]
) -> dict[int, dict[int, Mapping[str, int]]]:
    """Return amounts by class, by provider index, by root: those in trees that were read."""
    found: dict[int, dict[int, Mapping[str, int]]] = {}
    for index, amounts in held.items():
        root = int(cloud.roots[index])
        if root not in unread:
            found.setdefault(root, {})[index] = amounts
    return found

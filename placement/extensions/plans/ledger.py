"""The ledger of a plan, read in one snapshot, the relevant trees first (10 section 4.2)."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from placement.db import named_rows, tree_rows
from placement.db.database import Database, Snapshot
from placement.db.named_rows import CLASSES, PROJECTS, TYPES, USERS, Key
from placement.db.statements import MOST, batches
from placement.db.tree_rows import MOST_PROVIDERS
from placement.extensions.claims import group_rows, hold_rows
from placement.extensions.claims.groups import GroupNotFound
from placement.extensions.plans.wanted import Ownership
from placement.extensions.questions.affected import batch_trees, put_pools_last, read_members_of
from placement.placing.members import AmountsByIndex, Members
from placement.search.cloud import Cloud
from placement.search.work import Work, WorkEnded

MOST_READ = 300_000
"""The number of allocations after which no more trees are read. An allocation takes about 350 bytes."""


@dataclass(slots=True)
class Resident:
    """A consumer with amounts by class, by provider index, in all trees, even unread ones. ``is_fixed``:

    no step may change it.
    """

    uuid: str
    generation: int
    owner: Ownership
    held: dict[int, dict[str, int]] = field(default_factory=dict)
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """The rows that were read. ``unread``: the roots of trees that were not read."""

    holders: Sequence[Resident]
    members: Members
    unread: AbstractSet[int]


def read_ledger(
    db: Database, cloud: Cloud, first: Sequence[int], groups: Sequence[str], work: Work
) -> Ledger:
    """Read the holdings of consumers, and set the cloud's usage from the same snapshot.

    :param first: the roots of trees to read first, after the trees with members of ``groups``.
    :raises GroupNotFound: 404, one of the groups does not have members.
    :raises WorkEnded: the trees of the groups could not be read in time.
    """
    return db.snapshot(lambda tx: _read(tx, cloud, first, groups, work))


def _read(
    tx: Snapshot, cloud: Cloud, first: Sequence[int], groups: Sequence[str], work: Work
) -> Ledger:
    members_first = [cloud.index_of_uuid.get(uuid, -1) for uuid in _find_roots(tx, groups)]
    chosen = [root for root in dict.fromkeys((*members_first, *first)) if root >= 0]
    # The order is by age, since the order in memory differs between processes.
    others = sorted(set(cloud.forest.roots.tolist()).difference(chosen), key=cloud.ids.__getitem__)
    read = _TreesRead(tx, cloud)
    # If not all trees are read, the rest of the time is for their consumers' holdings elsewhere.
    with work.part(4 / 3) as part:
        # The first trees are read separately, since the others may have a hundred times as many consumers.
        for batch in chain.from_iterable(
            batch_trees(cloud, put_pools_last(cloud, roots), lambda root: [root], MOST_PROVIDERS)
            for roots in (chosen, others)
        ):
            # At least one batch is read, since there is no answer without it.
            if read.roots and (read.count >= MOST_READ or not part.check_time()):
                break
            read.add(batch)
    read.align()
    holders, unread = read.holders, {*chosen, *others} - read.roots
    are_claims_used = hold_rows.are_claims_used(tx)
    members = read_members_of(tx, holders) if are_claims_used else Members()
    if not members.rules.keys() >= set(groups):
        raise WorkEnded
    # If the snapshot has only these allocations, no consumer has any elsewhere.
    if unread or read.count < tree_rows.count_allocations(tx):
        unread |= _read_elsewhere(tx, cloud, holders, work)
    if are_claims_used:
        # A step would end the hold, and the held resources would stay for good.
        for hold in hold_rows.list_valid(tx, MOST_READ, project=None, group=None, after=None):
            if hold.consumer_uuid in holders:
                holders[hold.consumer_uuid].is_fixed = True
    return Ledger([*holders.values()], members, unread)


class _TreesRead:
    """The trees that were read, by their roots, with the holdings there.

    ``holders``: the consumers by uuid, in the order of their first allocations. ``count``: the number of
    allocations.
    """

    def __init__(self, tx: Snapshot, cloud: Cloud) -> None:
        self.roots: set[int] = set()
        self.holders: dict[str, Resident] = {}
        self.count = 0
        self._tx, self._cloud = tx, cloud
        self._used: dict[int, dict[str, int]] = {}
        self._names: dict[Key, dict[int | None, str]] = {}

    def add(self, roots: Sequence[int]) -> None:
        """Read the allocations of some trees."""
        cloud, holders, used = self._cloud, self.holders, self._used
        index_of = cloud.index_of
        ids: list[int] = cloud.ids[cloud.forest.trees(np.array(roots))[0]].tolist()
        rows = tree_rows.allocations_by_ids(self._tx, ids)
        self.roots.update(roots)
        self.count += len(rows)
        class_names = self._name(CLASSES, class_ids := {row[3] for row in rows})
        if not class_ids <= class_names.keys():
            # The planner knows nothing about a class that was deleted.
            rows = [row for row in rows if row[3] in class_names]
        self._add_holders({row[2]: row[5:] for row in rows})
        for _, provider_id, uuid, class_id, amount, *_ in rows:
            name, index = class_names[class_id], index_of[provider_id]
            holders[uuid].held.setdefault(index, {})[name] = amount
            mine = used.setdefault(index, {})
            mine[name] = mine.get(name, 0) + amount

    def _add_holders(self, owners: Mapping[str, tuple[int | None, ...]]) -> None:
        """Add the new consumers.

        :param owners: by uuid, the generation and the ids of project, user and type.
        """
        projects, users, types = (
            self._name(key, {each[number] for each in owners.values()})
            for number, key in enumerate((PROJECTS, USERS, TYPES), 1)
        )
        # All consumers of an owner share one object, since a cloud has a thousand consumers per owner.
        ownership_of: dict[tuple[int | None, ...], Ownership] = {}
        for uuid, owner in owners.items():
            if uuid in self.holders:
                continue
            generation, project_id, user_id, type_id = owner
            ownership = ownership_of.get(owner[1:])
            if ownership is None:
                ownership = ownership_of[owner[1:]] = Ownership(
                    projects.get(project_id, ""), users.get(user_id, ""), types.get(type_id)
                )
            # Allocations without a record of their consumer are fixed: no write can change such a consumer.
            is_fixed = generation is None or project_id not in projects
            self.holders[uuid] = Resident(uuid, generation or 0, ownership, is_fixed=is_fixed)

    def _name(self, key: Key, ids: AbstractSet[int | None]) -> Mapping[int | None, str]:
        """Return the names by ids; each name is read once."""
        known = self._names.setdefault(key, {})
        missing = [id_ for id_ in ids if id_ is not None and id_ not in known]
        known.update(named_rows.names(self._tx, key, missing).items())
        return known

    def align(self) -> None:
        """Set the usage of trees from this snapshot, which can be newer than the cloud.

        Otherwise the departure of a consumer that arrived between the two would free room that was never
        counted as used. A counter that exceeds the sum of the allocations counts, since writes are granted by
        the counter.
        """
        cloud, roots = self._cloud, np.array(sorted(self.roots), dtype=np.int64)
        differing = [
            index
            for index in cloud.forest.trees(roots)[0].tolist()
            if any(
                self._used.get(index, {}).get(name, 0) != counted
                for name, _, counted, _ in cloud.inventories[index]
            )
        ]
        ids = [int(cloud.ids[index]) for index in differing]
        counters = {
            (id_, name): used for id_, name, used in tree_rows.usages_by_ids(self._tx, ids)
        }
        for index, id_ in zip(differing, ids, strict=True):
            mine = self._used.get(index, {})
            off = {
                name: max(mine.get(name, 0), counters.get((id_, name), 0)) - counted
                for name, _, counted, _ in cloud.inventories[index]
            }
            cloud.use(index, off)


def _read_elsewhere(
    tx: Snapshot, cloud: Cloud, holders: dict[str, Resident], work: Work
) -> set[int]:
    """Add the holdings of consumers in unread trees, since each write includes them.

    :return: the roots of trees with consumers that could not be read in time: these consumers are no longer
        among the holders, and the trees count as unread.
    """
    uuids = list(holders)
    for number, batch in enumerate(batches(uuids, MOST)):
        # At least some are read: without the first trees there is no answer.
        if number and not work.check_time():
            dropped = uuids[number * MOST :]
            break
        counts = tree_rows.count_allocations_of(tx, batch)
        spread = [
            uuid for uuid in batch if counts.get(uuid) != sum(map(len, holders[uuid].held.values()))
        ]
        for row in tree_rows.allocations_of_all(tx, spread):
            index = cloud.index_of.get(row.provider_id)
            holder = holders[row.consumer_uuid]
            if index is None:
                # The provider is newer than the cloud, so the effect of such a step is not known.
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
    stored = group_rows.find(tx, groups)
    rows = group_rows.read_members(tx, [row.id for row in stored.values()])
    alive = {row.group_id for row in rows}
    for name in groups:
        if name not in stored or stored[name].id not in alive:
            raise GroupNotFound(name=name)
    return [row.root_uuid for row in rows]


def hold_by_root(
    roots: Sequence[int], held: AmountsByIndex, unread: AbstractSet[int]
) -> Mapping[int, AmountsByIndex]:
    """Return amounts by class, by provider index, by root, of trees that were read.

    :param roots:

    the roots by provider index.
    """
    found: dict[int, dict[int, Mapping[str, int]]] = {}
    if len(mine := {roots[index] for index in held}) == 1:
        # Most consumers are in one tree, and then nothing is copied.
        return {} if mine <= unread else {mine.pop(): held}
    for index, amounts in held.items():
        if roots[index] not in unread:
            found.setdefault(roots[index], {})[index] = amounts
    return found

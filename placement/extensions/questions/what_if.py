"""The effect of changes, tried on a copy of the picture (specification 07 section 4)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from typing import NamedTuple

import numpy as np

from placement.db import tree_rows
from placement.db.database import Database, Snapshot
from placement.extensions.questions.affected import (
    AffectedConsumer,
    list_consumers,
    read_members,
    read_others,
)
from placement.inventory_record import InventoryRecord
from placement.objects.allocation import NoAllocations
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.inventory import (
    UNKNOWN_CLASS,
    UPDATE_CONFLICT,
    InventoryClassMissing,
    InventoryInUse,
    check_capacity,
)
from placement.objects.picture import Picture
from placement.objects.resource_provider import ProviderNotFound
from placement.objects.trait import UnknownTraits
from placement.placing.members import AmountsByIndex, Members
from placement.placing.mover import CutShort, KeptOut, Leaving, MovedTo, Mover
from placement.placing.packing import pack, record
from placement.placing.remedies import Budget, Count, RelaxableRequest, Remedies, remedies
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.records import UsedInventory
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import search
from placement.search.work import Work

PLACEMENTS = 10
"""The number of placements for each search of the work factor."""

WORK_SHARE = 4
"""The divisor of the remaining work for each placement: a fourth."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The change that places the consumers of a tree elsewhere and closes the tree."""

    provider_uuid: str


@dataclass(frozen=True, slots=True)
class Remove:
    """The change that removes all allocations of a consumer."""

    consumer_uuid: str


@dataclass(frozen=True, slots=True)
class Placements:
    """The change that places a request a number of times."""

    request: CandidateRequest
    times: int


@dataclass(frozen=True, slots=True)
class Replace:
    """The change that replaces inventories, traits or aggregates of a provider; None keeps them."""

    provider_uuid: str
    inventories: Mapping[str, InventoryRecord] | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None


Change = Drain | Remove | Placements | Replace


@dataclass(frozen=True, slots=True)
class Fits:
    """How often a request fits.

    ``exact`` and ``complete``: see :class:`placement.placing.packing.Packing`.
    """

    count: int
    exact: bool
    complete: bool


class Situation(NamedTuple):
    """The candidates of a request, how often it fits, and the remedies if there are none."""

    candidates: Count
    fits: Fits
    remedies: Remedies | None

    def with_at_least(self, other: "Situation") -> "Situation":
        """Return the situation with each lower bound raised to the number of another situation."""
        candidates, fits = self.candidates, self.fits
        if not candidates.complete:
            candidates = replace(candidates, count=max(candidates.count, other.candidates.count))
        if not fits.exact:
            fits = replace(fits, count=max(fits.count, other.fits.count))
        return Situation(candidates, fits, self.remedies)


class TrialOutcome(NamedTuple):
    """The outcome: both capacities, the consumers without a place, and the places asked and found.

    ``avoided``: how many trees are avoided before the changes.
    """

    before: Situation
    after: Situation
    homeless: list[AffectedConsumer]
    placed: list[tuple[int, int]]
    complete: bool
    avoided: int


def try_out(
    db: Database,
    picture: Picture,
    changes: Sequence[Change],
    asked: RelaxableRequest,
    avoid: frozenset[str],
    work_factor: int,
    work: Work,
) -> TrialOutcome:
    """Return the effect of the changes on a request; neither the database nor the picture changes.

    :param avoid: traits; drained consumers do not move to a tree whose root has one. Requests have their own.
    :param work_factor: the budget before and after, in searches; up to ten times as many placements are
        tried.
    :param work: the budget of everything: a third for the changes, half of the rest for the count before.
    :raises ProviderNotFound, NoAllocations, UnknownNameInQuery: a change names a missing object.
    :raises UnknownTraits, InventoryClassMissing, InvalidCapacity, InventoryInUse: the write would be refused.
    """
    cloud, known = _open_copy(picture, _names(changes, asked.request))
    trial = _Trial(cloud.snapshot(), known, avoid, work_factor * PLACEMENTS, work)
    db.snapshot(lambda tx: trial.read(tx, changes))
    share = max(work_factor // 2, 1)
    with refuse_unknown_names():
        with work.part(3) as trial.work:
            trial.apply(changes)
        # Both counts get the same budget, and the second also gets what the first has left over.
        with work.part(2) as part:
            before = _situation(cloud, known, asked, share, part)
        after = _situation(trial.cloud, known, asked, share, work)
    if all(isinstance(change, Drain | Placements) for change in changes):
        # These changes only take room, so whatever fits after them fits before them too.
        before = before.with_at_least(after)
    complete = trial.left > 0 and not trial.cut_short
    avoided = len(cloud.list_avoided(avoid))
    return TrialOutcome(before, after, trial.homeless, trial.placed, complete, avoided)


def _names(changes: Sequence[Change], request: CandidateRequest) -> NameSets:
    traits, classes = set(request.names.traits), set(request.names.classes)
    for change in changes:
        if isinstance(change, Placements):
            traits |= change.request.names.traits
            classes |= change.request.names.classes
        elif isinstance(change, Replace):
            traits |= change.traits or set()
            classes |= (change.inventories or {}).keys()
    return NameSets(frozenset(traits), frozenset(classes))


def _open_copy(picture: Picture, names: NameSets) -> tuple[Cloud, NameSets]:
    """Return a copy of the picture, and the names that exist, even outside the picture."""
    with picture.look(names) as look:
        cloud, known = look.cloud, look.known
        traits = known.traits | {name for name in names.traits if cloud.has_trait(name)}
        classes = known.classes | {name for name in names.classes if cloud.has_class(name)}
        return cloud.snapshot(), NameSets(traits, classes)


def _situation(
    cloud: Cloud, known: NameSets, asked: RelaxableRequest, searches: int, work: Work
) -> Situation:
    budget = Budget(known, searches, work)
    count = budget.count_if_any_is_left(cloud, asked.request)
    with work.part(2) as part:
        packing = pack(cloud, asked.request, known, searches, part)
    fits = Fits(packing.count, packing.exact, packing.complete)
    return Situation(count, fits, None if count.count else remedies(cloud, asked, budget))


# -- the copy that changes -----------------------------------------------------------------------


class _TakenOut(NamedTuple):
    """A consumer with its former resources in drained trees, by provider id and in the mover's form."""

    consumer: AffectedConsumer
    held: dict[int, dict[str, int]]
    leaving: Leaving


@dataclass(slots=True)
class _Trial:
    """A copy of the cloud with its consumers; ``left``: the number of placements that can still be tried.

    ``cut_short``: a search ended at a bound, without a candidate. ``age``: the order of the oldest
    allocations, by root and consumer.
    """

    cloud: Cloud
    known: NameSets
    avoid: frozenset[str]
    left: int
    work: Work
    cut_short: bool = False
    consumers: list[AffectedConsumer] = field(default_factory=list)
    homeless: list[AffectedConsumer] = field(default_factory=list)
    placed: list[tuple[int, int]] = field(default_factory=list)
    drained: set[str] = field(default_factory=set)
    age: dict[tuple[int, str | None], int] = field(default_factory=dict)
    members: Members = field(default_factory=Members)

    def read(self, tx: Snapshot, changes: Sequence[Change]) -> None:
        """Read the consumers of the trees to drain, and the allocations of the consumers to remove."""
        ids: set[int] = set()
        for change in changes:
            if isinstance(change, Drain):
                ids.update(self.cloud.ids[self._tree(change.provider_uuid)].tolist())
        rows = tree_rows.allocations(tx, sorted(ids)) if ids else []
        self.members = read_members(tx, rows)
        # Also those that are removed later have their turn in a drain before that.
        for row in rows:
            root = int(self.cloud.roots[self.cloud.index_of[row.provider_id]])
            self.age.setdefault((root, row.consumer_uuid), len(self.age))
        removed = {change.consumer_uuid for change in changes if isinstance(change, Remove)}
        rows = [row for row in rows if row.consumer_uuid not in removed]
        if self._may_share(changes):
            rows += read_others(tx, rows, Work())
        for uuid in sorted(removed):
            rows += tree_rows.allocations_of(tx, uuid)
        self.consumers = list_consumers(rows)

    def _may_share(self, changes: Iterable[Change]) -> bool:
        new = (change.traits for change in changes if isinstance(change, Replace) and change.traits)
        return self.cloud.has_trait(SHARING_TRAIT) or any(SHARING_TRAIT in each for each in new)

    def apply(self, changes: Iterable[Change]) -> None:
        """Make the changes in their order; successive drained trees close at once."""
        for _, together in groupby(changes, lambda each: isinstance(each, Drain)):
            drained = []
            for change in together:
                match change:
                    case Drain():
                        drained.append(change.provider_uuid)
                    case Remove():
                        self._remove(change)
                    case Placements():
                        self._place(change)
                    case Replace():
                        self._replace(change)
            self._drain([uuid for uuid in drained if uuid not in self.drained])

    def _index(self, uuid: str) -> int:
        index = self.cloud.index_of_uuid.get(uuid)
        if index is None:
            raise ProviderNotFound(uuid=uuid)
        return index

    def _tree(self, uuid: str) -> list[int]:
        root = self.cloud.roots[self._index(uuid)]
        return np.flatnonzero(self.cloud.roots == root).tolist()

    # -- drain --

    def _drain(self, uuids: Iterable[str]) -> None:
        trees = {int(self.cloud.roots[tree[0]]): tree for tree in map(self._tree, uuids)}
        if not trees:
            return
        # The order is that of survival, since both must give the same answer for the same trees.
        roots = sorted(trees, key=self.cloud.ids.__getitem__)
        id_of = self.cloud.ids.tolist()
        uuid_of = {id_of[index]: str(self.cloud.uuids[index]) for r in roots for index in trees[r]}
        self.drained |= set(uuid_of.values())
        self.members = self.members.without_trees(uuid_of.values(), self.members.rows)
        mover = Mover(self.cloud, self.members, self.avoid)
        mover.close(roots)
        leaving = self._take_out(mover, roots)
        self.cloud.replace([], removed=uuid_of)
        # Members of groups come first, so that other consumers are left out if the bound is reached.
        leaving.sort(key=lambda each: not mover.is_grouped(each.leaving))
        tried = leaving[: max(self.left, 0)]
        self.left -= len(leaving)
        for number, destination in mover.move([each.leaving for each in tried], self.work):
            consumer, held, _ = tried[number]
            if isinstance(destination, MovedTo):
                self._give(consumer, destination.given)
                continue
            self.cut_short |= isinstance(destination, CutShort)
            if isinstance(destination.why, KeptOut):
                consumer.kept_out_by = destination.why.groups
            self._lose(consumer, held, uuid_of)
        for consumer, held, _ in leaving[len(tried) :]:
            self._lose(consumer, held, uuid_of)
        self.members = mover.members

    def _take_out(self, mover: Mover, roots: Sequence[int]) -> list["_TakenOut"]:
        """Remove the consumers of some trees, and return them with their former resources there.

        The order is by tree, and in each the oldest allocations first; consumers that arrived since are last.
        """
        index_of, root_of = self.cloud.index_of, self.cloud.roots.tolist()
        turn_of = {root: turn for turn, root in enumerate(roots)}
        found: list[tuple[tuple[int, float], _TakenOut]] = []
        for consumer in self.consumers:
            parts: dict[int, dict[int, dict[str, int]]] = {}
            stays = []
            for id_, amounts in consumer.held.items():
                # A tree that was deleted since no longer counts.
                index = index_of.get(id_)
                if index is not None and root_of[index] in turn_of:
                    parts.setdefault(root_of[index], {})[index] = amounts
                elif index is not None:
                    stays.append(index)
            if not parts:
                continue
            by_tree = sorted(parts, key=turn_of.__getitem__)
            first = by_tree[0]
            turn = turn_of[first], self.age.get((first, consumer.uuid), inf)
            held = {int(self.cloud.ids[i]): a for root in by_tree for i, a in parts[root].items()}
            for id_ in held:
                del consumer.held[id_]
            left = mover.leave(consumer.uuid, [parts[root] for root in by_tree], stays)
            found.append((turn, _TakenOut(consumer, held, left)))
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]

    def _lose(
        self,
        consumer: AffectedConsumer,
        here: Mapping[int, dict[str, int]],
        uuid_of: Mapping[int, str],
    ) -> None:
        consumer.lost |= {uuid_of[provider_id]: held for provider_id, held in here.items()}
        if consumer not in self.homeless:
            self.homeless.append(consumer)

    def _give(self, consumer: AffectedConsumer, given: AmountsByIndex) -> None:
        for index, amounts in given.items():
            self.cloud.use(index, amounts)
            held = consumer.held.setdefault(int(self.cloud.ids[index]), {})
            for name, amount in amounts.items():
                held[name] = held.get(name, 0) + amount

    # -- the other changes --

    def _remove(self, change: Remove) -> None:
        mine = [each for each in self.consumers if each.uuid == change.consumer_uuid]
        if not mine:
            raise NoAllocations(uuid=change.consumer_uuid)
        for consumer in mine:
            for provider_id, held in consumer.held.items():
                index = self.cloud.index_of.get(provider_id)
                if index is not None:
                    self.cloud.use(index, {name: -amount for name, amount in held.items()})
            self.consumers.remove(consumer)
            self.members = self.members.without(str(consumer.uuid))
            if consumer in self.homeless:
                self.homeless.remove(consumer)

    def _place(self, change: Placements) -> None:
        request = replace(change.request, limit=1, seed=None)
        number = 0
        while number < change.times and self.left > 0:
            self.left -= 1
            with self.work.part(WORK_SHARE) as part:
                result = search(self.cloud, request, self.known, part)
            candidate = next(iter(result), None)
            if candidate is None:
                self.cut_short |= not result.complete
                break
            consumer = AffectedConsumer(None, None, None, None)
            self._give(consumer, candidate.allocations)
            self.consumers.append(consumer)
            number += 1
        self.placed.append((change.times, number))

    def _replace(self, change: Replace) -> None:
        if change.provider_uuid in self.drained:
            return
        index = self._index(change.provider_uuid)
        new = record(self.cloud, index)
        if change.traits is not None:
            has_trait = self.cloud.has_trait
            unknown = [n for n in change.traits if not self._exists(n, has_trait, "traits")]
            if unknown:
                raise UnknownTraits(names=", ".join(sorted(unknown)))
            new = replace(new, traits=change.traits)
        if change.aggregates is not None:
            new = replace(new, aggregates=change.aggregates)
        if change.inventories is not None:
            new = replace(new, inventories=self._inventories(change, new.inventories))
        self.cloud.replace([new])

    def _exists(self, name: str, has: Callable[[str], bool], kind: str) -> bool:
        return has(name) or name in getattr(self.known, kind)

    def _inventories(
        self, change: Replace, old: Mapping[str, UsedInventory]
    ) -> dict[str, UsedInventory]:
        new = change.inventories or {}
        uuid = change.provider_uuid
        for name, given in new.items():
            check_capacity("update", uuid, name, given, may_be_full=True)
            if not self._exists(name, self.cloud.has_class, "classes"):
                raise InventoryClassMissing(action=UNKNOWN_CLASS, provider_uuid=uuid, name=name)
        in_use = sorted(name for name, held in old.items() if held.used and name not in new)
        if in_use:
            raise InventoryInUse(cause=UPDATE_CONFLICT, names=", ".join(in_use), provider_uuid=uuid)
        return {
            name: UsedInventory(given, used=old[name].used if name in old else 0)
            for name, given in new.items()
        }

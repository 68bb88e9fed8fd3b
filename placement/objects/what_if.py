"""What changes would do, tried on a copy of the picture (specification 07 section 4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from placement.db import tree_rows
from placement.db.database import Database, Snapshot
from placement.db.inventory_rows import Record
from placement.db.tree_rows import HeldBy
from placement.objects.allocation import NoAllocations
from placement.objects.allocation_candidate import unknown_names_refused
from placement.objects.inventory import RecordsInUse, UnknownClassToReplace, check_capacity
from placement.objects.picture import Picture
from placement.objects.resource_provider import ProviderNotFound
from placement.objects.trait import UnknownTraits
from placement.search.budget import Budget, Count
from placement.search.cloud import Cloud
from placement.search.explanation import Question, Remedies, remedies
from placement.search.packing import Packing, pack, record
from placement.search.records import Inventory
from placement.search.request import CandidateRequest, Group, Names
from placement.search.search import search
from placement.search.structure import Sharing

PLACEMENTS = 10
"""Placements for each search of the work factor."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The tree takes nothing new, and its consumers are placed elsewhere."""

    provider_uuid: str


@dataclass(frozen=True, slots=True)
class Remove:
    """The consumer lets go of what it has."""

    consumer_uuid: str


@dataclass(frozen=True, slots=True)
class Place:
    """So many placements of a request."""

    request: CandidateRequest
    times: int


@dataclass(frozen=True, slots=True)
class Replace:
    """A provider gets another set of inventories, traits or aggregates; None leaves one as it is."""

    provider_uuid: str
    inventories: Mapping[str, Record] | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None


Change = Drain | Remove | Place | Replace


class State(NamedTuple):
    """What a request meets at one moment."""

    candidates: Count
    packing: Packing
    remedies: Remedies | None


class Outcome(NamedTuple):
    """Before and after; who is homeless; how many of each ``Place`` found one."""

    before: State
    after: State
    homeless: list["Consumer"]
    placed: list[tuple[int, int]]
    complete: bool


@dataclass(slots=True)
class Consumer:
    """A consumer with its amounts by provider id; without uuid if it is one that was only placed."""

    uuid: str | None
    project: str | None
    user: str | None
    type: str | None
    held: dict[int, dict[str, int]] = field(default_factory=dict)
    lost: dict[str, dict[str, int]] = field(default_factory=dict)


def try_out(
    db: Database,
    picture: Picture,
    changes: Sequence[Change],
    question: Question,
    work_factor: int,
) -> Outcome:
    """Say what the changes would do to a request; nothing is written, and the picture stays as it is.

    :param work_factor: bounds the searches before and after; ten times as many placements are tried.
    :raises ProviderNotFound, NoAllocations, NoSuchTrait, NoSuchClass: a change names who is not there.
    :raises UnknownTraits, UnknownClassToReplace, InvalidCapacity, RecordsInUse: as the writes would.
    """
    cloud, known = _opened(picture, _names(changes, question.request))
    trial = _Trial(cloud.snapshot(), known, work_factor * PLACEMENTS)
    db.snapshot(lambda tx: trial.read(tx, changes))
    share = max(work_factor // 2, 1)
    with unknown_names_refused():
        before = _state(cloud, known, question, share)
        for change in changes:
            trial.apply(change)
        after = _state(trial.cloud, known, question, share)
    return Outcome(before, after, trial.homeless, trial.placed, trial.left > 0)


def _names(changes: Sequence[Change], request: CandidateRequest) -> Names:
    traits, classes = set(request.names.traits), set(request.names.classes)
    for change in changes:
        if isinstance(change, Place):
            traits |= change.request.names.traits
            classes |= change.request.names.classes
        elif isinstance(change, Replace):
            traits |= change.traits or set()
            classes |= (change.inventories or {}).keys()
    return Names(frozenset(traits), frozenset(classes))


def _opened(picture: Picture, names: Names) -> tuple[Cloud, Names]:
    """Return a copy of the picture, and which of the names exist, whoever has them."""

    def work(cloud: Cloud, known: Names) -> tuple[Cloud, Names]:
        traits = known.traits | {name for name in names.traits if cloud.has_trait(name)}
        classes = known.classes | {name for name in names.classes if cloud.has_class(name)}
        return cloud.snapshot(), Names(traits, classes)

    return picture.read_knowing(names, work)


def _state(cloud: Cloud, known: Names, question: Question, searches: int) -> State:
    budget = Budget(known, searches)
    count = budget.count(cloud, question.request)
    packing = pack(cloud, question.request, known, searches)
    return State(count, packing, None if count.count else remedies(cloud, question, budget))


# -- the copy that is changed --------------------------------------------------------------------


@dataclass(slots=True)
class _Trial:
    """A copy of the cloud, and what is known of who holds what there; ``left``: placements."""

    cloud: Cloud
    known: Names
    left: int
    consumers: list[Consumer] = field(default_factory=list)
    homeless: list[Consumer] = field(default_factory=list)
    placed: list[tuple[int, int]] = field(default_factory=list)
    drained: set[str] = field(default_factory=set)

    def read(self, tx: Snapshot, changes: Sequence[Change]) -> None:
        """Read who is on the trees to drain, and what the consumers to remove hold."""
        ids: set[int] = set()
        for change in changes:
            if isinstance(change, Drain):
                ids.update(self.cloud.ids[self._tree(change.provider_uuid)].tolist())
        rows = tree_rows.allocations(tx, sorted(ids)) if ids else []
        removed = {change.consumer_uuid for change in changes if isinstance(change, Remove)}
        rows = [row for row in rows if row.consumer_uuid not in removed]
        for uuid in sorted(removed):
            rows += tree_rows.allocations_of(tx, uuid)
        self.consumers = _consumers(rows)

    def apply(self, change: Change) -> None:
        """Make one change."""
        makers: dict[type[Any], Callable[[Any], None]] = {
            Drain: self._drain,
            Remove: self._remove,
            Place: self._place,
            Replace: self._replace,
        }
        makers[type(change)](change)

    def _index(self, uuid: str) -> int:
        index = self.cloud.index_of_uuid.get(uuid)
        if index is None:
            raise ProviderNotFound(uuid=uuid)
        return index

    def _tree(self, uuid: str) -> list[int]:
        root = self.cloud.roots[self._index(uuid)]
        return np.flatnonzero(self.cloud.roots == root).tolist()

    # -- drain --

    def _drain(self, change: Drain) -> None:
        if change.provider_uuid in self.drained:
            return
        members = self._tree(change.provider_uuid)
        uuid_of = {int(self.cloud.ids[index]): str(self.cloud.uuids[index]) for index in members}
        self.drained |= set(uuid_of.values())
        self.cloud.replace([], removed=uuid_of)
        for consumer in list(self.consumers):
            here = {id_: held for id_, held in consumer.held.items() if id_ in uuid_of}
            if here:
                self._move(consumer, here, uuid_of)

    def _move(
        self, consumer: Consumer, here: dict[int, dict[str, int]], uuid_of: Mapping[int, str]
    ) -> None:
        """Place anew what a consumer has in a tree that is drained: in one tree, a group per provider."""
        groups = tuple(Group(f"_{n}", held) for n, held in enumerate(here.values(), 1))
        request = CandidateRequest(groups, limit=1)
        for provider_id in here:
            del consumer.held[provider_id]
        if self._take(request, consumer, alone=True):
            return
        consumer.lost |= {uuid_of[provider_id]: held for provider_id, held in here.items()}
        if consumer not in self.homeless:
            self.homeless.append(consumer)

    def _take(self, request: CandidateRequest, consumer: Consumer, *, alone: bool = False) -> bool:
        """Give a consumer the first candidate, if there is one.

        :param alone: within one tree, without providers that share.
        """
        if self.left <= 0:
            return False
        self.left -= 1
        cloud = _without_sharing(self.cloud) if alone else self.cloud
        candidate = next(iter(search(cloud, request, None if alone else self.known)), None)
        if candidate is None:
            return False
        for index, amounts in candidate.allocations.items():
            self.cloud.use(index, amounts)
            held = consumer.held.setdefault(int(self.cloud.ids[index]), {})
            for name, amount in amounts.items():
                held[name] = held.get(name, 0) + amount
        return True

    # -- the others --

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
            if consumer in self.homeless:
                self.homeless.remove(consumer)

    def _place(self, change: Place) -> None:
        request = replace(change.request, limit=1, seed=None)
        number = 0
        while number < change.times:
            consumer = Consumer(None, None, None, None)
            if not self._take(request, consumer):
                break
            self.consumers.append(consumer)
            number += 1
        self.placed.append((change.times, number))

    def _replace(self, change: Replace) -> None:
        if change.provider_uuid in self.drained:
            return
        index = self._index(change.provider_uuid)
        old = record(self.cloud, index)
        new = replace(
            old,
            traits=old.traits if change.traits is None else self._traits(change.traits),
            aggregates=old.aggregates if change.aggregates is None else change.aggregates,
        )
        if change.inventories is not None:
            new = replace(new, inventories=self._inventories(change, old.inventories))
        self.cloud.replace([new])

    def _traits(self, names: frozenset[str]) -> frozenset[str]:
        unknown = [name for name in names if not self._exists(name, self.cloud.has_trait, "traits")]
        if unknown:
            raise UnknownTraits(names=", ".join(sorted(unknown)))
        return names

    def _exists(self, name: str, has: Callable[[str], bool], kind: str) -> bool:
        return has(name) or name in getattr(self.known, kind)

    def _inventories(self, change: Replace, old: Mapping[str, Inventory]) -> dict[str, Inventory]:
        new = change.inventories or {}
        uuid = change.provider_uuid
        for name, given in new.items():
            check_capacity("update", uuid, name, given, may_be_full=True)
            if not self._exists(name, self.cloud.has_class, "classes"):
                raise UnknownClassToReplace(provider_uuid=uuid, name=name)
        in_use = sorted(name for name, held in old.items() if held.used and name not in new)
        if in_use:
            raise RecordsInUse(names=", ".join(in_use), provider_uuid=uuid)
        return {
            name: Inventory(*given, used=old[name].used if name in old else 0)
            for name, given in new.items()
        }


def _consumers(rows: Sequence[HeldBy]) -> list[Consumer]:
    """Return the consumers in the order of their first allocations."""
    consumers: dict[str, Consumer] = {}
    for row in rows:
        consumer = consumers.get(row.consumer_uuid)
        if consumer is None:
            consumer = Consumer(row.consumer_uuid, row.project, row.user, row.type)
            consumers[row.consumer_uuid] = consumer
        consumer.held.setdefault(row.provider_id, {})[row.class_name] = row.used
    return list(consumers.values())


def _without_sharing(cloud: Cloud) -> Cloud:
    """Return the cloud as if nobody shared; it is only read."""
    nobody: Any = np.zeros(0, np.int32)
    return cloud.with_sharing(
        Sharing(nobody, cloud.roots, cloud.aggregates.__getitem__, lambda _: nobody, cloud.keys)
    )

"""The count of how often a request fits, one placement after the other (specification 07 section 3).

Trees that one provider serves alone are counted by arithmetic on columns. Any other tree is copied with the
providers that share with it, and filled: the first candidate as often as it fits, then the next remaining
one. That takes at most as many searches as the tree has inventories, for any number of placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from placement.inventory_record import InventoryRecord
from placement.search.candidate import Candidate
from placement.search.cloud import Cloud
from placement.search.feasible import in_reach
from placement.search.filters import ROOT_FILTERS, conditions, fits, list_group_conditions
from placement.search.index_set import Indexes, Mask
from placement.search.records import ProviderRecord, UsedInventory
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import Prospect, prospect, search
from placement.search.work import Work, WorkEnded

Column = NDArray[np.int64]

SEARCHES_IN_TREES = 10
"""Searches of one tree that cost as much as one of a thousand providers."""

WORK_IN_TREE = 20_000
"""The number of placements that one search of one tree may try."""

MOST = 2**62
"""The largest room of one provider that is counted: capacities exceed 64 bits, columns do not."""

TIME_SHARE = 8
"""The divisor of the remaining time for one search of one tree: one eighth."""


@dataclass(slots=True)
class Packing:
    """The result of packing: ``counts`` by provider index of the root, and the rest.

    ``exact``: whether it is the largest possible number; otherwise it is the number reached by taking the
    first candidates of one tree after the other, each as often as it fits. ``complete`` is False if the
    budget ended first.
    """

    counts: Column
    exact: bool = True
    complete: bool = True
    limits: dict[str, int] = field(default_factory=dict)
    stranded: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of placements."""
        return total(self.counts)


def total(column: Column) -> int:
    """Return the sum, limited to the 64 bits of numbers in an answer."""
    if int(column.max(initial=0)) < MOST // max(len(column), 1):
        return int(column.sum())
    return min(sum(column.tolist()), 2**63 - 1)


def pack(
    cloud: Cloud,
    request: CandidateRequest,
    known: NameSets | None,
    searches: int,
    work: Work | None = None,
) -> Packing:
    """Fill a copy of the cloud with a request and return how often it fitted. The cloud is not changed.

    :param searches: the budget in searches of the whole cloud.
    :param work: the budget of all searches; None for no deadline.
    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    :raises ValueError: no group requests resources; the API refuses that, since it fits without end.
    """
    return pack_in_turn(cloud, [request], known, searches, work)[0]


def pack_in_turn(
    cloud: Cloud,
    requests: Sequence[CandidateRequest],
    known: NameSets | None,
    searches: int,
    work: Work | None = None,
) -> list[Packing]:
    """Fill the cloud with the first request, the rest with the next, and so on, like :func:`pack`.

    Successive claims with these requests as queries fill the cloud the same way (09 section 3.1): room only
    shrinks, so no claim gets an earlier query after another has got a later one. The remaining room and the
    limits of each request are those after the last one has filled the cloud.
    """
    if not all(request.names.classes for request in requests):
        raise ValueError("a request without resources fits without end")
    work = work or Work()
    of_search = [replace(each, limit=None, maximum=-1, seed=None) for each in requests]
    free = free_columns(cloud, NameSets.in_requests(requests).classes)
    full = cloud.snapshot()
    share = max(searches // len(requests), 1)
    packings = []
    for left, request in zip(range(len(requests), 0, -1), of_search, strict=True):
        with work.part(left) as part:
            packings.append(_fill(full, request, known, free, share, part, goes_on=left > 1))
    for request, packing in zip(of_search, packings, strict=True):
        names = sorted(request.names.classes)
        packing.largest = {name: _largest(cloud, request, name) for name in names}
        packing.stranded = {name: _sum_stranded(full, request, name, free[name]) for name in names}
        packing.limits = _limits(full, request)
    return packings


def join(packings: Sequence[Packing]) -> Packing:
    """Return the sum of several packings, without the rest of each."""
    counts = packings[0].counts
    for each in packings[1:]:
        # Each count fits into a column by far, but their sum may not.
        counts = counts + np.minimum(each.counts, np.iinfo(np.int64).max - counts)
    return Packing(
        counts,
        exact=all(each.exact for each in packings),
        complete=all(each.complete for each in packings),
    )


def _fill(
    full: Cloud,
    request: CandidateRequest,
    known: NameSets | None,
    free: Mapping[str, Column],
    searches: int,
    work: Work,
    *,
    goes_on: bool,
) -> Packing:
    """Fill a cloud with a request; ``goes_on``: whether another request follows."""
    packing = Packing(np.zeros(full.size, np.int64))
    try:
        found = prospect(full, request, known, work)
    except WorkEnded:
        packing.complete = False
        found = None
    if found is not None:
        _fill_columns(full, request, found, free, packing, goes_on)
        trees = found.turns.anchor[~found.turns.single]
        if len(trees):
            left = searches * SEARCHES_IN_TREES * max(len(full) // 1000, 1)
            _Filling(full, request, found, free, packing, left, work).fill(trees)
    packing.exact &= packing.complete
    return packing


def free_columns(cloud: Cloud, names: Iterable[str]) -> dict[str, Column]:
    """Return the free amount of each class, regardless of max_unit, in one pass."""
    columns = {name: np.zeros(cloud.size, np.int64) for name in names}
    for index, inventories in enumerate(cloud.inventories):
        for name, capacity, used, _ in inventories:
            if name in columns:
                columns[name][index] = min(capacity - used, MOST)
    return columns


def _fill_columns(
    cloud: Cloud,
    request: CandidateRequest,
    found: Prospect,
    free: Mapping[str, Column],
    packing: Packing,
    goes_on: bool,
) -> None:
    """Fill all trees that one provider serves alone, at once."""
    providers = found.turns.provider[found.turns.single]
    if not len(providers):
        return
    totals = request.amounts
    times = np.min([free[name][providers] // amount for name, amount in totals.items()], axis=0)
    packing.counts[cloud.roots[providers]] = times
    packing.exact &= all(int(free[name][providers].max()) < MOST for name in totals)
    for name, amount in totals.items():
        free[name][providers] -= times * amount
        room = np.minimum(cloud.room(name)[providers], np.maximum(free[name][providers], 0))
        cloud.set_rooms(name, providers, room)
    if goes_on:
        # The next request can copy these trees, with all their usage.
        for number in np.flatnonzero(times).tolist():
            taken = {name: amount * int(times[number]) for name, amount in totals.items()}
            cloud.use(int(providers[number]), taken)


# -- trees -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Filling:
    """Trees that are filled one by one; ``left``: the remaining number of searches of one tree."""

    cloud: Cloud
    request: CandidateRequest
    found: Prospect
    free: Mapping[str, Column]
    packing: Packing
    left: int
    work: Work

    def fill(self, roots: Indexes) -> None:
        """Fill these trees in their order; the first ones get the shared resources."""
        for root in roots.tolist():
            if self.left <= 0 or not self.work.check_time():
                self.packing.complete = False
                return
            self._fill_one(root)

    def _fill_one(self, root: int) -> None:
        guests = self._guests(root)
        copied = np.array([root, *guests, *self._find_named_roots() - {root, *guests}], np.int32)
        members = self.cloud.forest.trees(copied)[0].tolist()
        small = Cloud()
        small.replace([record(self.cloud, index) for index in members])
        asked = replace(self.request, anchor=str(self.cloud.uuids[root]))
        places = dict(
            zip((small.index_of[int(self.cloud.ids[i])] for i in members), members, strict=True)
        )
        while self.left > 0 and not self.work.is_over:
            self.left -= 1
            # The search asks for two candidates: a second one might have left more room for others.
            with self.work.part(TIME_SHARE, WORK_IN_TREE) as part:
                result = search(small, replace(asked, limit=2), work=part)
            self.packing.complete &= result.complete
            first = next(iter(result), None)
            if first is None:
                break
            shared = self.found.visited is not None and bool(self.found.visited[root])
            self.packing.exact &= len(result) == 1 and not guests and not shared
            most = MOST // max(
                (n for held in first.allocations.values() for n in held.values()), default=1
            )
            times = min(_times(small, first), most)
            for place, amounts in first.allocations.items():
                taken = {name: amount * times for name, amount in amounts.items()}
                small.use(place, taken)
                self.cloud.use(places[place], taken)
                for name, amount in taken.items():
                    self.free[name][places[place]] -= amount
            self.packing.counts[root] += times
            self.packing.exact &= times < most
            if not first.allocations or times == most:
                break
        else:
            # The budget has ended the loop, not a search that found nothing.
            self.packing.complete = False

    def _guests(self, root: int) -> list[int]:
        """Return the roots of the trees whose providers share with this tree and may serve."""
        if self.found.away is None:
            return []
        sharers = [p for p in self.cloud.sharing.away(root) if self.found.away[p]]
        return sorted({int(self.cloud.roots[sharer]) for sharer in sharers})

    def _find_named_roots(self) -> set[int]:
        """Return the roots of the trees that the request names, which must exist in the copy too."""
        named = (group.in_tree for group in self.request.groups if group.in_tree is not None)
        indexes = (self.cloud.index_of_uuid.get(uuid, -1) for uuid in named)
        return {int(self.cloud.roots[index]) for index in indexes if index >= 0}


def _times(cloud: Cloud, candidate: Candidate) -> int:
    """Return how often a candidate fits, one after the other."""
    held = {
        (index, name): capacity - used
        for index in candidate.allocations
        for name, capacity, used, _ in cloud.inventories[index]
    }
    return min(
        held[index, name] // amount
        for index, amounts in candidate.allocations.items()
        for name, amount in amounts.items()
    )


def record(cloud: Cloud, index: int) -> ProviderRecord:
    """Return the content of one provider, to store it in another cloud or change it."""
    parent = int(cloud.parents[index])
    return ProviderRecord(
        provider_id=int(cloud.ids[index]),
        uuid=str(cloud.uuids[index]),
        revision=int(cloud.revisions[index]),
        parent_id=None if parent < 0 else int(cloud.ids[parent]),
        root_id=int(cloud.ids[cloud.roots[index]]),
        inventories={
            name: UsedInventory(InventoryRecord._make(terms), used)
            for name, _, used, terms in cloud.inventories[index]
        },
        traits=frozenset(cloud.traits[index]),
        aggregates=frozenset(cloud.aggregates[index]),
        name=cloud.names[index],
        generation=int(cloud.generations[index]),
    )


def roots_by_aggregate(cloud: Cloud) -> dict[str, set[int]]:
    """Return for each aggregate the roots of the trees with a provider in it."""
    roots: dict[str, set[int]] = {}
    for index, uuids in enumerate(cloud.aggregates):
        for uuid in uuids:
            roots.setdefault(uuid, set()).add(int(cloud.roots[index]))
    return roots


# -- what is left --------------------------------------------------------------------------------


def _largest(cloud: Cloud, request: CandidateRequest, name: str) -> int:
    """Return the largest amount of a class that one provider could give now."""
    column = cloud.classes.get(name)
    if column is None:
        return 0
    room = column.room[: cloud.size].astype(np.int64)
    providers, minimum, step = column.unit_columns()
    possible = room[providers] // step * step
    room[providers] = np.where(possible >= minimum, possible, 0)
    avoided = cloud.mark_avoided(request.avoid)
    if avoided is not None:
        room[avoided] = 0
    return int(room.max(initial=0))


def _sum_stranded(cloud: Cloud, request: CandidateRequest, name: str, free: Column) -> int:
    """Return the free amount of a class on providers where the request's share still fits."""
    fitting = np.zeros(cloud.size, np.bool_)
    for group in request.groups:
        if name in group.amounts:
            fitting |= fits(cloud, name, group.amounts[name])
    avoided = cloud.mark_avoided(request.avoid)
    if avoided is not None:
        fitting &= ~avoided
    return total(free[fitting])


def _limits(cloud: Cloud, request: CandidateRequest) -> dict[str, int]:
    """Return for each demand the number of trees where it stops the next placement: the first unmet one.

    Unchanging demands come before demands for room.
    """
    waiting = cloud.forest.is_root.copy()
    limits: dict[str, int] = {}
    for label, met in _demands(cloud, request):
        stopped = int(np.count_nonzero(waiting & ~met))
        if stopped:
            limits[label] = stopped
            waiting &= met
    rest = int(np.count_nonzero(waiting))
    return limits | ({TOGETHER: rest} if rest else {})


TOGETHER = "all demands together"
"""The limit for trees that reach providers for each demand but have no combination for all."""


def _demands(cloud: Cloud, request: CandidateRequest) -> Iterator[tuple[str, Mask]]:
    """Yield each demand with the trees that have a provider in reach that meets it, by the search's tests."""
    for of_root, names in conditions(ROOT_FILTERS, request):
        yield f"{of_root.parameter} {of_root.value(names)}", of_root.test(cloud, names)
    alive, avoided = cloud.ids >= 0, cloud.mark_avoided(request.avoid)
    if avoided is not None:
        yield f"avoid {','.join(sorted(request.avoid))}", ~avoided
        alive &= ~avoided
    for group in request.groups:
        for each, names in list_group_conditions(group):
            label = f"{each.parameter}{group.suffix} {each.value(names)}"
            yield label, in_reach(cloud, each.test(cloud, names) & alive)
    for group in request.groups:
        suffix = f" of group {group.suffix}" if group.suffix else ""
        for name, amount in group.amounts.items():
            yield f"{name}{suffix}", in_reach(cloud, fits(cloud, name, amount) & alive)

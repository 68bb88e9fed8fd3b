"""Choosing places for many claims on a copy of the picture (specification 09 section 3). Pure.

Claims are placed one after another, those with the fewest trees first. If a claim does not fit, the next
attempt places it first, or places its "together" group elsewhere. If no such order helps, all ways are tried
within the budget; when none is left, it is certain that the claims do not fit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placement.placing.all_ways import AllWays
from placement.placing.attempts import NextOrder, attempt
from placement.placing.board import Board
from placement.placing.packing import free_columns, pack, total
from placement.placing.pool import Pools, start_at_random_tree
from placement.placing.turns import Ranking, TreeOrder
from placement.placing.wishes import ChosenPlace, GroupState, NoPlace, Wish, WishList
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.request import NameSets
from placement.search.search import search
from placement.search.work import Work, WorkEnded

RESTARTS = 1000
"""The number of orders of claims, and domains of "together" groups, that are tried before all ways."""

WAYS = 20_000
"""The number of places that are tried during the trial of all ways."""

COUNTING_SEARCHES = 200
"""The largest cost of counting how often equal claims fit, in searches."""


def choose(
    cloud: Cloud,
    known: NameSets | None,
    wishes: Sequence[Wish],
    groups: Mapping[str, GroupState],
    strategy: TreeOrder,
    work: Work,
    draw: random.Random | None,
    ways: int = WAYS,
    *,
    in_one_order: bool = False,
) -> Sequence[ChosenPlace] | NoPlace:
    """Return a place for each wish, such that all fit together and keep the rules. The cloud is not changed.

    :param draw: draws among equal trees; None takes the first of them.
    :param ways: the number of places to try when no order helps.
    :param in_one_order: try no other order of the claims; then a refusal is not certain.
    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    """
    chooser = _Chooser(cloud, known, WishList(wishes), groups, strategy, work, draw)
    try:
        if strategy == "any" and not groups and (apart := chooser.choose_apart()) is not None:
            return apart
        return chooser.choose_in_one_order() if in_one_order else chooser.choose(ways)
    except WorkEnded:
        # The first refusal is reported, on its own cloud, since nothing better is known.
        return replace(chooser.refusal or NoPlace(0, cloud, exact=False), timed_out=True)


@dataclass(eq=False)
class _Chooser:
    """The arguments of :func:`choose`; ``refusal``: the first refusal during the search for places."""

    _start: Cloud
    _known: NameSets | None
    _wishes: WishList
    _states: Mapping[str, GroupState]
    _strategy: TreeOrder
    _work: Work
    _draw: random.Random | None
    refusal: NoPlace | None = None

    def choose_apart(self) -> Sequence[ChosenPlace] | None:
        """Return the first candidates of a search, if there are enough and no two use the same provider.

        Such candidates fit together without a trial on a copy: 0.10 ms for one wish and 0.19 for four,
        instead of 0.36 and 1.34 (10,000 hosts, processor time). The strategy must be "any", and no wish may
        be in a group.
        """
        # Two candidates of different trees can use up the same shared provider.
        if self._start.has_trait(SHARING_TRAIT):
            return None
        places: dict[int, ChosenPlace] = {}
        taken: set[int] = set()
        for first, numbers in self._wishes.alike.items():
            request = start_at_random_tree(self._wishes[first].request, self._draw)
            request = replace(request, limit=len(numbers))
            found = search(self._start, request, self._known, self._work)
            if len(found) < len(numbers):
                return None
            for number, candidate in zip(numbers, found, strict=True):
                root = int(self._start.roots[candidate.members[0]])
                place = places[number] = ChosenPlace.from_candidate(self._start, root, candidate)
                if not taken.isdisjoint(place.allocations):
                    return None
                taken.update(place.allocations)
        return [places[number] for number in range(len(places))]

    def choose_in_one_order(self) -> Sequence[ChosenPlace] | NoPlace:
        if (hopeless := self._begin()) is not None:
            return hopeless
        order = self._pools.hardest_first()
        made = attempt(self._board, self._wishes, self._pools, order, self._work)
        if made.failed is not None:
            timed_out = self._work.timed_out
            return NoPlace(made.failed, self._board.cloud, exact=False, timed_out=timed_out)
        return made.in_order()

    def choose(self, ways: int) -> Sequence[ChosenPlace] | NoPlace:
        if (hopeless := self._begin()) is not None:
            return hopeless
        # Orders get half of the budget: if none helps, the trial of all ways needs time to be certain.
        with self._work.part(2) as part:
            places, counting_timed_out = self._choose_in_some_order(part)
        if places is not None:
            return places
        assert self.refusal is not None
        if self.refusal.exact:
            return self.refusal
        walk = AllWays(self._board, self._wishes, self._pools, self._work)
        places, certain = walk.walk(ways)
        timed_out = counting_timed_out or part.timed_out or self._work.timed_out
        return places or replace(self.refusal, exact=certain, timed_out=timed_out and not certain)

    def _begin(self) -> NoPlace | None:
        """Find the trees for each wish; return a refusal if a wish has none or a group is broken."""
        wishes = self._wishes
        ranking = Ranking(self._strategy, self._start, wishes.asked)
        self._board = Board(self._start, self._known, wishes, self._states, ranking, self._work)
        # The trees of all wishes are found first: an unknown name is an error even if there is no room.
        self._pools = Pools(self._start, self._known, wishes, ranking, self._draw, self._work)
        for number in range(len(wishes)):
            groups = wishes[number].groups
            broken = tuple(name for name in groups if not self._board.occupied[name].kept)
            if broken or not len(self._pools[number].roots):
                return NoPlace(number, self._start, not self._work.cut_short, broken)
        return None

    def _choose_in_some_order(self, work: Work) -> tuple[list[ChosenPlace] | None, bool]:
        """Return places, and whether the time ended while counting how many wishes fit."""
        order: Sequence[int] | None = self._pools.hardest_first()
        next_order, timed_out = NextOrder(self._board, self._wishes), False
        for _ in range(RESTARTS):
            assert order is not None
            made = attempt(self._board, self._wishes, self._pools, order, self._work)
            if made.failed is None:
                return made.in_order(), timed_out
            if self.refusal is None:
                # The refusal is recorded before counting, which can run out of time.
                self.refusal = NoPlace(
                    made.failed, self._board.cloud, exact=False, kept_out=made.kept_out
                )
                with work.part(4) as counting:
                    self.refusal = replace(self.refusal, exact=self._are_too_many(counting))
                timed_out = counting.timed_out
            if self.refusal.exact or not work.check_time():
                break
            order = next_order.after(order, made.failed)
            if order is None:
                break
        return None, timed_out

    def _are_too_many(self, work: Work) -> bool:
        """Return whether all claims together, or the equal ones alone, are certainly more than fit."""
        asked = self._wishes.asked
        free = free_columns(self._start, asked)
        if any(amount > total(np.maximum(free[name], 0)) for name, amount in asked.items()):
            return True
        for first, equal in self._wishes.alike.items():
            pool = self._pools[first]
            # As many trees take one claim each, so these claims are not too many.
            if not self._wishes[first].groups and len(equal) <= np.count_nonzero(pool.alone >= 0):
                continue
            if not work.check_time():
                return False
            # The count copies trees, and providers have other indexes there. Without the mask the count is at
            # least as high.
            groups = tuple(replace(group, among=None) for group in pool.request.groups)
            anywhere = replace(pool.request, groups=groups)
            found = pack(self._start, anywhere, self._known, COUNTING_SEARCHES, work)
            if found.exact and self._count_most(found.counts, equal) < len(equal):
                return True
        return False

    def _count_most(self, counts: NDArray[np.int64], equal: Sequence[int]) -> int:
        """Return an upper bound of how many equal wishes fit, from how often they fit in each tree."""
        most = int(np.minimum(counts, len(equal)).sum())
        groups = self._wishes[equal[0]].groups
        alike = all(self._wishes[number].groups == groups for number in equal)
        stays = any(self._wishes[number].stays for number in equal)
        # In these cases a wish is also in domains outside the one counted tree, so rules must not lower the
        # count.
        if self._board.shares or not alike or stays:
            return most
        for name in groups:
            state, room = self._states[name], Counter[str]()
            for root in np.flatnonzero(counts).tolist():
                room.update(dict.fromkeys(self._board.domains(name, (root,)), int(counts[root])))
            taken = Counter(domain for domains in state.members for domain in domains)
            if state.rule.rule == "apart":
                left = (min(room[each], max(state.rule.at_most - taken[each], 0)) for each in room)
                most = min(most, sum(left))
            else:
                common = (room[each] for each in room if taken[each] == len(state.members))
                most = min(most, max(common, default=0))
        return most

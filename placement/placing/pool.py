"""Pools: the trees that can take a request, before anything is placed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from placement.placing.turns import Keys, Ranking
from placement.placing.wishes import WishList
from placement.search.candidate import Combination
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import prospect
from placement.search.work import Work


@dataclass(frozen=True, slots=True)
class Pool:
    """The trees for equal requests, best first; their *positions* count in this order.

    ``alone``: the provider that serves everything by itself, as in ``pattern``; -1 if a search is needed.
    """

    request: CandidateRequest
    roots: Indexes
    alone: Indexes
    pattern: Combination | None

    @classmethod
    def for_request(
        cls, cloud: Cloud, request: CandidateRequest, known: NameSets | None, work: Work
    ) -> Pool:
        """Return the trees that can take a request, in the order of the search."""
        found = prospect(cloud, request, known, work)
        if found is None:
            none: Indexes = np.zeros(0, np.int32)
            return cls(request, none, none, None)
        turns = found.turns
        return cls(request, turns.anchor, np.where(turns.single, turns.provider, -1), found.alone)

    def keys(self, ranking: Ranking, positions: Indexes) -> Keys:
        """Return the present sort keys of the trees at these positions."""
        return ranking.keys(self.roots, positions, self.request.amounts)

    def order_by(self, ranking: Ranking, draw: random.Random | None) -> Pool:
        """Return the same trees, best first; equal trees are in random order."""
        ties = np.arange(len(self.roots))
        if draw is not None:
            ties = np.random.default_rng(draw.getrandbits(63)).permutation(ties)
        order = ties[np.argsort(self.keys(ranking, ties), kind="stable")]
        return replace(self, roots=self.roots[order], alone=self.alone[order])


class Pools:
    """The pools of all wishes, by number. Equal requests share one pool."""

    def __init__(
        self,
        cloud: Cloud,
        known: NameSets | None,
        wishes: WishList,
        ranking: Ranking,
        draw: random.Random | None,
        work: Work,
    ) -> None:
        self._start = cloud
        self._wishes = wishes
        self._by_first: dict[int, Pool] = {}
        for first in wishes.alike:
            pool = Pool.for_request(
                cloud, start_at_random_tree(wishes[first].request, draw), known, work
            )
            # The strategy "any" keeps the order of the search, which itself has a start.
            self._by_first[first] = pool if ranking.order == "any" else pool.order_by(ranking, draw)

    def __getitem__(self, number: int) -> Pool:
        return self._by_first[self._wishes.first_alike(number)]

    def hardest_first(self) -> list[int]:
        """Return the numbers of the wishes in the order of placing; equal wishes are adjacent.

        Wishes with the fewest trees come first, and among these the ones for the largest part of a class.
        """
        wishes = self._wishes
        room = {name: int(self._start.room(name).sum()) for name in wishes.asked}
        part = {
            first: max(amount / room[name] for name, amount in pool.request.amounts.items())
            for first, pool in self._by_first.items()
        }
        return sorted(
            range(len(wishes)),
            key=lambda number: (
                len(self[number].roots),
                -part[wishes.first_alike(number)],
                wishes.likeness(number),
            ),
        )


def start_at_random_tree(request: CandidateRequest, draw: random.Random | None) -> CandidateRequest:
    """Return a request without bounds; on request it begins at a random tree."""
    # Processes that begin with the same tree would all choose the same few hosts, and collide.
    start = None if draw is None else draw.getrandbits(63)
    return replace(request, limit=None, maximum=-1, seed=None, start=start)

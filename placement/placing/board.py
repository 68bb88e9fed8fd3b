"""A board: a cloud on which wishes take and release places under the rules of their groups. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from placement.placing.pool import Pool
from placement.placing.turns import Ranking
from placement.placing.wishes import ChosenPlace, GroupState, WishList
from placement.search.candidate import Candidate
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import Domains, Occupancy
from placement.search.index_set import Mask
from placement.search.request import NameSets
from placement.search.search import prospect, search
from placement.search.work import Work


class Board:
    """The placed wishes, on a copy of a cloud.

    ``start``: the original cloud, which is not changed; ``cloud``: the cloud with all placed wishes.
    ``banned``: by group, the domains that its first member must not use. ``shares``: whether any provider of
    the cloud shares.
    """

    def __init__(
        self,
        start: Cloud,
        known: NameSets | None,
        wishes: WishList,
        states: Mapping[str, GroupState],
        ranking: Ranking,
        work: Work,
    ) -> None:
        self.start = start
        self.states = states
        self.ranking = ranking
        self.shares = start.has_trait(SHARING_TRAIT)
        self.banned: dict[str, set[Domains]] = {name: set() for name in states}
        self._known, self._wishes, self._work = known, wishes, work
        self.clear()

    def clear(self) -> None:
        """Release all placed wishes."""
        self.cloud = self.start
        self.ranking.begin()
        self.occupied = {
            name: Occupancy.with_members(state.rule, state.members)
            for name, state in self.states.items()
        }

    def allow_all(self) -> None:
        """Let new groups be in any domain again."""
        for banned in self.banned.values():
            banned.clear()

    def put(self, number: int, place: ChosenPlace) -> None:
        """Let a wish take its place."""
        self._use(place, 1)
        wish = self._wishes[number]
        for name in wish.groups:
            self.occupied[name].add(self.domains(name, {*place.trees, *wish.stays}))

    def take_back(self, number: int, place: ChosenPlace) -> None:
        """Release the place of the wish that was put last."""
        self._use(place, -1)
        for name in self._wishes[number].groups:
            self.occupied[name].remove_last()

    def _use(self, place: ChosenPlace, times: int) -> None:
        if self.cloud is self.start:
            self.cloud = self.start.snapshot()
        for index, amounts in place.allocations.items():
            self.cloud.use(index, {name: times * amount for name, amount in amounts.items()})
            self.ranking.use(int(self.start.roots[index]), amounts, times)

    # -- the rules of groups --

    def domains(self, name: str, roots: Iterable[int]) -> Domains:
        """Return the domains of these trees for a group."""
        # A tree can be in a thousand aggregates, and all trees may be checked.
        self._work.go_on()
        state = self.states[name]
        return state.rule.domains([str(self.start.uuids[root]) for root in roots], state.aggregates)

    def excluder(self, number: int, *roots: int) -> str | None:
        """Return the first group of a wish whose rule excludes these trees; None if none does."""
        wish = self._wishes[number]
        for name in wish.groups:
            domains = self.domains(name, {*roots, *wish.stays})
            occupied = self.occupied[name]
            # Only the first member of a new group is excluded; the others follow it.
            banned = not occupied.members and domains in self.banned[name]
            if banned or not occupied.admits(domains):
                return name
        return None

    # -- places --

    def places(self, pool: Pool, position: int, most: int) -> tuple[list[ChosenPlace], bool]:
        """Return places in the tree at a position on the present cloud, and whether the list is complete.

        :param most: the most places to return; a list of this length may be incomplete.
        """
        root, alone = int(pool.roots[position]), int(pool.alone[position])
        if alone >= 0 and pool.pattern is not None:
            # Only room changes here; the search has checked all other conditions of the provider.
            candidate = Candidate(pool.pattern, (alone,))
            fits = has_room(self.cloud, candidate.allocations)
            return [ChosenPlace.from_candidate(self.start, root, candidate)] if fits else [], True
        here = replace(pool.request, anchor=str(self.start.uuids[root]), limit=most)
        found = search(self.cloud, here, self._known, self._work)
        # A tree that a search has set aside may have a place even if the work is not cut short.
        return [
            ChosenPlace.from_candidate(self.start, root, each) for each in found
        ], found.complete

    def with_room(self, pool: Pool) -> Mask:
        """Mark the trees of a pool that may have room now; this costs the search of a few trees."""
        marked = np.zeros(self.start.size, np.bool_)
        found = prospect(self.cloud, pool.request, self._known, self._work)
        if found is not None:
            marked[found.turns.anchor] = True
        return marked[pool.roots]


def has_room(cloud: Cloud, allocations: Mapping[int, Mapping[str, int]]) -> bool:
    """Return whether providers, by index, still have room for these amounts."""
    return all(
        cloud.room(name)[index] >= amount
        for index, amounts in allocations.items()
        for name, amount in amounts.items()
    )

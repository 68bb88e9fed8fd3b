"""Attempts to place wishes one after another, in one order and then in others. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement.placing.board import Board
from placement.placing.pool import Pool, Pools
from placement.placing.turns import Turns
from placement.placing.wishes import ChosenPlace, Likeness, WishList
from placement.search.work import Work


class Attempt(NamedTuple):
    """The places that wishes took, the first wish without a place, and the groups whose rules excluded it."""

    places: Mapping[int, ChosenPlace]
    failed: int | None = None
    kept_out: tuple[str, ...] = ()

    def in_order(self) -> list[ChosenPlace]:
        """Return the places in the order of the numbers of the wishes."""
        return [self.places[number] for number in range(len(self.places))]


def attempt(
    board: Board, wishes: WishList, pools: Pools, order: Sequence[int], work: Work
) -> Attempt:
    """Place the wishes in this order on the empty board; each takes the best tree that has a place."""
    board.clear()
    places: dict[int, ChosenPlace] = {}
    likeness, turns = None, None
    for number in order:
        work.go_on()
        pool = pools[number]
        if turns is None or likeness != wishes.likeness(number):
            likeness = wishes.likeness(number)
            turns = Turns.from_keys(pool.keys(board.ranking, np.arange(len(pool.roots))))
        place = _best_place(board, number, pool, turns)
        if place is None:
            return Attempt(places, number, tuple(sorted(turns.kept_out)))
        places[number] = place
        # The last wish changes nothing for others, so a single wish does not need a copy of the cloud.
        if len(places) < len(order):
            board.put(number, place)
            # The tree may have room for one more wish, so it is queued again with its present key, and so are
            # the trees whose providers share with it: their keys have changed too.
            for root in {place.root, *board.start.roots[list(place.allocations)].tolist()}:
                positions = np.flatnonzero(pool.roots == root)
                turns.put_back(pool.keys(board.ranking, positions), positions)
    return Attempt(places)


def _best_place(board: Board, number: int, pool: Pool, turns: Turns) -> ChosenPlace | None:
    """Return the place of a wish in the best tree with a place.

    A tree that is full, or that a rule excludes, is not queued again: an attempt never gives room back.
    """
    while (position := turns.next()) is not None:
        if (name := board.excluder(number, int(pool.roots[position]))) is not None:
            turns.kept_out.add(name)
            continue
        places, _ = board.places(pool, position, 1)
        if not places:
            # One comparison of all trees replaces a search of each full one. For a tree with one serving
            # provider a comparison of its room is cheaper still.
            if pool.alone[position] < 0 and turns.has_room is None:
                turns.has_room = board.with_room(pool)
        elif (name := board.excluder(number, *places[0].trees)) is not None:
            # The serving provider may share from outside the tree.
            turns.kept_out.add(name)
        else:
            return places[0]
    return None


class NextOrder:
    """The order in which wishes are placed after an attempt that failed.

    A new group whose members must be together first begins in another place. If that fails, the failed wish
    is moved to the front; of equal wishes only one is moved, once.
    """

    def __init__(self, board: Board, wishes: WishList) -> None:
        self._board, self._wishes = board, wishes
        self._moved: set[Likeness] = set()

    def after(self, order: Sequence[int], failed: int) -> Sequence[int] | None:
        """Return the next order to try, None if all were tried."""
        for name in self._wishes[failed].groups:
            state, members = self._board.states[name], self._board.occupied[name].members
            # The members of a stored group cannot move, so its place is fixed.
            if state.rule.rule == "together" and members and not state.members:
                self._board.banned[name].add(members[0])
                return order
        if self._wishes.likeness(failed) in self._moved:
            return None
        self._moved.add(self._wishes.likeness(failed))
        self._board.allow_all()
        return [failed, *(number for number in order if number != failed)]

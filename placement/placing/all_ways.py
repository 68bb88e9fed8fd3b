"""The trial of every assignment of wishes to places, one after the other. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from placement.placing.board import Board
from placement.placing.pool import Pools
from placement.placing.wishes import ChosenPlace, WishList
from placement.search.work import Work

MOST_IN_TREE = 500
"""The number of candidates of one tree that are tried; if there are more, a refusal is not certain."""


class _Step(NamedTuple):
    number: int
    position: int
    place: ChosenPlace


class AllWays:
    """A walk over all assignments, depth first.

    ``_all_seen``: whether no place of any tree has been left out yet.
    """

    def __init__(self, board: Board, wishes: WishList, pools: Pools, work: Work) -> None:
        self._board, self._wishes, self._pools, self._work = board, wishes, pools, work
        self._all_seen = True

    def walk(self, most: int) -> tuple[list[ChosenPlace] | None, bool]:
        """Return places or None, and whether the answer is certain: places were found, or all ways failed.

        :param most: the most steps.
        """
        self._board.clear()
        self._board.allow_all()
        order = self._pools.hardest_first()
        taken: list[_Step] = []
        ways = [self._ways(order[0], 0)]
        for _ in range(most):
            step = next(ways[-1], None)
            if step is None:
                ways.pop()
                if not ways:
                    return None, self._all_seen and not self._work.cut_short
                last = taken.pop()
                self._board.take_back(last.number, last.place)
                continue
            taken.append(step)
            self._board.put(step.number, step.place)
            if len(taken) == len(order):
                return [each.place for each in sorted(taken)], True
            following = order[len(taken)]
            # Interchangeable wishes go into trees in one order only: five equal ones on ten hosts give 2,002
            # ways instead of 100,000.
            equal = self._wishes.likeness(step.number) == self._wishes.likeness(following)
            ways.append(self._ways(following, step.position if equal else 0))
            if not self._work.check_time():
                break
        return None, False

    def _ways(self, number: int, first: int) -> Iterator[_Step]:
        """Yield the places of a wish in the trees from this position on, on the cloud of each moment."""
        board, pool = self._board, self._pools[number]
        for position in range(first, len(pool.roots)):
            # The serving providers may share from another tree, and then are not providers of this one.
            if board.shares or board.excluder(number, int(pool.roots[position])) is None:
                # The places are found before any is tried, since the steps below change the cloud and restore
                # it.
                places, complete = board.places(pool, position, MOST_IN_TREE)
                self._all_seen &= complete and len(places) < MOST_IN_TREE
                for place in places:
                    if board.excluder(number, *place.trees) is None:
                        yield _Step(number, position, place)

"""The places of departures, and the order of the steps (specification 10 section 3). Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from placement.extensions.plans.planning import gate
from placement.extensions.plans.planning.departures import Departures
from placement.extensions.plans.planning.scene import Scene, Share
from placement.extensions.plans.planning.state import State
from placement.placing.choose import choose
from placement.placing.mover import (
    SHARE,
    WAYS,
    HeldInTree,
    close_trees,
    make_request,
    without_sharing,
)
from placement.placing.wishes import ChosenPlace, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest
from placement.search.work import Work

MOST_ORDERS = 2_000
"""The number of steps that are tried to find an order."""

MOST_ORDERED = 100
"""The number of moves up to which several orders are tried."""


class Unplaceable(NamedTuple):
    """A share found no place, or no order. ``groups``: the groups whose rules excluded places."""

    share: Share | None = None
    groups: tuple[str, ...] = ()


def settle(
    state: State,
    leaving: Departures,
    work: Work,
    given: Sequence[tuple[Share, ChosenPlace]] = (),
) -> Unplaceable | None:
    """Move the departures elsewhere; return the obstacle on failure, with the state unchanged.

    All destinations have room at once, together with the request of the goal, whose places are reserved.

    :param given: known destinations of some departures, which may need room that others free.
    """
    scene, begun = state.scene, len(state.steps)
    occupants = [share.occupant for share in leaving.moved]
    # An occupant that leaves two trees in one choice would be counted as two members of its group.
    twice = [number for number, times in Counter(occupants).items() if times > 1]
    if any(scene.members.list_groups(scene.occupants[number].uuid) for number in twice):
        return Unplaceable()
    for number in leaving.removed:
        state.remove(number)
    stuck = _move_all(state, leaving, work, given)
    if stuck is not None:
        while len(state.steps) > begun:
            state.take_back()
        return stuck
    for place in leaving.placed:
        state.reserve(place)
    return None


def _move_all(
    state: State, leaving: Departures, work: Work, given: Sequence[tuple[Share, ChosenPlace]]
) -> Unplaceable | None:
    scene, gone = state.scene, {share.number for share in leaving.moved}
    for share in leaving.moved:
        blocker = scene.find_blocker(share)
        if not scene.may_move(share) or (blocker is not None and blocker.number not in gone):
            return Unplaceable(share)
    is_given = {share.number for share, _ in given}
    moved = [share for share in leaving.moved if share.number not in is_given]
    moves = list(given)
    if moved:
        chosen = _choose_places(state, leaving, moved, given, work)
        if isinstance(chosen, NoPlace):
            return Unplaceable(moved[chosen.number], chosen.kept_out)
        moves += zip(moved, chosen, strict=True)
    return None if find_order(state, moves) else Unplaceable()


def _choose_places(
    state: State,
    leaving: Departures,
    moved: Sequence[Share],
    given: Sequence[tuple[Share, ChosenPlace]],
    work: Work,
) -> Sequence[ChosenPlace] | NoPlace:
    """Return places with room now, in addition to the given destinations."""
    scene, gone = state.scene, {share.number for share in leaving.moved}
    wishes = [
        Wish(
            request,
            tuple(scene.members.list_groups(scene.occupants[share.occupant].uuid)),
            tuple(_stay(state, share, gone)),
        )
        for share, request in zip(moved, _make_requests(scene, moved, gone), strict=True)
    ]
    cloud, groups = _open_destinations(state, leaving), dict(state.group_states(moved))
    for _, place in given:
        for index, amounts in place.allocations.items():
            cloud.use(index, amounts)
    with work.part(SHARE) as part:
        return choose(cloud, None, wishes, groups, "any", part, None, WAYS)


def _make_requests(
    scene: Scene, shares: Sequence[Share], gone: Collection[int]
) -> Iterator[CandidateRequest]:
    """Yield the requests of shares, limited to providers in reach; equal requests are one object."""
    made: dict[tuple[HeldInTree, int], CandidateRequest] = {}
    for share in shares:
        among = scene.mark_reach(share, gone)
        key = share.kind, id(among)
        if key not in made:
            made[key] = make_request(share.kind, among)
        yield made[key]


def _stay(state: State, share: Share, gone: Collection[int]) -> Iterator[int]:
    """Yield the roots of the trees in which the occupant of a share stays."""
    for each in state.scene.shares_of(share.occupant):
        place = state.place_of(each)
        if each.number not in gone and place is not None:
            yield place.root


def _open_destinations(state: State, leaving: Departures) -> Cloud:
    """Return a cloud that has room only where shares may go, now and at the end."""
    scene = state.scene
    cloud = without_sharing(scene.cloud)
    for (index, name), amount in state.list_used():
        cloud.use(index, {name: amount})
    for place in leaving.placed:
        for index, amounts in place.allocations.items():
            cloud.use(index, amounts)
    sources = {share.root for share in leaving.moved}
    close_trees(cloud, sorted(sources | leaving.emptied | scene.closed))
    return cloud


def find_order(state: State, moves: Sequence[tuple[Share, ChosenPlace]]) -> bool:
    """Make all moves in an order that works; if none is found, make no move and return False."""
    begun, waiting = len(state.steps), list(moves)
    while waiting:
        left = [move for move in waiting if not _take_step(state, *move)]
        if len(left) == len(waiting):
            break
        waiting = left
    if not waiting:
        return True
    while len(state.steps) > begun:
        state.take_back()
    return len(moves) <= MOST_ORDERED and _Orders(state).make(list(moves))


def _take_step(state: State, share: Share, place: ChosenPlace) -> bool:
    """Take a step if it may be taken now."""
    state.scene.work.go_on()
    if not gate.may_go(state, share, place):
        return False
    state.go(share, place)
    return True


class _Orders:
    """A search that tries orders of moves, one after the other."""

    def __init__(self, state: State) -> None:
        self._state, self._tried = state, 0

    def make(self, waiting: list[tuple[Share, ChosenPlace]]) -> bool:
        """Make all moves, or none."""
        if not waiting:
            return True
        for number, move in enumerate(waiting):
            if self._tried >= MOST_ORDERS:
                return False
            if _take_step(self._state, *move):
                self._tried += 1
                if self.make([*waiting[:number], *waiting[number + 1 :]]):
                    return True
                self._state.take_back()
        return False

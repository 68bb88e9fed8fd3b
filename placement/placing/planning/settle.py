"""Where what leaves goes, and in which order (specification 10 section 3). Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from placement.placing.choose import choose
from placement.placing.mover import SHARE, WAYS, make_request, without_sharing
from placement.placing.planning.departures import Departures
from placement.placing.planning.scene import Scene, Share, State
from placement.placing.wishes import ChosenPlace, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.work import Work

MOST_ORDERS = 2_000
"""Steps that are tried to find an order."""


class Stuck(NamedTuple):
    """No place, or no order, was found for a share. ``groups``: whose rules kept it out."""

    share: Share | None = None
    groups: tuple[str, ...] = ()


def settle(scene: Scene, leaving: Departures, work: Work) -> State | Stuck:
    """Return the state after what leaves has gone elsewhere, or what was in the way.

    All destinations have room at once, and still have it when the goal's request is there.
    """
    occupants = [share.occupant for share in leaving.moved]
    # In one choice an occupant that leaves two trees would be two members of its group.
    twice = [number for number, times in Counter(occupants).items() if times > 1]
    if any(scene.members.of(scene.occupants[number].uuid) for number in twice):
        return Stuck()
    state = State(scene)
    for number in leaving.removed:
        state.remove(number)
    cloud = _open_destinations(scene, leaving)
    requests = {share.kind: make_request(share.kind) for share in leaving.moved}
    gone = {share.number for share in leaving.moved}
    wishes = [
        Wish(
            requests[share.kind],
            tuple(scene.members.of(scene.occupants[share.occupant].uuid)),
            tuple(s.root for s in scene.shares_of(share.occupant) if s.number not in gone),
        )
        for share in leaving.moved
    ]
    if wishes:
        groups = dict(state.group_states(leaving.moved))
        with work.part(SHARE) as part:
            chosen = choose(cloud, None, wishes, groups, "any", part, None, WAYS)
        if isinstance(chosen, NoPlace):
            return Stuck(leaving.moved[chosen.number], chosen.kept_out)
        # By what moves hold: amounts of several groups on one provider are one.
        moves = list(zip(leaving.moved, chosen, strict=True))
        if not find_order(state, moves):
            return Stuck()
    return state


def _open_destinations(scene: Scene, leaving: Departures) -> Cloud:
    """Return a cloud that has room only where shares may go, now and at the end."""
    cloud = without_sharing(scene.cloud)
    if not scene.limits.all_at_once:
        for number in leaving.removed:
            for share in scene.shares_of(number):
                _use(cloud, share.place, -1)
    for place in leaving.placed:
        _use(cloud, place, 1)
    sources = {share.root for share in leaving.moved}
    close(cloud, sources | leaving.emptied | scene.limits.closed)
    return cloud


def _use(cloud: Cloud, place: ChosenPlace, times: int) -> None:
    for index, amounts in place.allocations.items():
        cloud.use(index, {name: times * amount for name, amount in amounts.items()})


def close(cloud: Cloud, roots: Iterable[int]) -> None:
    """Leave no room in some trees."""
    closed = np.array(sorted(roots), np.int32)
    if not len(closed):
        return
    providers = cloud.forest.trees(closed)[0]
    for name in list(cloud.classes):
        cloud.set_rooms(name, providers, np.zeros(len(providers), np.int32))


def find_order(state: State, moves: Sequence[tuple[Share, ChosenPlace]]) -> bool:
    """Make all moves in an order that works; return False, and make none, if no such order was found."""
    waiting = list(moves)
    tried = 0

    def walk() -> bool:
        nonlocal tried
        if not waiting:
            return True
        for number, (share, place) in enumerate(waiting):
            if tried >= MOST_ORDERS:
                return False
            if state.may_go(share, place):
                tried += 1
                state.go(share, place)
                del waiting[number]
                if walk():
                    return True
                waiting.insert(number, (share, place))
                state.take_back()
        return False

    return walk()

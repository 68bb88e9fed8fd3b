"""A search over every sequence of steps, the cheapest first, for small clouds (10 section 3). Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from placement.extensions.plans.planning import gate
from placement.extensions.plans.planning.goals import Aim
from placement.extensions.plans.planning.scene import Scene, Share
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import Step
from placement.placing.wishes import ChosenPlace
from placement.search.work import Work

MOST_PLACES = 200
"""The number of places of one share beyond which not all of its moves are tried."""


@dataclass(slots=True)
class Walked:
    """The end of a walk: a state in which the goal holds, or none.

    ``cost_so_far``: no other plan costs less. ``certain``: all states were seen, or enough of them.
    """

    state: State | None
    cost_so_far: float
    certain: bool


def walk(
    scene: Scene,
    aim: Aim,
    shares: Sequence[Share],
    most: float,
    work: Work,
    most_states: int,
) -> Walked:
    """Return the cheapest plan that moves only these shares, if it costs less than ``most``.

    :param most_states: the number of states to visit at most.
    """
    return _Walk(scene, aim, shares, most, work).walk(most_states)


class _Walk:
    def __init__(
        self, scene: Scene, aim: Aim, shares: Sequence[Share], most: float, work: Work
    ) -> None:
        self._scene, self._aim, self._most, self._work = scene, aim, most, work
        self._shares = [share for share in shares if scene.may_leave(share)]
        self._is_whole = len(shares) == scene.share_count
        self._ids: dict[object, int] = {}
        self._places: dict[int, list[ChosenPlace]] = {}
        for share in self._shares:
            if scene.may_move(share):
                places, complete = scene.list_places(share, MOST_PLACES, work)
                self._is_whole &= complete
                self._places[share.number] = places
        self._alike = self._find_alike()
        self._class_of = {n: mine[0] for mine in self._alike for n in mine}

    def _find_alike(self) -> list[list[int]]:
        """Return the numbers of interchangeable shares, which are also members of the same groups."""
        scene, alike = self._scene, dict[object, list[int]]()
        for share in self._shares:
            occupant = scene.occupants[share.occupant]
            groups = tuple(scene.members.list_groups(occupant.uuid))
            likeness = scene.find_likeness(share)
            if groups and not scene.is_spread(share.occupant):
                likeness = share.kind, occupant.may_move, occupant.may_remove, groups
            alike.setdefault(likeness, []).append(share.number)
        return list(alike.values())

    def walk(self, most_states: int) -> Walked:
        ticket = count()
        queue: list[tuple[float, int, int, tuple[Step, ...]]] = [(0.0, 0, next(ticket), ())]
        # The fewest steps to each state: a more expensive way to a state is only useful with fewer steps.
        fewest: dict[object, int] = {}
        cost, looked = 0.0, 0
        while queue:
            cost, length, _, steps = heappop(queue)
            if cost >= self._most:
                return Walked(None, self._most, self._is_whole)
            state = self._replay(steps)
            key = self._key(state)
            if key is None or fewest.get(key, length + 1) <= length:
                continue
            fewest[key] = length
            looked += 1
            if self._aim.test(state) is not None:
                return Walked(state, cost, self._is_whole and self._aim.exact)
            if looked >= most_states or not self._work.check_time():
                return Walked(None, cost if self._is_whole else 0.0, False)
            if length < self._scene.limits.most:
                for share, place in self._list_steps(state):
                    step = self._make(state, share, place)
                    price = cost + (self._scene.costs.remove if place is None else share.cost)
                    key = self._key(state)
                    if key and fewest.get(key, length + 2) > length + 1 and price < self._most:
                        heappush(queue, (price, length + 1, next(ticket), (*steps, step)))
                    state.take_back()
        return Walked(None, self._most, self._is_whole and self._aim.exact)

    def _replay(self, steps: Sequence[Step]) -> State:
        state = State(self._scene)
        for step in steps:
            state.take(step)
        return state

    def _list_steps(self, state: State) -> list[tuple[Share, ChosenPlace | None]]:
        found: list[tuple[Share, ChosenPlace | None]] = []
        removable: set[int] = set()
        # One of several interchangeable shares in one place is enough.
        seen: set[tuple[int, int]] = set()
        for share in self._shares:
            here = state.place_of(share)
            alike = self._class_of[share.number], self._id(here)
            if here is None or alike in seen:
                continue
            seen.add(alike)
            if share.occupant not in removable and gate.may_be_removed(state, share.occupant):
                removable.add(share.occupant)
                found.append((share, None))
            for place in self._places.get(share.number, ()):
                if gate.may_go(state, share, place):
                    found.append((share, place))
        return found

    def _make(self, state: State, share: Share, place: ChosenPlace | None) -> Step:
        if place is None:
            state.remove(share.occupant)
        else:
            state.go(share, place)
        return state.steps[-1]

    def _key(self, state: State) -> object:
        """Return a key of the possible further steps; None if the goal cannot hold after any."""
        # A tree that was a destination of a step is not among the trees that the plan empties.
        domains = self._aim.list_open(state)
        if domains is None:
            return None
        where = []
        for numbers in self._alike:
            places = [self._id(state.place_of(self._scene.share(number))) for number in numbers]
            where.append(tuple(sorted(places)))
        if not self._scene.limits.all_at_once:
            return tuple(where), domains
        taken = tuple(sorted((slot, n) for slot, n in state.taken.items() if n))
        return tuple(where), domains, taken

    def _id(self, place: ChosenPlace | None) -> int:
        if place is None:
            return -1
        amounts = sorted((i, tuple(sorted(a.items()))) for i, a in place.allocations.items())
        # The parts on one provider move on together.
        pieces = Counter(index for indexes in place.mappings.values() for index in indexes)
        key = tuple(amounts), tuple(sorted(pieces.items()))
        return self._ids.setdefault(key, len(self._ids))

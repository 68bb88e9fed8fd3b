"""An integer programme for a large cloud that counts the leaving servers by kinds (10 section 3). Pure.

Consumers with equal requests in one tree and without a group count as one kind: one variable says how many of
them leave a place, another how many arrive there. So 250 GPU hosts with 1,500 servers have about 2,000
variables, which are solved within half a second.

Room matters only for the kinds that are *placed*. All other kinds leave without a checked destination, and
trees that cannot matter are left out. Both can only lower the cost below that of any plan, so the optimum is
a bound. The planner begins with no kind placed, and adds the kinds that found no room.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, NamedTuple

from placement.extensions.plans.planning.departures import Departures
from placement.extensions.plans.planning.goals import EmptyAim, FitAim
from placement.extensions.plans.planning.programme import assign
from placement.extensions.plans.planning.scene import Scene, Share, Slot, sum_slots
from placement.extensions.plans.planning.solver import MOST_VARIABLES, ProgrammeTooLarge, Rows
from placement.placing.mover import HeldInTree
from placement.placing.wishes import ChosenPlace
from placement.search.work import Work

Placed = Mapping[HeldInTree, Sequence[ChosenPlace]]
"""The places of each kind of shares for which room matters."""


class End(NamedTuple):
    """The leaving servers (None without a result) and their places. ``bound``: no plan costs less."""

    leaving: Departures | None
    moves: Sequence[tuple[Share, ChosenPlace]]
    bound: float


@dataclass(eq=False)
class _Alike:
    """Interchangeable shares of one place, with the variables of how many move and how many are removed."""

    shares: list[Share] = field(default_factory=list)
    moved: int | None = None
    removed: int | None = None

    @property
    def columns(self) -> list[int]:
        """The variables that say how many leave."""
        return [column for column in (self.moved, self.removed) if column is not None]


class Counted:
    """The end of a plan on a large cloud as an integer programme.

    ``most``: the cost that a plan must stay below. ``few``: consider only this number of the cheapest places,
    or of domains above the needed number; the optimum is then not a bound.

    :raises ProgrammeTooLarge: the programme would be too large
    :raises WorkEnded: the time ended before the programme was made.
    """

    def __init__(
        self,
        scene: Scene,
        aim: FitAim | EmptyAim,
        placed: Placed,
        most: float,
        few: int | None = None,
    ) -> None:
        self._scene, self._aim, self._placed, self._most = scene, aim, placed, most
        self._few = few
        self._rows = Rows()
        self._loads: defaultdict[Slot, dict[int, float]] = defaultdict(dict)
        self._alike: dict[int, list[_Alike]] = {}
        self._removals: dict[int, int] = {}
        self._arrivals: dict[HeldInTree, list[tuple[int, ChosenPlace]]] = {}
        self._goal_places: list[tuple[int, ChosenPlace]] = []
        self._emptied: defaultdict[int, list[int]] = defaultdict(list)
        self._check_size()
        for places in placed.values():
            self._add_trees(place.root for place in places)
        match aim:
            case FitAim():
                self._add_fit(aim)
            case EmptyAim():
                self._add_empty(aim)
        for kind in placed:
            self._add_arrivals(kind)
        self._add_room()

    def _check_size(self) -> None:
        """Refuse a programme that would be too large, before it is made.

        :raises ProgrammeTooLarge: it would be too large
        """
        arriving = sum(map(len, self._placed.values()))
        aim = self._aim
        costs = self._list_cheapest(aim.floors if isinstance(aim, FitAim) else aim.costs)
        if arriving + len(costs) > MOST_VARIABLES:
            raise ProgrammeTooLarge

    def _list_cheapest(self, costs: Sequence[float]) -> list[tuple[float, int]]:
        """Return the costs below the limit with their numbers, the cheapest first."""
        most = None
        if self._few is not None:
            most = self._few + (self._aim.goal.count if isinstance(self._aim, EmptyAim) else 0)
        found = ((cost, number) for number, cost in enumerate(costs) if cost < self._most)
        return sorted(found)[:most]

    # -- what leaves --

    def _add_trees(self, roots: Iterable[int]) -> None:
        """Add the variables for everything that may leave some trees."""
        for root in roots:
            if root in self._alike:
                continue
            self._scene.work.go_on()
            alike: defaultdict[object, _Alike] = defaultdict(_Alike)
            for share in self._scene.in_tree(root):
                if self._scene.may_leave(share):
                    key = self._scene.find_likeness(share), tuple(share.place.allocations)
                    alike[key].shares.append(share)
            self._alike[root] = list(alike.values())
            for each in alike.values():
                self._add_leaving(each)

    def _add_leaving(self, alike: _Alike) -> None:
        scene, count = self._scene, len(alike.shares)
        share = alike.shares[0]
        occupant = scene.occupants[share.occupant]
        if scene.may_move(share):
            alike.moved = self._rows.column(share.cost, count)
        if occupant.may_remove:
            # One removal serves all trees of a consumer.
            if share.occupant not in self._removals:
                self._removals[share.occupant] = self._rows.column(scene.costs.remove, count)
            alike.removed = self._removals[share.occupant]
        if len(alike.columns) > 1:
            self._rows.row(dict.fromkeys(alike.columns, 1.0), -inf, count)
        for slot, amount in share.slots.items():
            for column in alike.columns:
                self._load(slot, column, -amount)

    def _load(self, slot: Slot, column: int, amount: float) -> None:
        load = self._loads[slot]
        load[column] = load.get(column, 0.0) + amount

    # -- the goal --

    def _add_fit(self, aim: FitAim) -> None:
        """Require the number of places for the request, without places whose room costs too much."""
        times = float(aim.goal.times)
        row, floors = dict[int, float](), dict[int, float]()
        for floor, number in self._list_cheapest(aim.floors):
            place = aim.places[number]
            self._add_trees(int(self._scene.cloud.roots[index]) for index in place.allocations)
            column = self._rows.column(0.0, times)
            self._goal_places.append((column, place))
            floors[column] = floor
            for slot, amount in sum_slots(place.allocations).items():
                self._load(slot, column, amount)
            row[column] = 1.0
        self._rows.row(row, times, times)
        most = self._find_most()
        for column, place in self._goal_places:
            self._add_floor(column, place, floors[column] / max(most[column], 1.0))

    def _add_floor(self, column: int, place: ChosenPlace, floor: float) -> None:
        """Require the least cost of the room for a request at a place, since half a share cannot leave."""
        leaving = {
            left: self._rows.costs[left]
            for root in {int(self._scene.cloud.roots[index]) for index in place.allocations}
            for alike in self._alike[root]
            for left in alike.columns
        }
        if floor > 0:
            self._rows.row(leaving | {column: -floor}, 0.0, inf)

    def _add_empty(self, aim: EmptyAim) -> None:
        """Require the number of empty domains: everything leaves them, and nothing arrives there."""
        row: dict[int, float] = {}
        for _, number in self._list_cheapest(aim.costs):
            roots = aim.goal.domains[number]
            self._add_trees(roots)
            column = self._rows.column(0.0, 1.0)
            row[column] = 1.0
            for root in roots:
                self._emptied[root].append(column)
                for alike in self._alike[root]:
                    leaving = dict.fromkeys(alike.columns, 1.0)
                    self._rows.row(leaving | {column: -float(len(alike.shares))}, 0.0, inf)
        self._rows.row(row, float(aim.goal.count), inf)

    # -- where it goes --

    def _add_arrivals(self, kind: HeldInTree) -> None:
        """Require that as many of a kind arrive as move."""
        moving = self._list_moving(kind)
        if not moving:
            return
        cost = next(iter(moving.values()))[0].cost
        most = float(sum(map(len, moving.values())))
        total = self._rows.column(0.0, most)
        self._rows.row(dict.fromkeys(moving, 1.0) | {total: -1.0}, 0.0, 0.0)
        arrivals = self._arrivals[kind] = []
        by_tree: defaultdict[int, dict[int, float]] = defaultdict(dict)
        slots_arriving = defaultdict[int, list[Mapping[Slot, int]]](list)
        for place in self._placed[kind]:
            self._scene.work.go_on()
            slots = sum_slots(place.allocations)
            column = self._rows.column(0.0, most)
            arrivals.append((column, place))
            by_tree[place.root][column] = 1.0
            slots_arriving[place.root].append(slots)
            for slot, amount in slots.items():
                self._load(slot, column, amount)
        self._rows.row({column: 1.0 for column, _ in arrivals} | {total: -1.0}, 0.0, 0.0)
        leaving: defaultdict[int, dict[int, float]] = defaultdict(dict)
        slots_leaving = defaultdict[int, list[Mapping[Slot, int]]](list)
        for column, shares in moving.items():
            leaving[shares[0].root][column] = 1.0
            slots_leaving[shares[0].root].append(shares[0].slots)
        for root, arriving in by_tree.items():
            for emptied in self._emptied.get(root, ()):
                for column in arriving:
                    self._rows.row({column: 1.0, emptied: most}, -inf, most)
            # An arrival where the same kind has left gains nothing, and no cheapest solution has one.
            if any(gone != new for gone in slots_leaving[root] for new in slots_arriving[root]):
                # An arrival in a tree comes from elsewhere, or has left the tree by one more step.
                row = arriving | leaving[root] | {total: -1.0}
                if len(arriving) > 1:
                    row[self._rows.column(cost, most)] = -1.0
                self._rows.row(row, -inf, 0.0)

    def _list_moving(self, kind: HeldInTree) -> dict[int, list[Share]]:
        """Return the variables that say how many shares of a kind move, with the shares of each."""
        return {
            alike.moved: alike.shares
            for each in self._alike.values()
            for alike in each
            if alike.moved is not None and alike.shares[0].kind == kind
        }

    def _add_room(self) -> None:
        """Require that everything fits; at an overfull place at most as much can arrive as leaves."""
        taken: defaultdict[Slot, dict[int, float]] = defaultdict(dict)
        for arrivals in self._arrivals.values() if self._scene.limits.all_at_once else ():
            for column, place in arrivals:
                for slot, amount in sum_slots(place.allocations).items():
                    taken[slot][column] = float(amount)
        most = self._find_most()
        for column, fitting in most.items():
            self._rows.upper[column] = fitting
        for slot, load in self._loads.items():
            self._scene.work.go_on()
            free = float(max(self._scene.free(slot), 0))
            if sum(amount * most[column] for column, amount in load.items() if amount > 0) > free:
                self._rows.row(load, -inf, free)
                self._add_rounded(load, free)
            if slot in taken:
                # All destinations are occupied before anything has left.
                self._rows.row(taken[slot], -inf, free)

    def _find_most(self) -> dict[int, float]:
        """Return for each arrival variable the most that fits after everything that may leave has left."""
        most: dict[int, float] = {}
        for slot, load in self._loads.items():
            self._scene.work.go_on()
            room = max(self._scene.free(slot), 0) - sum(
                amount * self._rows.upper[column] for column, amount in load.items() if amount < 0
            )
            for column, amount in load.items():
                if amount > 0:
                    most[column] = min(most.get(column, self._rows.upper[column]), room // amount)
        return most

    def _add_rounded(self, load: Mapping[int, float], free: float) -> None:
        """Limit the arrivals again, in units of each arriving amount, since half a server does not fit.

        With fractional values half a server would fit into half its room. Each row adds a consequence for
        whole values (mixed-integer rounding), which improves the bound of the first step.
        """
        for unit in {amount for amount in load.values() if amount > 0}:
            part = free / unit % 1
            if part:
                row = {column: _round(amount / unit, part) for column, amount in load.items()}
                self._rows.row(row, -inf, free // unit)

    # -- solving --

    def solve(self, work: Work) -> End:
        """Return the cheapest end; its bound is the best proven one when the time ends."""
        if isfinite(self._scene.limits.most):
            steps = {c: 1.0 for each in self._alike.values() for a in each for c in a.columns}
            self._rows.row(steps, -inf, self._scene.limits.most)
        solved = self._rows.solve(work)
        bound = min(solved.bound, self._most)
        return End(None, (), bound) if solved.values is None else self._read(solved.values, bound)

    def _read(self, values: Any, bound: float) -> End:
        moved: list[Share] = []
        removed: set[int] = set()
        for alike in (alike for each in self._alike.values() for alike in each):
            moving = 0 if alike.moved is None else int(values[alike.moved])
            moved += alike.shares[:moving]
            if alike.removed is not None:
                leaving = moving + int(values[alike.removed])
                removed.update(share.occupant for share in alike.shares[moving:leaving])
        moves: list[tuple[Share, ChosenPlace]] = []
        for kind, arrivals in self._arrivals.items():
            places = [place for column, place in arrivals for _ in range(values[column])]
            moves += assign([share for share in moved if share.kind == kind], places)
        chosen = [place for column, place in self._goal_places for _ in range(values[column])]
        cost = sum(share.cost for share in moved) + self._scene.costs.remove * len(removed)
        emptied = frozenset(
            root for root, columns in self._emptied.items() if any(values[c] for c in columns)
        )
        departures = Departures(tuple(moved), tuple(sorted(removed)), cost, tuple(chosen), emptied)
        return End(departures, moves, bound)


def _round(factor: float, part: float) -> float:
    """Return the coefficient of a whole variable in a row that is rounded down (mixed-integer rounding)."""
    return factor // 1 + max(0.0, factor % 1 - part) / (1 - part)

"""The goal of a plan on a cloud: whether it holds, its cost, and what may leave (10 section 3). Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import fsum, inf
from typing import NamedTuple, Protocol

from placement.extensions.plans.planning.departures import (
    Departures,
    bound_cost,
    choose_departures,
    find_lacking,
    find_part_lacking,
)
from placement.extensions.plans.planning.scene import Scene, Share, count_excess, sum_slots
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import Empty, Fit, Goal, Keep
from placement.placing.packing import free_columns
from placement.placing.wishes import ChosenPlace
from placement.search.work import Work

MOST_PLACES = 20_000
"""The most places that are considered for one request."""

MOST_PACKED = 2_000
"""The most distributions of several requests that are tried before the answer is uncertain."""

MOST_OVERLAPPING = 300
"""The number of places that share room up to which other distributions are tried."""


class GoalReached(NamedTuple):
    """A goal that holds: the places of its request, or the empty domains."""

    placed: tuple[ChosenPlace, ...] = ()
    emptied: tuple[int, ...] = ()


Attempts = Generator[Departures, Share | None, None]
"""The departures to try; the planner answers with the share that found no place."""


class Aim(Protocol):
    """A goal on a scene.

    ``exact``: false once an option was left out, so that "no" is not certain.
    """

    exact: bool

    def test(self, state: State) -> GoalReached | None:
        """Return how the goal holds now, None if it does not."""

    def list_open(self, state: State) -> tuple[int, ...] | None:
        """Return the domains that can still be emptied; None if these are too few."""

    def bound(self) -> float:
        """Return a lower bound of the cost of plans; infinite if there is no plan."""

    def attempts(self) -> Attempts:
        """Yield sets of departures that make the goal hold, the cheapest first as far as known."""


def open_aim(scene: Scene, goal: Goal, unread: frozenset[int], work: Work) -> Aim:
    """Return a goal on a scene.

    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    """
    match goal:
        case Fit():
            return FitAim(scene, goal, unread, work)
        case Empty():
            return EmptyAim(scene, goal)
        case Keep():
            return KeepAim(scene, goal)


# -- a request fits ------------------------------------------------------------------------------


@dataclass(eq=False)
class _Component:
    """Trees with places that share room: the least cost of a first request, and how many requests fit."""

    floor: float
    most: int
    roots: set[int] = field(default_factory=set)


class FitAim:
    """The goal that a request fits a number of times."""

    def __init__(self, scene: Scene, goal: Fit, unread: frozenset[int], work: Work) -> None:
        self.scene, self.goal = scene, goal
        self.places, self.exact = scene.list_goal_places(goal.request, MOST_PLACES, work)
        # Unknown occupants or places may cost only one step.
        is_missing = bool(unread) or not self.exact
        self._floor_of_unread = scene.cheapest_step if is_missing else inf
        self._may_count_all = not unread
        self._start = State(scene)

    @cached_property
    def floors(self) -> list[float]:
        """Return the least cost of the room at each place."""
        return [bound_cost(self.scene, find_lacking(self._start, each)) for each in self.places]

    def test(self, state: State) -> GoalReached | None:
        """Return the places where the request fits now, all times at once."""
        packing = _Packing(state, self.places, self.goal.times)
        placed = packing.pack()
        self.exact &= not packing.cut_short
        return None if placed is None else GoalReached(placed=placed)

    def list_open(self, state: State) -> tuple[int, ...] | None:
        """Return no domain, since this goal empties none."""
        return ()

    def bound(self) -> float:
        """Return the cost of the cheapest places: of one, or of the needed number where that is known."""
        if self._may_count_all and self._lacks_in_all():
            return inf
        first = next((floor for floor, _, _ in self._in_order()), inf)
        return min(max(first, self._bound_all()), self._floor_of_unread)

    def _lacks_in_all(self) -> bool:
        """Return whether all providers together have too little room, which only removals can increase."""
        asked, gone = Counter[str](), Counter[str]()
        for (_, name), amount in sum_slots(self.places[0].allocations if self.places else {}).items():
            asked[name] += amount * self.goal.times
        for occupant in self.scene.occupants:
            if occupant.may_remove:
                self.scene.work.go_on()
                for held in occupant.held.values():
                    for (_, name), amount in sum_slots(held).items():
                        gone[name] += amount
        free = free_columns(self.scene.cloud, asked)
        # The sums are floats, because integers would overflow in a large cloud.
        return any(free[name].clip(0).sum(dtype=float) + gone[name] < n for name, n in asked.items())

    def _bound_all(self) -> float:
        """Return a lower bound of the cost, over all trees, that the request fits the wanted number of times.

        Trees count separately, since no move serves two of them; if a removal might, there is no bound.
        """
        occupants = self.scene.occupants
        if self.goal.times == 1 or any(
            each.may_remove and len(each.held) > 1 for each in occupants
        ):
            return 0.0
        parts: dict[int, _Component] = {}
        for place, floor in zip(self.places, self.floors, strict=True):
            if floor == inf:
                continue
            roots = {int(self.scene.cloud.roots[index]) for index in place.allocations}
            part = _Component(floor, self._count_most(place))
            for met in {parts[root] for root in roots & parts.keys()}:
                part.floor, part.most = min(part.floor, met.floor), part.most + met.most
                part.roots |= met.roots
            part.roots |= roots
            parts |= dict.fromkeys(part.roots, part)
        cost, left = 0.0, self.goal.times
        for part in sorted(set(parts.values()), key=lambda each: each.floor / each.most):
            taken = min(part.most, left)
            cost, left = cost + part.floor * taken / part.most, left - taken
        return cost if not left else inf

    def _count_most(self, place: ChosenPlace) -> int:
        """Return how often the request would fit at an emptied place that has room for one."""
        return min(
            (self._start.free(slot) + sum(n for n, _ in self.scene.list_amounts(slot))) // amount
            for slot, amount in sum_slots(place.allocations).items()
        )

    def _in_order(self) -> Iterator[tuple[float, int, Departures | None]]:
        """Yield sets of departures in the order of the cost of their places; None where it is not certain.

        The cost of a place is refined in three steps, each for the cheapest places first: one step at least;
        the needed number of the largest shares; the exact cost.
        """
        queue = [
            (self.scene.cheapest_step, part, 0, number)
            for number, part in enumerate(
                find_part_lacking(self._start, each) for each in self.places
            )
        ]
        heapify(queue)
        found: dict[int, Departures] = {}
        while queue:
            floor, part, known, number = heappop(queue)
            if known == 2:
                yield floor, number, found[number]
                continue
            lacking = find_lacking(self._start, self.places[number])
            if known == 0:
                floor = max(floor, bound_cost(self.scene, lacking))
                if floor < inf:
                    heappush(queue, (floor, part, 1, number))
                continue
            leaving, is_certain = choose_departures(self._start, lacking)
            if not is_certain:
                yield floor, number, None
            if leaving is not None:
                found[number] = replace(leaving, placed=(self.places[number],))
                heappush(queue, (leaving.cost, part, 2, number))

    def attempts(self) -> Attempts:
        """Yield for each place the cheapest set that makes room; for several places yield one set."""
        if self.goal.times == 1:
            for _, _, leaving in self._in_order():
                if leaving is not None:
                    yield leaving
            return
        leaving = self._greedy()
        if leaving is not None:
            yield leaving

    def _greedy(self) -> Departures | None:
        """Return a set that makes room for all requests, one after the other, each at its cheapest place."""
        state = State(self.scene)
        moved: list[Share] = []
        removed: list[int] = []
        placed: list[ChosenPlace] = []
        for leaving in self.list_pieces(state):
            state.let_go(leaving.moved, leaving.removed)
            state.reserve(leaving.placed[0])
            moved += leaving.moved
            removed += leaving.removed
            placed += leaving.placed
            if len(placed) == self.goal.times:
                break
        else:
            return None
        gone = set(removed)
        moved = [share for share in moved if share.occupant not in gone]
        cost = sum(share.cost for share in moved) + self.scene.costs.remove * len(gone)
        return Departures(tuple(moved), tuple(sorted(gone)), cost, tuple(placed))

    def list_pieces(self, state: State) -> Iterator[Departures]:
        """Yield sets of departures that make room for the request once more, cheapest now first.

        A place that the caller does not use is not yielded again.
        """
        queue = [(floor, number) for number, floor in enumerate(self.floors) if floor < inf]
        heapify(queue)
        while queue:
            _, number = heappop(queue)
            place = self.places[number]
            leaving, _ = choose_departures(state, find_lacking(state, place))
            if leaving is None:
                continue
            # The cost is computed for the present state: earlier places may have taken its room.
            if queue and leaving.cost > queue[0][0]:
                heappush(queue, (leaving.cost, number))
                continue
            before = state.reserved
            yield replace(leaving, placed=(place,))
            if state.reserved > before:
                heappush(queue, (0.0, number))


class _Packing:
    """A packer that puts a request into places a number of times, all at once."""

    def __init__(self, state: State, places: Sequence[ChosenPlace], times: int) -> None:
        self._times, self.tried, self.cut_short = times, 0, False
        self._places = []
        self._free: dict[tuple[int, str], int] = {}
        for place in places:
            slots = sum_slots(place.allocations)
            free = {slot: state.free(slot) for slot in slots}
            if all(free[slot] >= amount for slot, amount in slots.items()):
                self._places.append((place, slots))
                self._free |= free
                if times == 1:
                    break

    def pack(self) -> tuple[ChosenPlace, ...] | None:
        """Return the places; each takes as many as fit, and other distributions are tried if necessary."""
        placed = self._fill()
        if placed is not None:
            return placed
        slots = [slot for _, needed in self._places for slot in needed]
        if len(slots) == len(set(slots)):
            # No place takes room from another place.
            return None
        if len(self._places) > MOST_OVERLAPPING:
            self.cut_short = True
            return None
        return self._pack(0, [])

    def _fill(self) -> tuple[ChosenPlace, ...] | None:
        placed: list[ChosenPlace] = []
        free = dict(self._free)
        for place, slots in self._places:
            fits = min(free[slot] // amount for slot, amount in slots.items())
            for slot, amount in slots.items():
                free[slot] -= amount * max(fits, 0)
            placed += [place] * min(fits, self._times - len(placed))
            if len(placed) == self._times:
                return tuple(placed)
        return None

    def _pack(self, number: int, placed: list[ChosenPlace]) -> tuple[ChosenPlace, ...] | None:
        if len(placed) >= self._times:
            return tuple(placed)
        if number == len(self._places):
            return None
        self.tried += 1
        if self.tried > MOST_PACKED:
            self.cut_short = True
            return None
        place, slots = self._places[number]
        fits = min(self._free[slot] // amount for slot, amount in slots.items())
        fits = max(0, min(fits, self._times - len(placed)))
        for count in range(fits, -1, -1):
            for slot, amount in slots.items():
                self._free[slot] -= amount * count
            found = self._pack(number + 1, [*placed, *([place] * count)])
            for slot, amount in slots.items():
                self._free[slot] += amount * count
            if found is not None:
                return found
        return None


# -- trees are empty -----------------------------------------------------------------------------


class EmptyAim:
    """The goal that a number of domains is empty."""

    def __init__(self, scene: Scene, goal: Empty) -> None:
        self.scene, self.goal, self.exact = scene, goal, True
        self.costs = [fsum(map(scene.cost_to_empty, roots)) for roots in goal.domains]

    def shares_in(self, number: int) -> list[Share]:
        """Return the shares of occupants in a domain."""
        return [share for root in self.goal.domains[number] for share in self.scene.in_tree(root)]

    def list_open(self, state: State) -> tuple[int, ...] | None:
        """Return the domains that everything may leave, and that no step has used as a destination."""
        arrived = {root for root, times in state.arrived.items() if times}
        found = tuple(
            number
            for number, roots in enumerate(self.goal.domains)
            if self.costs[number] < inf and arrived.isdisjoint(roots)
        )
        return found if len(found) >= self.goal.count else None

    @cached_property
    def fewest_steps(self) -> int:
        """Return the least number of steps: one for each occupant of the domains with the fewest."""
        found = [
            {number for root in roots for number in self.scene.list_occupants(root)}
            for roots in self.goal.domains
        ]
        if self.goal.count == len(found):
            return len(set().union(*found))
        # One step can remove an occupant of several domains from all of them.
        return max(sorted(map(len, found))[: self.goal.count], default=0)

    def list_leaving(self) -> list[Share]:
        """Return the shares that must leave: all in the domains, or those that cannot leave."""
        are_enough = self.goal.count < len(self.costs)
        numbers = [n for n, cost in enumerate(self.costs) if cost == inf or not are_enough]
        return [share for number in numbers for share in self.shares_in(number)]

    def test(self, state: State) -> GoalReached | None:
        """Return the first sufficient domains that are empty and that no step has used as a destination."""
        arrived = {root for root, times in state.arrived.items() if times}
        left = Counter(self.scene.share(number).root for number in state.at)
        emptied: list[int] = []
        for number, roots in enumerate(self.goal.domains):
            if arrived.isdisjoint(roots) and all(
                left[root] == self.scene.count_shares(root) for root in roots
            ):
                emptied.append(number)
                if len(emptied) == self.goal.count:
                    break
        if len(emptied) < self.goal.count:
            return None
        return GoalReached(emptied=tuple(emptied))

    def bound(self) -> float:
        """Return the cost of emptying the cheapest domains, for any destinations."""
        if len(self.costs) < self.goal.count or self.fewest_steps > self.scene.limits.most:
            return inf
        cheapest = sorted(self.costs)[: self.goal.count]
        # A share in a tree of two domains leaves both in one step.
        if sum(map(len, self.goal.domains)) > len(
            {r for roots in self.goal.domains for r in roots}
        ):
            return max(cheapest, default=0.0)
        return sum(cheapest)

    def attempts(self) -> Attempts:
        """Yield all shares of the cheapest domains, and exchange domains that a share cannot leave."""
        order = sorted(
            (number for number, cost in enumerate(self.costs) if cost < inf),
            key=self.costs.__getitem__,
        )
        count = self.goal.count
        while len(order) >= count:
            stuck = yield self._leave(order[:count])
            # The domain of a share without a place is skipped, otherwise the most expensive domain.
            passed_over = [n for n in order[:count] if stuck and stuck.root in self.goal.domains[n]]
            for number in passed_over or order[count - 1 : count]:
                order.remove(number)

    def choose_removed(self) -> list[int] | None:
        """Return the occupants of the smallest domains that removals alone can empty; None for too few."""
        occupants = self.scene.occupants
        found = [
            {number for root in roots for number in self.scene.list_occupants(root)}
            for roots in self.goal.domains
        ]
        removable = [each for each in found if all(occupants[n].may_remove for n in each)]
        chosen = sorted(removable, key=len)[: self.goal.count]
        return sorted(set().union(*chosen)) if len(chosen) == self.goal.count else None

    def _leave(self, numbers: Sequence[int]) -> Departures:
        shares = {s.number: s for number in numbers for s in self.shares_in(number)}.values()
        by_moves: defaultdict[int, float] = defaultdict(float)
        for share in shares:
            by_moves[share.occupant] += share.cost if self.scene.may_move(share) else inf
        removed = {
            number
            for number, cost in by_moves.items()
            if self.scene.occupants[number].may_remove and self.scene.costs.remove < cost
        }
        moved = tuple(share for share in shares if share.occupant not in removed)
        cost = sum(share.cost for share in moved) + self.scene.costs.remove * len(removed)
        roots = frozenset(root for number in numbers for root in self.goal.domains[number])
        return Departures(moved, tuple(sorted(removed)), cost, emptied=roots)


def _leave(shares: Collection[Share]) -> Departures:
    return Departures(tuple(shares), (), sum(share.cost for share in shares))


# -- rules of groups hold ------------------------------------------------------------------------


class KeepAim:
    """The goal that the rules of some groups hold."""

    def __init__(self, scene: Scene, goal: Keep) -> None:
        self.scene, self.goal, self.exact = scene, goal, True
        self._start = State(scene)
        self._number_of = {occupant.uuid: number for number, occupant in enumerate(scene.occupants)}

    def _shares_of(self, uuid: str) -> list[Share]:
        """Return the shares of a member; none if it is not among the occupants."""
        self.scene.work.go_on()
        number = self._number_of.get(uuid)
        return [] if number is None else self.scene.shares_of(number)

    def test(self, state: State) -> GoalReached | None:
        """Return the reached goal if the rules of all groups hold."""
        return GoalReached() if all(map(state.keeps, self.goal.groups)) else None

    def list_open(self, state: State) -> tuple[int, ...] | None:
        """Return no domain, since this goal empties none."""
        return ()

    def bound(self) -> float:
        """Return the least cost of one group: each step moves one member out of a wrong place."""
        most = 0.0
        for name in self.goal.groups:
            domains = self._start.domains(name)
            excess = count_excess(self.scene.members.rules[name], domains.values())
            # A member in several domains can be surplus in each of them.
            widest = max((len(each) for each in domains.values()), default=1)
            costs = sorted(
                min(map(self.scene.cheapest, mine))
                for mine in map(self._shares_of, domains)
                if any(map(self.scene.may_leave, mine))
            )
            count = -(-excess // widest)
            most = max(most, inf if len(costs) < count else sum(costs[:count]))
        return most

    def attempts(self) -> Attempts:
        """Yield the cheapest movable members that are surplus in their domains.

        A member in several domains takes a place in each of them. So the second attempt moves the parts of
        such members instead: a part can join another part of its member.
        """
        moved: dict[int, Share] = {}
        for name in self.goal.groups:
            for uuid in self._choose_members(name):
                mine = self._shares_of(uuid)
                if not mine or not all(map(self.scene.may_move, mine)):
                    return
                moved |= {share.number: share for share in mine}
        yield _leave(moved.values())
        parts = {share.number: share for name in self.goal.groups for share in self._choose_parts(name)}
        if parts and parts.keys() != moved.keys():
            yield _leave(parts.values())

    def _choose_parts(self, name: str) -> Iterator[Share]:
        """Yield the surplus parts of an apart group, first those of members in several domains."""
        rule, domains = self.scene.members.rules[name], self._start.domains(name)
        if rule.rule == "together":
            return
        counts = Counter(domain for each in domains.values() for domain in each)
        for uuid in sorted(domains, key=lambda uuid: (-len(domains[uuid]), uuid)):
            for share in filter(self.scene.may_move, self._shares_of(uuid)):
                left = rule.domains(self.scene.trees_of([share.place]), self.scene.aggregates)
                if any(counts[domain] > rule.at_most for domain in left):
                    counts.subtract(left)
                    yield share

    def _choose_members(self, name: str) -> list[str]:
        """Return the cheapest members that are surplus in their domains."""
        rule, domains = self.scene.members.rules[name], self._start.domains(name)

        def cost(uuid: str) -> float:
            mine = self._shares_of(uuid)
            may = bool(mine) and all(map(self.scene.may_move, mine))
            return sum(share.cost for share in mine) if may else inf

        counts = Counter(domain for each in domains.values() for domain in each)
        if rule.rule == "together":
            # The common domain is the one to which moving all members costs least.
            def cost_of(domain: str) -> float:
                return sum(cost(uuid) for uuid, mine in domains.items() if domain not in mine)

            best = min(counts, key=lambda domain: (cost_of(domain), domain), default=None)
            return [uuid for uuid, mine in domains.items() if best not in mine]
        chosen = []
        for uuid in sorted(domains, key=lambda uuid: (cost(uuid), uuid)):
            if cost(uuid) < inf and any(counts[domain] > rule.at_most for domain in domains[uuid]):
                counts.subtract(domains[uuid])
                chosen.append(uuid)
        return chosen

    def list_shares(self, most: int) -> list[Share]:
        """Return the shares of the members."""
        uuids = [uuid for name in self.goal.groups for uuid in self._start.domains(name)]
        return [share for uuid in dict.fromkeys(uuids) for share in self._shares_of(uuid)][:most]

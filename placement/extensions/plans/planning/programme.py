"""The choice of departures and their places as an integer programme (specification 10 section 3). Pure.

The programme describes the end of a plan and not its order: shares leave, places are taken, the goal holds,
everything fits. So no plan is cheaper than its optimum, as long as nothing was left out. SciPy solves the
programme.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple

from placement.extensions.plans.planning.departures import Departures
from placement.extensions.plans.planning.goals import Aim, EmptyAim, FitAim, KeepAim
from placement.extensions.plans.planning.scene import Scene, Share, Slot, count_excess, sum_slots
from placement.extensions.plans.planning.solver import Rows
from placement.extensions.plans.planning.state import State
from placement.placing.reach import KeptParts
from placement.placing.wishes import ChosenPlace
from placement.search.group_rules import Domains, GroupRule
from placement.search.index_set import Mask
from placement.search.work import Work

MOST_PAIRS = 1_000
"""The number of end pairs of a consumer's two parts up to which their match is tested: 5 ms of a
processor.
"""


class Solution(NamedTuple):
    """The departures and their places; None if no solution was found.

    ``bound``: no end is cheaper; infinite if there is none. ``stays_in_tree``: a share must take another
    place in its own tree, which needs two steps.
    """

    leaving: Departures | None
    moves: Sequence[tuple[Share, ChosenPlace]]
    bound: float
    stays_in_tree: bool = False


@dataclass(frozen=True, slots=True)
class _Travel:
    """A variable: the number of shares of a list that go to a place."""

    column: int
    place: ChosenPlace


class Programme:
    """The end of a plan as an integer programme, over some shares and the possible places of each.

    ``list_places`` returns these places, and whether the list is complete. Shares with equal requests,
    without a group and in one tree are one list with counts.

    :raises ProgrammeTooLarge: the programme would be too large
    :raises WorkEnded: the time ended before the programme was made.
    """

    def __init__(
        self,
        scene: Scene,
        aim: Aim,
        shares: Sequence[Share],
        list_places: Callable[[Share], tuple[Sequence[ChosenPlace], bool]],
    ) -> None:
        self._scene, self._aim = scene, aim
        self._rows = Rows()
        self.complete = len(shares) == scene.share_count and aim.exact
        self._loads: defaultdict[Slot, dict[int, float]] = defaultdict(dict)
        self._shares = [share for share in shares if scene.may_leave(share)]
        self._moves: dict[int, int] = {}
        self._removals: dict[int, int] = {}
        self._returns: dict[int, list[_Travel]] = {}
        self._travels: list[tuple[list[Share], list[_Travel]]] = []
        self._alone: dict[int, list[_Travel]] = {}
        self._goal_places: list[tuple[int, ChosenPlace]] = []
        self._emptied: dict[int, int] = {}
        for share in self._shares:
            scene.work.go_on()
            self._add_share(share)
        for share in self._shares:
            self._add_blocker(share)
        for alike in self._group_alike():
            self._add_travels(alike, *list_places(alike[0]))
        if scene.reach.shares:
            self._add_reach()
        if isfinite(scene.limits.most):
            steps = dict.fromkeys([*self._moves.values(), *self._removals.values()], 1.0)
            steps |= {t.column: 2.0 for travels in self._returns.values() for t in travels}
            self._rows.row(steps, -inf, scene.limits.most)
        self._add_goal()
        self._add_groups()
        self._add_room()

    # -- what leaves --

    def _add_share(self, share: Share) -> None:
        scene, occupant = self._scene, self._scene.occupants[share.occupant]
        alternatives: dict[int, float] = {}
        if scene.may_move(share):
            column = self._moves[share.number] = self._rows.column(share.cost, 1)
            alternatives[column] = 1.0
        if occupant.may_remove:
            if share.occupant not in self._removals:
                self._removals[share.occupant] = self._rows.column(scene.costs.remove, 1)
            alternatives[self._removals[share.occupant]] = 1.0
        self._rows.row(alternatives, -inf, 1.0)
        for slot, amount in share.slots.items():
            for column in alternatives:
                load = self._loads[slot]
                load[column] = load.get(column, 0.0) - amount

    def _add_blocker(self, share: Share) -> None:
        """Require that a share moves only with the part of its consumer that has wrong units now."""
        blocker = self._scene.find_blocker(share)
        if blocker is not None and share.number in self._moves:
            row = {self._moves[share.number]: 1.0}
            if blocker.number in self._moves:
                row[self._moves[blocker.number]] = -1.0
            self._rows.row(row, -inf, 0.0)

    def _group_alike(self) -> Iterable[list[Share]]:
        alike: defaultdict[object, list[Share]] = defaultdict(list)
        for share in self._shares:
            if self._scene.may_move(share):
                alike[self._scene.find_likeness(share)].append(share)
        return alike.values()

    def _add_travels(
        self, alike: list[Share], places: Sequence[ChosenPlace], complete: bool
    ) -> None:
        self.complete &= complete
        first, is_alone = alike[0], len(alike) == 1
        own = first.root if is_alone else -1
        travels: list[_Travel] = []
        by_tree: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for place in places:
            self._scene.work.go_on()
            if place.root == own:
                continue
            travel = _Travel(self._rows.column(0.0, len(alike)), place)
            travels.append(travel)
            by_tree[place.root][travel.column] = 1.0
            self._load(travel.column, place)
        self._travels.append((alike, travels))
        if is_alone:
            self._alone[first.number] = travels
        row = {travel.column: 1.0 for travel in travels}
        row |= {self._moves[share.number]: -1.0 for share in alike}
        self._rows.row(row, 0.0, 0.0)
        if len(alike) > 1:
            sources = Counter(share.root for share in alike)
            for root in sources.keys() & by_tree.keys():
                # An arrival in a tree must come from another tree.
                others = {self._moves[s.number]: -1.0 for s in alike if s.root != root}
                self._rows.row(by_tree[root] | others, -inf, 0.0)
        for share in alike:
            self._add_returns(share, places)

    def _add_reach(self) -> None:
        """Require that a part ends in reach of the other parts of its consumer, as far as that is certain."""
        for alike, travels in self._travels:
            share = alike[0]
            others = [each for each in self._scene.shares_of(share.occupant) if each is not share]
            if len(others) == 1 and self._is_pair(share, others[0]):
                self._add_pair(share, travels, others[0])
            elif len(alike) == 1:
                ends = {end.column: -1.0 for other in others for end in self._list_ends(other)}
                among = self._mark_allowed(share, self._scene.find_kept(share))
                for travel in travels:
                    if not is_among(among, travel.place):
                        # The place is out of reach of the consumer's other part, unless that moves too.
                        self._rows.row({travel.column: 1.0, **ends}, -inf, 0.0)

    def _is_pair(self, one: Share, other: Share) -> bool:
        """Return whether it is certain at each step which part of a consumer is the host and which a pool.

        A host stays a host if none of its places is on sharing providers alone. Meanwhile a pool moves to
        sharing providers, or joins the host, and then neither moves any more. Of two pools either can be the
        host.
        """
        is_pool = self._scene.reach.is_pool
        ends = {share: self._list_ends(share) for share in (one, other)}
        hosts = [share for share in ends if not is_pool(share.place.allocations)]
        return (
            bool(hosts)
            and not self._scene.occupants[one.occupant].elsewhere
            and len(ends[one]) * len(ends[other]) <= MOST_PAIRS
            and not any(is_pool(end.place.allocations) for host in hosts for end in ends[host])
        )

    def _add_pair(self, share: Share, travels: Sequence[_Travel], other: Share) -> None:
        """Require that a part goes to a place only if the other part of its consumer ends in reach of it.

        In the last step one part arrives at its end while the other is already at its end. The rule of reach
        holds for this step, however often both have moved before, so the two ends must be in reach.
        """
        cloud, stays = self._scene.cloud, -1
        ends = [_Travel(stays, other.place), *self._list_ends(other)]
        around = [
            self._mark_allowed(share, KeptParts.from_providers(cloud, end.place.allocations))
            for end in ends
        ]
        for travel in travels:
            self._scene.work.go_on()
            mine = self._mark_allowed(
                other, KeptParts.from_providers(cloud, travel.place.allocations)
            )
            near = {
                end.column
                for end, theirs in zip(ends, around, strict=True)
                if is_among(theirs, travel.place) or is_among(mine, end.place)
            }
            if stays not in near:
                self._rows.row({travel.column: 1.0, **dict.fromkeys(near, -1.0)}, -inf, 0.0)
            elif far := {end.column: 1.0 for end in ends if end.column not in near}:
                self._rows.row({travel.column: 1.0, **far}, -inf, 1.0)

    def _mark_allowed(self, share: Share, kept: KeptParts) -> Mask | None:
        return self._scene.reach.mark_allowed(share.place.allocations, kept)

    def _list_ends(self, share: Share) -> list[_Travel]:
        """Return the possible ends of a part other than its present place; not known for merged shares."""
        return [*self._alone.get(share.number, ()), *self._returns.get(share.number, ())]

    def _add_returns(self, share: Share, places: Sequence[ChosenPlace]) -> None:
        """Allow a share to take another place in its own tree, by a step out of the tree and a step back."""
        mine = [
            place
            for place in places
            if place.root == share.root and place.allocations != share.place.allocations
        ]
        if not mine:
            return
        travels = []
        for place in mine:
            travel = _Travel(self._rows.column(2 * share.cost, 1), place)
            travels.append(travel)
            self._load(travel.column, place)
            for slot, amount in share.slots.items():
                load = self._loads[slot]
                load[travel.column] = load.get(travel.column, 0.0) - amount
        self._returns[share.number] = travels
        row = {travel.column: 1.0 for travel in travels} | {self._moves[share.number]: 1.0}
        if share.occupant in self._removals:
            row[self._removals[share.occupant]] = 1.0
        self._rows.row(row, -inf, 1.0)

    def _load(self, column: int, place: ChosenPlace) -> None:
        for slot, amount in sum_slots(place.allocations).items():
            load = self._loads[slot]
            load[column] = load.get(column, 0.0) + amount

    # -- the goal --

    def _add_goal(self) -> None:
        match self._aim:
            case FitAim() as aim:
                row: dict[int, float] = {}
                for place, floor in zip(aim.places, aim.floors, strict=True):
                    if floor == inf:
                        continue
                    column = self._rows.column(0.0, aim.goal.times)
                    self._goal_places.append((column, place))
                    self._load(column, place)
                    row[column] = 1.0
                self._rows.row(row, float(aim.goal.times), float(aim.goal.times))
            case EmptyAim() as aim:
                self._add_emptied(aim)

    def _add_emptied(self, aim: EmptyAim) -> None:
        known = {share.number for share in self._shares}
        arrivals: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for alike, travels in self._travels:
            for travel in travels:
                arrivals[travel.place.root][travel.column] = float(len(alike))
        for number, roots in enumerate(aim.goal.domains):
            can_be = all(share.number in known for share in aim.shares_in(number))
            column = self._emptied[number] = self._rows.column(0.0, 1.0 if can_be else 0.0)
            for share in aim.shares_in(number):
                self._scene.work.go_on()
                leaving = {column: -1.0}
                if share.number in self._moves:
                    leaving[self._moves[share.number]] = 1.0
                if share.occupant in self._removals:
                    leaving[self._removals[share.occupant]] = 1.0
                self._rows.row(leaving, 0.0, inf)
            for root in roots:
                for arrival, most in arrivals[root].items():
                    self._rows.row({arrival: 1.0, column: most}, -inf, most)
        self._rows.row(dict.fromkeys(self._emptied.values(), 1.0), float(aim.goal.count), inf)

    # -- groups --

    def _add_groups(self) -> None:
        """Require the rules of groups at the end, if all members are in one tree each.

        Other groups are checked with the order: without them the programme is still a bound.
        """
        scene, aim = self._scene, self._aim
        asked = set(aim.goal.groups) if isinstance(aim, KeepAim) else set()
        share_of = {scene.occupants[share.occupant].uuid: share for share in self._shares}
        state = State(scene)
        for name in sorted({name for uuid in share_of for name in scene.members.list_groups(uuid)}):
            rule, domains = scene.members.rules[name], state.domains(name)
            if name not in asked and count_excess(rule, domains.values()):
                continue
            mine = {uuid: share_of[uuid] for uuid in domains if uuid in share_of}
            if any(scene.is_spread(share.occupant) for share in mine.values()):
                continue
            changes = self._count_changes(rule, domains, mine)
            counts = Counter(domain for each in domains.values() for domain in each)
            if rule.rule == "apart":
                for domain, row in changes.items():
                    self._rows.row(row, -inf, float(rule.at_most - counts[domain]))
            else:
                self._add_together(changes, counts, len(domains), mine.values())

    def _count_changes(
        self, rule: GroupRule, domains: Mapping[str, Domains], mine: Mapping[str, Share]
    ) -> dict[str, dict[int, float]]:
        """Return for each domain how each variable changes the number of its members."""
        changes: defaultdict[str, dict[int, float]] = defaultdict(dict)

        def count(domain: str, column: int, change: float) -> None:
            changes[domain][column] = changes[domain].get(column, 0.0) + change

        for uuid, share in mine.items():
            self._scene.work.go_on()
            for domain in domains[uuid]:
                for column in self._leaving_columns(share):
                    count(domain, column, -1.0)
            for travel in self._alone.get(share.number, ()):
                trees = self._scene.trees_of([travel.place])
                for domain in rule.domains(trees, self._scene.aggregates):
                    count(domain, travel.column, 1.0)
        return changes

    def _add_together(
        self,
        changes: Mapping[str, Mapping[int, float]],
        counts: Mapping[str, int],
        members: int,
        shares: Iterable[Share],
    ) -> None:
        """Require that one domain has all remaining members, by a variable for each domain."""
        removals = {self._removals.get(share.occupant, -1) for share in shares} - {-1}
        chosen: dict[int, float] = {}
        for domain in sorted({*changes, *counts}):
            column = self._rows.column(0.0, 1.0)
            chosen[column] = 1.0
            row = {each: -change for each, change in changes.get(domain, {}).items()}
            for each in removals:
                row[each] = row.get(each, 0.0) - 1.0
            row[column] = float(members)
            self._rows.row(row, -inf, float(counts.get(domain, 0)))
        self._rows.row(chosen, 1.0, inf)

    def _leaving_columns(self, share: Share) -> list[int]:
        columns = [self._moves[share.number]] if share.number in self._moves else []
        if share.occupant in self._removals:
            columns.append(self._removals[share.occupant])
        return columns

    # -- room --

    def _add_room(self) -> None:
        taken = self._sum_taken() if self._scene.limits.all_at_once else {}
        for slot, load in self._loads.items():
            self._scene.work.go_on()
            arriving = {column: amount for column, amount in load.items() if amount > 0}
            if not arriving:
                continue
            free = self._scene.free(slot)
            if free >= 0:
                self._rows.row(load, -inf, float(free))
            else:
                # The tree is overfull: nothing may arrive, unless enough leaves.
                used = self._rows.column(0.0, 1.0)
                self._rows.row(load | {used: float(-free)}, -inf, 0.0)
                for column in arriving:
                    most = max(self._rows.upper[column], 1.0)
                    self._rows.row({column: 1.0, used: -most}, -inf, 0.0)
            if slot in taken:
                self._rows.row(taken[slot], -inf, float(max(free, 0)))

    def _sum_taken(self) -> dict[Slot, dict[int, float]]:
        """Return for each slot the amount that each variable takes while nothing has left yet."""
        taken: defaultdict[Slot, dict[int, float]] = defaultdict(dict)
        for _, travels in self._travels:
            for travel in travels:
                self._scene.work.go_on()
                for slot, amount in sum_slots(travel.place.allocations).items():
                    taken[slot][travel.column] = float(amount)
        return taken

    # -- solving --

    def forbid(self, leaving: Departures) -> None:
        """Exclude the one end with exactly these departures."""
        chosen = {self._moves[share.number] for share in leaving.moved}
        chosen |= {self._removals[number] for number in leaving.removed}
        row = {
            column: 1.0 if column in chosen else -1.0
            for column in [*self._moves.values(), *self._removals.values()]
        }
        self._rows.row(row, -inf, float(len(chosen) - 1))

    def solve(self, work: Work) -> Solution:
        """Return the cheapest end; its bound is the best proven one when the time ends."""
        solved = self._rows.solve(work)
        if solved.values is None:
            return Solution(None, (), solved.bound)
        return self._read(solved.values, solved.bound)

    def _read(self, values: Any, bound: float) -> Solution:
        moves: list[tuple[Share, ChosenPlace]] = []
        for alike, travels in self._travels:
            going = [share for share in alike if values[self._moves[share.number]]]
            places = [t.place for t in travels for _ in range(values[t.column])]
            moves += assign(going, places)
        returns = [
            (self._scene.share(number), travel.place)
            for number, travels in self._returns.items()
            for travel in travels
            if values[travel.column]
        ]
        removed = tuple(sorted(n for n, column in self._removals.items() if values[column]))
        placed = tuple(p for column, p in self._goal_places for _ in range(values[column]))
        shares = tuple(share for share, _ in [*moves, *returns])
        cost = sum(share.cost for share, _ in moves) + sum(2 * share.cost for share, _ in returns)
        cost += self._scene.costs.remove * len(removed)
        leaving = Departures(shares, removed, cost, placed)
        return Solution(leaving, moves, bound, bool(returns))


def is_among(among: Mask | None, place: ChosenPlace) -> bool:
    """Return whether all providers of a place are marked; None marks all."""
    return among is None or bool(among[list(place.allocations)].all())


def assign(
    shares: Sequence[Share], places: Sequence[ChosenPlace]
) -> list[tuple[Share, ChosenPlace]]:
    """Assign places in other trees to as many shares as possible.

    A share without one returns to its own tree by one more step, and its programme counts the cost of that.
    """
    taker: dict[int, int] = {}

    def find(number: int, tried: set[int]) -> bool:
        for index, place in enumerate(places):
            if index in tried or place.root == shares[number].root:
                continue
            tried.add(index)
            if index not in taker or find(taker[index], tried):
                taker[index] = number
                return True
        return False

    for number in range(len(shares)):
        find(number, set())
    return [(shares[number], places[index]) for index, number in taker.items()]

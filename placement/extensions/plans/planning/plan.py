"""Plans of a cloud: the public interface of planning (specification 10). Pure.

The planner first searches the cheapest set of departures, and places for it. If its cost equals the bound,
that is the plan. Otherwise an integer programme chooses the departures together with their places, and the
planner searches an order of the steps. On a small cloud a search over all sequences of steps decides.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import nsmallest
from math import inf

import numpy as np

from placement.extensions.plans.planning import gate, solver
from placement.extensions.plans.planning.counted import Counted
from placement.extensions.plans.planning.departures import bound_cost, find_lacking
from placement.extensions.plans.planning.gate import StepRefused
from placement.extensions.plans.planning.goals import (
    Aim,
    EmptyAim,
    FitAim,
    GoalReached,
    KeepAim,
    open_aim,
)
from placement.extensions.plans.planning.programme import Programme, Solution, is_among
from placement.extensions.plans.planning.scene import Scene, Share, Slot
from placement.extensions.plans.planning.settle import Unplaceable, find_order, settle
from placement.extensions.plans.planning.solver import ProgrammeTooLarge
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import (
    Costs,
    Empty,
    Fit,
    Goal,
    Limits,
    NoPlan,
    Occupant,
    Plan,
    reaches,
)
from placement.extensions.plans.planning.walk import walk
from placement.inventory_record import InventoryRecord
from placement.placing.members import Members
from placement.placing.mover import HeldInTree
from placement.placing.packing import free_columns
from placement.placing.wishes import ChosenPlace
from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.garbage import pause_collection
from placement.search.request import NameSets
from placement.search.search import search
from placement.search.work import Work, WorkEnded

LOG = logging.getLogger(__name__)

MOST_ATTEMPTS = 20
"""The number of sets of departures for which places are searched before the programme chooses."""

MOST_STUCK = 200
"""The number of places for a further request that are skipped because a departure found no place."""

PLENTY = 50
"""The number of places with room from which on the programme of counts leaves out kinds that do not need
room.
"""

FEW = 300
"""The number of places of each kind, and of the goal, in the first programme of counts, which usually
contain the cheapest plan. For 2,500 hosts with GPUs such a programme is solved in 0.1 s; with all places
it takes 1 to 4 s.
"""

MOST_SOLUTIONS = 20
"""The number of ends of the programme whose order is searched."""

MOST_SHARES = 400
"""The number of shares in a programme that does not have all."""

MOST_PLACES = 60
"""The number of places with room for each kind of shares in such a programme."""

MOST_OF_WHOLE = 4_000
"""The number of places of each kind in a programme that has all shares."""

MOST_PLACES_READ = 20_000
"""The number of places of a request by which trees are sorted."""

WHOLE = 64
"""The number of shares up to which all are in the programme."""

WALKED = 24
"""The number of shares up to which the walk is tried."""

MOST_STATES = 20_000
"""The number of states that one walk visits."""

STATES_FIRST = 200
"""The number of states that a walk visits before the programme: 0.02 s, where 20 ends with their orders
take 0.3 s.
"""


def list_trees(cloud: Cloud, known: NameSets | None, goal: Goal, work: Work) -> Sequence[int]:
    """Return the roots of the trees whose occupants matter to a goal, in the order in which to read them.

    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    """
    match goal:
        case Empty():
            return list(dict.fromkeys(root for roots in goal.domains for root in roots))
        case Fit():
            return _list_fitting(cloud, known, goal, work)
    return []


def make_plan(
    cloud: Cloud,
    known: NameSets | None,
    occupants: Sequence[Occupant],
    members: Members,
    goal: Goal,
    costs: Costs,
    limits: Limits,
    unread: Collection[int],
    work: Work,
) -> Plan | NoPlan:
    """Return the cheapest plan that is found. The cloud is not changed.

    :param occupants: all consumers of all trees but the unread ones.
    :param members: the groups of the occupants.
    :param unread: roots of trees whose occupants are not known: they stay.
    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    """
    emptied = frozenset[int]()
    if isinstance(goal, Empty) and goal.count == len(goal.domains):
        emptied = frozenset(root for roots in goal.domains for root in roots)
    scene = Scene(cloud, known, occupants, members, costs, limits, work, emptied)
    aim = open_aim(scene, goal, frozenset(unread), work)
    return _Planner(scene, aim, frozenset(unread), work).plan()


def _list_fitting(cloud: Cloud, known: NameSets | None, goal: Fit, work: Work) -> list[int]:
    """Return the trees in which a request would fit if nothing were used, the least lacking first."""
    names = goal.request.names.classes
    free = free_columns(cloud, names)
    unused = cloud.snapshot()
    for name in names & unused.classes.keys():
        rooms = np.zeros(cloud.size, np.int64)
        for index, held in enumerate(cloud.inventories):
            for each, capacity, _, terms in held:
                if each == name:
                    rooms[index] = min(
                        capacity, InventoryRecord._make(terms).max_unit, LARGEST_AMOUNT
                    )
        unused.set_rooms(name, np.arange(cloud.size), rooms)
    found = search(
        unused, replace(goal.request, limit=MOST_PLACES_READ, maximum=-1, seed=None), known, work
    )
    lacking: dict[int, float] = {}
    for candidate in found:
        place = candidate.allocations
        root = int(cloud.roots[candidate.members[0]])
        missing = sum(
            max(0.0, 1.0 - float(free[name][index]) / amount)
            for index, amounts in place.items()
            for name, amount in amounts.items()
        )
        for mine in {root, *(int(cloud.roots[index]) for index in place)}:
            lacking[mine] = min(missing, lacking.get(mine, inf))
    return sorted(lacking, key=lambda root: (lacking[root], root))


class _Planner:
    """The best plan so far, and a lower bound of the cost."""

    def __init__(self, scene: Scene, aim: Aim, unread: frozenset[int], work: Work) -> None:
        self._scene, self._aim, self._unread, self._work = scene, aim, unread, work
        self._best: tuple[State, GoalReached] | None = None
        self._bound = 0.0
        self._stuck: list[Unplaceable] = []

    def plan(self) -> Plan | NoPlan:
        """Search for plans until one is certainly the cheapest, or all methods were tried."""
        start = State(self._scene)
        if self._take(start):
            return self._answer()
        with suppress(WorkEnded):
            # The goal does not hold yet, so a plan has at least one step.
            self._bound = max(self._aim.bound(), 0.0 if self._unread else self._scene.cheapest_step)
        for look in (
            *(self._try_sets, self._try_pieces, self._try_removals),
            *(self._try_short_walk, self._try_programme, self._try_walk),
        ):
            if self._is_done():
                break
            # A method that has used its part of the time leaves the rest to the next one.
            with suppress(WorkEnded):
                look()
        return self._answer()

    @property
    def _cost(self) -> float:
        return inf if self._best is None else self._best[0].cost

    def _is_done(self) -> bool:
        """Return whether nothing cheaper can be found, or the time has ended."""
        return reaches(self._bound, self._cost) or not self._work.check_time()

    def _take(self, state: State) -> bool:
        """Record a state as the best one if the goal holds in it and it is cheaper.

        All its steps pass the gate once more, from the state that was read. If one fails, the search
        continues.
        """
        if state.cost >= self._cost or len(state.steps) > self._scene.limits.most:
            return False
        replayed = State(self._scene)
        try:
            gate.replay(replayed, state.steps)
        except StepRefused as refused:
            LOG.error(
                "A plan was found that breaks a rule, and is not used: %s. Please report this",
                refused,
            )
            # The search's statements about other plans are doubtful as well.
            self._aim.exact = False
            return False
        reached = self._aim.test(replayed)
        if reached is None:
            return False
        if self._best is None and self._scene.limits.all_at_once:
            self._work.leave_half()
        self._best = replayed, reached
        return True

    # -- ways to look --

    def _try_sets(self) -> None:
        """Move the cheapest sets to any places with room, all at once."""
        attempts = self._aim.attempts()
        leaving = next(attempts, None)
        for _ in range(MOST_ATTEMPTS):
            # The sets are in the order of their costs.
            if leaving is None or leaving.cost >= self._cost or self._work.timed_out:
                return
            state = State(self._scene)
            stuck = settle(state, leaving, self._work)
            state.forget_reserved()
            if stuck is not None:
                self._stuck.append(stuck)
            elif self._take(state) and self._is_done():
                return
            try:
                leaving = attempts.send(None if stuck is None else stuck.share)
            except StopIteration:
                return

    def _try_pieces(self) -> None:
        """Make room repeatedly until a request fits often enough; each move may make room for the next."""
        aim = self._aim
        if not isinstance(aim, FitAim) or aim.goal.times == 1 or self._best is not None:
            return
        state = State(self._scene)
        tried = 0
        for leaving in aim.list_pieces(state):
            stuck = settle(state, leaving, self._work)
            if stuck is not None:
                self._stuck.append(stuck)
                tried += 1
            if state.reserved == aim.goal.times or tried == MOST_STUCK or self._work.timed_out:
                break
        state.forget_reserved()
        self._take(state)

    def _try_removals(self) -> None:
        """Empty domains by removals alone; without a solver no other method finds this if moves cost less."""
        if self._best is not None or not isinstance(self._aim, EmptyAim):
            return
        state = State(self._scene)
        for number in self._aim.choose_removed() or ():
            state.remove(number)
        self._take(state)

    def _try_programme(self) -> None:
        """Let an integer programme choose departures and places, until an order of its steps works."""
        if not solver.load_solver():
            return
        aim = self._aim
        with suppress(ProgrammeTooLarge):
            if self._scene.share_count > WHOLE and isinstance(aim, FitAim | EmptyAim):
                self._count(aim)
            else:
                self._solve(self._make_programme())

    def _make_programme(self) -> Programme:
        scene, aim, work = self._scene, self._aim, self._work
        if scene.share_count > WHOLE and isinstance(aim, KeepAim):
            shares = aim.list_shares(MOST_SHARES)
            return Programme(
                scene, aim, shares, lambda s: (scene.list_open_places(s, MOST_PLACES, work), False)
            )
        return Programme(
            scene, aim, scene.shares, lambda s: scene.list_places(s, MOST_OF_WHOLE, work)
        )

    def _count(self, aim: FitAim | EmptyAim) -> None:
        """Solve the counted programme of a large cloud, placing more and more kinds that found no room."""
        scarce = self._list_scarce(s.share for s in self._stuck if s.share is not None)
        for few in (True, False):
            placed = dict(scarce)
            while not self._is_done() and self._solve_counted(aim, placed, few):
                pass

    def _solve_counted(
        self, aim: FitAim | EmptyAim, placed: dict[HeldInTree, Share], few: bool
    ) -> bool:
        """Solve the counted programme once; return whether more kinds need room, and place these.

        :param few: consider few places of each kind, which proves nothing.
        """
        scene = self._scene
        with pause_collection():
            found = {
                kind: scene.list_places(share, MOST_OF_WHOLE, self._work)
                for kind, share in placed.items()
            }
            places_of = {
                kind: self._choose_few(places, placed) if few else places
                for kind, (places, _) in found.items()
            }
            counted = Counted(scene, aim, places_of, self._cost, FEW if few else None)
        # The solution must still be carried out; a large cloud has no other method.
        with self._work.part(4 if few else 4 / 3) as part:
            end = counted.solve(part)
        has_all = aim.exact and not few and all(complete for _, complete in found.values())
        if has_all and not self._unread:
            self._bound = max(self._bound, end.bound)
        if end.leaving is None or self._is_done():
            return False
        state = State(scene)
        stuck = settle(state, end.leaving, self._work, end.moves)
        state.forget_reserved()
        if stuck is None:
            self._take(state)
            return False
        before = len(placed)
        placed |= self._list_scarce(end.leaving.moved)
        if len(placed) == before:
            found_none = end.leaving.moved if stuck.share is None else [stuck.share]
            placed |= {share.kind: share for share in found_none}
        return len(placed) > before

    def _choose_few(
        self, places: Sequence[ChosenPlace], placed: Collection[HeldInTree]
    ) -> list[ChosenPlace]:
        """Return the places with room, then places where the departure of one movable share makes room."""
        scene, start = self._scene, State(self._scene)

        def may_make_room(number: int, root: int, lacking: Mapping[Slot, int]) -> bool:
            held = scene.occupants[number].held[root]
            # The amounts of most occupants suffice: making a share takes ten times as long.
            return all(
                held.get(index, {}).get(name, 0) >= missing
                for (index, name), missing in lacking.items()
            ) and any(
                scene.may_move(share) and share.kind not in placed
                for share in scene.shares_of(number)
                if share.root == root
            )

        def rank(place: ChosenPlace) -> tuple[int, float]:
            lacking = find_lacking(start, place)
            if not lacking:
                return 0, 0.0
            numbers = scene.list_occupants(place.root)
            if any(may_make_room(number, place.root, lacking) for number in numbers):
                return 1, 0.0
            return 2, bound_cost(scene, lacking)

        return nsmallest(FEW, places, rank)

    def _list_scarce(self, shares: Iterable[Share]) -> dict[HeldInTree, Share]:
        """Return by kind the shares with few possible destinations now."""
        kinds = {share.kind: share for share in shares}
        return {
            kind: share
            for kind, share in kinds.items()
            if len(self._scene.list_open_places(share, PLENTY, self._work)) < PLENTY
        }

    def _solve(self, chosen: Programme) -> None:
        for number in range(MOST_SOLUTIONS):
            with self._work.part(2) as part:
                solution = chosen.solve(part)
            # Later ends are only those that were not excluded.
            if number == 0 and chosen.complete and not self._unread:
                self._bound = max(self._bound, solution.bound)
            if solution.leaving is None or reaches(solution.leaving.cost, self._cost):
                return
            self._order(solution)
            if self._is_done():
                return
            chosen.forbid(solution.leaving)

    def _order(self, solution: Solution) -> None:
        """Search for an order of the steps of an end; a third place breaks a cycle."""
        assert solution.leaving is not None
        state = State(self._scene)
        for number in solution.leaving.removed:
            state.remove(number)
        if not solution.stays_in_tree and find_order(state, solution.moves):
            self._take(state)
            return
        gone = [share for n in solution.leaving.removed for share in self._scene.shares_of(n)]
        shares = list({s.number: s for s in [*solution.leaving.moved, *gone]}.values())
        if len(shares) <= WALKED:
            with self._work.part(4) as part:
                walked = walk(self._scene, self._aim, shares, self._cost, part, MOST_STATES)
            if walked.state is not None:
                self._take(walked.state)

    def _try_short_walk(self) -> None:
        """Walk a little if places are few: that usually suffices, and is faster than a programme."""
        if len(self._scene.cloud) <= WHOLE:
            with self._work.part(4) as part:
                self._walk(STATES_FIRST, part)

    def _try_walk(self) -> None:
        """Walk every sequence of steps of a small cloud."""
        self._walk(MOST_STATES, self._work)

    def _walk(self, most_states: int, work: Work) -> None:
        scene = self._scene
        if scene.share_count > WALKED or self._unread:
            return
        walked = walk(scene, self._aim, scene.shares, self._cost, work, most_states)
        if walked.state is not None:
            self._take(walked.state)
        self._bound = max(self._bound, self._cost if walked.certain else walked.cost_so_far)

    # -- the answer --

    def _answer(self) -> Plan | NoPlan:
        timed_out = self._work.timed_out
        if self._best is None:
            fewest = self._aim.fewest_steps if isinstance(self._aim, EmptyAim) else 0
            is_too_long = fewest > self._scene.limits.most
            exact = is_too_long or (self._bound == inf and self._aim.exact and not self._unread)
            return NoPlan(
                exact,
                timed_out=timed_out and not exact,
                # No reason is given for a consumer that stays if it is not known whether it must stay.
                staying=() if timed_out else self._list_staying(),
                groups=tuple(sorted({name for stuck in self._stuck for name in stuck.groups})),
                fewest_steps=fewest if is_too_long else 0,
            )
        state, reached = self._best
        return Plan(
            tuple(state.steps),
            state.cost,
            state.cost if reaches(self._bound, state.cost) else self._bound,
            not timed_out,
            reached.placed,
            reached.emptied,
        )

    def _list_staying(self) -> tuple[int, ...]:
        if not isinstance(self._aim, EmptyAim):
            return ()
        scene, found = self._scene, list[Share]()
        with suppress(WorkEnded):
            leaving = self._aim.list_leaving()
            found += [share for share in leaving if not scene.may_leave(share)]
            stuck = [each.share for each in self._stuck if each.share is not None]
            # A removal takes the others.
            found += filter(self._is_kept, filter(self._must_move, stuck))
            found += filter(self._fits_nowhere, filter(self._must_move, leaving))
        return tuple(dict.fromkeys(share.occupant for share in found))

    def _must_move(self, share: Share) -> bool:
        return not self._scene.occupants[share.occupant].may_remove

    def _is_kept(self, share: Share) -> bool:
        """Return whether the other parts of its consumer, where they are now, keep a share in its tree."""
        scene = self._scene
        if scene.find_blocker(share) is not None:
            return True
        among = scene.reach.mark_allowed(share.place.allocations, scene.find_kept(share))
        places, complete = scene.list_places(share, MOST_OF_WHOLE, self._work)
        return complete and not any(
            place.root != share.root and is_among(among, place) for place in places
        )

    def _fits_nowhere(self, share: Share) -> bool:
        """Return whether no other tree could take a share that must move, even if everything movable left."""
        places, complete = self._scene.list_places(share, MOST_OF_WHOLE, self._work)
        return complete and all(place.root == share.root for place in places)

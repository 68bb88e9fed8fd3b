"""The parts of planning, each by itself (specification 10 section 3).

A planner tries one way after another, which on a small cloud hides what one of them misses.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from random import Random

import pytest

from placement.extensions.plans.planning import goals, plan, solver
from placement.extensions.plans.planning.counted import Counted, End
from placement.extensions.plans.planning.goals import Aim, EmptyAim, FitAim, open_aim
from placement.extensions.plans.planning.plan import MOST_OF_WHOLE, list_trees, make_plan
from placement.extensions.plans.planning.scene import Scene, Slot, sum_slots
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import Plan
from placement.search.group_rules import GroupRule
from placement.search.work import Work
from tests.extensions.plans.plan_worlds import (
    VCPU,
    VGPU,
    Asked,
    Consumer,
    Emptied,
    Kept,
    Node,
    Room,
    TooMany,
    Wanted,
    World,
    draw_world,
    find_cheapest,
    give,
)
from tests.search.worlds import seeds


@seeds(60, 6291908978272907354)
def test_the_end_is_one_and_bounds_all_plans(draw: Random) -> None:
    world = draw_world(draw)
    scene, aim = open_scene(world)
    if not isinstance(aim, FitAim | EmptyAim) or not scene.shares:
        return

    end = solve(scene, aim)

    about = f"{world} {end}"
    with suppress(TooMany):
        assert end.bound <= find_cheapest(world) * (1 + 1e-9), about
    if end.leaving is not None:
        check_end(scene, aim, end, about)


def test_no_more_arrive_than_fit_one_by_one() -> None:
    """Two servers of 2 do not fit into 3, though nothing else takes room there."""
    world = make_flat_world(4, 3, held=(2, 2), goal=Emptied([(0,)], 1))

    end = solve(*open_scene(world))

    assert end.leaving is None
    assert end.bound == find_cheapest(world) == inf


def test_no_move_ends_in_the_tree_where_it_began() -> None:
    """The only other place of the server is in its own tree."""
    world = make_flat_world(4, goal=Room(Asked(1, 1, 0), 1))
    world.nodes += [Node(0, {VGPU: 2}, max_unit=1), Node(0, {VGPU: 2}, min_unit=2)]
    world.consumers.append(Consumer((((0, ((VCPU, 1),)), (1, ((VGPU, 2),))),), True, False, ()))

    end = solve(*open_scene(world))

    assert end.leaving is None
    assert end.bound == find_cheapest(world) == inf


def test_a_packing_that_is_cut_short_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two cards share the cores of their host, so which of them takes what must be tried."""
    monkeypatch.setattr(goals, "MOST_PACKED", 1)
    world = make_flat_world(4, goal=Room(Asked(1, 1, 0), 3))
    world.nodes += [Node(0, {VGPU: 1}), Node(0, {VGPU: 1})]
    scene, aim = open_scene(world)
    assert isinstance(aim, FitAim)

    assert aim.exact and aim.test(State(scene)) is None
    assert not aim.exact


def test_the_fewest_members_move_to_the_others() -> None:
    world = make_flat_world(4, 4, held=(1, 1, 1), goal=Kept())
    world.consumers.append(Consumer((((1, ((VCPU, 1),)),),), True, False, ()))
    world.consumers = [each._replace(groups=("g",)) for each in world.consumers]
    world.rules["g"] = GroupRule("together", 1, ())

    first = next(open_scene(world)[1].attempts())

    assert [share.occupant for share in first.moved] == [3]


def test_full_hosts_are_read_for_a_request_that_would_fit_there() -> None:
    world = make_flat_world(4, 1, held=(4,), goal=Room(Asked(2, 0, 0), 1))
    given = give(world)

    assert list_trees(given.cloud, None, given.goal, Work()) == [given.cloud.index_of[1]]


def test_another_place_is_tried_where_a_departure_found_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of 4 on the first host costs least to move, and fits nowhere; those of 2 fit."""
    monkeypatch.setattr(solver, "load_solver", lambda: False)
    monkeypatch.setattr(plan, "WALKED", 0)
    world = make_flat_world(4, 4, 4, 2, 2, held=(4,), goal=Room(Asked(4, 0, 0), 2))
    world.consumers += [Consumer((((1, ((VCPU, 2),)),),), True, False, ())] * 2
    given = give(world)

    found = make_plan(
        *(given.cloud, None, given.occupants, given.members),
        *(given.goal, world.costs, given.limits, (), Work()),
    )

    assert isinstance(found, Plan)
    assert sorted(step.occupant for step in found.steps) == [1, 2]


def make_flat_world(*hosts: int, held: Sequence[int] = (), goal: Wanted) -> World:
    """Return hosts with so many VCPU; on the first of them are servers that have so many."""
    consumers = [Consumer((((0, ((VCPU, amount),)),),), True, False, ()) for amount in held]
    nodes = [Node(tree, {VCPU: total}) for tree, total in enumerate(hosts)]
    return World(nodes, len(hosts), ["none"] * len(hosts), None, frozenset(), consumers, {}, goal)


def open_scene(world: World) -> tuple[Scene, Aim]:
    """Return a world and its goal as the planner makes a programme of them."""
    given, work = give(world), Work()
    people = given.occupants, given.members
    scene = Scene(given.cloud, None, *people, world.costs, given.limits, work, frozenset())
    return scene, open_aim(scene, given.goal, frozenset(), work)


def solve(scene: Scene, aim: Aim) -> End:
    """Return the cheapest end if room matters for everything that may move."""
    assert isinstance(aim, FitAim | EmptyAim)
    placed = {
        share.kind: scene.list_places(share, MOST_OF_WHOLE, Work())[0]
        for share in scene.shares
        if scene.may_move(share)
    }
    return Counted(scene, aim, placed, inf).solve(Work())


def check_end(scene: Scene, aim: FitAim | EmptyAim, end: End, about: str) -> None:
    """Hold an end against what it must be, whatever the order of its steps."""
    leaving = end.leaving
    assert leaving is not None
    gone = {share.number: share for number in leaving.removed for share in scene.shares_of(number)}
    gone |= {share.number: share for share in leaving.moved}
    assert all(map(scene.may_move, leaving.moved)), about
    assert all(scene.occupants[number].may_remove for number in leaving.removed), about
    placed = Counter(share.number for share, _ in end.moves)
    assert placed <= Counter(share.number for share in leaving.moved), about
    # What has no place in another tree returns to its own tree by one more step.
    cost = leaving.cost + sum(share.cost for share in leaving.moved if share.number not in placed)
    # Costs that are far from each other count as nearer.
    costs = [cost for cost in (scene.costs.remove, *(s.cost for s in scene.shares)) if cost > 0]
    if max(costs) < 1e3 * min(costs):
        assert end.bound >= cost * (1 - 1e-5), about
    freed, arriving = Counter[Slot](), Counter[Slot]()
    for share in gone.values():
        freed.update(share.slots)
    for place in (*leaving.placed, *(place for _, place in end.moves)):
        arriving.update(sum_slots(place.allocations))
    for slot, amount in arriving.items():
        assert max(scene.free(slot), 0) + freed[slot] >= amount, (slot, about)
    if isinstance(aim, FitAim):
        assert len(leaving.placed) == aim.goal.times, about
        return
    there = {share.root for share in scene.shares if share.number not in gone}
    there |= {place.root for _, place in end.moves}
    assert sum(there.isdisjoint(roots) for roots in aim.goal.domains) >= aim.goal.count, about

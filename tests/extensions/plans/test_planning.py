"""Plans against every sequence of steps there is, on small clouds (specification 10 section 3)."""

from collections import Counter, defaultdict
from math import inf
from random import Random

import pytest

from placement.extensions.plans.planning import plan, solver
from placement.extensions.plans.planning.plan import make_plan
from placement.extensions.plans.planning.values import MoveStep, NoPlan, Plan
from placement.search.work import Work
from tests.extensions.plans.plan_worlds import (
    Emptied,
    TooMany,
    World,
    draw_marked_world,
    draw_world,
    excess_of,
    find_cheapest,
    free_in,
    give,
    holds,
    is_found,
    list_steps,
    may_be_written,
    parts_of,
    start_of,
)
from tests.search.worlds import seeds


def plan_of(world: World, work: Work | None = None) -> Plan | NoPlan:
    given = give(world)
    return make_plan(
        given.cloud,
        None,
        given.occupants,
        given.members,
        given.goal,
        world.costs,
        given.limits,
        (),
        work or Work(),
    )


@seeds(150, 8210492399563771354)
def test_plans_are_as_cheap_as_can_be(draw: Random) -> None:
    check(draw_world(draw))


@seeds(150, 8210492399563771354, 7530064635789694321)
def test_programmes_find_and_bound_them_where_no_walk_came_before(draw: Random) -> None:
    """A short walk settles most clouds that every sequence can be tried on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "STATES_FIRST", 0)
        check(draw_world(draw))


@seeds(150)
def test_plans_are_as_cheap_as_can_be_where_trees_are_avoided(draw: Random) -> None:
    """What is on them counts as it does, and neither a move nor the request of a goal goes there."""
    world = draw_marked_world(draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "STATES_FIRST", draw.choice([0, plan.STATES_FIRST]))
        check(world)


@seeds(50)
def test_without_a_solver_they_are_too_where_the_cloud_is_small(draw: Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "load_solver", lambda: False)
        check(draw_world(draw))


@seeds(50)
def test_counts_of_kinds_bound_all_plans_too(draw: Random) -> None:
    """Kinds of servers are counted on large clouds; here on those that every sequence can be tried on."""
    with pytest.MonkeyPatch.context() as patch:
        # No small cloud is walked first.
        patch.setattr(plan, "WHOLE", 0)
        patch.setattr(plan, "FEW", draw.randint(1, 3))
        check(draw_world(draw))


def check(world: World) -> None:
    """Hold the plan of a world against every sequence of steps."""
    try:
        cheapest = find_cheapest(world)
    except TooMany:
        return
    found, about = plan_of(world), str(world)
    if isinstance(found, NoPlan):
        assert found.exact and not found.timed_out, about
        assert cheapest == inf, about
        check_staying(world, found, about)
        return
    carry_out(world, found, about)
    assert found.lower_bound <= cheapest * (1 + 1e-9), (found, cheapest, about)
    assert found.minimal, (found, cheapest, about)
    assert found.cost == pytest.approx(cheapest, rel=1e-9), (found, about)


def check_staying(world: World, found: NoPlan, about: str) -> None:
    """A consumer is said to stay only if a part of it cannot leave the trees that must be empty at once."""
    if not isinstance(world.goal, Emptied) or world.goal.enough < len(world.goal.domains):
        return
    where = start_of(world)
    emptied = {tree for domain in world.goal.domains for tree in domain}
    left = defaultdict[int, set[int]](set)
    for _, then, _, target in list_steps(world, where):
        if target not in emptied and is_found(world, where, then):
            [number] = (n for n, places in enumerate(then) if places != where[n])
            left[number] |= set(where[number]) - set(then[number])
    for number in found.staying:
        there = {node for node in where[number] if world.nodes[node].tree in emptied}
        assert not there <= left[number], (number, about)


def carry_out(world: World, plan: Plan, about: str) -> None:
    """Carry out the steps, and check each of them by the rules of section 3."""
    given = give(world)
    node_of = {given.cloud.index_of[n + 1]: n for n in range(len(world.nodes))}
    where = start_of(world)
    arrived = set[int]()
    at_start, cost, taken = free_in(world, where), 0.0, Counter[tuple[int, str]]()
    assert len(plan.steps) <= world.limits.most, about
    for step in plan.steps:
        consumer, before = world.consumers[step.occupant], where
        mine = list(where[step.occupant])
        if not isinstance(step, MoveStep):
            assert consumer.may_remove and mine, about
            where = (*where[: step.occupant], (), *where[step.occupant + 1 :])
            cost += world.costs.remove
            continue
        assert consumer.may_move, about
        source = world.nodes[node_of[step.root]].tree
        target = world.nodes[node_of[step.place.root]].tree
        assert target != source, about
        assert target not in world.limits.closed, about
        free = free_in(world, where)
        parts = parts_of(consumer)
        leaving = [n for n, node in enumerate(mine) if world.nodes[node].tree == source]
        assert leaving, about
        amounts = [dict(parts[n]) for n in leaving]
        arriving = {node_of[i]: dict(a) for i, a in step.place.allocations.items()}
        for node, held in arriving.items():
            assert world.nodes[node].tree == target, about
            for name, amount in held.items():
                assert free[node, name] >= amount, about
                taken[node, name] += amount
                cost += world.costs.per_unit.get(name, 0.0) * amount
        by_group = [step.place.mappings[f"_{n}"][0] for n in range(1, len(leaving) + 1)]
        began = start_of(world)[step.occupant]
        order = sorted(
            range(len(leaving)), key=lambda n: given.cloud.index_of[began[leaving[n]] + 1]
        )
        part, before_it = range(leaving[0], leaving[-1] + 1), tuple(mine)
        assert len(part) == len(leaving), about
        for group, n in zip(by_group, order, strict=True):
            mine[leaving[n]] = node_of[group]
        chosen = [mine[n] for n in part]
        assert may_be_written(world, consumer, before_it, part, chosen), about
        arrived.add(target)
        assert sum(map(Counter, amounts), Counter()) == sum(
            map(Counter, arriving.values()), Counter()
        ), about
        cost += world.costs.move
        where = (*where[: step.occupant], tuple(mine), *where[step.occupant + 1 :])
        assert excess_of(world, where) <= excess_of(world, before), about
    if world.limits.all_at_once:
        assert all(at_start[slot] >= amount for slot, amount in taken.items()), about
    assert holds(world, where, frozenset(arrived)), about
    assert cost == pytest.approx(plan.cost, rel=1e-9), about

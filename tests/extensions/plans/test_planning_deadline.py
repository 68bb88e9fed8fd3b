"""Planning looks at the time wherever it is, whatever is asked (specification 10 section 4.2).

Counted in calls of functions between two looks, not in seconds: no verdict depends on the machine.
"""

import sys
from contextlib import suppress
from random import Random
from types import FrameType
from typing import Any

import pytest

from placement.extensions.plans.planning import solver
from placement.extensions.plans.planning.counted import Counted, End
from placement.extensions.plans.planning.plan import make_plan
from placement.extensions.plans.planning.scene import Scene
from placement.extensions.plans.planning.solver import load_solver
from placement.extensions.plans.planning.values import (
    Costs,
    Empty,
    Fit,
    Goal,
    Keep,
    Limits,
    Occupant,
)
from placement.extensions.plans.schemas import MOST_DOMAINS, MOST_GROUPS, MOST_TIMES
from placement.placing.members import Members
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule
from placement.search.request import CandidateRequest
from placement.search.work import Work, WorkEnded
from tests.search.builders import World, group
from tests.search.worlds import stock

HOSTS, SERVERS = 120, 10
CORES = 22
MOST_CALLS = 150_000
"""Between two looks: some 30 ms of a processor."""
DEADLINE_S = 5.0


class CountingClock:
    """A clock whose time ends after so many looks, and which counts the calls between them.

    :param looks: after so many the deadline has come.
    """

    def __init__(self, looks: int) -> None:
        self.looks, self.looked, self.calls, self.most = looks, 0, 0, 0

    def count(self, _frame: FrameType, event: str, _arg: Any) -> None:
        """Count a call; what a profiler is."""
        self.calls += event in ("call", "c_call")

    def remaining_s(self) -> float:
        """Return how much of the deadline is left."""
        self.most, self.calls = max(self.most, self.calls), 0
        self.looked += 1
        return DEADLINE_S * (1 - self.looked / self.looks)


def crowded_cloud() -> tuple[Cloud, list[Occupant]]:
    """Return hosts of seven providers, and on each ten servers that leave no half of it free."""
    draw, world = Random(58), World()
    held: list[tuple[str, dict[str, dict[str, int]]]] = []
    for number in range(HOSTS):
        host = f"h{number}"
        cores, cards = dict.fromkeys((f"{host}-0", f"{host}-1"), 0), set[str]()
        for _ in range(SERVERS):
            node, card = draw.choice(sorted(cores)), f"{host}-gpu{draw.randrange(4)}"
            amount = min(draw.choice((1, 2, 4, 8)), CORES - cores[node])
            mine = {node: {"VCPU": amount}} if amount else {}
            cores[node] += amount
            if card not in cards and draw.random() < 0.4:
                cards.add(card)
                mine[card] = {"VGPU": 1}
            if mine:
                held.append((host, mine))
        world.host(host, DISK_GB=100)
        for node, used in cores.items():
            world.device(node, host, VCPU=stock(CORES, used))
        for place in range(4):
            card = f"{host}-gpu{place}"
            world.device(card, host, VGPU=stock(1, card in cards))
    cloud = world.cloud()
    index = {name: cloud.index_of_uuid[f"uuid-of-{name}"] for name in world.records}
    occupants = [
        Occupant(f"c{n}", {index[host]: {index[name]: amounts for name, amounts in mine.items()}})
        for n, (host, mine) in enumerate(held)
    ]
    return cloud, occupants


CLOUD, OCCUPANTS = crowded_cloud()
ROOTS = sorted(CLOUD.forest.roots.tolist())
LARGE = CandidateRequest((group("_A", VCPU=CORES), group("_B", VGPU=1), group("_C", VGPU=1)))
GROUPS = tuple(f"g{number}" for number in range(MOST_GROUPS))


class _Row:
    """Of a member of a group: where it is."""

    shares = False

    def __init__(self, occupant: Occupant) -> None:
        self.consumer_uuid = occupant.uuid
        self.root_uuid = str(CLOUD.uuids[next(iter(occupant.held))])


def members() -> Members:
    """Return a hundred groups that all servers are in, most of them together with others of their host."""
    rows = [_Row(each) for each in OCCUPANTS]
    rules = dict.fromkeys(GROUPS, GroupRule("apart", 1, frozenset()))
    return Members(rules, dict.fromkeys(GROUPS, rows), {each.uuid: GROUPS for each in OCCUPANTS})  # type: ignore[arg-type]


LARGEST: dict[str, Goal] = {
    "one large server": Fit(LARGE),
    "twenty large servers": Fit(LARGE, 20),
    "the most servers": Fit(LARGE, MOST_TIMES),
    "any host": Empty([[root] for root in ROOTS], 1),
    "half of the hosts": Empty([[root] for root in ROOTS], HOSTS // 2),
    "a domain of half of the hosts": Empty([ROOTS[: HOSTS // 2]], 1),
    "the most domains, all of every host": Empty([ROOTS] * MOST_DOMAINS, 1),
    "the most groups": Keep(GROUPS),
}


@pytest.mark.parametrize("is_held", [False, True], ids=["", "held"])
@pytest.mark.parametrize("goal", LARGEST.values(), ids=LARGEST.keys())
def test_planning_looks_at_the_time_all_along(goal: Goal, is_held: bool) -> None:
    """Also while sets, places and the programme are made, and it ends soon after the deadline."""
    load_solver()
    grouped = members() if isinstance(goal, Keep) else Members()
    for looks in (100, 3_000, 30_000):
        clock = CountingClock(looks)
        sys.setprofile(clock.count)
        try:
            with suppress(WorkEnded):
                make_plan(
                    *(CLOUD.snapshot(), None, OCCUPANTS, grouped, goal, Costs()),
                    *(Limits(100, all_at_once=is_held), (), Work(remaining_s=clock.remaining_s)),
                )
        finally:
            sys.setprofile(None)
        assert max(clock.most, clock.calls) < MOST_CALLS


def _roomy_cloud(hosts: int, servers: int, cores: int) -> tuple[Cloud, list[Occupant]]:
    """Return hosts of so many cores, and on each so many servers of one core."""
    world = World()
    for number in range(hosts):
        world.host(f"r{number}", VCPU=stock(cores, servers))
    cloud = world.cloud()
    roots = [cloud.index_of_uuid[f"uuid-of-r{number}"] for number in range(hosts)]
    held = [root for root in roots for _ in range(servers)]
    occupants = [
        Occupant(f"s{n}", {root: {root: {"VCPU": 1}}}, may_remove=True)
        for n, root in enumerate(held)
    ]
    return cloud, occupants


def _plan(cloud: Cloud, occupants: list[Occupant], count: int, costs: Costs, work: Work) -> Any:
    goal = Empty([[root] for root in sorted(cloud.forest.roots.tolist())], count)
    return make_plan(cloud, None, occupants, Members(), goal, costs, Limits(), (), work)


def test_of_many_hosts_only_those_are_looked_at_that_are_to_be_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 60,000 servers the shares of forty are made: to make all took a second."""
    cloud, occupants = _roomy_cloud(30, 2, 10)
    # The last two hosts have one server each, and so cost least.
    occupants = occupants[:-4] + occupants[-4::2]
    make_share, made = Scene._make_share, list[int]()

    def note(scene: Scene, occupant: int, *rest: Any) -> Any:
        made.append(occupant)
        return make_share(scene, occupant, *rest)

    monkeypatch.setattr(Scene, "_make_share", note)

    plan = _plan(cloud, occupants, 2, Costs(), Work())

    assert (plan.cost, len(made)) == (2.0, 2)


def test_a_solver_that_counts_has_most_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large cloud has no other way, apart from a first look at few places, which has a quarter."""
    given = list[float]()

    def solve(_: Counted, work: Work) -> End:
        given.append(work.remaining_s() - work.reserve_s)
        return End(None, (), 0.0)

    monkeypatch.setattr(Counted, "solve", solve)
    load_solver()
    cloud, occupants = _roomy_cloud(20, 6, 6)

    _plan(cloud, occupants, 10, Costs(), Work(remaining_s=lambda: DEADLINE_S))

    assert given == pytest.approx([DEADLINE_S / 4, DEADLINE_S * 3 / 4])


@pytest.mark.parametrize("has_solver", [True, False], ids=["", "without a solver"])
def test_removals_alone_are_a_plan_where_nothing_has_room(
    monkeypatch: pytest.MonkeyPatch, has_solver: bool
) -> None:
    """Also where a move costs next to nothing, so that moves are tried first."""
    if not has_solver:
        monkeypatch.setattr(solver, "load_solver", lambda: False)
    clock = CountingClock(2_000)
    cloud, occupants = _roomy_cloud(20, 6, 6)

    plan = _plan(cloud, occupants, 10, Costs(1e-300, 1e6), Work(remaining_s=clock.remaining_s))

    assert (len(plan.steps), plan.cost) == (60, 6e7)


@pytest.mark.parametrize(("is_held", "left"), [(False, 0.0), (True, DEADLINE_S / 2)])
def test_a_plan_that_is_found_leaves_time_to_hold_it(is_held: bool, left: float) -> None:
    """Until then it has all the time: it was given up when half of it was over."""
    cloud, occupants = _roomy_cloud(4, 1, 4)
    work = Work(remaining_s=lambda: DEADLINE_S)
    goal = Empty([[0]], 1)

    make_plan(
        *(cloud, None, occupants, Members(), goal, Costs(), Limits(all_at_once=is_held), (), work)
    )

    assert work.reserve_s == left

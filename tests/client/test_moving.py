"""Plans that something carries out: planned around what stays, in order, stopped, planned again."""

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from keystoneauth1 import adapter

from placement.client.exceptions import PlacementClientError
from placement.client.moving import (
    PLANS,
    MoveRefused,
    PlainMover,
    PlanAround,
    PlanRun,
    RunAbandoned,
    RunStopped,
    Watcher,
    order_steps,
)
from placement.client.plans import MadePlan, NoPlanFound, PlansClient, Step, consumer_of
from placement.client.provider_names import ProviderNames
from tests.client.test_plans import Rack
from tests.client.world import World
from tests.support.processes import ENDS_S


@pytest.fixture
def plans(http: adapter.Adapter) -> PlansClient:
    return PlansClient(http)


@pytest.fixture
def rack(world: World) -> Rack:
    return Rack(world)


class FakeMover(PlainMover):
    """Carries out by plain requests what it is not told to refuse."""

    def __init__(self, plans: PlansClient) -> None:
        super().__init__(plans)
        self.unmovable: dict[str, str] = {}
        self.obstacles: dict[str, str] = {}
        self.closed: dict[str, str] = {}
        self.before: Callable[[Step, Callable[[float], None]], None] = lambda step, pause: None
        self.looked = 0
        self.moved: list[str] = []

    def read_states(self) -> None:
        self.looked += 1

    def list_unmovable(self) -> Mapping[str, str]:
        return self.unmovable

    def find_obstacle(self, step: Step) -> str | None:
        found = self.unmovable | self.obstacles
        return found.get(consumer_of(step))

    def find_obstacle_of_place(self, step: Step) -> str | None:
        return self.closed.get(step["root_provider_uuid"])

    def carry_out(self, step: Step, pause: Callable[[float], None]) -> None:
        self.before(step, pause)
        super().carry_out(step, pause)
        self.moved.append(consumer_of(step))


@pytest.fixture
def mover(plans: PlansClient) -> FakeMover:
    return FakeMover(plans)


def run_of(plans: PlansClient, mover: FakeMover, http: adapter.Adapter, **more: Any) -> PlanRun:
    return PlanRun(plans, mover, ProviderNames(http).root_of, **more)


def test_a_run_reaches_the_goal_and_says_what_it_does(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """It plans once more at its end, and that plan has no steps."""
    told: list[object] = []

    class Notes(Watcher):
        def tell_plan(self, plan: MadePlan, stays: Mapping[str, str]) -> None:
            told.append(len(plan.steps))

        def tell_beginning(self, step: Step) -> None:
            told.append("began")

        def tell_end(self, step: Step, failure: PlacementClientError | None) -> None:
            told.append(failure)

    done = run_of(plans, mover, http, watcher=Notes()).carry_out(rack.goal)

    assert [consumer_of(step) for step in done] == mover.moved
    assert set(mover.moved) == set(rack.servers)
    assert rack.hosts[0] not in rack.where()
    assert told == [2, "began", None, "began", None, 0]
    assert mover.looked == 2
    assert run_of(plans, mover, http).carry_out(rack.goal) == []


def test_a_plan_goes_around_what_cannot_move(
    plans: PlansClient, mover: FakeMover, rack: Rack
) -> None:
    """Any host may be emptied: not the one whose consumer stays, which is named with its reason."""
    small = rack.world.claim({rack.hosts[1]: {rack.resource_class: 1}})
    goal = {"empty": {"count": 1, "of": rack.hosts[:2]}}
    around = PlanAround(plans, mover)
    (step,) = around.make(goal).steps
    assert (consumer_of(step), around.stays) == (small, {})
    mover.obstacles[small] = "it is no server"

    plan = around.make(goal)

    assert around.stays == {small: "it is no server"}
    assert {consumer_of(step) for step in plan.steps} == set(rack.servers)


def test_a_refusal_names_all_that_stays(plans: PlansClient, mover: FakeMover, rack: Rack) -> None:
    """Also what the plan did not name, because another one was in the way first; ``except`` is kept."""
    mover.unmovable = dict.fromkeys(rack.servers, "it is suspended")
    around = PlanAround(plans, mover)
    with pytest.raises(NoPlanFound):
        around.make(rack.goal)
    assert around.stays == mover.unmovable

    mover.unmovable = {rack.servers[0]: "it is suspended"}
    with pytest.raises(NoPlanFound) as none:
        around.make(rack.goal, {"move": {"except": [rack.servers[1]]}})
    assert {each["uuid"] for each in none.value.homeless} >= {rack.servers[1]}


def test_a_place_where_nothing_can_go_is_left_out(
    plans: PlansClient, mover: FakeMover, rack: Rack
) -> None:
    """The consumers go elsewhere; where there is no other place they are named with the reason."""
    favourite = {
        step["root_provider_uuid"] for step in PlanAround(plans, mover).make(rack.goal).steps
    }
    (first, *_) = favourite
    (other,) = set(rack.hosts[1:]) - {first}
    mover.closed = {first: "no hypervisor"}
    around = PlanAround(plans, mover)

    plan = around.make(rack.goal)

    assert {step["root_provider_uuid"] for step in plan.steps} == {other}
    assert {consumer_of(step) for step in plan.steps} == set(rack.servers)
    assert (around.stays, around.left_out) == ({}, mover.closed)
    # What the caller leaves out stays so.
    with pytest.raises(NoPlanFound):
        around.make(rack.goal, {"move": {"not_to": [other]}})
    mover.closed = dict.fromkeys(rack.hosts[1:], "no hypervisor")
    with pytest.raises(NoPlanFound):
        around.make(rack.goal)
    assert around.stays
    assert set(around.stays.values()) == {"it would move there: no hypervisor"}


class Hosts:
    """Hosts that refuse consumers, and what was asked of them."""

    def __init__(self, *pairs: tuple[str, str]) -> None:
        self.pairs, self.asked = pairs, list[tuple[str, str]]()

    def refuse(self, step: Step, _: object) -> None:
        uuid, host = consumer_of(step), step["root_provider_uuid"]
        self.asked.append((uuid, host))
        if (uuid, host) in self.pairs:
            raise MoveRefused("full", consumer_uuid=uuid, destination=host)


def test_what_a_host_refuses_goes_elsewhere(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """The plan is the same each time: without the host the next one would be refused too."""
    first, second = rack.hosts[1:]
    hosts = Hosts(*((uuid, first) for uuid in rack.servers))
    mover.before = hosts.refuse

    run_of(plans, mover, http).carry_out(rack.goal)

    assert rack.where() == [second, second]
    assert len([host for _, host in hosts.asked if host == first]) <= 1


@pytest.mark.parametrize("times", [1, 2])
def test_a_host_without_which_there_is_no_plan_is_tried_again(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack, times: int
) -> None:
    """It may take another consumer, or the same one later; and the run says that it had no other."""
    told, refused = [], []

    class Notes(Watcher):
        def tell_trying_again(self) -> None:
            told.append("again")

    def refuse(step: Step, _: object) -> None:
        if len(refused) < times:
            refused.append(step)
            raise MoveRefused("full", destination=step["root_provider_uuid"])

    rack.world.claim({rack.hosts[2]: {rack.resource_class: 4}})
    mover.before = refuse
    run = run_of(plans, mover, http, watcher=Notes())
    if times == 1:
        run.carry_out(rack.goal)
        assert rack.where() == [rack.hosts[1]] * 2
        assert told == ["again"]
        return
    with pytest.raises(RunStopped, match="full") as stopped:
        run.carry_out(rack.goal)
    assert told
    assert {each.consumer_uuid for each in stopped.value.refusals} == {consumer_of(refused[0])}
    assert str(stopped.value).count("full") == 1


def test_a_refused_step_is_planned_again(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """What was refused once may be carried out the next time."""
    refused: list[str] = []

    def refuse_once(step: Step, _: object) -> None:
        if not refused:
            refused.append(consumer_of(step))
            raise MoveRefused("busy", consumer_uuid=consumer_of(step))

    mover.before = refuse_once

    done = run_of(plans, mover, http).carry_out(rack.goal)

    assert len(done) == 2
    assert refused[0] in mover.moved


def test_refusals_end_the_run_with_what_is_done_and_left(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """A consumer that is refused twice stays, and then there is no plan; the bound is not the clock."""
    stubborn = rack.servers[0]
    asked: list[str] = []

    def refuse(step: Step, _: object) -> None:
        asked.append(consumer_of(step))
        if consumer_of(step) == stubborn:
            raise MoveRefused("No valid host", consumer_uuid=stubborn)

    mover.before = refuse
    with pytest.raises(RunStopped) as stopped:
        run_of(plans, mover, http).carry_out(rack.goal)

    assert asked.count(stubborn) == 2
    assert len(asked) < PLANS
    assert stubborn in [consumer_of(step) for step in stopped.value.left]
    assert stubborn not in [consumer_of(step) for step in stopped.value.done]
    assert "No valid host" in str(stopped.value)


def test_a_goal_that_moves_away_ends_the_run(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """Somebody else fills the host again and again: a run plans so many times, and no more."""

    def fill(step: Step, _: object) -> None:
        rack.world.claim({rack.hosts[0]: {rack.resource_class: 0 + 1}})

    mover.before = fill
    for host in rack.hosts[1:]:
        rack.world.set_inventory(host, {rack.resource_class: {"total": 100}})
    rack.world.set_inventory(rack.hosts[0], {rack.resource_class: {"total": 100}})
    with pytest.raises(RunStopped, match=f"{PLANS} plans"):
        run_of(plans, mover, http).carry_out(rack.goal)
    assert mover.looked == PLANS


def test_a_stop_lets_what_is_under_way_end(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """No further step begins; run again, it goes on."""
    run = run_of(plans, mover, http)
    mover.before = lambda step, pause: run.stop()

    with pytest.raises(RunStopped, match="told to stop") as stopped:
        run.carry_out(rack.goal)

    assert (len(stopped.value.done), len(stopped.value.left), stopped.value.under_way) == (1, 1, [])
    mover.before = lambda step, pause: None
    assert len(run_of(plans, mover, http).carry_out(rack.goal)) == 1


def test_a_second_stop_leaves_what_is_under_way(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    run = run_of(plans, mover, http)

    def wait_for_ever(step: Step, pause: Callable[[float], None]) -> None:
        run.stop()
        run.stop()
        pause(ENDS_S)

    mover.before = wait_for_ever
    with pytest.raises(RunStopped) as stopped:
        run.carry_out(rack.goal)
    assert len(stopped.value.under_way) == 1
    assert (len(stopped.value.done), len(stopped.value.left)) == (0, 2)
    with pytest.raises(RunAbandoned):
        run._pause(ENDS_S)


def test_a_second_stop_leaves_a_mover_that_does_not_answer(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """Also one that is asked for what there is: nothing begins, and the caller goes on at once."""
    over = threading.Event()

    def say_nothing(*_: object) -> None:
        run.stop()
        run.stop()
        over.wait(ENDS_S)

    run = run_of(plans, mover, http)
    mover.before = say_nothing
    with pytest.raises(RunStopped, match="told to stop") as stopped:
        run.carry_out(rack.goal)
    assert stopped.value.under_way == [consumer_of(stopped.value.left[0])]
    assert mover.moved == []

    run = run_of(plans, mover, http)
    mover.read_states = say_nothing  # type: ignore[method-assign]
    with pytest.raises(RunStopped, match="told to stop") as stopped:
        run.carry_out(rack.goal)
    assert (stopped.value.done, stopped.value.left, stopped.value.under_way) == ([], (), [])
    over.set()


def test_steps_without_an_order_run_at_once(
    plans: PlansClient, mover: FakeMover, http: adapter.Adapter, rack: Rack
) -> None:
    """Two that leave one host for others wait for each other only where they are told to."""
    both = threading.Barrier(2)
    mover.before = lambda step, pause: both.wait(ENDS_S) and None
    assert len(run_of(plans, mover, http, parallel=2).carry_out(rack.goal)) == 2


def make_step(consumer: str, source: str, target: str, amount: int) -> dict[str, Any]:
    amounts = {"resources": {"VCPU": amount}}
    return {"consumer_uuid": consumer, "from": {source: amounts}, "allocations": {target: amounts}}


def test_a_step_waits_for_the_room_that_it_needs() -> None:
    """For what leaves its destination's tree, and for the step of its own consumer before."""
    steps = [
        make_step("a", "host-1", "host-2", 1),
        make_step("b", "host-3", "host-1 device", 1),
        make_step("c", "host-1", "host-2", 1),
        make_step("a", "host-2", "host-4", 1),
        {"remove": "d", "from": {"host-4": {"resources": {"VCPU": 1}}}, "allocations": {}},
        make_step("e", "host-1", "host-4", 1),
    ]
    waits_for = order_steps(steps, lambda uuid: uuid.split()[0])
    assert waits_for == [set(), {0}, set(), {0}, set(), {4}]


@pytest.mark.parametrize("seed", range(50))
def test_no_order_that_is_allowed_overfills_a_host(seed: int) -> None:
    """Any steps that fit one after another, with their sources held, fit in each order that is allowed.

    Also if each begun step holds both ends for as long as it likes.
    """
    drawn = random.Random(seed)
    total, hosts = 6, range(4)
    held = {f"c{n}": (drawn.choice(hosts), drawn.randint(1, 3)) for n in range(9)}
    used = [sum(size for host, size in held.values() if host == each) for each in hosts]
    held = {name: at for name, at in held.items() if used[at[0]] <= total}
    before = dict(held)
    steps = []
    for _ in range(60):
        if not held:
            break
        name = drawn.choice(sorted(held))
        source, size = held[name]
        target = drawn.choice([host for host in hosts if host != source])
        if sum(each for host, each in held.values() if host == target) + size <= total:
            held[name] = (target, size)
            steps.append(make_step(name, str(source), str(target), size))
    waits_for = order_steps(steps, str)
    for _ in range(20):
        _play(drawn, steps, waits_for, before, total)


def _play(
    drawn: random.Random,
    steps: list[dict[str, Any]],
    waits_for: list[set[int]],
    held: Mapping[str, tuple[int, int]],
    total: int,
) -> None:
    used: dict[str, int] = {}
    for host, size in held.values():
        used[str(host)] = used.get(str(host), 0) + size
    waiting, running, done = set(range(len(steps))), set[int](), set[int]()
    while waiting or running:
        ready = sorted(each for each in waiting if waits_for[each] <= done)
        number = drawn.choice([*ready, *sorted(running)])
        (source,), (target,) = steps[number]["from"], steps[number]["allocations"]
        size = steps[number]["from"][source]["resources"]["VCPU"]
        if number in running:
            running.remove(number)
            done.add(number)
            used[source] -= size
        else:
            waiting.remove(number)
            running.add(number)
            used[target] = used.get(target, 0) + size
            assert used[target] <= total, (steps, number)

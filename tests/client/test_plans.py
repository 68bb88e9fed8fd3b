"""The client of plans, on a real service: made, carried out, stopped, resumed (specification 10)."""

from inspect import signature
from typing import Any

import pytest
from keystoneauth1 import adapter

from placement.client import plans as module
from placement.client.plans import CarryOutStopped, MadePlan, NoPlanFound, PlansClient
from placement.extensions.plans.schemas import PLAN
from tests.client.world import World
from tests.support.world import new_uuid


@pytest.fixture
def client(http: adapter.Adapter) -> PlansClient:
    return PlansClient(http)


class Rack:
    """Three hosts of 4 VCPU, of which the first has two consumers of 2; the service has other hosts too."""

    def __init__(self, world: World) -> None:
        self.world = world
        # Its own: consumers of other hosts find no room here, nor these there.
        self.resource_class = f"CUSTOM_{new_uuid().replace('-', '').upper()}"
        self.hosts = [world.host(**{self.resource_class: 4}) for _ in range(3)]
        self.servers = [world.claim({self.hosts[0]: {self.resource_class: 2}}) for _ in range(2)]

    @property
    def goal(self) -> dict[str, Any]:
        """The first host is to be empty."""
        return {"empty": {"trees": [self.hosts[0]]}}

    def where(self) -> list[str]:
        """Return the host of each server."""
        return [host for server in self.servers for host in self.world.used(server)]


@pytest.fixture
def rack(world: World) -> Rack:
    return Rack(world)


@pytest.mark.parametrize("hold_s", [None, 60])
def test_a_plan_is_carried_out(client: PlansClient, rack: Rack, hold_s: int | None) -> None:
    """Step by step, and again without effect."""
    plan = client.make(rack.goal, hold_s=hold_s)
    assert (len(plan.steps), plan.cost, plan.minimal, plan.complete) == (2, 2, True, True)
    assert list(plan.emptied) == rack.hosts[:1]
    assert (plan.expires_at is None) == (hold_s is None)

    told: list[int] = []
    client.carry_out(plan, told.append)
    after = rack.where()
    client.carry_out(plan)

    assert told == [1, 2]
    assert after == rack.where() == [step["root_provider_uuid"] for step in plan.steps]
    assert rack.hosts[0] not in after


def test_a_refused_step_stops_it_and_the_rest_is_released(client: PlansClient, rack: Rack) -> None:
    """What was done stays done, what is left is told with what is held for it."""
    plan = client.make(rack.goal, hold_s=60)
    late = plan.steps[1]["consumer_uuid"]
    rack.world.claim({rack.hosts[0]: {rack.resource_class: 1}}, late, generation=1)

    with pytest.raises(CarryOutStopped) as stopped:
        client.carry_out(plan)

    assert (stopped.value.done, stopped.value.left) == (plan.steps[:1], plan.steps[1:])
    assert stopped.value.consumer_uuid == late
    (holder,) = stopped.value.held_by
    assert rack.world.used(holder)
    client.release(stopped.value.left)
    client.release(stopped.value.left)
    assert not rack.world.used(holder)
    rest = client.make(rack.goal)
    assert [step["consumer_uuid"] for step in rest.steps] == [late]
    client.carry_out(rest)


class Dying:
    """An adapter whose process dies after so many steps: the request arrives, and nobody reads the answer."""

    def __init__(self, connection: Any, steps: int) -> None:
        self._connection, self._left = connection, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def post(self, *arguments: Any, **more: Any) -> Any:
        answer = self._connection.post(*arguments, **more)
        if arguments[0] == "/allocations":
            self._left -= 1
            if self._left < 0:
                raise KeyboardInterrupt
        return answer


def test_it_goes_on_after_the_process_has_died(
    http: adapter.Adapter, client: PlansClient, rack: Rack
) -> None:
    """Also where the step was carried out whose answer nobody read."""
    plan = client.make(rack.goal, hold_s=60)
    for left in (0, 1):
        with pytest.raises(KeyboardInterrupt):
            PlansClient(Dying(http, left)).carry_out(plan)

    client.carry_out(plan)

    assert rack.where() == [step["root_provider_uuid"] for step in plan.steps]


def test_a_consumer_that_moves_twice_is_resumed_between(client: PlansClient, rack: Rack) -> None:
    """By the generation of each step: the first one is done where the second is, and where it is not."""
    (server, _), (first, second, third) = rack.servers, rack.hosts
    amounts = {"resources": {rack.resource_class: 2}}
    steps = [
        {
            "consumer_uuid": server,
            "consumer_generation": generation,
            "project_id": "red",
            "user_id": "ann",
            "consumer_type": "INSTANCE",
            "from": {source: amounts},
            "allocations": {target: amounts},
        }
        for generation, (source, target) in enumerate(((first, second), (second, third)), 1)
    ]
    both = MadePlan(steps, 2, 2, True, True)

    client.carry_out(MadePlan(steps[:1], 1, 1, True, True))
    client.carry_out(both)
    client.carry_out(both)

    assert rack.where()[0] == third
    rack.world.claim({third: {rack.resource_class: 1}}, server, generation=3)
    with pytest.raises(CarryOutStopped) as stopped:
        client.carry_out(both)
    assert stopped.value.done == []


def test_removals_are_carried_out(client: PlansClient, rack: Rack) -> None:
    """Once: a consumer that is gone is done."""
    may = {"move": {"consumer_types": []}, "remove": {"projects": ["red"]}}
    plan = client.make(rack.goal, may=may, cost={"remove": 2.5})
    assert (plan.cost, [step["remove"] for step in plan.steps]) == (5, rack.servers)

    client.carry_out(plan)
    client.carry_out(plan)

    assert rack.where() == []


def test_each_member_of_the_body_is_an_argument(client: PlansClient, rack: Rack) -> None:
    """``avoid`` was missing."""
    arguments = [*signature(client.make).parameters]
    assert arguments == [*PLAN.list_members(), "context"]

    plan = client.make(rack.goal, avoid=["HW_CPU_X86_AVX2"])
    assert (len(plan.steps), plan.avoid, plan.avoided) == (2, ["HW_CPU_X86_AVX2"], 0)


def test_what_is_in_the_way_is_told(client: PlansClient, rack: Rack) -> None:
    kept = {"move": {"except": rack.servers}}
    with pytest.raises(NoPlanFound) as none:
        client.make(rack.goal, may=kept)
    assert [each["uuid"] for each in none.value.homeless] == rack.servers
    assert (none.value.exact, none.value.groups, none.value.explanation) == (True, [], None)

    query = f"resources={rack.resource_class}:5"
    with pytest.raises(NoPlanFound) as none:
        client.make({"place": query})
    assert none.value.explanation is not None
    assert none.value.explanation["candidates"]["count"] == 0

    with pytest.raises(module.PlanFailed, match="goal"):
        client.make({})

"""Plans that are carried out beside others, and by clients that are killed (10 section 5).

That each step finds room, and that the goal holds after the last one, is a promise of the year.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from keystoneauth1 import adapter, session

from placement.client.plans import MadePlan, PlansClient
from tests.proofs.year import consumer_requests
from tests.support.client import Answer, Client
from tests.support.clock import let_holds_end
from tests.support.commands import FORKS
from tests.support.effort import LONG
from tests.support.processes import ENDS_S
from tests.support.racing import ARENAS, Arena, emptied, emptied_arena
from tests.support.world import World, new_uuid

RACES = 40 if LONG else 1


@pytest.fixture(params=ARENAS)
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three servers on an empty database."""
    with emptied_arena(request.param) as made:
        yield made


def fill(place: Arena, hosts: int, servers: int) -> tuple[list[str], list[str]]:
    """Make hosts for four servers each, of which the first ones are full."""
    world = World(place)
    made = [world.host(VCPU=8) for _ in range(hosts)]
    placed = [world.claim({made[n // 4]: {"VCPU": 2}}) for n in range(servers)]
    return made, placed


def carry_out_step(client: Client, step: dict[str, Any]) -> Answer:
    """Carry out a step by one request, which takes over what is held for it."""
    asked = consumer_requests.carry_out(step)
    return client.send(asked.method, asked.path, asked.body, asked.version)


def claim_for_ever(until: Callable[[], bool]) -> Callable[[Client], int]:
    """Return a client that takes whatever is free, and gives some of it back; it returns how much it got."""

    def work(client: Client) -> int:
        mine, granted = list[str](), 0
        while not until():
            claim = {
                "consumer_uuid": new_uuid(),
                "consumer_generation": None,
                "project_id": "p",
                "user_id": "u",
                "consumer_type": "RACER",
                "query": f"resources=VCPU:{random.randint(1, 2)}",
            }
            answer = client.send("POST", "/-/claims", {"claims": [claim]})
            assert answer.status in (200, 409, 503), answer
            if answer.status == 200:
                granted += 1
                mine.append(claim["consumer_uuid"])
            if len(mine) > 2 or (mine and answer.status != 200):
                client.send("DELETE", f"/allocations/{mine.pop(0)}")
        return granted

    return work


@pytest.mark.parametrize("turn", range(RACES))
def test_every_step_of_a_held_plan_is_granted_beside_claims(place: Arena, turn: int) -> None:
    """Others take all else that is free, and nothing that is held."""
    hosts, servers = fill(place, 4, 4)
    goal = {
        "goal": {"empty": {"trees": hosts[:1]}},
        "may": {"move": {"consumer_types": ["INSTANCE"]}},
    }
    ended = list[bool]()

    def work(client: Client) -> int:
        try:
            while (
                answer := client.send("POST", "/-/plans", {**goal, "hold_s": 600})
            ).status != 200:
                # The racers have all that is free: they will give some of it back.
                assert answer.code.endswith(("no_plan", "given_up")), answer
            steps = answer.json["steps"]
            for step in steps:
                time.sleep(0.01)
                granted = carry_out_step(client, step)
                assert granted.status == 204, granted
            return len(steps)
        finally:
            ended.append(True)

    racers = [claim_for_ever(lambda: bool(ended)) for _ in range(3)]
    carried, *_ = place.race([work, *racers])

    world = World(place)
    assert carried == len(servers)
    assert not [each for each in servers if hosts[0] in world.used(each)]
    assert not place.send("GET", "/-/holds").json["holds"]
    place.assert_sound()


@pytest.mark.parametrize("turn", range(RACES))
@pytest.mark.parametrize("hold", [{}, {"hold_s": 600}], ids=["advice", "over"])
def test_a_refused_step_leaves_everything_as_it_was(
    place: Arena, turn: int, hold: dict[str, int]
) -> None:
    """Without a hold, and with one that is over: racers may take the room; what was moved stays moved."""
    hosts, servers = fill(place, 3, 4)
    goal = {
        "goal": {"empty": {"trees": hosts[:1]}},
        "may": {"move": {"consumer_types": ["INSTANCE"]}},
    }
    plan = place.send("POST", "/-/plans", {**goal, **hold}).json
    if hold:
        let_holds_end(place.db)
    ended = list[bool]()

    def work(client: Client) -> dict[str, bool]:
        try:
            time.sleep(0.05)
            return {
                step["consumer_uuid"]: carry_out_step(client, step).status == 204
                for step in plan["steps"]
            }
        finally:
            ended.append(True)

    racers = [claim_for_ever(lambda: bool(ended)) for _ in range(3)]
    granted: Mapping[str, bool]
    granted, *_ = place.race([work, *racers])

    for step in plan["steps"]:
        uuid = step["consumer_uuid"]
        told = place.send("GET", f"/allocations/{uuid}").json
        shown = {key: {"resources": each["resources"]} for key, each in told["allocations"].items()}
        assert shown == step["allocations" if granted[uuid] else "from"]
        assert told["consumer_generation"] == step["consumer_generation"] + granted[uuid]
    assert not (hold and any(granted.values()))
    assert len(servers) == len(granted)
    place.assert_sound()


# -- killed in the middle ------------------------------------------------------------------------


def make_client(port: int) -> PlansClient:
    return PlansClient(
        adapter.Adapter(
            session.Session(),
            service_type="placement",
            endpoint_override=f"http://127.0.0.1:{port}",
            additional_headers={"X-Auth-Token": "admin", "X-Roles": "admin,service"},
        )
    )


def carry_out(port: int, plan: MadePlan, told: Any) -> None:
    make_client(port).carry_out(plan, told.send)


@pytest.mark.parametrize("turn", range(RACES))
def test_a_plan_goes_on_after_whoever_carried_it_out_was_killed(place: Arena, turn: int) -> None:
    """Wherever that was: each step is taken once, and nothing is held in the end."""
    place = emptied(place)
    hosts, servers = fill(place, 8, 16)
    goal = {"empty": {"count": 4, "of": hosts[:4]}}
    plan = make_client(place.ports[0]).make(goal, hold_s=600)
    assert (len(plan.steps), plan.minimal) == (len(servers), True)
    for killed in range(3):
        ours, its_own = FORKS.Pipe(duplex=False)
        carrier = FORKS.Process(target=carry_out, args=(place.ports[killed], plan, its_own))
        carrier.start()
        while ours.poll(ENDS_S) and ours.recv() < random.randint(1, 5) * (killed + 1):
            pass
        time.sleep(random.uniform(0, 0.02))
        carrier.kill()
        carrier.join(ENDS_S)

    make_client(place.ports[0]).carry_out(plan)

    for step in plan.steps:
        told = place.send("GET", f"/allocations/{step['consumer_uuid']}").json
        assert [*told["allocations"]] == [*step["allocations"]]
        assert told["consumer_generation"] == step["consumer_generation"] + 1
    assert not place.send("GET", "/-/holds").json["holds"]
    place.assert_sound()

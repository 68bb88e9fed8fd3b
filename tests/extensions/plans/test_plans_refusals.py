"""Plans that are refused: what is said, and who is named (specification 10 section 2.6)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World, new_uuid


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with running(request.param, insight__enabled=True) as made:
        yield made


def make(service: Service, goal: dict[str, Any], **more: Any) -> Any:
    body = {"goal": goal, **more}
    answer = service.request("POST", "/-/plans", json=body, version="1.39")
    assert answer.status_int == 200, answer.text
    return answer.json


def refuse(service: Service, goal: dict[str, Any], status: int, **more: Any) -> Any:
    body = {"goal": goal, **more}
    answer = service.request("POST", "/-/plans", json=body, version="1.39")
    assert answer.status_int == status, answer.text
    return answer.json["errors"][0]


def test_a_refusal_says_how_many_steps_were_allowed(service: Service) -> None:
    """A plan of more steps than may be held was "There is none", as if nothing could be done."""
    service.conf.set_override("claims_most", 2, "insight")
    world = World(service)
    host = world.host(VCPU=4)
    world.host(VCPU=8)
    for _ in range(3):
        world.claim({host: {"VCPU": 1}})
    goal = {"empty": {"trees": [host]}}
    takes_three = " steps ({}): it takes 3 steps at least."

    held = refuse(service, goal, 409, hold_s=60)
    few = refuse(service, goal, 409, may={"move": {"most": 1}})
    room = refuse(service, {"place": "resources=VCPU:9"}, 409, may={"move": {"most": 1}})

    for refusal, sentence in (
        (held, "There is none of at most 2" + takes_three.format("[insight]/claims_most")),
        (few, "There is none of at most 1" + takes_three.format("may.move.most")),
        (room, "There is none of at most 1 steps (may.move.most)."),
    ):
        assert refusal["exact"] and sentence in refusal["detail"], refusal
    assert len(make(service, goal)["steps"]) == 3


def test_all_are_named_that_cannot_leave(service: Service) -> None:
    """Two that no other tree could take even if it were empty, also beside one that may not move."""
    world = World(service)
    host, other = world.host(VCPU=16, VGPU=4), world.host(VCPU=4)
    excepted, small = (world.claim({host: {"VCPU": 2}}) for _ in range(2))
    large, special = world.claim({host: {"VCPU": 6}}), world.claim({host: {"VCPU": 1, "VGPU": 1}})
    world.claim({other: {"VCPU": 4}})
    goal = {"empty": {"trees": [host]}}

    def stuck(**may: Any) -> list[str]:
        refusal = refuse(service, goal, 409, may=may)
        assert refusal["exact"]
        return [each["uuid"] for each in refusal["homeless"]]

    drained = service.request(
        *("POST", "/-/what-if"),
        json={"changes": [{"drain": host}], "query": "resources=VCPU:1"},
        version="1.39",
    )
    homeless = {each["uuid"] for each in drained.json["homeless"]}

    assert set(stuck(move={"except": [excepted]})) == {excepted, large, special}
    assert {large, special} <= set(stuck()) <= homeless == {excepted, small, large, special}
    # What may be removed can leave.
    assert stuck(move={"except": [excepted]}, remove={"consumer_types": ["INSTANCE"]}) == [excepted]


def test_nobody_is_said_to_stay_where_each_could_leave_but_not_all(service: Service) -> None:
    """The one that found no room in one of the attempts was named, and could be moved at once."""
    world = World(service)
    host = world.host(VCPU=8)
    world.host(VCPU=2)
    for amount in (2, 1):
        world.claim({host: {"VCPU": amount}})

    refusal = refuse(service, {"empty": {"trees": [host]}}, 409)

    assert refusal["exact"]
    assert refusal["homeless"] == []


def test_consumers_without_a_type_are_named_as_in_answers(service: Service) -> None:
    """The type ``unknown`` of a step was refused in the question."""
    world, old = World(service), new_uuid()
    host = world.host(VCPU=4)
    world.host(VCPU=8)
    typed = world.claim({host: {"VCPU": 1}})
    body = {
        **{"project_id": "p", "user_id": "u", "consumer_generation": None},
        "allocations": {host: {"resources": {"VCPU": 1}}},
    }
    written = service.request("PUT", f"/allocations/{old}", json=body, version="1.36")
    assert written.status_int == 204, written.text
    goal = {"empty": {"trees": [host]}}

    def stuck(types: list[str]) -> list[str]:
        may = {"move": {"consumer_types": types}}
        return [each["uuid"] for each in refuse(service, goal, 409, may=may)["homeless"]]

    assert stuck(["unknown"]) == [typed]
    assert stuck(["INSTANCE"]) == [old]
    gone = {"consumer_types": ["unknown"]}
    move = {"consumer_types": ["INSTANCE"]}
    steps = make(service, goal, may={"move": move, "remove": gone})["steps"]
    types = {step.get("remove"): step["consumer_type"] for step in steps}
    assert types == {None: "INSTANCE", old: "unknown"}
    for wrong in ("unknowns", "Unknown", "instance"):
        refuse(service, goal, 400, may={"move": {"consumer_types": [wrong]}})


def test_more_trees_to_be_empty_than_there_are_are_counted(service: Service) -> None:
    """The refusal said only that there is no plan, with nothing in the way."""
    world = World(service)
    for _ in range(3):
        world.host(VCPU=4)

    refusal = refuse(service, {"empty": {"count": 4}}, 409)

    assert refusal["exact"]
    assert "There is none: the number of trees to be empty is 4, of 3 in all." in refusal["detail"]

"""Plans: what is read, answered and held, on each kind of database (specification 10)."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import webob

from placement.db import invariants
from placement.extensions.claims import writing
from placement.extensions.plans import ledger
from placement.extensions.plans import service as plans_service
from placement.extensions.plans.planning import plan as planning
from placement.extensions.plans.planning.plan import WHOLE, make_plan
from placement.search.cloud import Cloud
from placement.search.records import CloudRows
from placement.web import search_bounds
from tests.support.clock import let_holds_end
from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World, new_uuid


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with what is under /-/, on an empty database, which is sound at the end."""
    with running(request.param, insight__enabled=True) as made:
        yield made
        assert invariants.violations(made.db) == []


def ask(service: Service, goal: dict[str, Any], **more: Any) -> webob.Response:
    return service.request("POST", "/-/plans", json={"goal": goal, **more}, version="1.39")


def make(service: Service, goal: dict[str, Any], **more: Any) -> Any:
    answer = ask(service, goal, **more)
    assert answer.status_int == 200, answer.text
    return answer.json


def refuse(service: Service, goal: dict[str, Any], status: int, **more: Any) -> Any:
    answer = ask(service, goal, **more)
    assert answer.status_int == status, answer.text
    return answer.json["errors"][0]


def carry_out(service: Service, step: dict[str, Any]) -> webob.Response:
    """Send one step by plain requests, as chapter 10 sections 5 and 6 say."""
    owner = {name: step[name] for name in ("project_id", "user_id", "consumer_type")}
    mine = {**owner, "consumer_generation": step["consumer_generation"], "allocations": {}}
    consumers = {step.get("remove") or step["consumer_uuid"]: mine}
    if "allocations" in step:
        mine |= {"allocations": step["allocations"], "mappings": step["mappings"]}
    if "held_by" in step:
        held_by = {**owner, "consumer_type": "MIGRATION", **step["held_by"], "allocations": {}}
        consumers[held_by.pop("consumer_uuid")] = held_by
    return service.request("POST", "/allocations", json=consumers, version="1.39")


def test_what_stands_in_the_way_moves(service: Service) -> None:
    """Two halves of two hosts are free; one server moves, and a large one fits."""
    world = World(service)
    first, second = world.host(VCPU=4), world.host(VCPU=4)
    small = [world.claim({host: {"VCPU": 2}}) for host in (first, second)]
    goal = {"place": "resources=VCPU:4"}

    plan = make(service, goal)

    (step,) = plan["steps"]
    other = {first: second, second: first}
    ((source, left),) = step["from"].items()
    assert step["consumer_uuid"] in small
    assert left == {"resources": {"VCPU": 2}}
    assert step["allocations"] == {other[source]: left}
    assert step["mappings"] == {"_1": [other[source]]}
    assert step["root_provider_uuid"] == other[source]
    assert (step["consumer_generation"], step["consumer_type"]) == (1, "INSTANCE")
    assert (plan["cost"], plan["lower_bound"], plan["minimal"]) == (1, 1, True)
    assert plan["placed"] == [
        {
            "allocations": {source: {"resources": {"VCPU": 4}}},
            "mappings": {"": [source]},
            "root_provider_uuid": source,
        }
    ]
    assert carry_out(service, step).status_int == 204
    done = make(service, goal)
    assert (done["steps"], done["cost"], done["minimal"]) == ([], 0, True)


def test_what_stays_in_other_trees_is_part_of_a_step(service: Service) -> None:
    """A disk on a pool that shares is in the allocations to send, and no part of what leaves."""
    world = World(service)
    group = new_uuid()
    host, target = [world.provider(inventory={"VCPU": 4}, aggregates=[group]) for _ in range(2)]
    shares = ["MISC_SHARES_VIA_AGGREGATE"]
    pool = world.provider(inventory={"DISK_GB": 9}, traits=shares, aggregates=[group])
    server = world.claim({host: {"VCPU": 2}, pool: {"DISK_GB": 3}})

    plan = make(service, {"empty": {"trees": [host]}})

    (step,) = plan["steps"]
    assert plan["emptied"] == [host]
    assert step["from"] == {host: {"resources": {"VCPU": 2}}}
    assert step["allocations"] == {
        target: {"resources": {"VCPU": 2}},
        pool: {"resources": {"DISK_GB": 3}},
    }
    assert carry_out(service, step).status_int == 204
    assert world.used(server) == {target: {"VCPU": 2}, pool: {"DISK_GB": 3}}


def test_any_provider_names_its_tree(service: Service) -> None:
    world = World(service)
    host, target = world.host(VCPU=4), world.host(VCPU=4)
    node = world.provider(None, host, {"VGPU": 2})
    world.claim({host: {"VCPU": 1}})

    plan = make(service, {"empty": {"trees": [node, host]}})

    assert plan["emptied"] == [host]
    assert [step["root_provider_uuid"] for step in plan["steps"]] == [target]


def test_any_of_many_domains_are_emptied(service: Service) -> None:
    """Of trees, or of aggregates: those that cost least."""
    world = World(service)
    racks = [new_uuid(), new_uuid()]
    hosts = [
        world.provider(inventory={"VCPU": 4}, aggregates=[rack]) for rack in racks for _ in range(2)
    ]
    servers = [world.claim({host: {"VCPU": 1}}) for host in (hosts[0], hosts[0], hosts[2])]

    one = make(service, {"empty": {"count": 1, "of": [hosts[0], hosts[2]]}})
    two = make(service, {"empty": {"count": 2}})
    rack = make(service, {"empty": {"count": 1, "level": "aggregate"}})

    assert one["emptied"] == [hosts[2]]
    assert [step["consumer_uuid"] for step in one["steps"]] == servers[2:]
    assert (sorted(two["emptied"]), two["steps"]) == (sorted([hosts[1], hosts[3]]), [])
    assert rack["emptied"] == [racks[1]]
    assert [step["root_provider_uuid"] in hosts[:2] for step in rack["steps"]] == [True]


def test_who_may_move_and_who_may_go(service: Service) -> None:
    """By type, project and name; what Nova holds for a migration never moves by itself."""
    world = World(service)
    host = world.host(VCPU=4)
    world.host(VCPU=8)
    server = world.claim({host: {"VCPU": 1}})
    job = world.claim({host: {"VCPU": 1}}, consumer_type="JOB", project_id="batch")
    goal = {"empty": {"trees": [host]}}

    def touched(**may: Any) -> dict[str, str]:
        steps = make(service, goal, may=may)["steps"]
        return {
            step.get("remove") or step["consumer_uuid"]: "move"
            if "allocations" in step
            else "remove"
            for step in steps
        }

    no_moves = {"consumer_types": []}
    assert touched() == {server: "move", job: "move"}
    go = {"consumer_types": ["JOB"]}
    assert touched(move={"consumer_types": ["INSTANCE"]}, remove=go) == {
        server: "move",
        job: "remove",
    }
    assert (
        touched(move={"consumer_types": ["INSTANCE"]}, remove={"projects": ["batch"]})[job]
        == "remove"
    )
    both = {"consumer_types": ["JOB", "INSTANCE"], "projects": ["batch", "red"]}
    assert touched(move=no_moves, remove=both) == {server: "remove", job: "remove"}

    def stuck(**may: Any) -> set[str]:
        error = refuse(service, goal, 409, may=may)
        assert error["code"] == "placement.no_plan"
        return {each["uuid"] for each in error["homeless"]}

    assert stuck(move=no_moves) == {server, job}
    assert stuck(move={"except": [job]}) == {job}
    neither = {"consumer_types": ["JOB"], "projects": ["red"]}
    assert stuck(move={"consumer_types": ["INSTANCE"]}, remove=neither) == {job}
    migrating = world.claim({host: {"VCPU": 1}}, consumer_type="MIGRATION")
    assert stuck() == {migrating}


def test_nothing_moves_to_hosts_out_of_service(service: Service) -> None:
    """Nor to those that have another trait which is named instead."""
    world = World(service)
    host = world.provider(inventory={"VCPU": 4})
    disabled = world.provider(inventory={"VCPU": 4}, traits=["COMPUTE_STATUS_DISABLED"])
    reserved = world.provider(inventory={"VCPU": 4}, traits=["HW_CPU_X86_AVX2"])
    world.claim({host: {"VCPU": 2}})
    goal = {"empty": {"trees": [host]}}

    def target(*avoided: str) -> str:
        (step,) = make(service, goal, may={"move": {"avoid": list(avoided)}})["steps"]
        return str(step["root_provider_uuid"])

    assert make(service, goal)["steps"][0]["root_provider_uuid"] == reserved
    assert target("HW_CPU_X86_AVX2", "CUSTOM_UNKNOWN") == disabled
    error = refuse(
        service, goal, 409, may={"move": {"avoid": ["HW_CPU_X86_AVX2", "COMPUTE_STATUS_DISABLED"]}}
    )
    assert error["exact"] is True


def test_nothing_moves_to_trees_that_the_request_names(service: Service) -> None:
    """By any of their providers; a uuid that no provider has is no error, and a goal may be placed there."""
    world = World(service)
    host, other, third = (world.provider(inventory={"VCPU": 4}) for _ in range(3))
    device = world.provider(parent=other, inventory={"VGPU": 1})
    world.claim({host: {"VCPU": 2}})
    goal = {"empty": {"trees": [host]}}

    def target(*uuids: str) -> str:
        (step,) = make(service, goal, may={"move": {"not_to": list(uuids)}})["steps"]
        return str(step["root_provider_uuid"])

    assert target(device, new_uuid()) == third
    assert target(third.upper().replace("-", "")) == other
    error = refuse(service, goal, 409, may={"move": {"not_to": [device, third]}})
    assert (error["exact"], error["avoided"]) == (True, 0)
    everywhere = {"move": {"not_to": [host, other, third]}}
    placed = make(service, {"place": "resources=VCPU:4,VGPU:1"}, may=everywhere)["placed"]
    assert [each["root_provider_uuid"] for each in placed] == [other]
    for given in (["host"], [new_uuid()] * 1001):
        refuse(service, goal, 400, may={"move": {"not_to": given}})


def test_reading_the_cloud_takes_no_time_from_the_first_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that has just started reads it for so long as no plan may take, by a clock of its own."""
    seconds = [0.0]
    load = Cloud.load

    def load_slowly(rows: CloudRows) -> Cloud:
        seconds[0] += 1000
        return load(rows)

    monkeypatch.setattr(search_bounds, "monotonic", lambda: seconds[0])
    with running(insight__enabled=True, api__search_deadline=5) as service:
        world = World(service)
        first, second = world.host(VCPU=4), world.host(VCPU=4)
        for host in (first, second):
            world.claim({host: {"VCPU": 2}})
        monkeypatch.setattr(Cloud, "load", load_slowly)

        plans = [make(service, {"place": "resources=VCPU:4"}) for _ in range(2)]

    assert seconds == [1000]
    for plan in plans:
        assert (len(plan["steps"]), plan["minimal"], plan["complete"]) == (1, True, True)


def test_members_that_may_not_move_are_not_brought_together(service: Service) -> None:
    """What is excepted, or of a type that may not be moved, stays, whatever the rule asks for."""
    world = World(service)
    first, second = world.host(VCPU=4), world.host(VCPU=4)
    claim = {"consumer_generation": None, "project_id": "p", "user_id": "u", "groups": ["g"]}
    claim |= {"consumer_type": "INSTANCE", "query": "resources=VCPU:1"}
    members = [new_uuid(), new_uuid()]
    claims = [{**claim, "consumer_uuid": uuid} for uuid in members]
    body = {"claims": claims, "groups": {"g": {"rule": "together"}}}
    assert service.request("POST", "/-/claims", json=body).status_int == 200
    strays: dict[str, Any] = {"allocations": {}, "consumer_generation": 1}
    strays |= {name: claim[name] for name in ("project_id", "user_id", "consumer_type")}
    other = second if world.used(members[0]) == {first: {"VCPU": 1}} else first
    strays["allocations"] = {other: {"resources": {"VCPU": 1}}}
    url = f"/allocations/{members[0]}"
    assert service.request("PUT", url, json=strays, version="1.39").status_int == 204
    goal = {"keep": ["g"]}

    for move in ({"except": members}, {"consumer_types": []}, {"consumer_types": ["JOB"]}):
        assert refuse(service, goal, 409, may={"move": move})["exact"] is True
    assert len(make(service, goal)["steps"]) == 1


def test_a_member_on_two_hosts_makes_room_for_another(service: Service) -> None:
    """Moving the two others, which cost less, finds only one host that has no member."""
    world = World(service)
    hosts = [world.host(VCPU=4) for _ in range(3)]
    claim = {"consumer_generation": None, "project_id": "p", "user_id": "u", "groups": ["g"]}
    claim |= {"consumer_type": "INSTANCE", "query": "resources=VCPU:1"}
    members = [new_uuid() for _ in range(3)]
    body: dict[str, Any] = {"claims": [{**claim, "consumer_uuid": uuid} for uuid in members]}
    body["groups"] = {"g": {"rule": "apart"}}
    assert service.request("POST", "/-/claims", json=body).status_int == 200
    for uuid, places in zip(members, (hosts[1:], hosts[2:], hosts[2:]), strict=True):
        world.claim({host: {"VCPU": 1} for host in places}, uuid, generation=1)

    plan = make(service, {"keep": ["g"]})

    assert len(plan["steps"]) == 2
    for step in plan["steps"]:
        world.claim(
            {host: held["resources"] for host, held in step["allocations"].items()},
            step["consumer_uuid"],
            generation=step["consumer_generation"],
        )
    assert make(service, {"keep": ["g"]})["steps"] == []


def test_a_removal_is_a_write_of_nothing(service: Service) -> None:
    world = World(service)
    host = world.host(VCPU=4)
    job = world.claim({host: {"VCPU": 3}})

    plan = make(
        service,
        {"place": "resources=VCPU:4"},
        may={"move": {"consumer_types": []}, "remove": {"consumer_types": ["INSTANCE"]}},
        cost={"remove": 3},
    )

    (step,) = plan["steps"]
    assert (step["remove"], step["from"]) == (job, {host: {"resources": {"VCPU": 3}}})
    assert (plan["cost"], "allocations" in step) == (3, False)
    assert carry_out(service, step).status_int == 204
    assert world.used(job) == {}


def test_a_held_consumer_stays(service: Service) -> None:
    """A step would end its hold, and what was held would stay for good."""
    world = World(service)
    host = world.host(VCPU=4)
    claim = {
        "consumer_uuid": new_uuid(),
        "consumer_generation": None,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "query": "resources=VCPU:2",
    }
    body = {"claims": [claim], "hold_s": 900}
    assert service.request("POST", "/-/claims", json=body).status_int == 200
    world.host(VCPU=4)
    goal = {"empty": {"trees": [host]}}

    error = refuse(service, goal, 409, may={"remove": {"consumer_types": ["INSTANCE"]}})

    assert [each["uuid"] for each in error["homeless"]] == [claim["consumer_uuid"]]
    let_holds_end(service.db)
    assert make(service, goal)["steps"] == []


def test_destinations_are_held_until_each_step(service: Service) -> None:
    """Others cannot take them; each step is one POST, and afterwards nothing of the plan is left."""
    world = World(service)
    host, target = world.host(VCPU=4), world.host(VCPU=4)
    servers = [world.claim({host: {"VCPU": 2}}, project_id=f"p{n}") for n in range(2)]

    plan = make(service, {"empty": {"trees": [host]}}, hold_s=900)

    shown = service.request("GET", "/-/holds").json["holds"]
    assert {each["consumer_uuid"]: each["consumer_generation"] for each in shown} == {
        step["held_by"]["consumer_uuid"]: step["held_by"]["consumer_generation"]
        for step in plan["steps"]
    }
    assert {each["consumer_type"] for each in shown} == {"MIGRATION"}
    assert {each["expires_at"] for each in shown} == {plan["hold"]["expires_at"]}
    assert sorted(each["project_id"] for each in shown) == ["p0", "p1"]
    search = service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")
    assert search.json["allocation_requests"] == []
    for step in plan["steps"]:
        assert carry_out(service, step).status_int == 204
    assert world.used(servers[0]) == world.used(servers[1]) == {target: {"VCPU": 2}}
    assert service.request("GET", "/-/holds").json["holds"] == []
    assert world.usages(host) == {"VCPU": 0}


@pytest.mark.parametrize("is_room_taken", [True, False], ids=["", "nobody looked"])
def test_a_step_whose_hold_is_over_is_refused(service: Service, is_room_taken: bool) -> None:
    """By the generation of the consumer that held; everything is as it was, and the room is free."""
    world = World(service)
    host, target = world.host(VCPU=4), world.host(VCPU=4)
    server = world.claim({host: {"VCPU": 2}})
    (step,) = make(service, {"empty": {"trees": [host]}}, hold_s=900)["steps"]
    let_holds_end(service.db)
    if is_room_taken:
        world.claim({target: {"VCPU": 4}})

    answer = carry_out(service, step)

    assert answer.status_int == 409
    assert answer.json["errors"][0]["code"] == "placement.concurrent_update"
    assert world.used(server) == {host: {"VCPU": 2}}


def test_room_of_a_hold_that_is_over_is_given_back_as_before(service: Service) -> None:
    """By a write that leaves its consumer nothing, and gives nobody anything."""
    world = World(service)
    host, target = world.host(VCPU=4), world.host(VCPU=4)
    world.claim({host: {"VCPU": 2}})
    (step,) = make(service, {"empty": {"trees": [host]}}, hold_s=900)["steps"]
    let_holds_end(service.db)
    holder = {"project_id": "p", "user_id": "u", "consumer_type": "MIGRATION", "allocations": {}}
    holder["consumer_generation"] = step["held_by"]["consumer_generation"]

    body = {step["held_by"]["consumer_uuid"]: holder}

    assert service.request("POST", "/allocations", json=body, version="1.39").status_int == 204
    assert world.usages(target) == {"VCPU": 0}


def test_a_plan_without_moves_holds_nothing(service: Service) -> None:
    host = World(service).host(VCPU=4)

    assert "hold" not in make(service, {"empty": {"trees": [host]}}, hold_s=900)
    assert service.request("GET", "/-/holds").json["holds"] == []


def test_an_overtaken_plan_is_made_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another takes the destination between the plan and its hold: it goes elsewhere, or is refused."""
    world = World(service)
    host, *targets = [world.host(VCPU=2) for _ in range(3)]
    world.claim({host: {"VCPU": 2}})
    write, taken = writing._write, []

    def overtake(tx: Any, order: Any, chosen: Any) -> Any:
        if order.hold_s and len(taken) < len(targets):
            monkeypatch.setattr(writing, "_write", write)
            (place,) = chosen.assigned
            taken.append(place.root_provider_uuid)
            monkeypatch.setattr(writing, "_write", overtake)
            raise writing.Overtaken
        return write(tx, order, chosen)

    monkeypatch.setattr(writing, "_write", overtake)
    (step,) = make(service, {"empty": {"trees": [host]}}, hold_s=900)["steps"]

    assert (len(taken), "held_by" in step) == (2, True)


def test_whoever_is_always_overtaken_is_told_so_at_the_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After, and nothing is written. Each look at the clock takes a tenth of a second."""

    def lose(*_: Any, **__: Any) -> None:
        raise writing.Overtaken

    world = World(service)
    host, _ = world.host(VCPU=4), world.host(VCPU=4)
    world.claim({host: {"VCPU": 2}})
    monkeypatch.setattr(writing, "_write", lose)
    monkeypatch.setattr(search_bounds, "monotonic", itertools.count(0, 0.1).__next__)

    answer = ask(service, {"empty": {"trees": [host]}}, hold_s=900)

    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json["errors"][0]["reason"] == "claims_given_up"
    assert service.request("GET", "/-/holds").json["holds"] == []


def test_a_plan_to_hold_may_be_looked_for_until_the_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 came when half of the time was over: the other half was for holding what was not found."""
    host, reserves = World(service).host(VCPU=4), list[float]()

    def note(*asked: Any) -> Any:
        reserves.append(asked[-1].reserve_s)
        return make_plan(*asked)

    monkeypatch.setattr(plans_service, "make_plan", note)

    make(service, {"empty": {"trees": [host]}}, hold_s=900)

    assert reserves == [0.0]


def test_to_hold_needs_the_rule_of_claims_too(tmp_path: Path) -> None:
    """Whoever may ask may not therefore take room."""
    policy = tmp_path / "policy.yaml"
    policy.write_text('"placement:insight:plans": "role:reader"\n')
    with running(insight__enabled=True, oslo_policy__policy_file=str(policy)) as service:
        host = World(service).host(VCPU=4)
        body = {"goal": {"empty": {"trees": [host]}}}

        def status(role: str, **more: Any) -> tuple[int, str]:
            answer = service.request(
                "POST", "/-/plans", json={**body, **more}, x_auth_token="x", x_roles=role
            )
            return answer.status_int, answer.text

        assert status("reader")[0] == status("reader,service", hold_s=9)[0] == 200
        assert status("service")[0] == 403
        refused, text = status("reader", hold_s=9)
        assert (refused, "placement:claims:create" in text) == (403, True)


def test_what_fits_nowhere_is_refused_where_not_all_was_read(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more consumers than are in a programme whole, none is in its way: it has no variable."""
    monkeypatch.setattr(ledger, "MOST_READ", 1)
    monkeypatch.setattr(ledger, "MOST_PROVIDERS", 1)
    world = World(service)
    for host in (world.host(VCPU=100), world.host(VCPU=100)):
        for _ in range(WHOLE + 1):
            world.claim({host: {"VCPU": 1}})

    refusal = refuse(service, {"place": "resources=VCPU:101"}, 409)

    assert not refusal["exact"], refusal


def test_domains_that_were_passed_through_are_given_up(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of three racks, each of which is refused at once: for all of them it was not certain after 5 s."""
    monkeypatch.setattr(planning, "MOST_STATES", 200)
    world, racks = World(service), [new_uuid() for _ in range(3)]
    a, b, c = racks
    host = world.provider(None, None, {"VCPU": 7, "DISK_GB": 3}, (), racks)
    world.provider(None, host, {"DISK_GB": {"total": 6, "max_unit": 4}})
    second = world.provider(None, None, {"VCPU": 12, "DISK_GB": 8}, (), [a])
    third = world.provider(None, None, {"VCPU": 6}, (), [b, c])
    node = world.provider(None, third, {"DISK_GB": 6}, (), [c])
    fourth = world.provider(None, None, {"VCPU": {"total": 8, "step_size": 2}, "DISK_GB": 4}, (), [b, c])
    pool = world.provider(None, None, {"DISK_GB": 13}, ["MISC_SHARES_VIA_AGGREGATE"], [c])
    members = [(new_uuid(), 3, second), (new_uuid(), 2, fourth)]
    for uuid, cores, where in members:
        claim = {
            **{"consumer_uuid": uuid, "consumer_generation": None, "groups": ["g"]},
            **{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"},
            "query": f"resources=VCPU:{cores}&in_tree={where}",
        }
        rule = {"rule": "apart", "level": "aggregate", "of": [a, b], "at_most": 1}
        body = {"claims": [claim], "groups": {"g": rule}}
        answer = service.request("POST", "/-/claims", json=body, version="1.39")
        assert answer.status_int == 200, answer.text
    # A plain write breaks the rule.
    world.claim({second: {"VCPU": 2}}, members[1][0], generation=1)
    world.claim({fourth: {"VCPU": 2}})
    world.claim({third: {"VCPU": 2}, node: {"DISK_GB": 1}, pool: {"DISK_GB": 3}})

    refusal = refuse(service, {"empty": {"count": 1, "level": "aggregate"}}, 409)

    assert refusal["exact"], refusal


def test_a_cost_of_a_class_that_does_not_exist_is_refused(service: Service) -> None:
    """A misspelt one would make the plan another one without a word; one that nothing has is no fault."""
    host = World(service).host(VCPU=4)
    goal = {"empty": {"trees": [host]}}

    refusal = refuse(service, goal, 400, cost={"per_unit": {"VCPU": 1, "VCPUS": 1}})
    assert (refusal["reason"], refusal["field"]) == (
        "unknown_resource_class",
        "/cost/per_unit/VCPUS",
    )
    assert "VCPUS" in refusal["detail"]
    assert refusal["near"] == ["VCPU"]
    make(service, goal, cost={"per_unit": {"PGPU": 1}})

"""Trees that take nothing new: one notion in all that is served under /-/ (specification 07 section 1.1)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import webob
from prometheus_client.parser import text_string_to_metric_families

from placement.extensions.claims import service as service_of_claims
from placement.extensions.claims import shortcuts, writing
from placement.extensions.claims.orders import Claim, Granted, Order
from placement.objects.picture import Picture
from placement.placing.remedies import RelaxableRequest
from placement.search.request import CandidateRequest, Group
from placement.search.work import Work
from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

DISABLED, SHARES = "COMPUTE_STATUS_DISABLED", "MISC_SHARES_VIA_AGGREGATE"
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
FOUR = "resources=VCPU:4"


class ThreeHosts:
    """Hosts of 16: two full of servers of 4, and an empty one that is disabled."""

    def __init__(self, service: Service) -> None:
        self.service, self.world = service, World(service)
        self.first, self.second = (self.world.host(VCPU=16) for _ in range(2))
        self.disabled = self.world.provider("off", None, {"VCPU": 16}, [DISABLED])
        for host in (self.first, self.second):
            for _ in range(4):
                self.world.claim({host: {"VCPU": 4}})

    def what_if(self, *changes: Any, query: str = FOUR, **more: Any) -> Any:
        body = {"changes": [*changes], "query": query, **more}
        answer = self.service.request("POST", "/-/what-if", json=body)
        assert answer.status_int == 200, answer.text
        return answer.json

    def plan(self, goal: dict[str, Any], **more: Any) -> webob.Response:
        return self.service.request("POST", "/-/plans", json={"goal": goal, **more})

    def claim(
        self, query: str = FOUR, more: dict[str, Any] | None = None, **own: Any
    ) -> webob.Response:
        one = {"consumer_uuid": new_uuid(), "consumer_generation": None, **OWNER, **own}
        one |= {} if "queries" in own else {"query": query}
        return self.service.request("POST", "/-/claims", json={"claims": [one], **(more or {})})

    def get(self, path: str) -> Any:
        answer = self.service.request("GET", path, version="1.39")
        assert answer.status_int == 200, answer.text
        return answer.json


@pytest.fixture
def hosts() -> Iterator[ThreeHosts]:
    with running(insight__enabled=True) as service:
        yield ThreeHosts(service)


# -- what-if -------------------------------------------------------------------------------------


def test_a_drain_moves_nothing_to_a_disabled_host(hosts: ThreeHosts) -> None:
    told = hosts.what_if({"drain": hosts.first})
    assert (len(told["homeless"]), told["avoided"]) == (4, 1)
    assert [told[side]["capacity"]["count"] for side in ("before", "after")] == [0, 0]


def test_a_request_may_lift_it_or_name_other_traits(hosts: ThreeHosts) -> None:
    for avoid, homeless, avoided in (
        ([], 0, 0),
        (["HW_CPU_X86_AVX2", "CUSTOM_NOBODY_HAS_IT"], 0, 0),
        ([DISABLED, "CUSTOM_NOBODY_HAS_IT"], 4, 1),
    ):
        told = hosts.what_if({"drain": hosts.first}, avoid=avoid)
        assert (len(told["homeless"]), told["avoided"]) == (homeless, avoided), avoid
    many = hosts.service.request(
        "POST", "/-/what-if", json={"changes": [], "query": FOUR, "avoid": ["T"] * 101}
    )
    assert many.status_int == 400


def test_servers_on_a_disabled_host_count_and_leave_it(hosts: ThreeHosts) -> None:
    server = hosts.world.claim({hosts.disabled: {"VCPU": 16}})
    (lost,) = hosts.what_if({"drain": hosts.disabled})["homeless"]
    assert lost["uuid"] == server
    hosts.world.host(VCPU=16)
    assert hosts.what_if({"drain": hosts.disabled})["homeless"] == []


def test_what_if_places_nothing_there(hosts: ThreeHosts) -> None:
    told = hosts.what_if({"place": FOUR, "times": 2})
    assert told["placed"] == [{"asked": 2, "placed": 0}]
    told = hosts.what_if({"place": FOUR, "times": 2}, avoid=[])
    assert told["placed"] == [{"asked": 2, "placed": 2}]


def test_a_change_of_traits_opens_and_closes_a_host(hosts: ThreeHosts) -> None:
    told = hosts.what_if({"traits": {hosts.disabled: []}}, {"drain": hosts.first})
    assert (told["homeless"], told["avoided"]) == ([], 1)
    assert told["before"]["capacity"]["count"] == 0
    freed = hosts.what_if({"traits": {hosts.disabled: []}})
    assert freed["after"]["capacity"]["count"] == 4
    third = hosts.world.host(VCPU=16)
    told = hosts.what_if({"traits": {third: [DISABLED]}}, {"drain": hosts.first})
    assert len(told["homeless"]) == 4


def test_a_removed_consumer_leaves_no_room_on_a_disabled_host(hosts: ThreeHosts) -> None:
    server = hosts.world.claim({hosts.disabled: {"VCPU": 16}})
    told = hosts.what_if({"remove": server}, {"drain": hosts.first})
    assert len(told["homeless"]) == 4
    assert told["after"]["capacity"]["count"] == 0


def test_the_root_decides_and_not_a_child(hosts: ThreeHosts) -> None:
    """A trait of a device disables no host, and one of the root disables the device."""
    world = hosts.world
    open_host = world.host(VCPU=16)
    world.provider(None, open_host, {"PGPU": 1}, [DISABLED])
    world.provider(None, hosts.disabled, {"PGPU": 1})
    assert hosts.what_if({"drain": hosts.first})["homeless"] == []
    told = hosts.what_if(query="resources=PGPU:1")
    assert (told["after"]["capacity"]["count"], told["avoided"]) == (1, 1)


def test_a_disabled_pool_gives_nothing_to_other_hosts(hosts: ThreeHosts) -> None:
    world, rack = hosts.world, new_uuid()
    pool = world.provider(None, None, {"DISK_GB": 10}, [SHARES, DISABLED], [rack])
    world.provider(None, None, {"VCPU": 4}, aggregates=[rack])
    query = "resources=VCPU:4,DISK_GB:5"
    assert hosts.what_if(query=query)["after"]["capacity"]["count"] == 0
    assert hosts.what_if(query=query, avoid=[])["after"]["capacity"]["count"] == 1
    assert hosts.claim(query).status_int == 409
    world.set_traits(pool, [SHARES])
    assert hosts.claim(query).status_int == 200


def test_a_shared_disk_is_not_claimed_at_a_disabled_host(hosts: ThreeHosts) -> None:
    """The pool is open, and its own tree is the root of the candidate."""
    world, rack = hosts.world, new_uuid()
    pool = world.provider(None, None, {"DISK_GB": 10}, [SHARES], [rack])
    world.replace(hosts.disabled, "aggregates", [rack])
    claimed = hosts.claim("resources=DISK_GB:5").json["claims"][0]
    assert claimed["root_provider_uuid"] == pool


# -- survival ------------------------------------------------------------------------------------


def test_nobody_survives_on_a_disabled_host(hosts: ThreeHosts) -> None:
    told = hosts.get("/-/survival")
    assert (told["places"], told["survivable"], told["avoided"]) == (3, 1, 1)
    assert {each["uuid"] for each in told["lost"]} == {hosts.first, hosts.second}
    lifted = hosts.get("/-/survival?avoid=")
    assert (lifted["survivable"], lifted["avoided"]) == (3, 0)
    other = hosts.get(f"/-/survival?avoid=CUSTOM_NOBODY_HAS_IT,{DISABLED}")
    assert (other["survivable"], other["avoided"]) == (1, 1)
    assert hosts.service.request("GET", "/-/survival?avoid=A,,B").status_int == 400


# -- plans ---------------------------------------------------------------------------------------


def test_a_plan_does_not_take_a_disabled_host_for_room(hosts: ThreeHosts) -> None:
    refused = hosts.plan({"place": FOUR})
    assert refused.status_int == 409, refused.text
    (error,) = refused.json["errors"]
    assert (error["exact"], error["avoided"]) == (True, 1)
    assert "AVOIDED" in [step["test"] for step in error["explanation"]["steps"]]
    lifted = hosts.plan({"place": FOUR}, avoid=[]).json
    assert (lifted["steps"], lifted["avoided"]) == ([], 0)
    named = hosts.plan({"place": f"{FOUR}&root_required={DISABLED}"}).json
    assert (named["steps"], named["avoided"]) == ([], 1)


def test_a_plan_moves_nothing_to_a_disabled_host(hosts: ThreeHosts) -> None:
    goal = {"empty": {"trees": [hosts.first]}}
    assert hosts.plan(goal).status_int == 409
    for lifted in ({"avoid": []}, {"may": {"move": {"avoid": []}}}):
        assert len(hosts.plan(goal, **lifted).json["steps"]) == 4
    both = hosts.plan(goal, avoid=[], may={"move": {"avoid": []}})
    assert both.status_int == 400
    assert both.json["errors"][0]["reason"] == "repeated_avoid"


def test_a_plan_that_is_held_takes_no_disabled_host(hosts: ThreeHosts) -> None:
    free = hosts.world.host(VCPU=16)
    plan = hosts.plan({"empty": {"trees": [hosts.first]}}, hold_s=60).json
    assert {step["root_provider_uuid"] for step in plan["steps"]} == {free}
    assert plan["avoided"] == 1


# -- explain and capacity ------------------------------------------------------------------------


def test_explain_says_what_is_on_disabled_hosts(hosts: ThreeHosts) -> None:
    """The query is answered as it stands: this is what the compatible API says."""
    told = hosts.get(f"/-/explain?{FOUR}")
    assert told["candidates"]["count"] == 1
    assert told["avoided"] == {"trees": 1, "candidates": 1}
    hosts.world.host(VCPU=16)
    told = hosts.get(f"/-/explain?{FOUR}")
    assert told["candidates"]["count"] == 2
    assert told["avoided"] == {"trees": 1, "candidates": 1}
    told = hosts.get(f"/-/explain?{FOUR}&root_required=!{DISABLED}")
    assert told["avoided"] == {"trees": 1, "candidates": 0}


def test_explain_counts_candidates_that_share_with_a_disabled_pool(hosts: ThreeHosts) -> None:
    rack = new_uuid()
    hosts.world.provider(None, None, {"DISK_GB": 10}, [SHARES, DISABLED], [rack])
    hosts.world.provider(None, None, {"VCPU": 4}, aggregates=[rack])
    told = hosts.get("/-/explain?resources=VCPU:4,DISK_GB:5")
    assert told["avoided"] == {"trees": 2, "candidates": told["candidates"]["count"]}
    assert told["candidates"]["count"] == 1


def test_capacity_of_a_query_says_what_is_on_disabled_hosts(hosts: ThreeHosts) -> None:
    told = hosts.get(f"/-/capacity?{FOUR}")
    assert (told["count"], told["avoided"]) == (4, {"trees": 1, "count": 4})
    hosts.world.host(VCPU=16)
    told = hosts.get(f"/-/capacity?{FOUR}&or=resources%3DVCPU%3A2")
    assert (told["count"], told["avoided"]) == (8, {"trees": 1, "count": 4})
    assert told["alternatives"][1]["avoided"] == {"trees": 1, "count": 0}


@pytest.mark.parametrize(
    "required",
    [f"required={DISABLED}", f"root_required={DISABLED}", f"required=in:{DISABLED},HW_CPU_X86_AVX"],
)
def test_what_a_query_requires_is_not_avoided(hosts: ThreeHosts, required: str) -> None:
    """Rule 3 of section 1.1: such a query would get the same where trees are avoided."""
    told = hosts.get(f"/-/explain?{FOUR}&{required}")
    assert (told["candidates"]["count"], told["avoided"]) == (1, {"trees": 0, "candidates": 0})
    told = hosts.get(f"/-/capacity?{FOUR}&{required}")
    assert (told["count"], told["avoided"]) == (4, {"trees": 0, "count": 0})


def test_capacity_counts_what_hosts_take_from_a_disabled_pool(hosts: ThreeHosts) -> None:
    """Their own trees are not avoided, and yet none of it would be given."""
    rack = new_uuid()
    hosts.world.provider(None, None, {"DISK_GB": 100}, [SHARES, DISABLED], [rack])
    hosts.world.provider(None, None, {"VCPU": 4}, aggregates=[rack])
    hosts.world.provider(None, None, {"VCPU": 2, "DISK_GB": 10})
    told = hosts.get("/-/capacity?resources=VCPU:1,DISK_GB:5")
    assert (told["count"], told["avoided"]) == (6, {"trees": 2, "count": 4})


def test_shapes_leave_disabled_hosts_out(tmp_path: Path) -> None:
    """In the answer and in the metrics; one that requires the trait is for them alone."""
    path = tmp_path / "shapes.yaml"
    path.write_text(f"four: {FOUR}\nthere: {FOUR}&root_required={DISABLED}\n")
    options = {"shapes_file": str(path), "survival_interval": 60}
    with running(
        insight__enabled=True, **{f"insight__{k}": v for k, v in options.items()}
    ) as service:
        hosts = ThreeHosts(service)
        told = hosts.get("/-/capacity?shape=*")["shapes"]
        assert (told["four"]["count"], told["four"]["avoided"]) == (0, {"trees": 1, "count": 0})
        assert (told["there"]["count"], told["there"]["avoided"]) == (4, {"trees": 0, "count": 0})
        assert told["four"]["stranded"] == {"VCPU": 0}
        assert told["four"]["largest"] == {"VCPU": 0}
        assert told["four"]["limits"] == {f"avoid {DISABLED}": 1, "VCPU": 2}
        assert hosts.get("/-/capacity?shape=four&avoid=")["count"] == 4
        assert hosts.get("/-/capacity?shape=four&avoid=CUSTOM_NOBODY_HAS_IT")["count"] == 4
        shown = service.request("GET", "/-/metrics").text
    values = {
        (sample.name, *sorted(filter(None, sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }
    assert values["placement_capacity", "four"] == 0
    assert values["placement_capacity", "there"] == 4
    assert values["placement_capacity_avoided_trees", "four"] == 1
    assert values["placement_capacity_avoided_trees", "there"] == 0
    assert values["placement_survivable", "tree"] == pytest.approx(1 / 3)


# -- claims --------------------------------------------------------------------------------------


def test_a_claim_goes_to_no_disabled_host(hosts: ThreeHosts) -> None:
    refused = hosts.claim()
    assert refused.status_int == 409
    (error,) = refused.json["errors"]
    assert (error["exact"], error["avoided"]) == (True, 1)
    (removed,) = [
        s for s in error["explanation"]["steps"] if (s["test"], s["unit"]) == ("AVOIDED", "trees")
    ]
    assert (removed["before"], removed["left"]) == (3, 2)
    assert removed["examples"][0]["uuid"] == hosts.disabled
    assert removed["examples"][0]["present"] == [DISABLED]
    # What other amounts or fewer demands would do is said of the hosts that take something.
    assert error["explanation"]["largest"][0]["would_do"] is None
    held = hosts.claim(more={"hold_s": 60})
    assert held.status_int == 409
    grouped = hosts.claim(more={"groups": {"g": {"rule": "apart"}}}, groups=["g"])
    assert grouped.status_int == 409


@pytest.mark.parametrize(
    "query",
    [
        f"{FOUR}&required={DISABLED}",
        f"{FOUR}&root_required={DISABLED}",
        f"{FOUR}&required=in:{DISABLED},HW_CPU_X86_AVX2",
    ],
)
def test_a_claim_that_requires_the_trait_goes_there(hosts: ThreeHosts, query: str) -> None:
    assert hosts.claim(query).json["claims"][0]["root_provider_uuid"] == hosts.disabled


def test_claims_may_lift_it(hosts: ThreeHosts) -> None:
    """For a new consumer, one that is held, a gang, and one of several queries."""
    assert hosts.claim(more={"avoid": []}).status_int == 200
    assert hosts.claim(more={"avoid": [], "hold_s": 60}).status_int == 200
    chosen = hosts.claim(queries=[FOUR, f"{FOUR}&required={DISABLED}"]).json
    assert (chosen["claims"][0]["chosen"], chosen["exact"]) == (1, True)
    assert hosts.claim(more={"avoid": ["CUSTOM_NOBODY_HAS_IT"]}).status_int == 200


def test_an_existing_consumer_that_is_claimed_again_leaves_a_disabled_host(
    hosts: ThreeHosts,
) -> None:
    server = hosts.world.claim({hosts.disabled: {"VCPU": 4}})
    again = {"consumer_uuid": server, "consumer_generation": 1}
    assert hosts.claim(**again).status_int == 409
    free = hosts.world.host(VCPU=4)
    assert hosts.claim(**again).json["claims"][0]["root_provider_uuid"] == free


def test_a_host_that_is_disabled_after_the_choice_gets_no_claim(
    hosts: ThreeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write sees that the root is not as it was chosen, and another host is."""
    world, write = hosts.world, writing.write
    chosen, spare = world.host(VCPU=16), new_uuid()
    tried: list[str] = []

    def overtaken(db: Any, order: Any, places: Any) -> Any:
        tried.append(places.assigned[0].root_provider_uuid)
        if len(tried) == 1:
            world.set_traits(chosen, [DISABLED])
            world.host(spare, VCPU=4)
        return write(db, order, places)

    for module in (shortcuts, service_of_claims):
        monkeypatch.setattr(module, "write", overtaken)

    assert hosts.claim().json["claims"][0]["root_provider_uuid"] == spare
    assert tried == [chosen, spare]


def test_requests_that_are_placed_together_avoid_each_their_own(hosts: ThreeHosts) -> None:
    """One that lifts it goes there, one with the same query does not, in one turn of the thread."""
    spare = hosts.world.host(VCPU=4)
    lifted = order_four(hosts, frozenset())
    kept = order_four(hosts, frozenset([DISABLED]))
    db = hosts.service.db
    picture = Picture(db)

    answers = shortcuts._try_together(db, picture, shortcuts._Desk(), [kept, lifted], Work())

    roots = [each.grants[0].root_provider_uuid for each in answers if isinstance(each, Granted)]
    assert roots == [spare, hosts.disabled]


def order_four(hosts: ThreeHosts, avoid: frozenset[str]) -> Order:
    """Return an order for four cores that avoids trees by these traits."""
    request = CandidateRequest((Group("", {"VCPU": 4}),), avoid=avoid)
    asked = RelaxableRequest(request, [], lambda numbers: None)
    claim = Claim(new_uuid(), None, "p", "u", "INSTANCE", FOUR, asked)
    return Order([claim], {}, "any", avoid=avoid)


def test_the_compatible_api_is_as_it_was(hosts: ThreeHosts) -> None:
    found = hosts.get(f"/allocation_candidates?{FOUR}")
    assert [list(each["allocations"]) for each in found["allocation_requests"]] == [
        [hosts.disabled]
    ]


# -- the option ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_traits_are_those_of_the_option(kind: str) -> None:
    """Other services have other names for the same."""
    with running(
        kind, insight__enabled=True, insight__avoid=["CUSTOM_DOWN", "CUSTOM_NONE"]
    ) as service:
        hosts = ThreeHosts(service)
        assert hosts.get("/-/survival")["survivable"] == 3
        hosts.world.set_traits(hosts.disabled, ["CUSTOM_DOWN"])
        assert hosts.get("/-/survival")["survivable"] == 1
        assert hosts.claim().status_int == 409


def test_without_traits_nothing_is_avoided() -> None:
    with running(insight__enabled=True, insight__avoid=[]) as service:
        hosts = ThreeHosts(service)
        assert hosts.get("/-/survival")["survivable"] == 3
        assert hosts.claim().status_int == 200

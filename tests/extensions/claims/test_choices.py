"""Claims with queries in an order of preference, on each kind of database (specification 09 section 3.1)."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import webob

from placement.db import invariants
from placement.db.coexistence import state
from placement.extensions.claims import service as claims_service
from placement.extensions.claims import shortcuts, writing
from tests.extensions.claims.test_claims import claim, place, roots
from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

FAST, LARGE = "HW_CPU_X86_VMX", "HW_CPU_X86_AVX2"
FIRST, SECOND = f"resources=VCPU:2&required={FAST}", f"resources=VCPU:2&required={LARGE}"


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with what is under /-/, on an empty database, which is sound at the end."""
    with running(request.param, insight__enabled=True) as made:
        yield made
        assert invariants.violations(made.db) == []


@pytest.fixture
def hosts(service: Service) -> list[str]:
    """One host with each trait, with room for two claims."""
    world = World(service)
    return [world.provider(inventory={"VCPU": 4}, traits=[trait]) for trait in (FAST, LARGE)]


def either(*queries: str, **more: Any) -> dict[str, Any]:
    """Return one claim with queries."""
    made = claim(queries=queries or (FIRST, SECOND), **more)
    del made["query"]
    return made


def chosen(answer: webob.Response) -> list[int]:
    assert answer.status_int == 200, answer.text
    return [each["chosen"] for each in answer.json["claims"]]


def test_the_first_query_that_can_be_granted_is(service: Service, hosts: list[str]) -> None:
    answers = [place(service, either()) for _ in range(5)]

    assert [chosen(each) for each in answers[:4]] == [[0], [0], [1], [1]]
    assert [roots(each) for each in answers[:4]] == [hosts[:1]] * 2 + [hosts[1:]] * 2
    assert all(each.json["exact"] for each in answers[:4])
    error = answers[4].json["errors"][0]
    assert (error["code"], error["exact"]) == ("placement.no_candidate", True)
    shown = [error["explanation"], *error["alternatives"]]
    dropped = [each["relaxations"][0]["drop"] for each in shown]
    assert [each["value"] for each in dropped] == [FAST, LARGE]


def test_a_claim_with_one_query_is_told_of_no_choice(service: Service, hosts: list[str]) -> None:
    plain = place(service, claim(query=FIRST))
    mixed = place(service, claim(query=FIRST), either())

    assert "exact" not in plain.json
    assert "chosen" not in plain.json["claims"][0]
    assert ["chosen" in each for each in mixed.json["claims"]] == [False, True]
    assert mixed.json["claims"][1]["chosen"] == 1


def test_a_gang_takes_what_comes_first_in_the_order_of_its_claims(
    service: Service, hosts: list[str]
) -> None:
    """The last one can have the first query only, and those before it leave it room."""
    mine, asked = claim(query=FIRST), [either() for _ in range(2)]

    answer = place(service, *asked, mine)

    assert [each.get("chosen") for each in answer.json["claims"]] == [0, 1, None]
    assert roots(answer) == [hosts[0], hosts[1], hosts[0]]
    assert answer.json["exact"] is True


def test_what_a_consumer_holds_and_its_groups_count(service: Service, hosts: list[str]) -> None:
    """It may stay by the first query; a rule keeps another out of there."""
    large = either("resources=VCPU:4&required=" + FAST, SECOND, groups=["g"])
    groups = {"g": {"rule": "apart"}}
    assert chosen(place(service, large, groups=groups)) == [0]
    again = large | {"consumer_generation": 1}

    moved = place(service, again, groups=groups)
    other = place(service, either(groups=["g"]))

    assert (chosen(moved), chosen(other)) == ([0], [1])
    assert roots(other) == hosts[1:]


def once_before_writing(
    monkeypatch: pytest.MonkeyPatch, happen: Callable[[], object]
) -> list[list[str]]:
    """Let something happen before the first write of a claim; return the roots of each that is tried."""
    tried: list[list[str]] = []
    write = writing.write

    def overtaken(db: Any, order: Any, places: Any) -> Any:
        tried.append([each.root_provider_uuid for each in places.assigned])
        if len(tried) == 1:
            happen()
        return write(db, order, places)

    for module in (shortcuts, claims_service):
        monkeypatch.setattr(module, "write", overtaken)
    return tried


def test_an_earlier_query_that_has_become_possible_is_chosen(
    service: Service, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its room is given back when the other place is chosen already, which would still do."""
    world, holder = World(service), new_uuid()
    world.claim({hosts[0]: {"VCPU": 4}}, holder)
    tried = once_before_writing(monkeypatch, lambda: world.release(holder))

    answer = place(service, either())

    assert tried == [hosts[1:], hosts[:1]]
    assert chosen(answer) == [0]


def test_a_trait_that_makes_an_earlier_query_possible_is_seen(
    service: Service, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(service)
    world.claim({hosts[0]: {"VCPU": 4}})
    spare = world.provider(inventory={"VCPU": 4})
    tried = once_before_writing(monkeypatch, lambda: world.set_traits(spare, [FAST]))

    answer = place(service, either())

    assert tried == [hosts[1:], [spare]]
    assert chosen(answer) == [0]


def test_what_happens_where_no_earlier_query_can_be_served_is_no_reason_to_look_again(
    service: Service, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, holder = World(service), new_uuid()
    world.claim({hosts[0]: {"VCPU": 4}})
    spare = world.provider(inventory={"VCPU": 4})
    world.claim({spare: {"VCPU": 4}}, holder)
    tried = once_before_writing(monkeypatch, lambda: world.release(holder))

    answer = place(service, either())

    assert tried == [hosts[1:]]
    assert chosen(answer) == [1]


def test_a_member_that_leaves_lets_an_earlier_query_in(
    service: Service, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member that kept it out was where no earlier query could be served."""
    world, member = World(service), claim(query=SECOND, groups=["g"])
    assert roots(place(service, member, groups={"g": {"rule": "together"}})) == hosts[1:]
    tried = once_before_writing(monkeypatch, lambda: world.release(member["consumer_uuid"]))

    answer = place(service, either(groups=["g"]), groups={"g": {"rule": "together"}})

    assert tried == [hosts[1:], hosts[:1]]
    assert chosen(answer) == [0]


def test_another_service_beside_changes_nothing(service: Service, hosts: list[str]) -> None:
    """There is no log then, and what is chosen is of what was read."""
    service.db.write(state.begin)

    assert [chosen(place(service, either())) for _ in range(4)] == [[0], [0], [1], [1]]


def refusal(answer: webob.Response) -> tuple[int, str, str]:
    error = answer.json["errors"][0]
    return answer.status_int, error["reason"], error["detail"]


def test_errors_name_the_claim_and_the_query(service: Service, hosts: list[str]) -> None:
    unknown = "resources=VCPU:1&required=CUSTOM_NO_SUCH"

    malformed = refusal(place(service, claim(1), either(FIRST, "resources=VCPU")))
    nameless = refusal(place(service, claim(1), either(FIRST, unknown)))
    repeated = refusal(place(service, either(FIRST, SECOND, FIRST)))

    assert malformed[0] == nameless[0] == repeated[0] == 400
    assert "Query 1 of claim 1: " in malformed[2]
    assert nameless[1] == "unknown_trait"
    assert "Query 1 of claim 1: No such trait(s): CUSTOM_NO_SUCH" in nameless[2]
    assert repeated[1] == "repeated_query"
    assert "Queries 2 and 0 of claim 0 are the same" in repeated[2]


def test_bounds_of_queries(service: Service, hosts: list[str]) -> None:
    """One to eight of a claim; as many different ones of a request as there may be claims."""
    service.conf.set_override("claims_most", 9, "insight")
    different = [f"resources=VCPU:{n}" for n in range(1, 11)]
    both = claim(queries=[FIRST])

    assert place(service, either(*different[:8])).status_int == 200
    assert place(service, either(*different[:9])).status_int == 400
    assert place(service, both).status_int == 400
    none = either()
    del none["queries"]
    assert place(service, none).status_int == 400
    none["queries"] = []
    assert place(service, none).status_int == 400
    several = refusal(place(service, either(*different[:5]), either(*different[5:])))
    assert several[:2] == (400, "too_many_queries")
    assert "10 different queries were sent, and at most 9" in several[2]


# -- asked before ----------------------------------------------------------------------------------


def ask(service: Service, question: str, *queries: str) -> Any:
    """Return the document of a question about queries in an order of preference."""
    first, *others = queries
    further = "".join(f"&or={quote(each)}" for each in others)
    answer = service.request("GET", f"/-/{question}?{first}{further}", version="1.39")
    assert answer.status_int == 200, answer.text
    return answer.json


def test_so_many_are_granted_as_were_counted_and_the_one_that_was_told(
    service: Service, hosts: list[str]
) -> None:
    """Claims come one after another until one is refused; a host and its devices serve either."""
    world = World(service)
    gpu = world.provider(inventory={"VGPU": 3}, parent=hosts[0])
    world.claim({gpu: {"VGPU": 1}})
    queries = ["resources=VCPU:1&resources_G=VGPU:1&group_policy=none", SECOND, "resources=VCPU:1"]
    told = ask(service, "capacity", *queries)
    got = []
    while True:
        explained = ask(service, "explain", *queries)
        answer = place(service, either(*queries))
        if answer.status_int != 200:
            break
        assert chosen(answer) == [explained["chosen"]]
        got += chosen(answer)

    assert explained["chosen"] is None
    assert [each["count"] for each in told["alternatives"]] == [2, 2, 2]
    assert (told["count"], told["exact"], told["complete"]) == (len(got), True, True)
    assert [got.count(n) for n in range(3)] == [2, 2, 2]
    error = answer.json["errors"][0]
    for each in explained["alternatives"]:
        # A claim leaves such trees out, and says so beside its explanations.
        assert each.pop("avoided") == {"trees": 0, "candidates": 0}
    assert [error["explanation"], *error["alternatives"]] == explained["alternatives"]
    assert {each["uuid"]: each["count"] for each in told["places"]} == dict(
        zip(hosts, (4, 2), strict=True)
    )


def test_a_question_tells_which_or_is_wrong(service: Service, hosts: list[str]) -> None:
    def refused(*given: str) -> tuple[str, str]:
        query = "&".join(("resources=VCPU:1", *(f"or={quote(each)}" for each in given)))
        answers = [
            service.request("GET", f"/-/{question}?{query}", version="1.39")
            for question in ("explain", "capacity")
        ]
        assert [each.status_int for each in answers] == [400, 400]
        (first, second) = [each.json["errors"][0] for each in answers]
        assert first["detail"] == second["detail"]
        return first["reason"], first["detail"]

    reason, detail = refused(SECOND, "resources=VCPU")
    assert (reason, "The query of 'or' number 2: Badly formed" in detail) == ("invalid_query", True)
    reason, detail = refused("resources=VCPU:0")
    assert (reason, "The query of 'or' number 1: " in detail) == ("invalid_amount", True)
    reason, detail = refused("resources=VCPU:9999", "resources=VCPU:1&required=CUSTOM_NO_SUCH")
    assert reason == "unknown_trait"
    assert "The query of 'or' number 2: No such trait(s): CUSTOM_NO_SUCH" in detail
    for within in ("limit=1", "or=resources%3DVCPU:1", "about=a", "colour=red"):
        reason, detail = refused(f"resources=VCPU:1&{within}")
        assert (reason, "The query of 'or' number 1: " in detail) == ("unknown_parameter", True)
    assert refused(*[SECOND] * 8)[0] == "too_many_queries"
    assert len(ask(service, "capacity", *[SECOND] * 8)["alternatives"]) == 8

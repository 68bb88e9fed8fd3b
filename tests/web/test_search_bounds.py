"""No question holds a worker: ``[api]/search_deadline`` (specification 04 section 6.6, 07 section 1)."""

import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from placement.extensions.claims import handlers as claims_handlers
from placement.handlers import candidate_answer, candidate_query
from placement.objects import allocation_candidate
from placement.search.candidate import SearchResult
from placement.search.tally import Tally
from placement.search.work import Work
from placement.web import search_bounds
from placement.web.search_bounds import Countdown
from tests.support.service import Service, running
from tests.support.world import World

HOSTS = [f"2f000000-0000-4000-8000-00000000000{n}" for n in range(4)]
"""With one device, two, three and four: no two are alike."""
HEADER = "Placement-Candidates"
QUERY = "resources_A=VGPU:1&resources_B=VGPU:2&group_policy=none"


@pytest.fixture
def place() -> Iterator[Service]:
    with running(insight__enabled=True, insight__public=["metrics"]) as service:
        world = World(service)
        for number, host in enumerate(HOSTS):
            world.host(host, VCPU=8)
            for device in range(number + 1):
                world.provider(None, host, {"VGPU": 8}, key=f"{host[:-2]}{device + 1}{number}")
        yield service


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what says after how many looks at the clock the time is over."""

    def after(number: int) -> None:
        def remaining_s(countdown: Countdown) -> float:
            seen = vars(countdown).setdefault("looks", 0)
            vars(countdown)["looks"] = seen + 1
            return 1.0 if seen < number else 0.0

        monkeypatch.setattr(Countdown, "remaining_s", remaining_s)

    return after


def searched(service: Service, version: str = "1.39") -> Any:
    return service.request("GET", f"/allocation_candidates?{QUERY}", version=version)


def test_an_empty_answer_that_is_not_proven_is_no_answer(
    place: Service, looks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(searched(place).json["allocation_requests"]) == 1 + 4 + 9 + 16
    looks(0)
    with caplog.at_level(logging.WARNING, "placement"):
        answer = searched(place)
    assert answer.status_int == 503
    assert answer.headers["Retry-After"] == "1"
    (error,) = answer.json["errors"]
    assert error["code"] == "placement.search_given_up"
    assert (error["reason"], error["retry"]) == ("search_given_up", "as_it_is")
    assert "easier" in error["detail"]
    bound = f"[api]search_deadline, {place.conf.api.search_deadline:g} s"
    assert any(bound in each.message for each in caplog.records)


def test_what_was_found_in_time_is_answered(place: Service, looks: Any) -> None:
    """Some look at the clock comes between two hosts."""
    whole = {str(each["mappings"]) for each in searched(place).json["allocation_requests"]}
    sizes = set()
    for number in range(12):
        looks(number)
        answer = searched(place)
        if answer.status_int == 200:
            cut = len(answer.json["allocation_requests"]) < len(whole)
            assert answer.headers.get(HEADER) == ("cut; by=deadline" if cut else None)
            found = {str(each["mappings"]) for each in answer.json["allocation_requests"]}
            assert found <= whole
            sizes.add(len(found))
    assert 0 not in sizes
    assert len(sizes) > 1


def test_the_groups_that_were_hardest_to_place_are_named(
    place: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = SearchResult(Tally(), complete=False, stuck=("_A", ""))
    monkeypatch.setattr(allocation_candidate, "search", lambda *args, **more: given_up)
    (error,) = searched(place).json["errors"]
    assert "Hardest to place were these groups: _A, the one without suffix. " in error["detail"]


def test_a_cut_answer_does_not_look_whole(
    place: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever bound of the service has cut it, at any microversion; the client's limit is not one."""
    assert HEADER not in searched(place).headers
    limited = place.request("GET", f"/allocation_candidates?{QUERY}&limit=2", version="1.39")
    assert len(limited.json["allocation_requests"]) == 2
    assert HEADER not in limited.headers
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []
    place.conf.set_override("max_answered_candidates", 2, group="placement")
    for version in ("1.33", "1.39"):
        answer = searched(place, version)
        assert len(answer.json["allocation_requests"]) == 2
        assert answer.headers[HEADER] == "cut; by=candidates"
        assert "cut at max_answered_candidates, 2" in caplog.text
    place.conf.clear_override("max_answered_candidates", group="placement")
    monkeypatch.setattr(candidate_answer, "measure", lambda shape, version: 5 * 2**20)
    answer = searched(place)
    assert len(answer.json["allocation_requests"]) == 2
    assert answer.headers[HEADER] == "cut; by=bytes"
    assert "cut at max_candidates_answer_size" in caplog.text


def test_work_that_is_spent_is_told_like_time(
    place: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_bounds, "Work", lambda remaining_s: Work(20, remaining_s))
    answer = searched(place)
    assert 0 < len(answer.json["allocation_requests"]) < 30
    assert answer.headers[HEADER] == "cut; by=work"
    monkeypatch.setattr(search_bounds, "Work", lambda remaining_s: Work(0, remaining_s))
    assert searched(place).status_int == 503


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/-/explain?{QUERY}&about={HOSTS[0]}", None),
        ("GET", f"/-/capacity?{QUERY}", None),
        ("GET", f"/-/explain?{QUERY}&or={quote(QUERY)}", None),
        ("GET", f"/-/capacity?{QUERY}&or={quote(QUERY)}", None),
        ("POST", "/-/what-if", {"changes": [{"drain": HOSTS[1]}], "query": QUERY}),
    ],
)
def test_operators_are_told_that_the_answer_is_not_complete(
    place: Service, looks: Any, method: str, path: str, body: Any
) -> None:
    for number in range(8):
        looks(number)
        answer = place.request(method, path, json=body) if body else place.request(method, path)
        assert answer.status_int == 200, answer.text
        told = answer.json
        parts = [told, told.get("about"), told.get("before", {}).get("capacity")]
        assert not all(part["complete"] for part in parts if part), told


def test_survival_says_how_many_places_were_tried_in_time(place: Service, looks: Any) -> None:
    for number in range(6):
        looks(number)
        told = place.request("GET", "/-/survival").json
        assert (told["tried"], told["complete"]) == (min(number, 4), number >= 4)


def test_deadlines_are_counted(place: Service, looks: Any) -> None:
    looks(0)
    searched(place)
    place.request("GET", f"/-/capacity?{QUERY}")
    text = place.request("GET", "/-/metrics").text
    assert 'placement_searches_cut_total{bound="deadline"} 1.0' in text
    for route in ("/allocation_candidates", "/-/capacity"):
        assert f'placement_search_deadlines_total{{method="GET",route="{route}"}} 1.0' in text


def test_no_deadline() -> None:
    with running(api__search_deadline=0) as service:
        World(service).host(VCPU=8)
        answer = service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")
        assert len(answer.json["allocation_requests"]) == 1


def test_the_connection_is_not_looked_at_each_time() -> None:
    """Each look would let a thread that waits for the interpreter wait for longer."""
    looks = []
    countdown = Countdown(60.0, lambda: bool(looks.append(0)))
    for _ in range(1000):
        countdown.remaining_s()
    assert 1 <= len(looks) < 500


def test_the_time_for_reading_many_queries_is_bounded_too(
    place: Service, looks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand queries of a claim, or a hundred of a what-if, may take seconds to read."""
    read = []
    checked = candidate_query.check

    def counted(*given: Any) -> Any:
        read.append(given[-1])
        return checked(*given)

    monkeypatch.setattr(candidate_query, "check", counted)
    queries = [f"resources=VCPU:{n}" for n in range(1, 9)]
    claims = [
        {
            "consumer_uuid": f"{HOSTS[0][:-1]}{number}",
            "consumer_generation": None,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "query": query,
        }
        for number, query in enumerate(queries)
    ]
    changes = [{"place": query} for query in queries]
    looks(4)
    for path, body in [
        ("/-/claims", {"claims": claims}),
        ("/-/what-if", {"changes": changes, "query": queries[0]}),
    ]:
        answer = place.request("POST", path, json=body)
        assert (answer.status_int, answer.json["errors"][0]["code"]) == (
            503,
            "placement.search_given_up",
        )
        assert 1 < len(read) < len(queries)
        read.clear()


def test_the_time_for_reading_many_rules_is_bounded_too(
    place: Service, looks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many groups as a body has room for may each name a thousand aggregates."""
    read, normalized_uuid = [], claims_handlers.normalized_uuid

    def counted(given: str) -> str:
        read.append(given)
        return normalized_uuid(given)

    monkeypatch.setattr(claims_handlers, "normalized_uuid", counted)
    names = [f"group{number}" for number in range(8)]
    claim = {
        "consumer_uuid": HOSTS[0],
        "consumer_generation": None,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "query": "resources=VCPU:1",
        "groups": names,
    }
    rule = {"rule": "apart", "level": "aggregate", "of": HOSTS}
    body = {"claims": [claim], "groups": dict.fromkeys(names, rule)}
    looks(4)

    answer = place.request("POST", "/-/claims", json=body)

    assert answer.status_int == 503
    assert answer.json["errors"][0]["code"] == "placement.search_given_up"
    assert len(HOSTS) < len(read) < len(HOSTS) * len(names)

"""The worked examples of contract 04 section 9 over HTTP, whole answers; and that each can be claimed."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Service, running

EXAMPLES = json.loads(
    (Path(__file__).parents[1] / "search" / "data" / "examples.json")
    .read_text()
)


@pytest.fixture(scope="module", params=EXAMPLES, ids=[world["name"] for world in EXAMPLES])
def world(request: Any) -> Iterator[tuple[dict[str, Any], Service]]:
    """One example cloud, loaded through the API."""
    with running() as service:
        _load(service, request.param["cloud"])
        yield request.param, service


def _fine(answer: Any) -> Any:
    assert answer.status_int < 300, answer.text
    return answer


def _load(service: Service, cloud: dict[str, Any]) -> None:
    for trait in cloud["traits"]:
        _fine(service.request("PUT", f"/traits/{trait}", version="1.39"))
    for name in cloud["classes"]:
        _fine(service.request("PUT", f"/resource_classes/{name}", version="1.39"))
    for provider in cloud["providers"]:
        body = {key: provider[key] for key in ("name", "uuid")}
        if provider["parent"]:
            body["parent_provider_uuid"] = provider["parent"]
        _fine(service.request("POST", "/resource_providers", version="1.39", json=body))
        _fill(service, f"/resource_providers/{provider['uuid']}", provider)


def _fill(service: Service, path: str, provider: dict[str, Any]) -> None:
    def put(part: str, value: Any) -> None:
        generation = service.request("GET", path, version="1.39").json["generation"]
        body = {part: value, "resource_provider_generation": generation}
        _fine(service.request("PUT", f"{path}/{part}", version="1.39", json=body))

    put("traits", provider["traits"])
    put("aggregates", provider["aggregates"])
    if provider["used"]:
        put("inventories", {name: {"total": 10**6} for name in provider["used"]})
        claim = {
            "allocations": {provider["uuid"]: {"resources": provider["used"]}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        consumer = f"/allocations/{uuid.uuid4()}"
        _fine(service.request("PUT", consumer, version="1.39", json=claim))
    put("inventories", provider["inventories"])


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _expected(world: dict[str, Any], case: dict[str, Any]) -> Counter[str]:
    uuids = {provider["name"]: provider["uuid"] for provider in world["cloud"]["providers"]}
    answers: Counter[str] = Counter()
    for candidate in case["candidates"]:
        answer = {
            "allocations": {
                uuids[name]: {"resources": amounts}
                for name, amounts in candidate["allocations"].items()
            }
        }
        if case["version"] >= "1.34":
            answer["mappings"] = {
                suffix: sorted(uuids[name] for name in names)
                for suffix, names in candidate["mappings"].items()
            }
        answers[_text(answer)] += 1
    return answers


def test_whole_answers(world: tuple[dict[str, Any], Service]) -> None:
    """Every example query is answered with exactly its candidates and summaries."""
    example, service = world
    names = {provider["uuid"]: provider["name"] for provider in example["cloud"]["providers"]}
    for case in example["cases"]:
        path = f"/allocation_candidates?{case['query']}"
        answer = _fine(service.request("GET", path, version=case["version"])).json
        for candidate in answer["allocation_requests"]:
            for places in candidate.get("mappings", {}).values():
                places.sort()
        assert (
            Counter(map(_text, answer["allocation_requests"])) == _expected(example, case)
        ), case["id"]
        shown = {names[key] for key in answer["provider_summaries"]}
        assert shown == set(case["summaries"]), case["id"]


def test_every_candidate_can_be_claimed(world: tuple[dict[str, Any], Service]) -> None:
    """A candidate, sent back unchanged as allocations, is accepted."""
    example, service = world
    for case in example["cases"]:
        if case["version"] != "1.39":
            continue
        path = f"/allocation_candidates?{case['query']}"
        for candidate in service.request("GET", path, version="1.39").json["allocation_requests"]:
            owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
            claim = candidate | owner | {"consumer_generation": None}
            consumer = f"/allocations/{uuid.uuid4()}"
            _fine(service.request("PUT", consumer, version="1.39", json=claim))
            _fine(service.request("DELETE", consumer, version="1.39"))


def test_summaries_by_version(world: tuple[dict[str, Any], Service]) -> None:
    """A summary has the members of its microversion, and the newest holds the whole provider."""
    example, service = world
    case = next(case for case in example["cases"] if case["candidates"])
    query = f"/allocation_candidates?{case['query']}"
    members = {
        "1.29": {"resources", "traits", "parent_provider_uuid", "root_provider_uuid"},
        "1.39": {"resources", "traits", "parent_provider_uuid", "root_provider_uuid"},
    }
    if set(case["query"].split("=")) and "resources=" in case["query"]:
        members |= {"1.10": {"resources"}, "1.17": {"resources", "traits"}}
    by_uuid = {provider["uuid"]: provider for provider in example["cloud"]["providers"]}
    for version, expected in members.items():
        answer = service.request("GET", query, version=version)
        if answer.status_int == 400:
            continue
        for key, summary in answer.json["provider_summaries"].items():
            assert set(summary) == expected
            if version == "1.39":
                provider = by_uuid[key]
                assert set(summary["resources"]) == set(provider["inventories"])
                assert sorted(summary["traits"]) == sorted(provider["traits"])
                for name, amounts in summary["resources"].items():
                    assert amounts["used"] == provider["used"].get(name, 0)

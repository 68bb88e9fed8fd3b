"""The worked examples of specification 04 section 9 over HTTP, whole; each can be claimed."""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import bodies
from tests.support.candidate_data import fine, load
from tests.support.service import Service, running

EXAMPLES = json.loads((Path(__file__).parents[1] / "search" / "data" / "examples.json").read_text())


@pytest.fixture(scope="module", params=EXAMPLES, ids=[world["name"] for world in EXAMPLES])
def world(request: Any) -> Iterator[tuple[dict[str, Any], Service]]:
    """One example cloud, loaded through the API."""
    with running() as service:
        load(service, request.param["cloud"])
        yield request.param, service


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
        answer = fine(service.request("GET", path, version=case["version"])).json
        for candidate in answer["allocation_requests"]:
            for places in candidate.get("mappings", {}).values():
                places.sort()
        assert Counter(map(_text, answer["allocation_requests"])) == _expected(example, case), case[
            "id"
        ]
        shown = {names[key] for key in answer["provider_summaries"]}
        assert shown == set(case["summaries"]), case["id"]


def test_every_candidate_can_be_claimed(world: tuple[dict[str, Any], Service]) -> None:
    """A candidate, sent back unchanged as allocations, is accepted."""
    example, service = world
    claimed = 0
    for case in example["cases"]:
        if case["version"] != "1.39":
            continue
        path = f"/allocation_candidates?{case['query']}"
        answer = fine(service.request("GET", path, version="1.39")).json
        for candidate in answer["allocation_requests"]:
            claim = bodies.entry({}) | candidate
            consumer = f"/allocations/{uuid.uuid4()}"
            fine(service.request("PUT", consumer, version="1.39", json=claim))
            fine(service.request("DELETE", consumer, version="1.39"))
            claimed += 1
    newest = [case for case in example["cases"] if case["version"] == "1.39"]
    assert claimed == sum(len(case["candidates"]) for case in newest)

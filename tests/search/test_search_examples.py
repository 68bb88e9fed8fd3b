"""The worked examples of specification 04 section 9: each answer whole, engine and oracle alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from placement.search.search import search
from tests.search.builders import EXAMPLES, example_records, ids, load, parse, summarised
from tests.search.oracle import Oracle

CASES = [(world, case) for world in EXAMPLES for case in world["cases"]]


@pytest.mark.parametrize(("world", "case"), CASES, ids=[case["id"] for _, case in CASES])
def test_worked_example(world: dict[str, Any], case: dict[str, Any]) -> None:
    records = example_records(world["cloud"])
    names = {p["name"]: i for i, p in enumerate(world["cloud"]["providers"], 1)}
    major, minor = map(int, case["version"].split("."))
    version = major, minor
    request = parse(case["query"], version)
    expected = Counter(
        frozenset((names[p], c, n) for p, a in x["allocations"].items() for c, n in a.items())
        for x in case["candidates"]
    )

    cloud = load(records)
    result = search(cloud, request)
    answer = ids(cloud, result)

    assert Counter(allocations for allocations, _ in answer) == expected
    if version >= (1, 34):
        expected_mappings = Counter(
            frozenset((s, frozenset(names[p] for p in ps)) for s, ps in x["mappings"].items())
            for x in case["candidates"]
        )
        assert Counter(mappings for _, mappings in answer) == expected_mappings
    whole_trees = version >= (1, 29)
    assert summarised(cloud, result, whole_trees) == {names[p] for p in case["summaries"]}
    assert Oracle(records).candidates(request) == set(answer)

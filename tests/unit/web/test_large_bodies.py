"""A wrong body of any size is refused for the work of a small one (PROMISE 9)."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from placement.schemas import allocation, resource_provider
from placement.web import judge
from placement.web.validation import Schema

GENERATION = {"resource_provider_generation": 0}
UUID = "0fa85f64-5717-4562-b3fc-2c963f66afa6"
OWNERS = {"project_id": "p", "user_id": "u", "consumer_generation": 0, "consumer_type": "T"}
LONG, LONGER = 30_000, 60_000


def resources(size: int) -> dict[str, int]:
    return {f"CUSTOM_{number}": 1 for number in range(size)}


def claim(resources: Any) -> dict[str, Any]:
    return {"allocations": {UUID: {"resources": resources}}, **OWNERS}


WRONG: dict[str, tuple[Schema, Callable[[int], Any]]] = {
    "every trait": (resource_provider.PUT_TRAITS, lambda n: {**GENERATION, "traits": [1] * n}),
    "the last trait": (
        resource_provider.PUT_TRAITS,
        lambda n: {**GENERATION, "traits": ["A"] * n + [""]},
    ),
    "members": (resource_provider.PUT_TRAITS, lambda n: {str(number): 1 for number in range(n)}),
    "a list": (resource_provider.PUT_TRAITS, lambda n: [[1]] * n),
    "aggregates": (
        resource_provider.PUT_AGGREGATES.at(1),
        lambda n: [{"a": number} for number in range(n)],
    ),
    "equal aggregates": (resource_provider.PUT_AGGREGATES.at(1), lambda n: [{}] * n),
    "every amount": (allocation.PUT.at(38), lambda n: claim(dict.fromkeys(resources(n), 0))),
    "the last amount": (allocation.PUT.at(38), lambda n: claim(resources(n) | {"A": 0})),
    "the last class": (allocation.PUT.at(38), lambda n: claim(resources(n) | {"a": 1})),
    "every class": (
        allocation.PUT.at(38),
        lambda n: claim({str(number) + "a": 1 for number in range(n)}),
    ),
    "consumers": (allocation.POST.at(38), lambda n: {f"{number:036}": 1 for number in range(n)}),
    "mappings": (
        allocation.PUT.at(38),
        lambda n: {**claim({"A": 1}), "mappings": {f"a{number}": 1 for number in range(n)}},
    ),
    "one mapping": (
        allocation.PUT.at(38),
        lambda n: {**claim({"A": 1}), "mappings": {"a": ["x"] * n}},
    ),
    "inventories": (
        resource_provider.PUT_INVENTORIES,
        lambda n: {**GENERATION, "inventories": {name: {} for name in resources(n)}},
    ),
    "providers": (
        allocation.RESHAPE.at(38),
        lambda n: {"allocations": {}, "inventories": {f"{number:036}": {} for number in range(n)}},
    ),
}


def calls_to_refuse(schema: Schema, body: Any) -> int:
    """Return how many functions of Python are entered, or resumed, until the refusal is worded."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        failure = schema.failure(body)
    finally:
        sys.setprofile(None)
    assert failure is not None
    assert len(failure) < 10_000
    return count


@pytest.mark.skipif(judge.explain_absence() is not None, reason="jsonschema judges alone: test_judge.py")
@pytest.mark.parametrize("name", WRONG)
def test_a_body_of_twice_the_size_is_refused_for_the_same_work(name: str) -> None:
    schema, body = WRONG[name]
    calls_to_refuse(schema, body(1))

    first, second = (calls_to_refuse(schema, body(size)) for size in (LONG, LONGER))

    assert second < first + 100
    assert second < 20_000


def test_one_failure_among_very_many_elements_is_named() -> None:
    failure = resource_provider.PUT_TRAITS.failure({**GENERATION, "traits": ["A"] * LONG + [7]})

    assert failure is not None
    assert failure.startswith("7 is not of type 'string'")
    assert f"On instance['traits'][{LONG}]:\n    7" in failure

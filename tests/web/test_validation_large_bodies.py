"""A wrong body is refused for work that grows no faster than the body (PROMISE 9)."""

import io
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import pytest

from placement.errors import MalformedRequest
from placement.extensions.questions import schemas as insight
from placement.schemas import allocation, resource_provider
from placement.web.request import LARGE_BYTES, Request
from placement.web.validation import Schema
from tests.support.service import configure, running
from tests.support.world import World, new_uuid

GENERATION = {"resource_provider_generation": 0}
UUID = "0fa85f64-5717-4562-b3fc-2c963f66afa6"
OWNERS = {"project_id": "p", "user_id": "u", "consumer_generation": 0, "consumer_type": "T"}
LONG = 30_000
MOST_BYTES = 8 * 2**20
"""As ``[placement]/max_request_body_size`` is by default."""
SIZE, TWICE = 5_000, 10_000
STEPS_A_BYTE = 10
"""At the most, of lines of Python, of which this machine takes some twenty in a microsecond."""


def resources(size: int) -> dict[str, int]:
    return {f"CUSTOM_{number}": 1 for number in range(size)}


def claim(resources: Any) -> dict[str, Any]:
    return {"allocations": {UUID: {"resources": resources}}, **OWNERS}


def deep(size: int) -> dict[str, Any]:
    """Return two consumers on two providers each, with what is wrong behind all levels of a reshape."""
    small, large = {"resources": {"A": 1}}, {"resources": resources(size) | {"A": 0}}
    other = UUID[::-1]
    return {
        other: {"allocations": {UUID: small, other: small}, **OWNERS},
        UUID: {"allocations": {UUID: small, other: large}, **OWNERS},
    }


def changes(*listed: Any) -> dict[str, Any]:
    return {"query": "resources=VCPU:1", "changes": [*listed]}


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
    "a class at the end of a reshape": (
        allocation.RESHAPE.at(38),
        lambda n: {"inventories": {UUID: GENERATION | {"inventories": {}}}, "allocations": deep(n)},
    ),
    "every trait of a change": (insight.WHAT_IF, lambda n: changes({"traits": {UUID: [1] * n}})),
    "the last trait of a change": (
        insight.WHAT_IF,
        lambda n: changes({"traits": {UUID: ["A"] * n + [1]}}),
    ),
}


def steps_to_refuse(schema: Schema, body: Any) -> int:
    """Return how many lines of Python run until the refusal is worded."""
    refusals = []
    count = count_steps(lambda: refusals.append(schema.failure(body)))
    (failure,) = refusals
    assert failure is not None
    assert len(failure) < 10_000
    return count


def count_steps(do: Callable[[], object]) -> int:
    """Return how many lines of Python run meanwhile."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        do()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", WRONG)
def test_the_work_grows_no_faster_than_the_body(name: str) -> None:
    schema, body = WRONG[name]
    steps_to_refuse(schema, body(1))

    first, second = (steps_to_refuse(schema, body(size)) for size in (SIZE, TWICE))

    assert second < 2 * first + 100
    assert second < STEPS_A_BYTE * len(json.dumps(body(TWICE)))


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_body_of_the_full_size_is_refused(name: str) -> None:
    """Run it with ``-s`` to see the seconds of the processor."""
    schema, make = WRONG[name]
    size = LONG
    # Numbers have more digits among many members than among few.
    while len(text := json.dumps(make(size), separators=(",", ":"))) < 0.8 * MOST_BYTES:
        size = int(size * 0.85 * MOST_BYTES / len(text))
    assert len(text) <= MOST_BYTES
    before = time.process_time()
    body = orjson.loads(text)
    parsed = time.process_time()

    failure = schema.failure(body)

    assert failure is not None
    print(
        f"{name}: read in {parsed - before:.2f} s, refused in {time.process_time() - parsed:.2f} s"
    )


def test_a_large_body_is_taken() -> None:
    """Of more than half a megabyte, with no more than a plain installation by pip brings."""
    with running() as service:
        world = World(service)
        held = {world.host(VCPU=LONG): {"resources": {"VCPU": 1}}}
        one = {"allocations": held, **OWNERS, "consumer_generation": None}
        claims = {new_uuid(): one for _ in range(3000)}
        assert len(json.dumps(claims)) > 512 * 1024

        world.call("POST", "/allocations", claims)


def test_one_failure_among_very_many_elements_is_named() -> None:
    failure = resource_provider.PUT_TRAITS.failure({**GENERATION, "traits": ["A"] * LONG + [7]})

    assert failure is not None
    assert failure.startswith("7 is not of type 'string'")
    assert f"On instance['traits'][{LONG}]:\n    7" in failure


def consumers(number: int, providers: int, classes: int) -> dict[str, Any]:
    """Return a valid body of claims."""
    held = {"resources": resources(classes)}
    return {
        f"{each:036}": {"allocations": {f"{at:036}": held for at in range(providers)}, **OWNERS}
        for each in range(number)
    }


SHAPES = {
    "consumers": (2_000, 1, 1),
    "providers": (1, 2_000, 1),
    "classes": (1, 1, 10_000),
    "a few of all": (10, 20, 30),
}


def steps_to_read(schema: Schema, body: Any) -> int:
    """Return how many lines of Python run until a body of a request is taken or refused."""
    text = json.dumps(body).encode()
    assert len(text) > LARGE_BYTES
    request = Request({"CONTENT_LENGTH": str(len(text)), "wsgi.input": io.BytesIO(text)})
    request.conf = configure()

    def read() -> None:
        with suppress(MalformedRequest):
            request.read_json(schema)

    return count_steps(read)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_body_costs_what_a_right_one_does(shape: str) -> None:
    """One amount at the end is wrong: nothing is judged again but what leads to it."""
    schema, body = allocation.POST.at(38), consumers(*SHAPES[shape])
    steps_to_read(schema, body)
    right = steps_to_read(schema, body)

    last = body[max(body)] = json.loads(json.dumps(body[max(body)]))
    last["allocations"][max(last["allocations"])]["resources"]["CUSTOM_0"] = 0

    assert steps_to_read(schema, body) < 1.3 * right + 2_000

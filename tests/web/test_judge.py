"""What fastjsonschema would do otherwise than JSON Schema says, or dearly, and does not."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import fastjsonschema
import pytest

from placement.schemas import resource_provider
from placement.web.validation import Schema

AGGREGATES = resource_provider.PUT_AGGREGATES.at(1)


@pytest.mark.parametrize(
    ("values", "distinct"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False], True),
        ([None, None], False),
        (["a", "b"], True),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([{"a": [1]}, {"a": [True]}], True),
        ([[], {}], True),
        ([[1, 2], [2, 1]], True),
        ([10**30, 10**30], False),
        (["list"], True),
        ([["list"], [["list"]]], True),
    ],
)
def test_equal_json_is_found(values: list[Any], distinct: bool) -> None:
    failure = Schema({"uniqueItems": True}).failure(values)

    assert (failure is None) is distinct


class Colliding(int):
    """An integer with the hash of all others of its kind, as the multiples of 2**61 - 1 are."""

    compared = 0

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        Colliding.compared += 1
        return super().__eq__(other)


def test_what_collides_is_not_compared() -> None:
    """A body of such integers would be compared for hours, each with each."""
    assert hash(2**61 - 1) == hash(2 * (2**61 - 1)) == hash(10**6 * (2**61 - 1))

    failure = AGGREGATES.failure([Colliding(number) for number in range(1000)])

    assert failure is not None and failure.keyword == "type"
    assert Colliding.compared == 0


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}])
def test_deep_nesting_is_refused(wrap: Callable[[Any], Any]) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = wrap(deep)

    for value in (deep, [deep, deep]):
        assert resource_provider.PUT_TRAITS.failure(value) is not None
        assert AGGREGATES.failure(value) is not None


def test_a_schema_is_compiled_when_it_is_first_asked() -> None:
    """All together would delay the start of each process by a third of a second."""
    schema = Schema({"type": "object", "required": "not a list"})

    with pytest.raises(
        fastjsonschema.JsonSchemaDefinitionException, match="required must be an array"
    ):
        schema.failure({})


def test_threads_that_start_together_compile_a_schema_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread of a new worker compiled the schema of claims, for 36 ms of its processor."""
    compile_, compiled, together = fastjsonschema.compile, list[Any](), Barrier(8)

    def note(*given: Any, **named: Any) -> Any:
        compiled.append(given)
        time.sleep(0.05)
        return compile_(*given, **named)

    monkeypatch.setattr(fastjsonschema, "compile", note)
    schema = Schema({"type": "object", "required": ["a"]})

    def judge(_: int) -> bool:
        together.wait()
        return schema.failure({}) is None

    with ThreadPoolExecutor(8) as threads:
        assert not any(threads.map(judge, range(8)))
    assert len(compiled) == 1

"""Without jsonschema-rs, jsonschema judges: the same verdicts in the same words, and smaller bodies."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from placement.web import judge
from placement.web.validation import Schema
from tests.support.client import VERSION
from tests.support.service import running
from tests.unit.web.test_large_bodies import UUID, WRONG, calls_to_refuse

CALLS_A_BYTE = 20
"""At the most, of functions of Python, for which this machine takes some two microseconds."""
SIZE, TWICE = 5_000, 10_000


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jsonschema-rs be missing."""
    monkeypatch.setattr(judge, "jsonschema_rs", None)


@pytest.fixture(params=["both", "alone"])
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One judge after the other."""
    if request.param == "alone":
        monkeypatch.setattr(judge, "jsonschema_rs", None)
    else:
        pytest.importorskip("jsonschema_rs")
    yield request.param


@pytest.mark.usefixtures("each")
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
    assert judge.are_distinct(values) is distinct


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", WRONG)
def test_the_work_grows_no_faster_than_the_body(name: str) -> None:
    described, body = WRONG[name]
    schema = Schema(described.document)
    calls_to_refuse(schema, body(1))

    first, second = (calls_to_refuse(schema, body(size)) for size in (SIZE, TWICE))

    assert second < 2 * first + 100
    assert second < CALLS_A_BYTE * len(json.dumps(body(TWICE)))


@pytest.mark.usefixtures("each")
@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}])
def test_deep_nesting_is_refused(wrap: Callable[[Any], Any]) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = wrap(deep)
    schema = Schema(WRONG["aggregates"][0].document)

    for value in (deep, [deep, deep]):
        assert schema.failure(value) is not None


@pytest.mark.usefixtures("alone")
def test_a_body_is_smaller_whatever_is_configured() -> None:
    """One byte more than jsonschema may judge alone is 413; without that byte the body is judged."""
    with running() as service:
        for size, status in ((judge.LARGEST_BODY, 400), (judge.LARGEST_BODY + 1, 413)):
            environ = {"wsgi.input": io.BytesIO(b"{}".ljust(size)), "CONTENT_LENGTH": str(size)}
            answer = service.request(
                "PUT",
                f"/allocations/{UUID}",
                version=VERSION,
                environ=environ,
                content_type="application/json",
            )
            assert answer.status_int == status, answer.text
    assert str(judge.LARGEST_BODY) in answer.text
    assert judge.limit_body(judge.LARGEST_BODY - 1) == judge.LARGEST_BODY - 1


def test_with_both_a_body_is_as_large_as_configured() -> None:
    pytest.importorskip("jsonschema_rs")
    assert judge.explain_absence() is None
    assert judge.limit_body(2**30) == 2**30

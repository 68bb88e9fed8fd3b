"""The book of a client knows which outcomes a write may have whose answer was lost."""

from typing import Any

import pytest

from tests.proofs.year.book import Open


def has(generation: int, amount: int) -> dict[str, Any]:
    return {"generation": generation, "held": {"host": {"resources": {"VCPU": amount}}}}


BEFORE = {"a": has(4, 1), "b": None}
AFTER = {"a": has(5, 2), "b": has(1, 2)}
EMPTIED = {"a": None, "b": None}
HALF = {"a": has(5, 2), "b": None}
OTHER = {"a": has(5, 3), "b": has(1, 9)}
TWICE = {"a": has(6, 2), "b": has(1, 2)}
SEEN = (BEFORE, AFTER, EMPTIED, HALF, OTHER, TWICE)


@pytest.mark.parametrize(
    ("after", "right"),
    [(AFTER, [BEFORE, AFTER]), (EMPTIED, [BEFORE, EMPTIED]), (None, [BEFORE, AFTER, OTHER])],
)
def test_a_write_without_an_answer_took_place_whole_or_not_at_all(after: Any, right: list[Any]) -> None:
    write = Open("a request", BEFORE, after)

    assert [each for each in SEEN if write.explains(each)] == right

"""Of a group whose rule does not hold, the crew knows whether a claim has broken it, or a move."""

from typing import Any

import pytest

from tests.proofs.year.crew import is_broken

HOST, OTHER_HOST, MOVED = "10000001-a", "10000001-b", "12000001-a"


def group(rule: str, *domains: tuple[str, ...], kept: bool = False) -> dict[str, Any]:
    return {"rule": rule, "at_most": 1, "members": [{"domains": each} for each in domains], "kept": kept}


@pytest.mark.parametrize(
    ("shown", "is_so"),
    [
        (group("apart", (HOST,), (HOST,)), True),
        (group("apart", (HOST,), (OTHER_HOST,), kept=True), False),
        (group("apart", (HOST,), (MOVED,), (MOVED,)), False),
        (group("apart", (HOST,), (HOST, MOVED), (MOVED,)), True),
        (group("together", (HOST,), (OTHER_HOST,)), True),
        (group("together", (HOST,), (MOVED,)), False),
        (group("together", (HOST,), (HOST,), kept=True), False),
    ],
)
def test_a_rule_is_broken_by_a_claim_where_nobody_moves_anything(shown: Any, is_so: bool) -> None:
    assert is_broken(shown, {"0000001"}) == is_so

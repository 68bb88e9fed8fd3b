"""Lists of values in statements that are made once."""

import pytest
from sqlalchemy import column, select
from sqlalchemy.types import Integer

from placement.db import statements

ID = column("id", Integer)


@pytest.mark.parametrize(
    ("count", "size"), [(1, 1), (2, 2), (3, 4), (32, 32), (33, statements.ANY_SIZE)]
)
def test_a_list_takes_the_next_size(count: int, size: int) -> None:
    """Beyond the largest of them it expands at every call."""
    assert statements.size_for(count) == size


def test_a_list_is_filled_up_with_its_last_value() -> None:
    """So that nothing is found that was not asked for."""
    assert statements.bound("key", [7, 8, 9], 4) == {"key_0": 7, "key_1": 8, "key_2": 9, "key_3": 9}


@pytest.mark.parametrize("count", [1, 2, 3, 33])
def test_every_parameter_of_the_statement_is_bound(count: int) -> None:
    """Whatever the size."""
    size = statements.size_for(count)

    compiled = select(ID).where(statements.is_among(ID, "key", size)).compile()

    assert set(compiled.params) == set(statements.bound("key", list(range(count)), size))


def test_values_go_in_batches() -> None:
    """All of them, in order."""
    values = list(range(2 * statements.MOST + 1))

    parts = list(statements.batches(values))

    assert [len(part) for part in parts] == [statements.MOST, statements.MOST, 1]
    assert [value for part in parts for value in part] == values

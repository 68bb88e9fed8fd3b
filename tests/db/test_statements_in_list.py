"""Lists of values in statements that are made once."""

import json

import pytest
from sqlalchemy import Column, Dialect, Integer, MetaData, Table, or_, select, union_all, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from placement.db import statements

TABLE = Table("numbers", MetaData(), Column("id", Integer), Column("number", Integer))


@pytest.mark.parametrize(
    ("count", "size"), [(1, 1), (2, 2), (3, 4), (32, 32), (33, statements.ANY_SIZE)]
)
def test_a_list_takes_the_next_size(count: int, size: int) -> None:
    """Beyond the largest of them it expands at every call."""
    assert statements.size_for(count) == size


def test_a_list_is_filled_up_with_its_last_value() -> None:
    """So that nothing is found that was not asked for."""
    assert statements.bind_list("key", [7, 8, 9], 4) == {"key_0": 7, "key_1": 8, "key_2": 9, "key_3": 9}


@pytest.mark.parametrize("count", [1, 2, 3, 33])
@pytest.mark.parametrize("place", ["where", "inside", "changed"])
def test_every_parameter_of_the_statement_is_bound(count: int, place: str) -> None:
    """Whatever the size, wherever the list stands; and the next size has a text of its own."""
    among = statements.is_among(TABLE.c.id, "key")
    inner = select(TABLE.c.id).where(among).scalar_subquery()
    statement = {
        "where": select(TABLE).where(among),
        "inside": union_all(select(TABLE.c.id), select(TABLE.c.id).where(TABLE.c.id == inner)),
        "changed": update(TABLE).where(among).values(number=1 + TABLE.c.number),
    }[place]
    compiled = statements.CompiledStatement(statement, "key")

    text, parameters = compiled.text(sqlite.dialect(), {"key": list(range(count))})

    assert text.bind(parameters)[-1] == (count - 1 if count < 33 else json.dumps(list(range(33))))
    assert text.text.count("?") == len(text.bind(parameters))
    assert compiled.text(sqlite.dialect(), {"key": [5] * count})[0] is text
    assert compiled.text(sqlite.dialect(), {"key": [5] * (2 * count)})[0] is not text or count == 33


@pytest.mark.parametrize("dialect", [sqlite.dialect(), mysql.dialect(), postgresql.dialect()])
@pytest.mark.parametrize("count", [1, 2, 33])
def test_a_list_is_a_condition_by_itself(count: int, dialect: Dialect) -> None:
    """Compared with 1, as SQLAlchemy writes other conditions where there is no boolean, it uses no index."""
    among = statements.is_among(TABLE.c.id, "key")
    either = or_(~among, TABLE.c.number == 7)
    compiled = statements.CompiledStatement(select(TABLE.c.id).where(among, either), "key")

    text, _ = compiled.text(dialect, {"key": list(range(count))})

    assert "= 1" not in text.text
    assert "= 0" not in text.text
    assert text.text.count("numbers.id") == 3


def test_texts_of_a_statement_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of many sizes would fill the memory."""
    monkeypatch.setattr(statements, "MOST_TEXTS", 2)
    both = select(TABLE.c.id).where(
        statements.is_among(TABLE.c.id, "key"), statements.is_among(TABLE.c.number, "by")
    )
    compiled = statements.CompiledStatement(both, "key", "by")

    for count in (1, 2, 4, 8):
        compiled.text(sqlite.dialect(), {"key": [0] * count, "by": [0]})

    assert len(compiled._texts) == 2


def test_values_go_in_batches() -> None:
    """All of them, in order."""
    values = list(range(2 * statements.MOST + 1))

    parts = list(statements.batches(values))

    assert [len(part) for part in parts] == [statements.MOST, statements.MOST, 1]
    assert [value for part in parts for value in part] == values

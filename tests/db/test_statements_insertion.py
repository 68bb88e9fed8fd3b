"""Rows that are inserted at once, with values that they share and values that they do not."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select

from placement.db import models, statements
from placement.db.database import Database, Transaction
from tests.support.databases import KINDS, synced

TRAITS = models.traits
MOMENT = datetime(2026, 5, 4, 3, 2, 1)
LATER = datetime(2026, 5, 4, 3, 2, 2)


@pytest.fixture(scope="module", params=KINDS)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with synced(request.param) as found:
        yield found


def row(name: str, created: datetime | None, updated: datetime | None) -> dict[str, Any]:
    return {"name": name, "created_at": created, "updated_at": updated}


@pytest.mark.parametrize(
    "rows",
    [
        [row("CUSTOM_ALONE", MOMENT, None)],
        [row("CUSTOM_A1", MOMENT, None), row("CUSTOM_A2", MOMENT, None)],
        [row("CUSTOM_B1", None, None), row("CUSTOM_B2", None, LATER), row("CUSTOM_B3", None, None)],
        [row("CUSTOM_C1", MOMENT, LATER), row("CUSTOM_C2", LATER, LATER)],
        [row(f"CUSTOM_D{n}", MOMENT, LATER if n % 2 else None) for n in range(70)],
    ],
    ids=["one", "the same", "one differs", "two differ", "two statements"],
)
@pytest.mark.parametrize("is_later", [False, True])
def test_rows_are_there_as_they_were_given(
    db: Database, rows: list[dict[str, Any]], is_later: bool
) -> None:
    columns = [TRAITS.c[name] for name in rows[0]]
    named = {given["name"] for given in rows}

    db.write(lambda tx: tx.connection.execute(TRAITS.delete()))

    def insert(tx: Transaction) -> None:
        (tx.insert_later if is_later else tx.insert)(TRAITS, rows)

    db.write(insert)

    found = db.read(lambda reader: reader.connection.execute(select(*columns)).all())
    assert {one.name for one in found} == named
    assert sorted(map(tuple, found), key=str) == sorted((tuple(r.values()) for r in rows), key=str)


def test_a_value_that_all_rows_share_is_bound_once() -> None:
    rows = [row("CUSTOM_A", MOMENT, None), row("CUSTOM_B", MOMENT, None)]

    _, parameters = statements.insert_of(TRAITS, rows)

    assert parameters == {
        "name_0": "CUSTOM_A",
        "name_1": "CUSTOM_B",
        "created_at": MOMENT,
        "updated_at": None,
    }

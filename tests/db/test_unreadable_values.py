"""On SQLite a wrong time counts as NULL, a wrong number as its digits or 0 (specification 06 section 7.7)."""

from typing import Any

import pytest
from sqlalchemy import Integer, String

from placement.db import invariants, models, scrub, unreadable_values
from placement.db.database import Database
from tests.db.test_invariants_damage import Stage, answers, ask_all, generation, told
from tests.db.test_invariants_damage import stage as stage
from tests.support.damage import (
    OTHER_BYTES,
    OTHER_TYPES,
    SOUND,
    STRUCK,
    VALUES,
    WITH_TIMES,
    Damage,
    questions,
)
from tests.support.effort import LONG
from tests.support.revisions import AT_HEAD, execute, on

NO_TIMES = (
    *("strftime('%s', 'now')", "julianday('now')", "unixepoch('now')", "0", "-1", "1e400", "x'00'"),
    *("''", "'0000-00-00 00:00:00'", "'0000-01-01 00:00:00'", "'yesterday'", "'2460000.5'", "'2024-13-01'"),
)
OTHER_FORMS = ("'2024-01-01T00:00:00Z'", "'2024-01-01 00:00:00+02:00'", "'2024-01-01'")


NUMBERS = [
    (table.name, column.name)
    for table in models.whole_metadata().sorted_tables
    # The row of a coexistence is there while it lasts. No primary key of SQLite holds anything but a number.
    if table is not models.coexistence
    for column in table.columns
    if isinstance(column.type, Integer) and not column.primary_key
]
NO_NUMBERS = [
    Damage(*column, how)
    for number, column in enumerate(NUMBERS)
    for place, how in enumerate(OTHER_TYPES)
    if LONG or place == number % len(OTHER_TYPES)
]
"""The long mode tries each type in each column; else each column holds one of them."""


@pytest.mark.parametrize("stage", ["sqlite-unshared"], indirect=True)
@pytest.mark.parametrize("damage", NO_NUMBERS, ids=str)
def test_a_value_that_is_no_number_stays_where_it_is(stage: Stage, damage: Damage) -> None:
    service = stage.struck(damage)

    assert VALUES in told(stage.db)
    ask_all(stage, service)


@pytest.mark.parametrize("stage", ["sqlite-unshared"], indirect=True)
@pytest.mark.parametrize("how", OTHER_TYPES)
def test_an_inventory_with_such_values_is_written_to(stage: Stage, how: str) -> None:
    """No answer is a fault: an amount that does not fit is read again, by another statement."""
    for column in ("total", "reserved", "min_unit", "max_unit", "step_size", "used"):
        service = stage.struck(Damage("inventories", column, how))
        for amount in (1, 1000):
            sets = {STRUCK.uuid("root"): {STRUCK.custom: amount}}
            uuid = STRUCK.uuid("new")
            body = STRUCK.entry(sets, generation(service, uuid))
            assert service.send("PUT", f"/allocations/{uuid}", body).status in (204, 409)


@pytest.mark.parametrize("stage", ["sqlite-unshared"], indirect=True)
@pytest.mark.parametrize("how", OTHER_BYTES)
@pytest.mark.parametrize("table, column", [("resource_providers", "name"), ("traits", "name")])
def test_a_provider_with_such_a_name_is_written(stage: Stage, table: str, column: str, how: str) -> None:
    service = stage.struck(Damage(table, column, how))
    path = f"/resource_providers/{STRUCK.uuid('child')}"
    known = service.send("GET", path).json["generation"]
    body = {"resource_provider_generation": known, "traits": ["HW_CPU_X86_VMX"]}
    assert service.send("PUT", f"{path}/traits", body).status == 200
    scrub.scrub_all(stage.db)


NO_TEXTS = [
    Damage(table.name, column.name, how)
    for table in models.whole_metadata().sorted_tables
    if table is not models.coexistence
    for column in table.columns
    if isinstance(column.type, String) and not column.primary_key
    for how in OTHER_BYTES
]


@pytest.mark.parametrize("stage", ["sqlite-unshared"], indirect=True)
@pytest.mark.parametrize("damage", NO_TEXTS, ids=str)
def test_a_value_that_is_no_text_stays_where_it_is(stage: Stage, damage: Damage) -> None:
    service = stage.struck(damage)

    if damage.how == "bytes":
        assert VALUES in told(stage.db)
    ask_all(stage, service)


@pytest.mark.parametrize("stage", ["sqlite-unshared"], indirect=True)
@pytest.mark.parametrize("column", ["updated_at", "created_at, updated_at"])
@pytest.mark.parametrize("value", [*NO_TIMES, *OTHER_FORMS])
def test_a_value_that_is_no_time_is_no_fault(stage: Stage, column: str, value: str) -> None:
    """In one row of each table, among others with a time."""
    stage.saved.put_back()
    before = bodies(stage)
    try:
        set_times(stage.db, column, value)
        assert bodies(stage) == before
    finally:
        # SQLAlchemy itself, which puts the rows back, cannot read these.
        set_times(stage.db, column, "NULL")


def set_times(database: Database, columns: str, value: str) -> None:
    """Write a value into the last row of each table."""
    changes = ", ".join(f"{name} = {value}" for name in columns.split(", "))
    for table in WITH_TIMES.split():
        last = f"(SELECT max(ROWID) FROM {table})"
        execute(database, f"UPDATE {table} SET {changes} WHERE ROWID = {last}")


def bodies(stage: Stage) -> dict[str, Any]:
    """Return what a service answers that has read nothing yet; no answer may be a 500."""
    service = stage.service()
    asked = [path for half in (SOUND, STRUCK) for path in questions(half)]
    found = answers(service, asked)
    # Answers of extensions contain times and marks of their own.
    return {path: answer for path, answer in found.items() if not path.startswith("/-/")}


@on("sqlite")
@AT_HEAD
@pytest.mark.parametrize("value", NO_TIMES)
def test_check_names_the_column(database: Database, value: str) -> None:
    execute(
        database,
        "INSERT INTO traits (id, name, created_at) VALUES (1, 'A', '2024-01-01 00:00:00.5'), (2, 'B', NULL)",
        f"INSERT INTO traits (id, name, updated_at) VALUES (3, 'CUSTOM_X', {value})",
    )

    (found,) = invariants.violations(database)

    assert found.invariant is invariants.VALUES
    (line,) = found.examples
    assert line.startswith("table traits, column updated_at: 1 rows, one with ")


@AT_HEAD
def test_other_databases_hold_no_such_value(database: Database) -> None:
    assert database.snapshot(unreadable_values.describe) == []

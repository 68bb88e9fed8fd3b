"""A whole cloud as PyMySQL gets it, in few texts: the same rows as one by one."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, insert

from placement.db import cloud_rows, coexistence_rows, models, packed_rows, schema
from placement.db.database import Database, Snapshot, Transaction
from placement.db.engine import make_engine
from tests.support.databases import scratch_database

CHARACTERS = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000, 17), 0x10FFFF)))
NAMES = [CHARACTERS[begin : begin + 200] for begin in range(0, len(CHARACTERS), 200)]
RATIOS = (1.0, 16.0, 0.1 + 0.2, 1 / 3, 1e-7, 3.4028234663852886e38, 123456789.12345679)
FIRST_ID = 1000
BIGGEST, MOST_USED = 2**31 - 1, 2**62
OF_ALL = ("providers", "inventories", "traits", "aggregates")

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    """Return a database with providers of all kinds of names, in ids of several blocks."""
    with scratch_database("mysql") as url:
        found = Database(make_engine(url))
        assert found.engine.dialect.driver in packed_rows.DRIVERS
        schema.sync(found)
        found.write(fill)
        yield found
        found.dispose()


def fill(tx: Transaction) -> None:
    """Insert rows as no client could: with NULL wherever the schema has it, in tables that others fill."""
    ids = [FIRST_ID + 100 * place for place in range(len(NAMES))]
    providers = [
        {
            "id": key,
            "uuid": f'{key},"]',
            "name": name,
            "revision": 2**62 - key,
            "parent_provider_id": ids[place - 1] if place % 3 else None,
            "root_provider_id": ids[0] if place % 3 else None,
            "generation": place if place % 2 else None,
            "created_at": datetime(2026, 1, 1, 0, 0, place % 60) if place % 5 else None,
        }
        for place, (key, name) in enumerate(zip(ids, NAMES, strict=True))
    ]
    providers.append(providers[0] | {"id": BIGGEST, "uuid": "nameless", "name": None})
    tx.execute(insert(models.resource_providers), providers)
    for table in (models.resource_classes, models.traits):
        names = [{"id": number, "name": f"CUSTOM_{number}"} for number in range(1, 7)]
        tx.execute(insert(table), names)
    owners = [*ids, BIGGEST]
    amounts = {"total": BIGGEST, "reserved": 3, "min_unit": 1, "max_unit": BIGGEST, "step_size": 5}
    inventories = [
        {
            "resource_provider_id": key,
            "resource_class_id": number,
            "allocation_ratio": RATIOS[(place + number) % len(RATIOS)],
            "used": MOST_USED + place,
        }
        | amounts
        for place, key in enumerate(owners)
        for number in range(1, 4)
    ]
    tx.execute(insert(models.inventories), inventories)
    allocation = {"resource_provider_id": BIGGEST, "resource_class_id": 1, "used": BIGGEST}
    consumers = [allocation | {"consumer_id": number} for number in range(4)]
    tx.execute(insert(models.allocations), consumers)
    some = [(key, number + 1) for key in owners for number in range(key % 7)]
    traits = [{"resource_provider_id": key, "trait_id": number} for key, number in some]
    tx.execute(insert(models.resource_provider_traits), traits)
    aggregates = [{"resource_provider_id": key, "aggregate_id": number} for key, number in some]
    tx.execute(insert(models.resource_provider_aggregates), aggregates)


def one_by_one(tx: Snapshot) -> dict[str, Rows]:
    """Return all rows as the other drivers get them."""
    statements = zip(OF_ALL, cloud_rows._EVERYTHING, strict=True)
    return {name: sorted(cloud_rows._tuples(tx, each), key=str) for name, each in statements}


def everything(tx: Snapshot) -> dict[str, Rows]:
    """Return all rows, in the same form."""
    found = cloud_rows.everything(tx)[0]
    tables = {name: getattr(found, name) for name in OF_ALL}
    lists = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in tables.items()}
    return {name: sorted(map(tuple, rows), key=str) for name, rows in lists.items()}


def compared(db: Database) -> tuple[dict[str, Rows], list[str]]:
    """Return the rows, which are the same both ways, and the statements that brought them."""
    expected = db.snapshot(one_by_one)
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        sent.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        found = db.snapshot(everything)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    for name in OF_ALL:
        assert len(found[name]) > len(NAMES)
        assert found[name] == expected[name], name
        assert [*map(type, found[name][0])] == [*map(type, expected[name][0])]
    return found, [statement for statement in sent if "group_concat(" in statement]


def test_all_values_come_out_as_they_are(db: Database) -> None:
    found, packed = compared(db)

    assert len(packed) == len(OF_ALL)
    assert {row[5] for row in found["providers"]} == {*NAMES, None}
    assert {row[7] for row in found["inventories"]} == {*RATIOS}
    assert max(row[8] for row in found["inventories"]) == MOST_USED + len(NAMES)


def test_what_is_used_is_the_sum_of_the_ledger_while_another_service_writes(db: Database) -> None:
    db.write(lambda tx: tx.execute(insert(models.coexistence), {"id": 1, "since": models.now()}))
    try:
        assert db.snapshot(coexistence_rows.is_under_way)
        found, _ = compared(db)
    finally:
        db.write(lambda tx: tx.execute(models.coexistence.delete()))
    used = {row[:2]: row[8] for row in found["inventories"]}
    assert used[BIGGEST, 1] == 4 * BIGGEST
    assert used[BIGGEST, 2] == 0


@pytest.mark.parametrize("most", [1024, 5000])
def test_what_the_server_cuts_is_read_one_by_one(
    db: Database,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A proxy before the server may not hand the setting on; the default of MySQL is 1,024."""
    setting = f"SET SESSION group_concat_max_len = {most}"
    monkeypatch.setattr(packed_rows, "SET_TEXT_BYTES", setting)
    compared(db)
    assert "one by one" in caplog.text


def test_the_largest_texts_are_not_cut(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    """A block of the longest names, each character of which takes six bytes."""
    block = 2**20

    def widest(tx: Transaction) -> None:
        rows = [
            {"id": block + place, "uuid": f"{place:036}", "name": f"{place:04}" + 196 * "\x01"}
            for place in range(1024)
        ]
        tx.execute(insert(models.resource_providers), [row | {"revision": 1} for row in rows])

    db.write(widest)
    compared(db)
    assert not caplog.text

"""Texts of many rows that are not whole; what is in them is seen on the database (functional)."""

import pytest

from placement.db import models
from placement.db.packed_rows import Cut, PackedColumns, PackedRecords

INVENTORIES = models.inventories.c
COLUMNS = PackedColumns(
    INVENTORIES.resource_provider_id,
    (INVENTORIES.allocation_ratio,),
    (INVENTORIES.resource_provider_id, INVENTORIES.total),
)
RECORDS = PackedRecords(INVENTORIES.id, (INVENTORIES.id, INVENTORIES.total))


def test_numbers_are_columns() -> None:
    rows = [(1.5, 2, "1,10,2,20,"), (0.5, 1, b"3,30,")]
    assert [column.tolist() for column in COLUMNS.unpack(rows)] == [
        [1.5, 1.5, 0.5],
        [1, 2, 3],
        [10, 20, 30],
    ]
    assert [len(column) for column in COLUMNS.unpack([])] == [0, 0, 0]


@pytest.mark.parametrize("text", ["1,10,2,20", "1,10,2,2", "1,10,2,", "1,10,", ""])
def test_numbers_that_were_cut_are_none(text: str) -> None:
    """The last number could be another one."""
    with pytest.raises(Cut):
        COLUMNS.unpack([(1.5, 2, text)])


@pytest.mark.parametrize("text", ["[1,10],[2,20", "[1,10],", "[1,10]", ""])
def test_records_that_were_cut_are_none(text: str) -> None:
    assert RECORDS.unpack([(2, "[1,10],[2,null]")]) == [[1, 10], [2, None]]
    with pytest.raises(Cut):
        RECORDS.unpack([(2, text)])

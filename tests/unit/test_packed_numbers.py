"""What is packed and what is not; that it is understood is seen on the databases (test_ready_statements)."""

import pytest
from sqlalchemy import select
from sqlalchemy.dialects.mysql import mysqldb, pymysql

from placement.db import models
from placement.db.packed_numbers import PackedNumbers, packed

INVENTORIES = models.inventories.c
PYMYSQL = pymysql.dialect()


def whole() -> PackedNumbers:
    found = packed(
        select(INVENTORIES.id, INVENTORIES.total, INVENTORIES.used, INVENTORIES.reserved), PYMYSQL
    )
    assert found is not None
    return found


def test_few_numbers_stay_columns_and_so_do_fractions() -> None:
    numbers = (INVENTORIES.total, INVENTORIES.used, INVENTORIES.reserved)
    assert packed(select(*numbers, INVENTORIES.allocation_ratio), PYMYSQL) is None
    assert packed(select(*numbers, INVENTORIES.id), PYMYSQL) is not None


def test_drivers_in_c_get_columns() -> None:
    assert packed(select(*INVENTORIES), mysqldb.dialect()) is None


@pytest.mark.parametrize("text", ["1,2,3,4", "1,2,3,4,5", "1,2,3", ""])
def test_a_text_that_was_cut_is_no_row(text: str) -> None:
    """The last number could be another one."""
    assert whole().unpack([("1,,-3,0,",)]) == [(1, None, -3, 0)]
    with pytest.raises(ValueError, match="cut"):
        whole().unpack([(text,)])

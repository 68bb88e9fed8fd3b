"""Keep allocation ratios as they were written: MySQL's FLOAT has six digits."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from placement.db.migrations import steps

revision = "c3f7a5e81d62"
down_revision = "b8d2f04c7e19"

# The digits that were shown until now: 1.1, and not the 1.100000023841858 that FLOAT has kept.
AS_SHOWN = "ROUND(allocation_ratio, 5 - FLOOR(LOG10(ABS(allocation_ratio))))"


def upgrade() -> None:
    """Widen inventories.allocation_ratio to double precision, which the other databases have."""
    if not steps.is_mysql():
        return
    if not isinstance(_ratio_type(), mysql.DOUBLE):
        with steps.all_tables(op.get_bind()):
            change = "ALTER TABLE inventories MODIFY allocation_ratio DOUBLE NOT NULL"
            steps.alter(change, "inventories")
    steps.update_in_batches(
        "inventories",
        f"UPDATE inventories SET allocation_ratio = {AS_SHOWN}, updated_at = updated_at "  # noqa: S608
        f"WHERE allocation_ratio <> 0 AND allocation_ratio <> {AS_SHOWN}",
    )


def _ratio_type() -> sa.types.TypeEngine[Any]:
    columns = sa.inspect(op.get_bind()).get_columns("inventories")
    return next(one["type"] for one in columns if one["name"] == "allocation_ratio")

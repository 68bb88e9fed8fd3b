"""Keep allocation ratios as they were written: MySQL's FLOAT has six digits."""

from alembic import op

from placement.db.migrations import steps

revision = "c3f7a5e81d62"
down_revision = "b8d2f04c7e19"

# What was shown of a ratio until now: 1.1, and not the 1.100000023841858 that FLOAT has kept.
AS_SHOWN = "ROUND(allocation_ratio, 5 - FLOOR(LOG10(ABS(allocation_ratio))))"


def upgrade() -> None:
    """Widen inventories.allocation_ratio to double precision, which the other databases have."""
    if not steps.is_mysql():
        return
    op.execute("ALTER TABLE inventories MODIFY allocation_ratio DOUBLE NOT NULL")
    op.execute(
        f"UPDATE inventories SET allocation_ratio = {AS_SHOWN}, updated_at = updated_at "  # noqa: S608
        f"WHERE allocation_ratio <> 0 AND allocation_ratio <> {AS_SHOWN}"
    )

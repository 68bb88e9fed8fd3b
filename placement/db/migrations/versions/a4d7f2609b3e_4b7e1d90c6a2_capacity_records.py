"""Keep for a year how many more of each shape fitted, as ``placement-manage capacity record`` counted."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from placement.db.migrations import steps

revision = "a4d7f2609b3e_4b7e1d90c6a2"
down_revision = "6f1c8a3e5d92_4b7e1d90c6a2"

metadata = sa.MetaData()
sa.Table(
    "capacity_records",
    metadata,
    sa.Column(
        "shape",
        sa.String(64).with_variant(
            mysql.VARCHAR(64, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
        ),
        nullable=False,
    ),
    sa.Column("recorded_at", sa.BigInteger, nullable=False, autoincrement=False),
    sa.Column("placements", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("shape", "recorded_at"),
    sa.Index("capacity_records_recorded_at_idx", "recorded_at"),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add the table."""
    steps.create_missing(metadata)

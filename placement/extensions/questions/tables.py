"""The table of capacity records: how many more of a shape fitted (specification 07 section 3.2)."""

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table

from placement.db.models import TABLE_OPTIONS, ascii_text, metadata

capacity_records = Table(
    "capacity_records",
    metadata,
    Column("shape", ascii_text(64), nullable=False),
    # This time is in milliseconds since the epoch, by the clock of the database.
    Column("recorded_at", BigInteger, nullable=False, autoincrement=False),
    Column("placements", BigInteger, nullable=False),
    PrimaryKeyConstraint("shape", "recorded_at"),
    Index("capacity_records_recorded_at_idx", "recorded_at"),
    **TABLE_OPTIONS,
)

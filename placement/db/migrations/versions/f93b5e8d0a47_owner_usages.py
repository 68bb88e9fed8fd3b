"""Keep what every owner uses, so that no read sums the ledger for a project."""

import sqlalchemy as sa

from placement.db.migrations import steps

revision = "f93b5e8d0a47"
down_revision = "e82c4d7a9b36"

metadata = sa.MetaData()
KEY = ("project_id", "user_id", "consumer_type_id", "resource_class_id")
owner_usages = sa.Table(
    "owner_usages",
    metadata,
    *(sa.Column(name, sa.Integer, nullable=False, autoincrement=False) for name in KEY),
    sa.Column("slot", sa.SmallInteger, nullable=False, autoincrement=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint(*KEY, "slot"),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add owner_usages; what belongs into it is computed where a coexistence ends."""
    steps.create_missing(metadata)

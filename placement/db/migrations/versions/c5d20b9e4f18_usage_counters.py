"""Keep what is used of an inventory beside it, so that no read sums the ledger."""

import sqlalchemy as sa

from placement.db.migrations import steps

revision = "c5d20b9e4f18"
down_revision = "a082b8bb98d0"


def upgrade() -> None:
    """Add inventories.used; what it should be is computed where a coexistence ends."""
    steps.add_column(
        "inventories", sa.Column("used", sa.BigInteger, nullable=False, server_default="0")
    )

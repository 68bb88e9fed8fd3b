"""Give consumers a generation (Rocky, in nova's API database).

Existing consumers start at 0, as new ones do, so that the first write at microversion 1.28 or later
names the generation it read.
"""

import sqlalchemy as sa

from placement.db.migrations import steps

revision = "0e6a91c5d327"
down_revision = "0d4e8f62b1a7"


def upgrade() -> None:
    """Add consumers.generation."""
    steps.add_column(
        "consumers", sa.Column("generation", sa.Integer, nullable=False, server_default="0")
    )

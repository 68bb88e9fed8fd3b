"""Count every change to what the search reads about a provider."""

import sqlalchemy as sa

from placement.db.migrations import steps

revision = "d71f3a8c6e05"
down_revision = "c5d20b9e4f18"


def upgrade() -> None:
    """Add resource_providers.revision, and let no provider be without a generation."""
    steps.add_column(
        "resource_providers",
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
    )
    # The column always allowed NULL, which no compare-and-set matches and no client may read.
    steps.update_in_batches(
        "resource_providers",
        "UPDATE resource_providers SET generation = 0 WHERE generation IS NULL",
    )

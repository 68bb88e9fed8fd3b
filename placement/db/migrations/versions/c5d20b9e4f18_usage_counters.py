"""Keep what is used of an inventory beside it, so that nobody needs to sum the ledger."""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = "c5d20b9e4f18"
down_revision = "a082b8bb98d0"

# One statement; updated_at stays, because the inventory as the API shows it does not change.
FILL = """
UPDATE inventories SET used = COALESCE((
    SELECT SUM(allocations.used) FROM allocations
    WHERE allocations.resource_provider_id = inventories.resource_provider_id
      AND allocations.resource_class_id = inventories.resource_class_id), 0)
"""


def upgrade() -> None:
    """Add inventories.used and compute it from the allocations."""
    steps.add_column(
        "inventories", sa.Column("used", sa.BigInteger, nullable=False, server_default="0")
    )
    op.get_bind().execute(sa.text(FILL))

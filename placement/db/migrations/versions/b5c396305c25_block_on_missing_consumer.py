"""Refuse to go on while an allocation has no consumer (release 2.0.0, Train)."""

from alembic import op
from sqlalchemy import text

from placement.db.migrations import MigrationBlocked

revision = "b5c396305c25"
down_revision = "611cd6dffd7b"


def upgrade() -> None:
    """Check, and change nothing."""
    query = text(
        "SELECT allocations.id FROM allocations "
        "LEFT JOIN consumers ON consumers.uuid = allocations.consumer_id "
        "WHERE consumers.uuid IS NULL LIMIT 1"
    )
    if op.get_bind().execute(query).first() is not None:
        raise MigrationBlocked(
            "There is at least one allocation record which is missing a consumer record. "
            'Run the "placement-manage db online_data_migrations" command.'
        )

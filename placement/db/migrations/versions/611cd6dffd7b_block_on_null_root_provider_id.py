"""Refuse to go on while a provider has no root (release 2.0.0, Train)."""

from alembic import op
from sqlalchemy import text

from placement.db.migrations import MigrationBlocked

revision = "611cd6dffd7b"
down_revision = "b4ed3a175331"


def upgrade() -> None:
    """Check, and change nothing."""
    query = text("SELECT id FROM resource_providers WHERE root_provider_id IS NULL LIMIT 1")
    if op.get_bind().execute(query).first() is not None:
        raise MigrationBlocked(
            "There is at least one resource provider table record which is missing its root "
            'provider id. Run the "placement-manage db online_data_migrations" command.'
        )

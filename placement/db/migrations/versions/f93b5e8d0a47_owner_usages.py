"""Keep what every owner uses, so that nobody needs to sum the ledger for a project."""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = "f93b5e8d0a47"
down_revision = "e82c4d7a9b36"

# Resource class -1 counts the consumers; consumer type 0 is none.
FILL = """
INSERT INTO owner_usages
    (project_id, user_id, consumer_type_id, resource_class_id, slot, used)
SELECT consumers.project_id, consumers.user_id, COALESCE(consumers.consumer_type_id, 0),
    allocations.resource_class_id, 0, SUM(allocations.used)
FROM consumers JOIN allocations ON allocations.consumer_id = consumers.uuid
GROUP BY consumers.project_id, consumers.user_id, COALESCE(consumers.consumer_type_id, 0),
    allocations.resource_class_id
UNION ALL
SELECT consumers.project_id, consumers.user_id, COALESCE(consumers.consumer_type_id, 0),
    -1, 0, COUNT(*)
FROM consumers
WHERE EXISTS (SELECT 1 FROM allocations WHERE allocations.consumer_id = consumers.uuid)
GROUP BY consumers.project_id, consumers.user_id, COALESCE(consumers.consumer_type_id, 0)
"""

metadata = sa.MetaData()
KEY = ("project_id", "user_id", "consumer_type_id", "resource_class_id")
owner_usages = sa.Table(
    "owner_usages",
    metadata,
    *(sa.Column(name, sa.Integer, nullable=False, autoincrement=False) for name in KEY),
    sa.Column("slot", sa.SmallInteger, nullable=False, autoincrement=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint(*KEY, "slot"),
    mysql_engine="InnoDB",
    mysql_charset="utf8mb4",
    mariadb_engine="InnoDB",
    mariadb_charset="utf8mb4",
)


def upgrade() -> None:
    """Add owner_usages and compute it from the allocations."""
    steps.create_missing(metadata)
    # Also where this migration was interrupted between the two steps.
    op.get_bind().execute(sa.delete(owner_usages))
    op.get_bind().execute(sa.text(FILL))

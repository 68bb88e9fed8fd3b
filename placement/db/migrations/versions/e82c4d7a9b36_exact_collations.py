"""Compare names and uuids byte for byte on MySQL and MariaDB, as the other databases do.

Their default collations take ``a`` for ``A``, and most of them ``a`` for ``a`` and a space.
"""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = "e82c4d7a9b36"
down_revision = "d71f3a8c6e05"

# The best first: MariaDB has the first, MySQL 8 the second, MySQL 5.7 only the third.
COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin", "utf8mb4_bin")

TABLES = (
    "allocations",
    "consumer_types",
    "consumers",
    "inventories",
    "placement_aggregates",
    "projects",
    "resource_classes",
    "resource_provider_aggregates",
    "resource_provider_traits",
    "resource_providers",
    "traits",
    "users",
)


def upgrade() -> None:
    """Convert every table."""
    if not steps.is_mysql():
        return
    connection = op.get_bind()
    known = set(
        connection.scalars(sa.text("SELECT collation_name FROM information_schema.collations"))
    )
    collation = next(name for name in COLLATIONS if name in known)
    for name in TABLES:
        # DYNAMIC, because an index over 255 characters of four bytes is too long for COMPACT.
        op.execute(
            f"ALTER TABLE {name} ROW_FORMAT=DYNAMIC, "
            f"CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}"
        )

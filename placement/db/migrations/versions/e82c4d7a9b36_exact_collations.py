"""Compare names and uuids byte for byte on MySQL and MariaDB, as the other databases do.

Their default collations take ``a`` for ``A``, and most of them take ``a`` for ``a`` and a space.
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

SMALL = 10_000
"""Rows that are converted in an instant."""

_OTHERWISE = sa.text(
    "SELECT table_name, coalesce(table_rows, 0) FROM information_schema.tables AS t"
    " WHERE table_schema = DATABASE() AND (table_collation <> :collation OR EXISTS (SELECT 1"
    " FROM information_schema.columns AS c WHERE c.table_schema = t.table_schema"
    " AND c.table_name = t.table_name AND c.collation_name <> :collation))"
)
"""Tables with another collation, and about how many rows they have."""


def upgrade() -> None:
    """Convert every table that has another one."""
    if not steps.is_mysql():
        return
    connection = op.get_bind()
    known = set(
        connection.scalars(sa.text("SELECT collation_name FROM information_schema.collations"))
    )
    collation = next(name for name in COLLATIONS if name in known)
    rows = {
        name: number
        for name, number in connection.execute(_OTHERWISE, {"collation": collation}).all()
        if name in TABLES
    }
    # Small tables are locked together, because they take an instant; a large one is locked alone.
    small = [name for name in TABLES if rows.get(name, SMALL) < SMALL]
    large = [name for name in TABLES if rows.get(name, 0) >= SMALL]
    for group in filter(None, (small, *([name] for name in large))):
        with steps.all_tables(connection):
            for name in group:
                # DYNAMIC, because an index over 255 characters of four bytes is too long for COMPACT.
                steps.alter(
                    f"ALTER TABLE {name} ROW_FORMAT=DYNAMIC, "
                    f"CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}",
                    name,
                )

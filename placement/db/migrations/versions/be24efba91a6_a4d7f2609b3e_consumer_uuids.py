"""Let holds and memberships of groups name the uuid of their consumer: its id may be given to another one.

A worker of the release before writes no uuid. An online data migration notes it.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from placement.db.migrations import steps

revision = "be24efba91a6_a4d7f2609b3e"
down_revision = "5604191eeb43_a4d7f2609b3e"

_uuid = sa.String(36).with_variant(
    mysql.VARCHAR(36, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
)


def upgrade() -> None:
    """Add the columns and fill them, one table after the other."""
    for table in ("consumer_holds", "consumer_group_members"):
        steps.add_column(table, sa.Column("consumer_uuid", _uuid))
        steps.commit()
        steps.update_in_batches(
            table,
            f"UPDATE {table} SET consumer_uuid = (SELECT uuid FROM consumers"  # noqa: S608
            f" WHERE consumers.id = {table}.consumer_id) WHERE consumer_uuid IS NULL",
            key="consumer_id",
        )
        steps.commit()

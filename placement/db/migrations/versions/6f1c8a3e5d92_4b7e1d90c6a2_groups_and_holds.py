"""Keep groups of consumers with the rule between them, and until when a consumer is held.

Rows go with their consumer, whichever service deletes it. SQLite does not look at foreign keys here, so
there a trigger deletes them: it gives the id of a deleted consumer to the next one.
"""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = "6f1c8a3e5d92_4b7e1d90c6a2"
down_revision = "4b7e1d90c6a2"

# As those of the other tables with names: the best that the server knows.
COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin", "utf8mb4_bin")

metadata = sa.MetaData()
sa.Table("consumers", metadata, sa.Column("id", sa.Integer, primary_key=True))
steps.table(
    metadata,
    "consumer_groups",
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("name", sa.Unicode(255), nullable=False),
    sa.Column("rule", sa.String(16), nullable=False),
    sa.Column("at_most", sa.Integer, nullable=False),
    sa.Column("aggregates", sa.Text, nullable=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.UniqueConstraint("name", name="uniq_consumer_groups0name"),
)


def _of_consumer(table: str) -> sa.Column[int]:
    key = sa.ForeignKey("consumers.id", name=f"{table}_consumer_id_fkey", ondelete="CASCADE")
    return sa.Column("consumer_id", sa.Integer, key, nullable=False, autoincrement=False)


sa.Table(
    "consumer_group_members",
    metadata,
    _of_consumer("consumer_group_members"),
    sa.Column(
        "group_id",
        sa.Integer,
        sa.ForeignKey("consumer_groups.id", name="consumer_group_members_group_id_fkey"),
        nullable=False,
    ),
    sa.PrimaryKeyConstraint("consumer_id", "group_id"),
    sa.Index("consumer_group_members_group_id_idx", "group_id"),
    **steps.TABLE_OPTIONS,
)
sa.Table(
    "consumer_holds",
    metadata,
    _of_consumer("consumer_holds"),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("consumer_id"),
    sa.Index("consumer_holds_expires_at_idx", "expires_at"),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add the three tables."""
    steps.create_missing(metadata)
    if steps.is_sqlite():
        for table in ("consumer_group_members", "consumer_holds"):
            op.execute(
                f"CREATE TRIGGER IF NOT EXISTS {table}_of_deleted AFTER DELETE ON consumers BEGIN"  # noqa: S608
                f" DELETE FROM {table} WHERE consumer_id = OLD.id; END"
            )
        # SQLite gives ids again: members that a damaged database has left behind join no new group.
        op.execute(
            "CREATE TRIGGER IF NOT EXISTS consumer_group_members_of_new AFTER INSERT ON consumer_groups BEGIN"
            " DELETE FROM consumer_group_members WHERE group_id = NEW.id; END"
        )
    if steps.is_mysql():
        known = set(
            op.get_bind().scalars(
                sa.text("SELECT collation_name FROM information_schema.collations")
            )
        )
        collation = next(name for name in COLLATIONS if name in known)
        # The tables are new and empty.
        op.execute(
            "ALTER TABLE consumer_groups ROW_FORMAT=DYNAMIC, "
            f"CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}"
        )

"""Give consumers a type (release 6.0.0, Xena)."""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = "422ece571366"
down_revision = "b5c396305c25"

FOREIGN_KEY = "consumers_consumer_type_id_fkey"
INDEX = "consumers_consumer_type_id_idx"

metadata = sa.MetaData()

steps.table(
    metadata,
    "consumer_types",
    sa.Column("id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("name", sa.Unicode(255), nullable=False),
    sa.UniqueConstraint("name", name="uniq_consumer_types0name"),
)


def upgrade() -> None:
    """Create consumer_types and refer to it from consumers."""
    steps.create_missing(metadata)
    keys = sa.inspect(op.get_bind()).get_foreign_keys("consumers")
    with op.batch_alter_table("consumers") as batch:
        if not steps.has_column("consumers", "consumer_type_id"):
            batch.add_column(sa.Column("consumer_type_id", sa.Integer))
        if INDEX not in steps.index_names("consumers"):
            batch.create_index(INDEX, ["consumer_type_id"])
        if not any(key["name"] == FOREIGN_KEY for key in keys):
            batch.create_foreign_key(FOREIGN_KEY, "consumer_types", ["consumer_type_id"], ["id"])

"""Keep a log of the providers that were written last, so that searches need not compare all of them.

Only this service writes it. While another one may write too, searches compare what they did before.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from placement.db.migrations import steps

revision = "4b7e1d90c6a2"
down_revision = "9ec573870318"

SLOTS = 64

metadata = sa.MetaData()
provider_changes = sa.Table(
    "provider_changes",
    metadata,
    sa.Column("slot", sa.SmallInteger, primary_key=True, nullable=False, autoincrement=False),
    sa.Column("mark", sa.BigInteger, nullable=False),
    sa.Column(
        "recent",
        sa.String(255).with_variant(
            mysql.VARCHAR(255, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
        ),
        nullable=False,
    ),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add provider_changes with all of its rows: writers update them."""
    steps.create_missing(metadata)
    present = set(op.get_bind().scalars(sa.select(provider_changes.c.slot)))
    rows = [{"slot": slot, "mark": 0, "recent": ""} for slot in range(SLOTS) if slot not in present]
    if rows:
        op.get_bind().execute(sa.insert(provider_changes), rows)

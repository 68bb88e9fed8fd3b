"""Let what is derived be compared bit by bit: how far that is, and checksums of what providers have.

The checksums of providers that are there come with the first round. A worker of the release before moves
revisions and leaves the checksums: by ``own_revision`` this one knows that.
"""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from placement.db.migrations import steps

revision = "0b9dadf6faa7_a4d7f2609b3e"
down_revision = "a4d7f2609b3e_4b7e1d90c6a2"

_short = sa.String(32).with_variant(
    mysql.VARCHAR(32, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
)
metadata = sa.MetaData()
sa.Table(
    "scrub",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
    sa.Column("stage", _short, nullable=False),
    *(
        sa.Column(name, sa.BigInteger, nullable=False)
        for name in ("position", "due_at", "began_at", "ended_at", "rounds", "mendings")
    ),
    sa.Column("measure", sa.BigInteger),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add the table, which the first worker fills, and the columns, one lock after the other."""
    steps.create_missing(metadata)
    steps.commit()
    for name in ("own_revision", "digest"):
        steps.add_column("resource_providers", sa.Column(name, sa.BigInteger))
        steps.commit()

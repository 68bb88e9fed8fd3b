"""Let the OpenStack service work on the same database until it is replaced everywhere.

A database that this service has begun has the table already (:func:`placement.db.schema.sync`).
"""

import sqlalchemy as sa
from alembic import op

from placement.db import models
from placement.db.migrations import steps

revision = "b8d2f04c7e19"
down_revision = "f93b5e8d0a47"

metadata = sa.MetaData()
coexistence = sa.Table(
    "coexistence",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
    sa.Column("since", sa.DateTime, nullable=False),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Add resource_providers.own_generation, and begin the coexistence if another service made the tables."""
    connection = op.get_bind()
    steps.add_column("resource_providers", sa.Column("own_generation", sa.Integer))
    is_ours = sa.inspect(connection).has_table("coexistence")
    steps.create_missing(metadata)
    # An interrupted run may have left its row.
    if not connection.scalar(sa.select(sa.func.count()).select_from(coexistence)) and not (
        is_ours and connection.scalar(sa.text("SELECT MIN(id) FROM resource_providers")) is None
    ):
        connection.execute(sa.insert(coexistence).values(id=1, since=models.now()))

"""Let the OpenStack service work on the same database until it is replaced everywhere."""

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
    """Add resource_providers.own_generation; where there are providers another service made them."""
    steps.add_column("resource_providers", sa.Column("own_generation", sa.Integer))
    steps.create_missing(metadata)
    op.get_bind().execute(sa.delete(coexistence))
    if op.get_bind().scalar(sa.text("SELECT MIN(id) FROM resource_providers")) is not None:
        op.get_bind().execute(sa.insert(coexistence).values(id=1, since=models.now()))

"""${message}."""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import steps

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """${message}."""
    ${upgrades if upgrades else "raise NotImplementedError"}

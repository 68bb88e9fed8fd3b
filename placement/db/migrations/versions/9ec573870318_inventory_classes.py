"""Let every inventory have a class, between the nodes of a cluster too.

A class may be deleted on one node of a Galera cluster while its first inventory is written on another:
neither sees the other's lock. With the foreign key the inventory's transaction refers to the row of
the class, and certification lets one of the two commit.

Inventories without a class, which races of older services left, stay as they are: what is stored is
not checked here, and ``placement-manage db check`` reports them.
"""

import sqlalchemy as sa
from alembic import op

from placement.db.migrations import afterwards, steps

revision = "9ec573870318"
down_revision = "c3f7a5e81d62"

FOREIGN_KEY = "inventories_resource_class_id_fkey"


def upgrade() -> None:
    """Refer from inventories to resource_classes."""
    keys = sa.inspect(op.get_bind()).get_foreign_keys("inventories")
    if any(key["name"] == FOREIGN_KEY for key in keys):
        return
    if steps.is_mysql():
        # Also what makes it a change in place: with the check, MySQL copies the table.
        op.execute("SET SESSION foreign_key_checks = 0")
        connection = op.get_bind()
        checked = afterwards(connection, "SET SESSION foreign_key_checks = DEFAULT")
        with checked, steps.all_tables(connection):
            _refer()
    else:
        _refer()


def _refer() -> None:
    with op.batch_alter_table("inventories") as batch:
        batch.create_foreign_key(
            FOREIGN_KEY,
            "resource_classes",
            ["resource_class_id"],
            ["id"],
            # Never validated later either: a dump of such a database can be restored.
            postgresql_not_valid=True,
        )

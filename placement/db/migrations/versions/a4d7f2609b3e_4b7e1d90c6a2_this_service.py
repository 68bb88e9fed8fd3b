"""Add what this service keeps besides the rows of the OpenStack service, which may go on writing meanwhile.

What is computed from rows that are there already is computed where a coexistence ends.
"""

import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from placement.db import models
from placement.db.migrations import afterwards, steps

revision = "a4d7f2609b3e_4b7e1d90c6a2"
down_revision = "a082b8bb98d0"

SLOTS = 64
"""Of provider_changes."""

FOREIGN_KEY = "inventories_resource_class_id_fkey"

# The best first: MariaDB has the first, MySQL 8 the second, MySQL 5.7 only the third.
COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin", "utf8mb4_bin")

WITH_NAMES = (
    "allocations",
    "consumer_groups",
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
"""Tables that are compared byte for byte, and all that the OpenStack service has."""

OF_CONSUMERS = ("consumer_group_members", "consumer_holds")
"""Tables whose rows go with their consumer."""

SMALL = 10_000
"""Rows that are converted in an instant."""

# The digits that were shown until now: 1.1, and not the 1.100000023841858 that FLOAT has kept.
AS_SHOWN = "ROUND(allocation_ratio, 5 - FLOOR(LOG10(ABS(allocation_ratio))))"

_OTHERWISE = sa.text(
    "SELECT table_name, coalesce(table_rows, 0) FROM information_schema.tables AS t"
    " WHERE table_schema = DATABASE() AND (table_collation <> :collation OR EXISTS (SELECT 1"
    " FROM information_schema.columns AS c WHERE c.table_schema = t.table_schema"
    " AND c.table_name = t.table_name AND c.collation_name <> :collation))"
)
"""Tables with another collation, and about how many rows they have."""


def _ascii(length: int) -> sa.types.TypeEngine[str]:
    type_ = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(type_, "mysql", "mariadb")


def _of_consumer(table: str) -> sa.Column[int]:
    key = sa.ForeignKey("consumers.id", name=f"{table}_consumer_id_fkey", ondelete="CASCADE")
    return sa.Column("consumer_id", sa.Integer, key, nullable=False, autoincrement=False)


beginning = sa.MetaData()
coexistence = sa.Table(
    "coexistence",
    beginning,
    sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
    sa.Column("since", sa.DateTime, nullable=False),
    **steps.TABLE_OPTIONS,
)

metadata = sa.MetaData()
sa.Table("consumers", metadata, sa.Column("id", sa.Integer, primary_key=True))
OWNER_KEY = ("project_id", "user_id", "consumer_type_id", "resource_class_id")
sa.Table(
    "owner_usages",
    metadata,
    *(sa.Column(name, sa.Integer, nullable=False, autoincrement=False) for name in OWNER_KEY),
    sa.Column("slot", sa.SmallInteger, nullable=False, autoincrement=False),
    sa.Column("used", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint(*OWNER_KEY, "slot"),
    **steps.TABLE_OPTIONS,
)
provider_changes = sa.Table(
    "provider_changes",
    metadata,
    sa.Column("slot", sa.SmallInteger, primary_key=True, nullable=False, autoincrement=False),
    sa.Column("mark", sa.BigInteger, nullable=False),
    sa.Column("recent", _ascii(255), nullable=False),
    **steps.TABLE_OPTIONS,
)
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
sa.Table(
    "capacity_records",
    metadata,
    sa.Column("shape", _ascii(64), nullable=False),
    sa.Column("recorded_at", sa.BigInteger, nullable=False, autoincrement=False),
    sa.Column("placements", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("shape", "recorded_at"),
    sa.Index("capacity_records_recorded_at_idx", "recorded_at"),
    **steps.TABLE_OPTIONS,
)


def upgrade() -> None:
    """Take the steps, each of which locks one table that the OpenStack service writes."""
    for step in (
        _add_usage_counters,
        _add_provider_revisions,
        _begin_coexistence,
        _forget_what_was,
        _add_tables,
        _make_collations_exact,
        _widen_ratios,
        _refer_to_classes,
    ):
        step()
        # Transactions of that service lock the same tables in another order: while this one keeps the lock
        # on one and waits for the next, they could be in a deadlock.
        steps.commit()


def _add_usage_counters() -> None:
    """Keep what is used of an inventory beside it, so that no read sums the ledger."""
    steps.add_column(
        "inventories", sa.Column("used", sa.BigInteger, nullable=False, server_default="0")
    )


def _add_provider_revisions() -> None:
    """Count every change to what the search reads about a provider, and those that this service makes."""
    revisions = sa.Column("revision", sa.BigInteger, nullable=False, server_default="0")
    steps.add_column("resource_providers", revisions)
    steps.add_column("resource_providers", sa.Column("own_generation", sa.Integer))
    # The column always allowed NULL, which no compare-and-set matches and no client may read.
    steps.update_in_batches(
        "resource_providers",
        "UPDATE resource_providers SET generation = 0 WHERE generation IS NULL",
    )


def _begin_coexistence() -> None:
    """Let the OpenStack service work on the same database, if it made the tables, until it is replaced.

    A database that this service has begun has the table already (:func:`placement.db.schema.sync`).
    """
    connection = op.get_bind()
    is_ours = steps.has_table("coexistence")
    steps.create_missing(beginning)
    # An interrupted run may have left its row.
    if not connection.scalar(sa.select(sa.func.count()).select_from(coexistence)) and not (
        is_ours and connection.scalar(sa.text("SELECT MIN(id) FROM resource_providers")) is None
    ):
        connection.execute(sa.insert(coexistence).values(id=1, since=models.now()))


def _forget_what_was() -> None:
    """Empty what is left of an earlier time with this service, if it refers to rows of that time.

    The OpenStack service has worked without this one since, or a backup of it was restored: ids of consumers
    may be those of others, and nothing kept the rules of groups. The allocations of what was held stay.
    Sums of owners are computed again where the coexistence ends. The history and the records of capacity
    name uuids and names, and stay true.
    """
    for table in filter(steps.has_table, OF_CONSUMERS):
        op.execute(f"DELETE FROM {table}")  # noqa: S608
    # An interrupted run has not made all of them.
    if steps.has_table("consumer_groups") and steps.has_table("consumer_group_members"):
        # Workers of this service that still run may claim meanwhile.
        op.execute(
            "DELETE FROM consumer_groups WHERE NOT EXISTS (SELECT 1 FROM consumer_group_members"
            " WHERE group_id = consumer_groups.id)"
        )
    # For how long the OpenStack service has been quiet.
    op.execute("DELETE FROM coexistence WHERE id > 1")
    if steps.has_table("provider_changes"):
        # No token and no picture of that time meets these marks.
        void = sa.update(provider_changes).values(mark=secrets.randbits(40), recent="")
        op.get_bind().execute(void)


def _add_tables() -> None:
    """Add the other tables, and all rows of provider_changes, which writers update."""
    steps.create_missing(metadata)
    connection = op.get_bind()
    present = set(connection.scalars(sa.select(provider_changes.c.slot)))
    # What is known of the log of another database must not be true of this one, however young both are.
    start = secrets.randbits(40)
    rows = [
        {"slot": slot, "mark": start, "recent": ""} for slot in range(SLOTS) if slot not in present
    ]
    if rows:
        connection.execute(sa.insert(provider_changes), rows)
    if steps.is_sqlite():
        _add_triggers()
    else:
        _add_missing_keys()


def _add_missing_keys() -> None:
    """Let rows go with their consumer again: ``DROP TABLE consumers CASCADE`` has taken that away."""
    for table in OF_CONSUMERS:
        name = f"{table}_consumer_id_fkey"
        keys = sa.inspect(op.get_bind()).get_foreign_keys(table)
        if not any(key["name"] == name for key in keys):
            op.create_foreign_key(
                name, table, "consumers", ["consumer_id"], ["id"], ondelete="CASCADE"
            )


def _add_triggers() -> None:
    """Do what foreign keys would, which SQLite does not look at here.

    It gives the id of a deleted consumer to the next one.
    """
    for table in OF_CONSUMERS:
        op.execute(
            f"CREATE TRIGGER IF NOT EXISTS {table}_of_deleted AFTER DELETE ON consumers BEGIN"  # noqa: S608
            f" DELETE FROM {table} WHERE consumer_id = OLD.id; END"
        )
    # Members that a damaged database has left behind join no new group.
    op.execute(
        "CREATE TRIGGER IF NOT EXISTS consumer_group_members_of_new AFTER INSERT ON consumer_groups BEGIN"
        " DELETE FROM consumer_group_members WHERE group_id = NEW.id; END"
    )


def _make_collations_exact() -> None:
    """Compare names and uuids byte for byte on MySQL and MariaDB, as the other databases do.

    Their default collations take ``a`` for ``A``, and most of them take ``a`` for ``a`` and a space.
    """
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
        if name in WITH_NAMES
    }
    # Small tables are locked together, because they take an instant; a large one is locked alone.
    small = [name for name in WITH_NAMES if rows.get(name, SMALL) < SMALL]
    large = [name for name in WITH_NAMES if rows.get(name, 0) >= SMALL]
    for group in filter(None, (small, *([name] for name in large))):
        with steps.all_tables(connection):
            for name in group:
                # DYNAMIC, because an index over 255 characters of four bytes is too long for COMPACT.
                steps.alter(
                    f"ALTER TABLE {name} ROW_FORMAT=DYNAMIC, "
                    f"CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}",
                    name,
                )


def _widen_ratios() -> None:
    """Keep allocation ratios as they were written: MySQL's FLOAT has six digits."""
    if not steps.is_mysql():
        return
    if not isinstance(_ratio_type(), mysql.DOUBLE):
        with steps.all_tables(op.get_bind()):
            change = "ALTER TABLE inventories MODIFY allocation_ratio DOUBLE NOT NULL"
            steps.alter(change, "inventories")
    steps.update_in_batches(
        "inventories",
        f"UPDATE inventories SET allocation_ratio = {AS_SHOWN}, updated_at = updated_at "  # noqa: S608
        f"WHERE allocation_ratio <> 0 AND allocation_ratio <> {AS_SHOWN}",
    )


def _ratio_type() -> sa.types.TypeEngine[Any]:
    columns = sa.inspect(op.get_bind()).get_columns("inventories")
    return next(one["type"] for one in columns if one["name"] == "allocation_ratio")


def _refer_to_classes() -> None:
    """Let every new inventory have a class, between the nodes of a Galera cluster too.

    A class may be deleted on one node while its first inventory is written on another: neither sees the
    other's lock. With the foreign key the inventory's transaction refers to the row of the class, and
    certification lets one of the two commit.

    Inventories without a class, which races of older services left, stay as they are: what is stored is
    not checked here, and ``placement-manage db check`` reports them.
    """
    keys = sa.inspect(op.get_bind()).get_foreign_keys("inventories")
    if any(key["name"] == FOREIGN_KEY for key in keys):
        return
    if steps.is_mysql():
        # Also what makes it a change in place: with the check, MySQL copies the table.
        op.execute("SET @checks = @@foreign_key_checks, foreign_key_checks = 0")
        connection = op.get_bind()
        # Not DEFAULT: MySQL 9.7 takes it for 0.
        checked = afterwards(connection, "SET foreign_key_checks = @checks")
        with checked, steps.all_tables(connection):
            _add_foreign_key()
    else:
        _add_foreign_key()


def _add_foreign_key() -> None:
    with op.batch_alter_table("inventories") as batch:
        batch.create_foreign_key(
            FOREIGN_KEY,
            "resource_classes",
            ["resource_class_id"],
            ["id"],
            # Never validated later either: a dump of such a database can be restored.
            postgresql_not_valid=True,
        )

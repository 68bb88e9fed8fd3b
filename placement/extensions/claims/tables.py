"""The tables of groups and holds (specification 09).

Rows go with their consumer, whoever deletes it, and name its uuid, because a database may give its id to
another consumer (:mod:`placement.extensions.claims.consumer_keys`).
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    Unicode,
    UniqueConstraint,
)

from placement.db.models import (
    TABLE_OPTIONS,
    ascii_text,
    define_table,
    id_column,
    metadata,
    number_column,
)

consumer_groups = define_table(
    "consumer_groups",
    id_column(),
    Column("name", Unicode(255), nullable=False),
    Column("rule", String(16), nullable=False),
    number_column("at_most"),
    # The uuids of the aggregates that are the domains of the group, with commas; NULL if trees are.
    Column("aggregates", Text, nullable=True),
    # Each claim that names the group increases this number, so claims on two nodes of a cluster conflict.
    number_column("generation"),
    UniqueConstraint("name", name="uniq_consumer_groups0name"),
)


def _of_consumer(table: str) -> tuple[Column[int], Column[str]]:
    """Return the columns of a table whose rows are deleted with their consumer; on SQLite by a trigger."""
    key = ForeignKey("consumers.id", name=f"{table}_consumer_id_fkey", ondelete="CASCADE")
    # NULL if a worker of a release without this column wrote the row (consumer_keys.py).
    uuid = Column("consumer_uuid", ascii_text(36), nullable=True)
    return Column("consumer_id", Integer, key, nullable=False, autoincrement=False), uuid


consumer_group_members = Table(
    "consumer_group_members",
    metadata,
    *_of_consumer("consumer_group_members"),
    number_column(
        "group_id",
        ForeignKey("consumer_groups.id", name="consumer_group_members_group_id_fkey"),
    ),
    PrimaryKeyConstraint("consumer_id", "group_id"),
    Index("consumer_group_members_group_id_idx", "group_id"),
    **TABLE_OPTIONS,
)

# A hold is valid only for the generation that the consumer was claimed with: any later write of the consumer
# ends it.
consumer_holds = Table(
    "consumer_holds",
    metadata,
    *_of_consumer("consumer_holds"),
    number_column("generation"),
    # This time is in milliseconds since the epoch, by the clock of the database.
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("consumer_id"),
    Index("consumer_holds_expires_at_idx", "expires_at"),
    **TABLE_OPTIONS,
)

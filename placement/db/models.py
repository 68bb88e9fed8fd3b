"""The tables at head (specification 06 section 7.1).

This service adds:

- ``inventories.used``: the sum of the allocations of that provider and class. ``owner_usages``: the same
  sums by project, user and consumer type. Both change in the transaction that changes the ledger.
- ``resource_providers.revision``: stepped by every change to anything that the search reads about a
  provider. ``provider_changes`` names the providers of the last of these changes.
- ``resource_providers.own_generation``: the generation as this service has left it. ``coexistence`` has a row
  while the OpenStack service may write too (:mod:`placement.db.coexistence`).
- ``resource_providers.digest``: a checksum of what searches read of the provider, as this service has left
  it, and ``own_revision`` the revision with it (:mod:`placement.db.digests`). ``scrub`` has one row: how far
  the comparison of all that is derived is (:mod:`placement.db.scrub`).
- ``consumer_groups``, ``consumer_group_members``, ``consumer_holds``: rules between consumers, and consumers
  whose allocations end at a time (specification 09). Rows go with their consumer, whoever deletes it, and
  name its uuid, because a database may give its id to another consumer (:mod:`placement.db.consumer_keys`).
- ``history``: what each write found and left (specification 07 section 11).
"""

import secrets
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    DOUBLE,
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    Unicode,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

metadata = MetaData()

SHOWN = frozenset(
    {
        *("resource_providers", "inventories", "resource_provider_traits"),
        *("resource_provider_aggregates", "allocations", "consumers"),
    }
)
"""The tables whose changes searches and followers must learn of (:func:`placement.db.writes.finish`)."""

# Column collations are chosen per database by the migrations (exact, byte-wise comparison).
TABLE_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
}


def now() -> datetime:
    """Return the present time as the tables store it: UTC without zone, whole microseconds."""
    return datetime.now(UTC).replace(tzinfo=None)


def first_revision() -> int:
    """Return the revision a new provider starts with.

    Random, so that a provider whose id was used before (SQLite may do that) cannot be mistaken for
    its predecessor by the digests of the search; small enough that sums stay inside 64 bits.
    """
    return secrets.randbits(40)


def _inserted_generation(context: Any) -> int:
    """Return the generation of the row that is being inserted: it is as this service leaves it."""
    return context.get_current_parameters().get("generation") or 0


def _table(name: str, *items: SchemaItem) -> Table:
    """Define a table with the two times that most tables begin with."""
    return Table(
        name,
        metadata,
        Column("created_at", DateTime, default=now),
        Column("updated_at", DateTime, onupdate=now),
        *items,
        **TABLE_OPTIONS,
    )


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True, nullable=False)


def _number(name: str, *references: SchemaItem) -> Column[int]:
    return Column(name, Integer, *references, nullable=False)


def _names(table: str, column: Column[Any]) -> Table:
    """Define a table of which each row stands for a name."""
    unique = UniqueConstraint(column.name, name=f"uniq_{table}0{column.name}")
    return _table(table, _id(), column, unique)


resource_providers = _table(
    "resource_providers",
    _id(),
    Column("uuid", String(36), nullable=False),
    Column("name", Unicode(200), nullable=True),
    Column("generation", Integer, default=0),
    Column("root_provider_id", Integer, ForeignKey("resource_providers.id"), nullable=True),
    Column("parent_provider_id", Integer, ForeignKey("resource_providers.id"), nullable=True),
    Column("revision", BigInteger, nullable=False, default=first_revision, server_default="0"),
    Column("own_generation", Integer, nullable=True, default=_inserted_generation),
    Column("own_revision", BigInteger, nullable=True),
    Column("digest", BigInteger, nullable=True),
    UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
    UniqueConstraint("name", name="uniq_resource_providers0name"),
    Index("resource_providers_root_provider_id_idx", "root_provider_id"),
    Index("resource_providers_parent_provider_id_idx", "parent_provider_id"),
)

inventories = _table(
    "inventories",
    _id(),
    _number("resource_provider_id"),
    # The number is the row on which a deletion of the class and a first inventory meet, on two nodes of a
    # cluster too.
    _number(
        "resource_class_id",
        ForeignKey("resource_classes.id", name="inventories_resource_class_id_fkey"),
    ),
    _number("total"),
    _number("reserved"),
    _number("min_unit"),
    _number("max_unit"),
    _number("step_size"),
    # FLOAT means a double on SQLite and PostgreSQL too.
    Column("allocation_ratio", Float().with_variant(DOUBLE(), "mysql", "mariadb"), nullable=False),
    Column("used", BigInteger, nullable=False, default=0, server_default="0"),
    UniqueConstraint(
        "resource_provider_id",
        "resource_class_id",
        name="uniq_inventories0resource_provider_resource_class",
    ),
    Index("inventories_resource_class_id_idx", "resource_class_id"),
)

allocations = _table(
    "allocations",
    _id(),
    _number("resource_provider_id"),
    Column("consumer_id", String(36), nullable=False),
    _number("resource_class_id"),
    _number("used"),
    Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    Index("allocations_resource_class_id_idx", "resource_class_id"),
    Index("allocations_consumer_id_idx", "consumer_id"),
)

consumers = _table(
    "consumers",
    _id(),
    Column("uuid", String(36), nullable=False),
    _number("project_id"),
    _number("user_id"),
    Column("generation", Integer, nullable=False, default=0, server_default="0"),
    Column(
        "consumer_type_id",
        Integer,
        ForeignKey("consumer_types.id", name="consumers_consumer_type_id_fkey"),
        nullable=True,
    ),
    UniqueConstraint("uuid", name="uniq_consumers0uuid"),
    Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
    Index("consumers_consumer_type_id_idx", "consumer_type_id"),
)

consumer_types = _names("consumer_types", Column("name", Unicode(255), nullable=False))
projects = _names("projects", Column("external_id", String(255), nullable=False))
users = _names("users", Column("external_id", String(255), nullable=False))
resource_classes = _names("resource_classes", Column("name", String(255), nullable=False))
traits = _names("traits", Column("name", Unicode(255), nullable=False))
placement_aggregates = _names("placement_aggregates", Column("uuid", String(36), nullable=True))

resource_provider_traits = _table(
    "resource_provider_traits",
    Column("trait_id", Integer, ForeignKey("traits.id"), primary_key=True, nullable=False),
    Column(
        "resource_provider_id",
        Integer,
        ForeignKey("resource_providers.id"),
        primary_key=True,
        nullable=False,
    ),
    Index(
        "resource_provider_traits_resource_provider_trait_idx", "resource_provider_id", "trait_id"
    ),
)

resource_provider_aggregates = _table(
    "resource_provider_aggregates",
    Column("resource_provider_id", Integer, primary_key=True, nullable=False),
    Column("aggregate_id", Integer, primary_key=True, nullable=False),
    Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
)

_account = ("project_id", "user_id", "consumer_type_id", "resource_class_id")

# The usage of a class by the consumers of an owner, in several rows (slots) that are added up: claims of one
# project would otherwise all wait for one row.
owner_usages = Table(
    "owner_usages",
    metadata,
    *(Column(name, Integer, nullable=False, autoincrement=False) for name in _account),
    Column("slot", SmallInteger, nullable=False, autoincrement=False),
    Column("used", BigInteger, nullable=False),
    PrimaryKeyConstraint(*_account, "slot"),
    **TABLE_OPTIONS,
)

# The providers that were written last (change_rows.py), in several rows (slots) for the same reason.
provider_changes = Table(
    "provider_changes",
    metadata,
    Column("slot", SmallInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("mark", BigInteger, nullable=False),
    Column(
        "recent",
        # The column has one byte a character: MariaDB then keeps its copies of the row in memory.
        String(255).with_variant(
            mysql.VARCHAR(255, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
        ),
        nullable=False,
    ),
    **TABLE_OPTIONS,
)

coexistence = Table(
    "coexistence",
    metadata,
    Column("id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("since", DateTime, nullable=False),
    **TABLE_OPTIONS,
)

consumer_groups = _table(
    "consumer_groups",
    _id(),
    Column("name", Unicode(255), nullable=False),
    Column("rule", String(16), nullable=False),
    _number("at_most"),
    # The uuids of the aggregates that are its domains, with commas; NULL where trees are.
    Column("aggregates", Text, nullable=True),
    # Stepped by each claim that names the group: what two nodes of a cluster collide on.
    _number("generation"),
    UniqueConstraint("name", name="uniq_consumer_groups0name"),
)


def _ascii(length: int) -> TypeEngine[str]:
    """Return the type of a text of one byte a character, which every database compares byte for byte."""
    exact = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def _of_consumer(table: str) -> tuple[Column[int], Column[str]]:
    """Return the columns of a table whose rows are deleted with their consumer; on SQLite by a trigger."""
    key = ForeignKey("consumers.id", name=f"{table}_consumer_id_fkey", ondelete="CASCADE")
    # NULL where a worker of a release that does not know the column wrote the row (consumer_keys.py).
    uuid = Column("consumer_uuid", _ascii(36), nullable=True)
    return Column("consumer_id", Integer, key, nullable=False, autoincrement=False), uuid


consumer_group_members = Table(
    "consumer_group_members",
    metadata,
    *_of_consumer("consumer_group_members"),
    _number(
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
    _number("generation"),
    # Milliseconds since the epoch, by the clock of the database.
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("consumer_id"),
    Index("consumer_holds_expires_at_idx", "expires_at"),
    **TABLE_OPTIONS,
)

# How many more of a shape fitted (specification 07 section 3.2).
capacity_records = Table(
    "capacity_records",
    metadata,
    Column(
        "shape",
        String(64).with_variant(
            mysql.VARCHAR(64, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
        ),
        nullable=False,
    ),
    # Milliseconds since the epoch, by the clock of the database.
    Column("recorded_at", BigInteger, nullable=False, autoincrement=False),
    Column("placements", BigInteger, nullable=False),
    PrimaryKeyConstraint("shape", "recorded_at"),
    Index("capacity_records_recorded_at_idx", "recorded_at"),
    **TABLE_OPTIONS,
)

# How far the scrub is (scrub_rows.py): one row, with the id 1. Times are milliseconds since the epoch, by the
# clock of the database.
scrub = Table(
    "scrub",
    metadata,
    Column("id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column(
        "stage",
        String(32).with_variant(
            mysql.VARCHAR(32, charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
        ),
        nullable=False,
    ),
    # The id up to which the stage is done.
    Column("position", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("began_at", BigInteger, nullable=False),
    # The end of the last whole round; 0 before the first.
    Column("ended_at", BigInteger, nullable=False),
    Column("rounds", BigInteger, nullable=False),
    # Stepped by each transaction that mends: what two of them meet on, on two nodes of a cluster too.
    Column("mendings", BigInteger, nullable=False),
    # The measure shows whether digests are computed now as they were in the last round.
    Column("measure", BigInteger, nullable=True),
    **TABLE_OPTIONS,
)

# A provider may have thousands of traits.
_long_text = Text().with_variant(
    mysql.MEDIUMTEXT(charset="ascii", collation="ascii_bin"), "mysql", "mariadb"
)

# A row for each consumer and provider, or provider, that a transaction has written (history_rows.py). Names
# and uuids, not ids: what they are of may be gone. Times are milliseconds since the epoch, by the clock of
# the database.
history = Table(
    "history",
    metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer(), "sqlite"),
        primary_key=True,
        nullable=False,
        autoincrement=True,
    ),
    Column("written_at", BigInteger, nullable=False),
    # The author of the write, and the request.
    Column("request_id", _ascii(64), nullable=False),
    # The one that the client has given: of the server's action in Nova.
    Column("global_request_id", _ascii(64), nullable=True),
    Column("by_user", _ascii(255), nullable=False),
    Column("by_project", _ascii(255), nullable=False),
    Column("method", _ascii(16), nullable=False),
    Column("route", _ascii(128), nullable=False),
    # The subject of the write.
    Column("consumer_uuid", _ascii(36), nullable=True),
    Column("provider_uuid", _ascii(36), nullable=True),
    Column("project", _ascii(255), nullable=True),
    Column("generation_before", Integer, nullable=True),
    Column("generation_after", Integer, nullable=True),
    # JSON.
    Column("state_before", _long_text, nullable=True),
    Column("state_after", _long_text, nullable=True),
    Index("history_written_at_idx", "written_at", "id"),
    Index("history_consumer_uuid_idx", "consumer_uuid", "written_at", "id"),
    Index("history_provider_uuid_idx", "provider_uuid", "written_at", "id"),
    Index("history_project_idx", "project", "written_at", "id"),
    Index("history_request_id_idx", "request_id"),
    Index("history_global_request_id_idx", "global_request_id"),
    **TABLE_OPTIONS,
)

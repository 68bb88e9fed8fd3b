"""The tables at head (specification 06 section 7.1) and what this service adds.

Added: ``inventories.used``, the sum of the allocations of that provider and class, and
``owner_usages``, the same sums by project, user and consumer type, both kept in the same transaction
as the ledger; and ``resource_providers.revision``, stepped by every committed change to anything the
search reads about a provider, also by those that leave ``generation`` alone, with ``provider_changes``,
which names the providers of the last of these changes. ``own_generation`` is
the generation as this service has left it, and ``coexistence`` has a row while the OpenStack service may
write too: :mod:`placement.db.coexistence_rows`.
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
    Unicode,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

metadata = MetaData()

# Column collations are chosen per database by the migrations (exact, byte-wise comparison).
TABLE_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


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


def _times() -> tuple[Column[Any], Column[Any]]:
    return (
        Column("created_at", DateTime, default=now),
        Column("updated_at", DateTime, onupdate=now),
    )


resource_providers = Table(
    "resource_providers",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("name", Unicode(200), nullable=True),
    Column("generation", Integer, default=0),
    Column("root_provider_id", Integer, ForeignKey("resource_providers.id"), nullable=True),
    Column("parent_provider_id", Integer, ForeignKey("resource_providers.id"), nullable=True),
    Column("revision", BigInteger, nullable=False, default=first_revision, server_default="0"),
    Column("own_generation", Integer, nullable=True, default=_inserted_generation),
    UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
    UniqueConstraint("name", name="uniq_resource_providers0name"),
    Index("resource_providers_root_provider_id_idx", "root_provider_id"),
    Index("resource_providers_parent_provider_id_idx", "parent_provider_id"),
    **TABLE_OPTIONS,
)

inventories = Table(
    "inventories",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("resource_provider_id", Integer, nullable=False),
    # What a deletion of the class and a first inventory meet on, on two nodes of a cluster too.
    Column(
        "resource_class_id",
        Integer,
        ForeignKey("resource_classes.id", name="inventories_resource_class_id_fkey"),
        nullable=False,
    ),
    Column("total", Integer, nullable=False),
    Column("reserved", Integer, nullable=False),
    Column("min_unit", Integer, nullable=False),
    Column("max_unit", Integer, nullable=False),
    Column("step_size", Integer, nullable=False),
    # On SQLite and PostgreSQL that is what FLOAT means too.
    Column("allocation_ratio", Float().with_variant(DOUBLE(), "mysql", "mariadb"), nullable=False),
    Column("used", BigInteger, nullable=False, default=0, server_default="0"),
    UniqueConstraint(
        "resource_provider_id",
        "resource_class_id",
        name="uniq_inventories0resource_provider_resource_class",
    ),
    Index("inventories_resource_class_id_idx", "resource_class_id"),
    **TABLE_OPTIONS,
)

allocations = Table(
    "allocations",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("resource_provider_id", Integer, nullable=False),
    Column("consumer_id", String(36), nullable=False),
    Column("resource_class_id", Integer, nullable=False),
    Column("used", Integer, nullable=False),
    Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    Index("allocations_resource_class_id_idx", "resource_class_id"),
    Index("allocations_consumer_id_idx", "consumer_id"),
    **TABLE_OPTIONS,
)

consumers = Table(
    "consumers",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=False),
    Column("project_id", Integer, nullable=False),
    Column("user_id", Integer, nullable=False),
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
    **TABLE_OPTIONS,
)

consumer_types = Table(
    "consumer_types",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("name", Unicode(255), nullable=False),
    UniqueConstraint("name", name="uniq_consumer_types0name"),
    **TABLE_OPTIONS,
)

projects = Table(
    "projects",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("external_id", String(255), nullable=False),
    UniqueConstraint("external_id", name="uniq_projects0external_id"),
    **TABLE_OPTIONS,
)

users = Table(
    "users",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("external_id", String(255), nullable=False),
    UniqueConstraint("external_id", name="uniq_users0external_id"),
    **TABLE_OPTIONS,
)

resource_classes = Table(
    "resource_classes",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("name", name="uniq_resource_classes0name"),
    **TABLE_OPTIONS,
)

traits = Table(
    "traits",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("name", Unicode(255), nullable=False),
    UniqueConstraint("name", name="uniq_traits0name"),
    **TABLE_OPTIONS,
)

resource_provider_traits = Table(
    "resource_provider_traits",
    metadata,
    *_times(),
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
    **TABLE_OPTIONS,
)

placement_aggregates = Table(
    "placement_aggregates",
    metadata,
    *_times(),
    Column("id", Integer, primary_key=True, nullable=False),
    Column("uuid", String(36), nullable=True),
    UniqueConstraint("uuid", name="uniq_placement_aggregates0uuid"),
    **TABLE_OPTIONS,
)

resource_provider_aggregates = Table(
    "resource_provider_aggregates",
    metadata,
    *_times(),
    Column("resource_provider_id", Integer, primary_key=True, nullable=False),
    Column("aggregate_id", Integer, primary_key=True, nullable=False),
    Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
    **TABLE_OPTIONS,
)

# What the consumers of an owner use of a class, in several rows (slots) whose sum counts: claims of
# one project would otherwise all wait for one row.
owner_usages = Table(
    "owner_usages",
    metadata,
    Column("project_id", Integer, nullable=False, autoincrement=False),
    Column("user_id", Integer, nullable=False, autoincrement=False),
    Column("consumer_type_id", Integer, nullable=False, autoincrement=False),
    Column("resource_class_id", Integer, nullable=False, autoincrement=False),
    Column("slot", SmallInteger, nullable=False, autoincrement=False),
    Column("used", BigInteger, nullable=False),
    PrimaryKeyConstraint("project_id", "user_id", "consumer_type_id", "resource_class_id", "slot"),
    **TABLE_OPTIONS,
)

# Which providers were written last (change_rows.py), in several rows (slots) for the same reason.
provider_changes = Table(
    "provider_changes",
    metadata,
    Column("slot", SmallInteger, primary_key=True, nullable=False, autoincrement=False),
    Column("mark", BigInteger, nullable=False),
    Column(
        "recent",
        # Of one byte a character: MariaDB keeps its copies of the row in memory then.
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

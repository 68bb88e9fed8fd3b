"""The tables of the compatible service at head (specification 06 section 7.1).

An extension declares its tables in its own ``tables.py``. This service adds:

- ``inventories.used``: the sum of the allocations of that provider and class. ``owner_usages``: the same
  sums by project, user and consumer type. Both change in the transaction that changes the ledger.
- ``resource_providers.revision``: stepped by every change to anything that the search reads about a
  provider. ``provider_changes`` names the providers of the last of these changes.
- ``resource_providers.own_generation``: the generation as this service has left it. ``coexistence`` has a row
  while the OpenStack service may write too (:mod:`placement.db.coexistence`).
- ``resource_providers.digest``: a checksum of what searches read of the provider, as this service has left
  it, and ``own_revision`` the revision with it (:mod:`placement.db.digests`). ``scrub`` has one row: how far
  the comparison of all that is derived is (:mod:`placement.db.scrub`).
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
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from placement import installed

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


def whole_metadata() -> MetaData:
    """Return the metadata with the tables of the installed extensions too."""
    installed.find_modules("tables")
    return metadata


def now() -> datetime:
    """Return the present time as the tables store it: UTC without zone, whole microseconds."""
    return datetime.now(UTC).replace(tzinfo=None)


def first_revision() -> int:
    """Return the first revision of a new provider.

    It is random: SQLite can give the id of a deleted provider to a new one, and the digests of the search
    must distinguish the two. It is so small that sums stay inside 64 bits.
    """
    return secrets.randbits(40)


def _inserted_generation(context: Any) -> int:
    """Return the generation of the row that is being inserted, which is the one this service leaves."""
    return context.get_current_parameters().get("generation") or 0


def define_table(name: str, *items: SchemaItem) -> Table:
    """Define a table with the two times that most tables begin with."""
    return Table(
        name,
        metadata,
        Column("created_at", DateTime, default=now),
        Column("updated_at", DateTime, onupdate=now),
        *items,
        **TABLE_OPTIONS,
    )


def id_column() -> Column[int]:
    """Define the column of the ids that the database gives."""
    return Column("id", Integer, primary_key=True, nullable=False)


def number_column(name: str, *references: SchemaItem) -> Column[int]:
    """Define a column of whole numbers, never NULL."""
    return Column(name, Integer, *references, nullable=False)


def ascii_text(length: int) -> TypeEngine[str]:
    """Return the type of a text of one byte a character, which every database compares byte for byte."""
    exact = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


def _names(table: str, column: Column[Any]) -> Table:
    """Define a table in which each row stands for a name."""
    unique = UniqueConstraint(column.name, name=f"uniq_{table}0{column.name}")
    return define_table(table, id_column(), column, unique)


resource_providers = define_table(
    "resource_providers",
    id_column(),
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

inventories = define_table(
    "inventories",
    id_column(),
    number_column("resource_provider_id"),
    # With this foreign key a deletion of the class and a first inventory conflict, also on two nodes of a
    # cluster.
    number_column(
        "resource_class_id",
        ForeignKey("resource_classes.id", name="inventories_resource_class_id_fkey"),
    ),
    number_column("total"),
    number_column("reserved"),
    number_column("min_unit"),
    number_column("max_unit"),
    number_column("step_size"),
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

allocations = define_table(
    "allocations",
    id_column(),
    number_column("resource_provider_id"),
    Column("consumer_id", String(36), nullable=False),
    number_column("resource_class_id"),
    number_column("used"),
    Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    Index("allocations_resource_class_id_idx", "resource_class_id"),
    Index("allocations_consumer_id_idx", "consumer_id"),
)

consumers = define_table(
    "consumers",
    id_column(),
    Column("uuid", String(36), nullable=False),
    number_column("project_id"),
    number_column("user_id"),
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

resource_provider_traits = define_table(
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

resource_provider_aggregates = define_table(
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
        ascii_text(255),
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

# One row with the id 1 has the progress of the scrub (scrub_rows.py). Times are milliseconds since the
# epoch, by the clock of the database.
scrub = Table(
    "scrub",
    metadata,
    Column("id", Integer, primary_key=True, nullable=False, autoincrement=False),
    Column("stage", ascii_text(32), nullable=False),
    # The id up to which the stage is done.
    Column("position", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("began_at", BigInteger, nullable=False),
    # The end of the last whole round; 0 before the first.
    Column("ended_at", BigInteger, nullable=False),
    Column("rounds", BigInteger, nullable=False),
    # Each transaction that corrects something increases this number, so two of them conflict, also on two
    # nodes of a cluster.
    Column("mendings", BigInteger, nullable=False),
    # The measure shows whether digests are computed now as they were in the last round.
    Column("measure", BigInteger, nullable=True),
    **TABLE_OPTIONS,
)


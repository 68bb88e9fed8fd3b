"""The schema before consumers had generations (Queens, in nova's API database).

Older than the first release of this service. A copy of such tables is stamped with this revision. Tables that
are older still get what they lack: Pike's providers have no parents, Ocata's allocations no owners.
"""

from typing import Any

import sqlalchemy as sa

from placement.db.migrations import steps

revision = "0d4e8f62b1a7"
down_revision = None

metadata = sa.MetaData()


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True, nullable=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _names(table: str, column: sa.Column[Any], *indexes: sa.Index) -> None:
    """Define a table of which each row stands for a name."""
    unique = sa.UniqueConstraint(column.name, name=f"uniq_{table}0{column.name}")
    steps.table(metadata, table, _id(), column, unique, *indexes)


steps.table(
    metadata,
    "allocations",
    _id(),
    _number("resource_provider_id"),
    sa.Column("consumer_id", sa.String(36), nullable=False),
    _number("resource_class_id"),
    _number("used"),
    sa.Index(
        "allocations_resource_provider_class_used_idx",
        "resource_provider_id",
        "resource_class_id",
        "used",
    ),
    sa.Index("allocations_resource_class_id_idx", "resource_class_id"),
    sa.Index("allocations_consumer_id_idx", "consumer_id"),
)

steps.table(
    metadata,
    "consumers",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False),
    _number("project_id"),
    _number("user_id"),
    sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
    sa.Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    sa.Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
)

steps.table(
    metadata,
    "inventories",
    _id(),
    _number("resource_provider_id"),
    _number("resource_class_id"),
    _number("total"),
    _number("reserved"),
    _number("min_unit"),
    _number("max_unit"),
    _number("step_size"),
    sa.Column("allocation_ratio", sa.Float, nullable=False),
    sa.UniqueConstraint(
        "resource_provider_id",
        "resource_class_id",
        name="uniq_inventories0resource_provider_resource_class",
    ),
    sa.Index("inventories_resource_class_id_idx", "resource_class_id"),
    sa.Index("inventories_resource_provider_id_idx", "resource_provider_id"),
    sa.Index(
        "inventories_resource_provider_resource_class_idx",
        "resource_provider_id",
        "resource_class_id",
    ),
)

_names(
    "placement_aggregates",
    sa.Column("uuid", sa.String(36)),
    sa.Index("ix_placement_aggregates_uuid", "uuid"),
)
_names("projects", sa.Column("external_id", sa.String(255), nullable=False))
_names("users", sa.Column("external_id", sa.String(255), nullable=False))
_names("resource_classes", sa.Column("name", sa.String(255), nullable=False))
_names("traits", sa.Column("name", sa.Unicode(255), nullable=False))

steps.table(
    metadata,
    "resource_provider_aggregates",
    sa.Column("resource_provider_id", sa.Integer, primary_key=True, nullable=False),
    sa.Column("aggregate_id", sa.Integer, primary_key=True, nullable=False),
    sa.Index("resource_provider_aggregates_aggregate_id_idx", "aggregate_id"),
)

steps.table(
    metadata,
    "resource_providers",
    _id(),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("name", sa.Unicode(200)),
    sa.Column("generation", sa.Integer),
    sa.Column("root_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id")),
    sa.Column("parent_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id")),
    sa.UniqueConstraint("uuid", name="uniq_resource_providers0uuid"),
    sa.UniqueConstraint("name", name="uniq_resource_providers0name"),
    sa.Index("resource_providers_name_idx", "name"),
    sa.Index("resource_providers_parent_provider_id_idx", "parent_provider_id"),
    sa.Index("resource_providers_root_provider_id_idx", "root_provider_id"),
    sa.Index("resource_providers_uuid_idx", "uuid"),
)

steps.table(
    metadata,
    "resource_provider_traits",
    sa.Column("trait_id", sa.Integer, sa.ForeignKey("traits.id"), primary_key=True, nullable=False),
    sa.Column(
        "resource_provider_id",
        sa.Integer,
        sa.ForeignKey("resource_providers.id"),
        primary_key=True,
        nullable=False,
    ),
    sa.Index(
        "resource_provider_traits_resource_provider_trait_idx", "resource_provider_id", "trait_id"
    ),
)


def upgrade() -> None:
    """Create those of the eleven tables that are missing, and the columns of the trees of providers."""
    if steps.has_table("resource_providers"):
        for name in ("root_provider_id", "parent_provider_id"):
            # SQLite cannot add a reference, and enforces none.
            references = [] if steps.is_sqlite() else [sa.ForeignKey("resource_providers.id")]
            steps.add_column("resource_providers", sa.Column(name, sa.Integer, *references))
    steps.create_missing(metadata)

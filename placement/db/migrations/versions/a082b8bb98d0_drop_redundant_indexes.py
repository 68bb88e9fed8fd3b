"""Drop five indexes that others cover (release 10.0.0, 2023.2)."""

from placement.db.migrations import steps

revision = "a082b8bb98d0"
down_revision = "422ece571366"


def upgrade() -> None:
    """Drop the indexes."""
    steps.drop_index("inventories_resource_provider_id_idx", "inventories")
    steps.drop_index("inventories_resource_provider_resource_class_idx", "inventories")
    steps.drop_index("ix_placement_aggregates_uuid", "placement_aggregates")
    steps.drop_index("resource_providers_name_idx", "resource_providers")
    steps.drop_index("resource_providers_uuid_idx", "resource_providers")

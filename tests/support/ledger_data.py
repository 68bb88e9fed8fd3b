"""Rows that no request can write: what older software left behind, and a small cloud to claim from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert, select, update

from placement.db import invariants, models
from placement.db.database import Database, Transaction

HOST = "11111111-1111-4111-8111-111111111111"
SECOND = "22222222-2222-4222-8222-222222222222"
BARE = "33333333-3333-4333-8333-333333333333"
"""A provider without inventory."""

WITHOUT_RECORD = "bbbbbbbb-0000-4000-8000-00000000000{}"
WITHOUT_ALLOCATIONS = "dddddddd-0000-4000-8000-00000000000{}"
COMPLETE = "cccccccc-0000-4000-8000-00000000000{}"
OLD_PROJECT = "old-project"
OLD_USER = "old-user"


@dataclass(frozen=True)
class Host:
    """A provider with its inventories: by class, what differs from total 10 and no limits."""

    uuid: str
    inventories: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


CLOUD = (
    Host(
        HOST,
        {
            "VCPU": {"total": 10, "max_unit": 10},
            "DISK_GB": {"total": 2048, "min_unit": 10, "max_unit": 1000, "step_size": 10},
        },
    ),
    Host(SECOND, {"VCPU": {"total": 100}, "MEMORY_MB": {"total": 1000}}),
    Host(BARE),
)


def add_cloud(db: Database) -> None:
    """Add the hosts of ``CLOUD``, all of generation 0."""
    db.write(lambda tx: [_add_host(tx, host) for host in CLOUD])


def _add_host(tx: Transaction, host: Host) -> None:
    done = tx.connection.execute(
        insert(models.resource_providers).values(
            uuid=host.uuid, name=host.uuid, generation=0, created_at=models.now()
        )
    )
    provider_id = done.inserted_primary_key[0]
    providers = models.resource_providers
    tx.connection.execute(
        update(providers)
        .where(providers.c.id == provider_id)
        .values(root_provider_id=provider_id, updated_at=None)
    )
    for name, given in host.inventories.items():
        record: dict[str, Any] = {
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 2147483647,
            "step_size": 1,
            "allocation_ratio": 1.0,
            **given,
        }
        tx.connection.execute(
            insert(models.inventories).values(
                resource_provider_id=provider_id,
                resource_class_id=class_id(tx, name),
                used=0,
                **record,
            )
        )


def class_id(tx: Transaction, name: str) -> int:
    """Return the id of a resource class."""
    classes = models.resource_classes
    return tx.connection.execute(select(classes.c.id).where(classes.c.name == name)).scalar_one()


def add_consumers(db: Database, count: int = 9) -> None:
    """Add consumers in the situations B, C and D of specification 03 section 10, ``count`` of each.

    Those with allocations hold 1 VCPU of ``SECOND`` each; records are of generation 3.
    """

    def add(tx: Transaction) -> None:
        project_id = _owner(tx, models.projects, OLD_PROJECT)
        user_id = _owner(tx, models.users, OLD_USER)
        for number in range(1, count + 1):
            for pattern in (WITHOUT_ALLOCATIONS, COMPLETE):
                tx.connection.execute(
                    insert(models.consumers).values(
                        uuid=pattern.format(number),
                        project_id=project_id,
                        user_id=user_id,
                        generation=3,
                    )
                )
            for pattern in (WITHOUT_RECORD, COMPLETE):
                _allocate(tx, pattern.format(number))

    db.write(add)
    invariants.repair(db, invariants.OWNER_USAGES)


def _owner(tx: Transaction, table: Any, external_id: str) -> int:
    done = tx.connection.execute(insert(table).values(external_id=external_id))
    return done.inserted_primary_key[0]


def _allocate(tx: Transaction, consumer_uuid: str) -> None:
    providers, inventories = models.resource_providers, models.inventories
    provider_id = tx.connection.execute(select(providers.c.id).where(providers.c.uuid == SECOND)).scalar_one()
    vcpu = class_id(tx, "VCPU")
    tx.connection.execute(
        insert(models.allocations).values(
            consumer_id=consumer_uuid,
            resource_provider_id=provider_id,
            resource_class_id=vcpu,
            used=1,
        )
    )
    tx.connection.execute(
        update(inventories)
        .where(
            inventories.c.resource_provider_id == provider_id,
            inventories.c.resource_class_id == vcpu,
        )
        .values(used=inventories.c.used + 1)
    )

"""The allocations of a consumer with all their names, on every database."""

import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import Table

from placement.db import models
from placement.db.database import Database
from placement.objects import allocation
from placement.objects.allocation import AllocationChange
from placement.objects.replacement import ConsumerChange
from tests.support.databases import KINDS, synced
from tests.support.hosts import add_host

HOST = str(uuid.uuid4())
HELD = {"VCPU": 2, "DISK_GB": 5}


@pytest.fixture(scope="module", params=KINDS)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with synced(request.param) as found:
        add_host(found, HOST, **dict.fromkeys(HELD, 100))
        yield found


def claim(db: Database, owner: str, type_name: str | None) -> str:
    """Claim for a new consumer; return its uuid."""
    consumer = str(uuid.uuid4())
    change = ConsumerChange(
        consumer, {HOST: HELD}, project=f"p-{owner}", user=f"u-{owner}", type=type_name
    )
    allocation.replace_allocations(db, AllocationChange.of_one(change))
    return consumer


@pytest.mark.parametrize("type_name", ["INSTANCE", None])
def test_it_names_provider_class_owner_and_type(db: Database, type_name: str | None) -> None:
    claim(db, "somebody-else", "MIGRATION")
    consumer = claim(db, "me", type_name)

    rows = allocation.consumer_allocations(db, consumer)

    assert {row.class_name: row.used for row in rows} == HELD
    assert {row.provider_uuid for row in rows} == {HOST}
    assert {row[-4:] for row in rows} == {("p-me", "u-me", 1, type_name)}


@pytest.mark.parametrize("table", [models.projects, models.users], ids=["project", "user"])
def test_a_consumer_whose_owner_is_gone_shows_nothing(db: Database, table: Table) -> None:
    """By hand alone: no release removes projects or users."""
    consumer = claim(db, f"gone-{table.name}", None)
    gone = table.c.external_id.endswith(f"gone-{table.name}")

    db.write(lambda tx: tx.connection.execute(table.delete().where(gone)))

    assert allocation.consumer_allocations(db, consumer) == []

"""A consumer whose project or user is gone shows nothing, on every database."""

import pytest
from sqlalchemy import Table

from placement.db import models
from placement.objects import allocation
from tests.support.databases import KINDS
from tests.support.service import running
from tests.support.world import World


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [models.projects, models.users], ids=["project", "user"])
def test_a_consumer_whose_owner_is_gone_shows_nothing(kind: str, table: Table) -> None:
    """By hand alone: no release removes projects or users."""
    with running(kind) as service:
        world = World(service)
        consumer = world.claim({world.host(VCPU=1): {"VCPU": 1}})
        assert len(allocation.consumer_allocations(service.db, consumer)) == 1

        service.db.write(lambda tx: tx.connection.execute(table.delete()))

        assert allocation.consumer_allocations(service.db, consumer) == []

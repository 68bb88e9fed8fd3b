"""No state of the tables is a 500 or an endless search: another service, or a hand, may have left any."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import update

from placement.db import models, writes
from placement.db.change import Change
from tests.support.service import Service, running
from tests.support.world import World

HOSTS = [f"10000000-0000-4000-8000-00000000000{number}" for number in range(6)]
QUESTIONS = (
    "/allocation_candidates?resources=VCPU:1",
    "/allocation_candidates?resources=VCPU:1&resources_A=DISK_GB:1&group_policy=none",
    "/allocation_candidates?resources_A=VCPU:1&resources_B=VCPU:1&group_policy=none&same_subtree=_A,_B",
    f"/allocation_candidates?resources=VCPU:1&in_tree={HOSTS[0]}",
    "/resource_providers",
    f"/resource_providers?in_tree={HOSTS[1]}",
    f"/resource_providers/{HOSTS[0]}",
    f"/allocations/{HOSTS[0]}",
    "/-/explain?resources=VCPU:99",
    "/-/capacity?resources=VCPU:1&resources_A=DISK_GB:1&group_policy=none",
    "/-/trees",
    "/-/metrics",
)


@pytest.fixture
def service() -> Iterator[Service]:
    with running(insight__enabled=True) as made:
        yield made


def world(service: Service) -> None:
    """A child under each of three hosts, all with inventory, one shared by an aggregate."""
    for number, uuid in enumerate(HOSTS):
        parent = HOSTS[number - 3] if number >= 3 else None
        stock = {"VCPU": 10, "DISK_GB": 10}
        traits = ["MISC_SHARES_VIA_AGGREGATE"] if number == 5 else []
        World(service).provider(uuid, parent, stock, traits, [HOSTS[0]], uuid)


def disturb(service: Service, draw: random.Random) -> None:
    """Give some providers any other parent and root."""
    providers = models.resource_providers

    def write(tx: Any) -> None:
        ids = tx.column(providers.select().with_only_columns(providers.c.id))
        for provider_id in draw.sample(ids, 3):
            links = {
                "parent_provider_id": draw.choice([*ids, None]),
                "root_provider_id": draw.choice([*ids, None]),
                "revision": providers.c.revision + 1,
            }
            tx.connection.execute(update(providers).where(providers.c.id == provider_id).values(links))
        writes.finish(tx, Change(is_unnamed=True))

    service.db.write(write)


@pytest.mark.parametrize("seed", range(12))
def test_any_parents_and_roots(service: Service, seed: int) -> None:
    """Half of the seeds look before, and meet the change in the picture that they have."""
    draw = random.Random(seed)
    world(service)
    for _ in range(6):
        if seed % 2:
            assert service.request("GET", QUESTIONS[0], version="1.39").status_int == 200
        disturb(service, draw)
        for question in QUESTIONS:
            answer = service.request("GET", question, version="1.39")
            assert answer.status_int in (200, 404), (question, answer.text)

"""Allocation ratios with many digits are the same number on every database."""

import pytest

from tests.support import bodies
from tests.support.databases import KINDS
from tests.support.service import running
from tests.support.world import World

RATIO = 1.2345674


@pytest.mark.parametrize("kind", KINDS)
def test_a_ratio_is_read_as_it_was_written_and_so_is_its_capacity(kind: str) -> None:
    with running(kind) as service:
        world = World(service)
        there = f"/resource_providers/{world.provider()}/inventories"
        record = {"total": 10_000_000, "allocation_ratio": RATIO}
        written = world.call("PUT", there, bodies.stock(0, {"VCPU": record})).json["inventories"]
        assert written["VCPU"]["allocation_ratio"] == RATIO
        assert world.get(there)["inventories"] == written
        for amount, number in ((12345674, 1), (12345675, 0)):
            found = world.get(f"/allocation_candidates?resources=VCPU:{amount}")
            assert len(found["allocation_requests"]) == number

"""The examples of what a step of an explained search removed (specification 07 section 2)."""

from __future__ import annotations

from placement.placing.obstacles import examples
from placement.search.cloud import Cloud
from placement.search.search import search
from tests.search.builders import World, ask, group


def test_equals_come_in_one_order_however_the_database_returns_them() -> None:
    """Two hosts with the same room, read in either order: PostgreSQL returns rows as it keeps them."""
    world = World().host("a", VCPU=4).host("b", VCPU=4)
    request = ask(group(VCPU=5))
    shown = []
    for records in (list(world.records.values()), list(world.records.values())[::-1]):
        cloud = Cloud()
        cloud.replace(records)
        step = search(cloud, request, explain=True).tally.steps[0]
        shown.append([each["uuid"] for each in examples(cloud, request, step, 2)])
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2

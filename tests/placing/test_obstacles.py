"""The examples of what a step of an explained search removed (specification 07 section 2)."""

from __future__ import annotations

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("rules", "obstacle"),
    [
        ({"root_required": frozenset(["T3"])}, {"missing": ["T3"]}),
        ({"root_forbidden": frozenset(["T1"])}, {"present": ["T1"]}),
    ],
)
def test_an_obstacle_at_a_root_is_a_trait_that_the_request_names(
    rules: dict[str, Any], obstacle: dict[str, Any]
) -> None:
    """The other traits of the root are in nobody's way."""
    cloud = World().host("a", ["T1", "T2"], VCPU=4).host("b", ["T3"], VCPU=4).cloud()
    request = ask(group(VCPU=1), **rules)

    steps = search(cloud, request, explain=True).tally.steps

    shown = [each for step in steps for each in examples(cloud, request, step, 2)]
    where = {"uuid": "uuid-of-a", "name": cloud.names[0], "root": "uuid-of-a"}
    assert shown == [where | obstacle]

"""Every constant of a search has an example that meets it (docs/_tools/search_examples.py, 07 section 2)."""

from collections.abc import Iterator
from typing import Any

import pytest

from docs._tools import search_examples as examples
from placement.search.search import search
from placement.search.tally import Reason, Stop, Stopped
from placement.search.work import Work
from tests.search.builders import World, parse
from tests.support import world
from tests.support.service import Service, running

UUIDS = {each.name: each.uuid for each in examples.CLOUD}


@pytest.fixture(scope="module")
def cloud() -> Iterator[Service]:
    with running(insight__enabled=True) as service:
        for each in examples.CLOUD:
            parent = each.parent and UUIDS[each.parent]
            made = (each.name, parent, each.totals, each.traits, each.aggregates, each.uuid)
            world.World(service).provider(*made)
        yield service


def explained(service: Service, query: str) -> Any:
    answer = service.request("GET", f"/-/explain?{query}")
    assert answer.status_int == 200, answer.text
    return answer.json


@pytest.mark.parametrize("test", [each for each in Reason if each is not Reason.AVOIDED])
def test_every_test_removes_somebody_in_its_example(cloud: Service, test: Reason) -> None:
    told = explained(cloud, examples.STEPS[test])
    removed = [each for each in told["steps"] if each["left"] < each["before"]]
    assert test.value in [each["test"] for each in removed]
    assert all(each["examples"] for each in removed)


@pytest.mark.parametrize("end", Stop)
def test_every_end_is_that_of_its_example(cloud: Service, end: Stop) -> None:
    told = explained(cloud, examples.ENDS[end])
    assert told["candidates"] == {"count": 0, "complete": True}
    ended = told["stopped"] or told["combining"]
    expected = Stop.NO_COMBINATION if end is Stop.WORK_LIMIT else end
    assert (ended["why"], ended["meaning"]) == (expected.value, expected.meaning)


def test_a_search_that_may_try_little_says_so() -> None:
    world = World()
    for each in examples.CLOUD:
        world.add(each.name, each.parent, each.traits, each.aggregates, each.totals)
    request = parse(examples.ENDS[Stop.WORK_LIMIT], (1, 39))

    result = search(world.cloud(), request, work=Work(examples.FEW_PLACEMENTS))

    assert not result.complete
    assert result.tally.stopped == Stopped(Stop.WORK_LIMIT)

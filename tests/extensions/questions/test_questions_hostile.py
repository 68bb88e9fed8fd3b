"""A question as dear as one may be is cut, and nobody waits for it (specification 07 section 1).

Sixty-four groups ask for more than any host has and for a trait that nobody has: no demand that is
dropped helps, nor any pair.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from placement.placing import explain, remedies
from tests.support.processes import ENDS_S
from tests.support.service import Service, running
from tests.support.world import World

HOST, OTHER = (f"1f000000-0000-4000-8000-00000000000{n}" for n in (1, 2))
WORK_FACTOR = 100
HOSTILE = "&".join(
    ["group_policy=isolate"]
    + [f"resources_{n}=VCPU:9&required_{n}=HW_GPU_API_VULKAN" for n in range(64)]
)


@pytest.fixture
def place() -> Iterator[Service]:
    with running(insight__enabled=True, insight__work_factor=WORK_FACTOR) as service:
        World(service).host(HOST, VCPU=8)
        yield service


def candidates(service: Service) -> int:
    answer = service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")
    assert answer.status_int == 200, answer.text
    return len(answer.json["allocation_requests"])


def explained(service: Service) -> Any:
    answer = service.request("GET", f"/-/explain?{HOSTILE}&about={HOST}")
    assert answer.status_int == 200, answer.text
    return answer.json


def test_the_work_is_bounded_and_the_answer_says_so(
    place: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []
    search = remedies.search

    def counted(*given: Any, **more: Any) -> Any:
        searches.append(given)
        return search(*given, **more)

    monkeypatch.setattr(remedies, "search", counted)
    told = explained(place)

    assert WORK_FACTOR / 2 < len(searches) <= WORK_FACTOR
    assert told["candidates"] == {"count": 0, "complete": True}
    assert told["stopped"]["why"] == "NO_CAPACITY"
    assert told["complete"] is False
    assert told["about"]["complete"] is False
    assert not any(each["candidates"]["count"] for each in told["relaxations"])


def test_others_write_and_search_while_it_works(
    place: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would help is sought on a snapshot: the picture goes on, and the answer stays one moment's."""
    assert candidates(place) == 1
    found = []
    remedies = explain.remedies

    def beside(*given: Any) -> Any:
        if not found:
            World(place).host(OTHER, VCPU=8)
            found.append(candidates(place))
        return remedies(*given)

    def watched(*given: Any) -> Any:
        with ThreadPoolExecutor(1) as other:
            return other.submit(beside, *given).result(ENDS_S)

    monkeypatch.setattr(explain, "remedies", watched)
    told = explained(place)

    assert found == [2]
    assert told["steps"][0]["before"] == 1
    assert told["candidates"]["count"] == 0

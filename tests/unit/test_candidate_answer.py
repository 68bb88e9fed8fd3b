"""The answer of GET /allocation_candidates while its cloud changes."""

import json
from typing import Any

from placement.handlers import candidate_answer
from placement.search import Cloud, search
from placement.search.cloud import MOST_UNUSED_NAMES
from tests.search.builders import World, ask, group

NEWEST = (1, 39)


def summaries(cloud: Cloud) -> dict[str, Any]:
    """Return what an answer for one VCPU says about each provider."""
    result = search(cloud, ask(group(VCPU=1)))
    shown: dict[str, Any] = json.loads(candidate_answer.render(cloud, result, {"VCPU"}, NEWEST))
    return shown["provider_summaries"]


def test_a_changed_provider_is_summarised_anew() -> None:
    """Summaries are kept from answer to answer, but not beyond a change."""
    cloud = World().host("a", VCPU=4).host("b", VCPU=4).cloud()
    before = summaries(cloud)

    cloud.replace(World().host("a", ["HW_NUMA_ROOT"], VCPU=8).records.values())

    after = summaries(cloud)
    assert after["uuid-of-a"]["resources"] == {"VCPU": {"capacity": 8, "used": 0}}
    assert after["uuid-of-a"]["traits"] == ["HW_NUMA_ROOT"]
    assert after["uuid-of-b"] == before["uuid-of-b"]


def test_a_new_provider_is_summarised_with_the_others() -> None:
    """Providers may come after the first answer, also in the place of one that is gone."""
    cloud = World().host("a", VCPU=4).cloud()
    assert list(summaries(cloud)) == ["uuid-of-a"]

    more = World().host("a", VCPU=4).host("b", VCPU=4).host("c", VCPU=4).device("d", "c", VCPU=1)
    cloud.replace(more.records.values(), removed=[1])

    whole = summaries(cloud)
    assert set(whole) == {"uuid-of-a", "uuid-of-b", "uuid-of-c", "uuid-of-d"}
    assert whole["uuid-of-d"]["root_provider_uuid"] == "uuid-of-c"


def test_traits_that_nobody_has_any_more_are_forgotten() -> None:
    """A provider whose traits change for ever does not fill the memory."""
    cloud = World().host("a", VCPU=4).cloud()
    for number in range(MOST_UNUSED_NAMES + 50):
        cloud.replace(World().host("a", [f"CUSTOM_{number}"], VCPU=4).records.values())
        assert summaries(cloud)["uuid-of-a"]["traits"] == [f"CUSTOM_{number}"]

    assert len(candidate_answer._kept[cloud].traits) < 100

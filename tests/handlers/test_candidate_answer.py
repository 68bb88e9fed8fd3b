"""The answer of GET /allocation_candidates while its cloud changes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from placement.handlers import candidate_answer
from placement.search.candidate import SizeLimit
from placement.search.cloud import Cloud
from placement.search.search import search
from tests.search.builders import World, ask, group, load

NEWEST = (1, 39)


def rendered(*given: Any) -> bytes:
    """Return the whole answer."""
    return b"".join(candidate_answer.prepare(*given).write_pieces())


def summaries(cloud: Cloud) -> dict[str, Any]:
    """Return what an answer for one VCPU says about each provider."""
    result = search(cloud, ask(group(VCPU=1)))
    shown: dict[str, Any] = json.loads(rendered(cloud, result, {"VCPU"}, NEWEST))
    return shown["provider_summaries"]


def test_an_answer_is_of_its_moment_though_it_is_written_later() -> None:
    """Who comes into the place of one that goes is not named for it."""
    cloud = World().host("a", VCPU=4).cloud()
    result = search(cloud, ask(group(VCPU=1)))
    answer, written = (candidate_answer.prepare(cloud, result, {"VCPU"}, NEWEST) for _ in range(2))
    before = b"".join(written.write_pieces())

    cloud.replace([replace(World().host("b", VCPU=4).records["b"], provider_id=9)], removed=[1])

    assert cloud.index_of_uuid == {"uuid-of-b": 0}
    assert b"".join(answer.write_pieces()) == before
    assert list(json.loads(before)["provider_summaries"]) == ["uuid-of-a"]


def hosts_with_devices(hosts: int, devices: int) -> Cloud:
    """Return a cloud whose uuids have the length of uuids."""
    world = World()
    for host in range(hosts):
        world.host(f"h{host}", ["HW_NUMA_ROOT"], VCPU=64)
        for device in range(devices):
            world.device(f"h{host}d{device}", f"h{host}", VGPU=8)
    cloud = world.cloud()
    cloud.uuids[:] = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(cloud.size)]
    return cloud


@pytest.mark.parametrize("version", [(1, 10), (1, 12), (1, 28), (1, 33), NEWEST])
@pytest.mark.parametrize("most", [4000, 10_000, 100_000])
def test_an_answer_has_no_more_bytes_than_allowed(version: tuple[int, int], most: int) -> None:
    """Of requests and summaries together; and it uses what is allowed."""
    cloud = hosts_with_devices(hosts=50, devices=4)
    for groups in ([group(VCPU=1)], [group(suffix=f"_{n}", VGPU=1) for n in range(8)]):
        size_limit = SizeLimit(most, lambda shape: candidate_answer.measure(shape, version))
        result = search(cloud, ask(*groups), size_limit=size_limit)
        answer = candidate_answer.prepare(cloud, result, {"VCPU", "VGPU"}, version, size_limit)
        body = b"".join(answer.write_pieces())

        every = search(cloud, replace(ask(*groups), limit=1000))
        whole = rendered(cloud, every, {"VCPU", "VGPU"}, version)
        assert len(body) <= max(most + 100, len(json.loads(body)["allocation_requests"]) == 1)
        assert size_limit.used_up is (len(whole) > len(body))
        assert len(body) > most / 3 or body == whole


def test_a_search_ends_when_its_candidates_have_the_size_of_an_answer() -> None:
    """Candidates of one provider each, which are cut at once, and others, which are found one by one."""
    cloud = hosts_with_devices(hosts=9, devices=1)
    for groups in ([group(VCPU=1)], [group(VCPU=1), group(suffix="1", VGPU=1)]):
        size_limit = SizeLimit(1000, lambda shape: 300)
        result = search(cloud, ask(*groups), size_limit=size_limit)
        assert (len(result), size_limit.used_up) == (3, True)


def test_the_size_of_a_candidate_is_what_it_takes() -> None:
    cloud = hosts_with_devices(hosts=3, devices=4)
    for version in ((1, 10), (1, 12), NEWEST):
        result = search(cloud, replace(ask(group(suffix="1", VGPU=1), group(VCPU=1)), limit=7))
        body = rendered(cloud, result, {"VCPU", "VGPU"}, version)
        requests = body[: body.index(b'],"provider_summaries"')]
        sizes = [candidate_answer.measure(c.combination.shape, version) for c in result]
        assert len(requests) == len('{"allocation_requests":[') + sum(sizes) - 1


def test_a_large_answer_comes_in_pieces() -> None:
    """So that it is in memory once; a small one is sent at once."""
    cloud = hosts_with_devices(hosts=300, devices=16)
    many = search(
        cloud, replace(ask(*[group(suffix=str(n), VGPU=1) for n in range(32)]), limit=900)
    )
    few = search(cloud, replace(ask(group(VCPU=1)), limit=10))

    pieces = candidate_answer.prepare(cloud, many, {"VGPU"}, NEWEST).write_pieces()
    assert len(pieces) > 5
    assert max(map(len, pieces)) < 2 * candidate_answer.PIECE
    shown = json.loads(b"".join(pieces))
    assert len(shown["allocation_requests"]) == 900
    assert len(shown["provider_summaries"]) == 300 * 17
    assert len(candidate_answer.prepare(cloud, few, {"VCPU"}, NEWEST).write_pieces()) == 1


def test_a_tree_is_summarised_as_it_is_now_whoever_came_changed_left_or_moved() -> None:
    """One text is kept for all of a tree; a new cloud of the same providers keeps none."""
    world = World().host("a", VCPU=4).host("b", VCPU=4).device("d", "a").device("e", "a")
    world.device("late", "a").device("below", "late")
    held = world.records.copy()
    a, b = held["a"].provider_id, held["b"].provider_id
    d, late = held.pop("d"), held.pop("late")
    below = held.pop("below")
    larger = World().host("a", ["HW_NUMA_ROOT"], VCPU=8).records["a"]
    more = world.host("c", VCPU=4).device("of c", "c").records
    cloud = load(held.values())
    for changed, gone in (
        ([larger], []),
        ([], ["e"]),
        ([more["c"], more["of c"]], []),
        ([d], []),
        ([late, below], ["d"]),
        ([], ["below"]),
        ([replace(late, parent_id=b, root_id=b)], []),
        ([d, replace(below, parent_id=d.provider_id, root_id=a)], []),
        ([replace(below, parent_id=a)], []),
        ([], ["d", "below", "late"]),
    ):
        summaries(cloud)
        names = {record.uuid.removeprefix("uuid-of-"): record for record in changed}
        cloud.replace(changed, removed=[held.pop(name).provider_id for name in gone])
        held |= names

        shown = summaries(cloud)
        assert shown == summaries(load(held.values()))
        assert shown["uuid-of-a"]["resources"] == {"VCPU": {"capacity": 8, "used": 0}}
        assert shown["uuid-of-a"]["traits"] == ["HW_NUMA_ROOT"]

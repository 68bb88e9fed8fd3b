"""Where a search under a limit begins: anywhere, so that all that fit are answered evenly (section 6.4)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection
from random import Random

import pytest

from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, GenerationStrategy
from placement.search.search import search
from tests.search.builders import World, ask, group, ids

VCPU = ask(group(VCPU=1))


def flat(hosts: int, full: Collection[int] = ()) -> Cloud:
    """Hosts of one size, some of them full: by their place in the order of the trees."""
    world = World()
    for number in range(hosts):
        world.host(f"h{number}", VCPU=4)
    cloud = world.cloud()
    for place in full:
        cloud.use(int(cloud.forest.roots[place]), {"VCPU": 4})
    return cloud


def answered(cloud: Cloud, request: CandidateRequest, times: int) -> Counter[int]:
    """Return how often each root was in an answer; each request draws its own start."""
    random = Random(29)
    seen: Counter[int] = Counter()
    for _ in range(times):
        result = search(cloud, dataclasses.replace(request, start=random.getrandbits(64)))
        assert len(result) == request.limit
        seen.update(result.trees(cloud).tolist())
    return seen


@pytest.mark.parametrize("strategy", ["depth-first", "breadth-first"])
@pytest.mark.parametrize("maximum", [-1, 25])
def test_a_hundred_requests_see_all_hosts_evenly(
    strategy: GenerationStrategy, maximum: int
) -> None:
    """Ten of sixty hosts in each answer: a thousand answers have each host 167 times, more or less."""
    cloud = flat(60)
    request = dataclasses.replace(VCPU, limit=10, maximum=maximum, strategy=strategy)

    assert len(answered(cloud, request, 100)) == 60
    seen = answered(cloud, request, 1000)

    assert min(seen.values()) > 167 * 0.7
    assert max(seen.values()) < 167 * 1.3


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("hosts", [60, 1000])
def test_hosts_behind_many_full_ones_are_not_answered_more_often(hosts: int, limit: int) -> None:
    """Half of the hosts are full, one after another: the next one does not get all their share."""
    request = dataclasses.replace(VCPU, limit=limit)

    seen = answered(flat(hosts, range(hosts // 2)), request, hosts * 25 // limit)

    assert len(seen) == hosts / 2
    assert min(seen.values()) > 50 * 0.3
    assert max(seen.values()) < 50 * 3


@pytest.mark.parametrize("strategy", ["depth-first", "breadth-first"])
def test_trees_with_many_candidates_are_seen_evenly(strategy: GenerationStrategy) -> None:
    """Depth-first a bound lets one tree alone answer: each time another one."""
    world = World()
    for host in range(20):
        world.host(f"h{host}", VCPU=4)
        for device in range(4):
            world.device(f"h{host}d{device}", f"h{host}", PGPU=1)
    request = ask(group(VCPU=1), group("_G", PGPU=1), limit=4, maximum=4, strategy=strategy)

    seen = answered(world.cloud(), request, 100)

    trees = 100 if strategy == "depth-first" else 400
    assert seen.total() == trees
    assert len(seen) == 20
    assert max(seen.values()) < 3 * trees / 20


def test_a_start_repeats_the_answer() -> None:
    """The search itself draws nothing."""
    cloud, request = flat(600), dataclasses.replace(VCPU, limit=10, start=2**63 + 29)

    first = ids(cloud, search(cloud, request))

    assert ids(cloud, search(cloud, request)) == first
    assert ids(cloud, search(cloud, dataclasses.replace(request, start=7))) != first
    assert ids(cloud, search(cloud, dataclasses.replace(request, start=None))) != first

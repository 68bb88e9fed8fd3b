"""Engine against brute force on random small clouds (specification 04 section 8).

PLACEMENT_EXAMPLES=100000 pytest tests/search runs as many examples as you like.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from random import Random
from typing import Any
from unittest.mock import patch

from placement.search.records import ProviderRecord
from placement.search.request import CandidateRequest
from placement.search.search import search
from tests.search.builders import World, ask, group, ids, load, summarised
from tests.search.oracle import Oracle
from tests.search.worlds import TRAITS, device_hosts, question, seeds, some

Answer = list[tuple[frozenset[Any], frozenset[Any]]]


def check_whole(records: list[ProviderRecord], request: CandidateRequest) -> Answer:
    """Without bound, limit and seed the answer is exactly the set, and so are the summaries."""
    cloud, oracle = load(records), Oracle(records)
    expected = oracle.candidates(request)
    result = search(cloud, request)
    answer = ids(cloud, result)
    assert result.complete
    assert len(answer) == len(set(answer))
    assert set(answer) == expected
    for whole in (True, False):
        assert summarised(cloud, result, whole) == oracle.summarised(expected, expected, whole)
    return answer


@seeds(1500)
def test_the_answer_is_the_set(random: Random) -> None:
    check_whole(*question(random, options=False))


@seeds(500, 4844692053769205394)
def test_trees_that_are_avoided_give_nothing(random: Random) -> None:
    """The answer is the set of a cloud without them (specification 07 section 1.1).

    They exist all the same: a group without resources can name one with ``in_tree``, which has no effect
    there (specification 04 section 5.4).
    """
    records, request = question(random, options=False)
    avoid = some(random, TRAITS, 2)
    roots = {r.provider_id for r in records if r.root_id == r.provider_id and r.traits & avoid}
    left = [each for each in records if each.root_id not in roots]

    cloud = load(records)
    result = search(cloud, dataclasses.replace(request, avoid=avoid))

    uuids = {each.uuid for each in records}
    groups = [
        dataclasses.replace(group, in_tree=None)
        if not group.amounts and group.in_tree in uuids
        else group
        for group in request.groups
    ]
    asked = dataclasses.replace(request, groups=tuple(groups))
    assert result.complete
    assert set(ids(cloud, result)) == Oracle(left).candidates(asked)


@seeds(1000)
def test_the_answer_is_the_set_where_combining_is_hard(random: Random) -> None:
    check_whole(*device_hosts(random))


def test_the_random_questions_are_worth_asking() -> None:
    """Many of the questions have answers, and some have many."""
    sizes = []
    for seed in range(200):
        records, request = question(Random(seed), options=False)
        sizes.append(len(Oracle(records).candidates(request)))
    assert sum(size > 0 for size in sizes) > 80
    assert sum(size > 10 for size in sizes) > 10


@seeds(1500)
def test_bound_limit_and_order(random: Random) -> None:
    """Sizes, membership, and the summaries that the returned part implies."""
    records, request = question(random)
    cloud, oracle = load(records), Oracle(records)
    free = dataclasses.replace(request, one_provider_per_tree=False)
    unfiltered, possible = oracle.candidates(free), oracle.candidates(request)

    result = search(cloud, request)
    answer = ids(cloud, result)

    assert len(answer) == len(set(answer))
    assert set(answer) <= possible
    bound = request.bound
    uncut = dataclasses.replace(request, limit=None)
    survivors = ids(cloud, search(cloud, uncut))
    if bound is None or bound >= len(unfiltered):
        assert set(survivors) == possible
    elif not request.one_provider_per_tree:
        assert len(survivors) == bound
    else:
        assert len(survivors) <= bound
    assert len(answer) == min(request.limit or len(survivors), len(survivors))
    assert set(answer) <= set(survivors)
    assert ids(cloud, search(cloud, request)) == answer
    assert summarised(cloud, result, True) == oracle.summarised(answer, answer, True)
    if request.one_provider_per_tree:
        shown = summarised(cloud, result, False)
        assert shown == oracle.summarised(answer, survivors, False)


def trees(oracle: Oracle, candidate: tuple[frozenset[Any], frozenset[Any]]) -> frozenset[int]:
    """Return the roots of the providers of a candidate."""
    return frozenset(oracle.root(p) for p, _, _ in candidate[0])


@seeds(400)
def test_depth_first_exhausts_a_tree_before_the_next(random: Random) -> None:
    """With trees that share nothing, at most one tree contributes a part of its candidates."""
    records, request = question(random, most_groups=2)
    records = [dataclasses.replace(r, aggregates=frozenset()) for r in records]
    request = dataclasses.replace(
        request, limit=None, maximum=3, strategy="depth-first", one_provider_per_tree=False
    )
    cloud, oracle = load(records), Oracle(records)
    possible = oracle.candidates(request)

    answer = ids(cloud, search(cloud, request))

    parts = 0
    for tree in {trees(oracle, c) for c in answer}:
        mine = sum(trees(oracle, c) == tree for c in answer)
        parts += mine < sum(trees(oracle, c) == tree for c in possible)
    assert parts <= 1


@seeds(400)
def test_the_first_candidates_cover_as_many_trees_as_they_can(random: Random) -> None:
    """Section 6.4, for trees that share nothing: limit n gives min(n, trees) trees."""
    records, request = question(random, most_groups=2)
    records = [dataclasses.replace(r, aggregates=frozenset()) for r in records]
    request = dataclasses.replace(request, maximum=-1)
    cloud, oracle = load(records), Oracle(records)
    possible = {trees(oracle, c) for c in oracle.candidates(request)}

    answer = ids(cloud, search(cloud, request))

    assert len({trees(oracle, c) for c in answer}) == min(len(answer), len(possible))


@seeds(1500)
def test_it_does_not_matter_how_many_trees_are_looked_at_at_once(random: Random) -> None:
    """A search looks at the first trees first, and at more only if these are not enough."""
    records, request = question(random)
    cloud = load(records)
    every = dataclasses.replace(request, limit=None, maximum=-1, seed=None, start=None)
    at_once, possible = search(cloud, request), ids(cloud, search(cloud, every))

    with patch.object(import_module("placement.search.search"), "FIRST", 1):
        answer = ids(cloud, search(cloud, request))

    assert len(answer) == len(set(answer))
    assert set(answer) <= set(possible)
    if request.seed is None and request.start is None:
        assert answer == ids(cloud, at_once)
    elif request.bound is None:
        assert len(answer) == len(at_once)


def test_a_subtree_of_sharing_providers_serves_another_tree() -> None:
    """Pool and nested pool lie above each other, also as seen from a host that reaches both."""
    world = World().host("h", VCPU=4, aggregates=["a"]).pool("p", ["a"], DISK=10)
    world.device("q", "p", VF=2, aggregates=["a"], traits=["MISC_SHARES_VIA_AGGREGATE"])
    world.device("r", "q", VF=2, aggregates=["a"], traits=["MISC_SHARES_VIA_AGGREGATE"])
    groups = group("_V", VCPU=1), group("_D", DISK=1), group("_F", VF=1)
    request = ask(*groups, same_subtrees=(frozenset(["_D", "_F"]),))
    answer = check_whole(list(world.records.values()), request)
    assert len(answer) == 2


def test_a_lone_pool_counts_once() -> None:
    """Its own tree and every host that reaches it give the same candidate."""
    world = World().host("h", VCPU=4, aggregates=["a"]).host("i", VCPU=4, aggregates=["a"])
    world.pool("p", ["a"], DISK=10)
    assert len(check_whole(list(world.records.values()), ask(group(DISK=1)))) == 1


@seeds(400)
def test_candidates_of_one_anchor(random):
    """Asked for one anchor, the answer is what the anchor gives, sharing providers included."""
    records, request = question(random, options=False)
    cloud, oracle = load(records), Oracle(records)
    root = random.choice([r for r in records if r.parent_id is None])
    named = [g.in_tree for g in request.groups if g.in_tree is not None]
    expected = set()
    if request.root_required <= root.traits and not request.root_forbidden & root.traits:
        expected = set(oracle.combinations(request, root.provider_id))
    if any(oracle.tree_of(uuid) is None for uuid in named):
        expected = set()
    if request.one_provider_per_tree:
        expected = {candidate for candidate in expected if oracle.spread(candidate)}

    result = search(cloud, dataclasses.replace(request, anchor=root.uuid))

    assert set(ids(cloud, result)) == expected

"""Relations that must hold without an oracle (specification 04 section 8)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from random import Random
from typing import Any

from placement.search.records import ProviderRecord
from placement.search.request import CandidateRequest, Group
from placement.search.search import search
from placement.search.unmet import find_unmet
from tests.search.builders import ids, load
from tests.search.worlds import (
    CLASSES,
    SHARES,
    SUFFIXES,
    TRAITS,
    cloud,
    question,
    seeds,
)

Answer = list[tuple[frozenset[Any], frozenset[Any]]]


def answer(records: Iterable[ProviderRecord], request: CandidateRequest) -> Answer:
    """Return the engine's answer as the oracle would put it."""
    loaded = load(records)
    return ids(loaded, search(loaded, request))


def with_group(request: CandidateRequest, number: int, **changes: Any) -> CandidateRequest:
    """Return the request with one group changed."""
    groups = list(request.groups)
    groups[number] = dataclasses.replace(groups[number], **changes)
    return dataclasses.replace(request, groups=tuple(groups))


@seeds(150)
def test_a_demand_adds_no_candidates(random: Random) -> None:
    records, request = question(random, options=False)
    with_resources = [i for i, g in enumerate(request.groups) if g.amounts]
    if not with_resources:
        return
    number = random.choice(with_resources)
    mine = request.groups[number]
    tighter = [
        with_group(request, number, required=(*mine.required, frozenset(["T1"]))),
        with_group(request, number, forbidden=mine.forbidden | {"T2"}),
        with_group(request, number, member_of=(*mine.member_of, frozenset(["a1"]))),
        with_group(request, number, forbidden_aggregates=mine.forbidden_aggregates | {"a2"}),
        dataclasses.replace(request, root_required=request.root_required | {"T3"}),
        dataclasses.replace(request, root_forbidden=request.root_forbidden | {"T3"}),
        dataclasses.replace(request, isolate=True),
    ]
    if mine.in_tree is None:
        tighter.append(with_group(request, number, in_tree=random.choice(records).uuid))
    suffixes = [g.suffix for g in request.groups if g.suffix]
    if suffixes:
        tie = frozenset([random.choice(suffixes), random.choice(suffixes)])
        tighter.append(dataclasses.replace(request, same_subtrees=(*request.same_subtrees, tie)))
    before = set(answer(records, request))
    for narrower in tighter:
        assert set(answer(records, narrower)) <= before


@seeds(300)
def test_a_larger_amount_adds_no_candidates(random: Random) -> None:
    records, request = question(random, options=False)
    plain = [
        dataclasses.replace(
            r,
            inventories={
                c: i._replace(record=i.record._replace(min_unit=1, step_size=1))
                for c, i in r.inventories.items()
            },
        )
        for r in records
    ]
    number = random.randrange(len(request.groups))
    amounts = request.groups[number].amounts
    if not amounts:
        return
    more = {c: n + 1 for c, n in amounts.items()}
    before = {mappings for _, mappings in answer(plain, request)}
    after = {m for _, m in answer(plain, with_group(request, number, amounts=more))}
    assert after <= before or "" in dict(next(iter(after)))


@seeds(300)
def test_dropping_a_free_group_empties_nothing(random: Random) -> None:
    records, request = question(random, options=False)
    tied = frozenset().union(*request.same_subtrees)
    free = [i for i, g in enumerate(request.groups) if g.suffix not in tied]
    if len(request.groups) < 2 or not free or not answer(records, request):
        return
    groups = list(request.groups)
    del groups[random.choice(free)]
    assert answer(records, dataclasses.replace(request, groups=tuple(groups)))


@seeds(300)
def test_candidates_before_1_29_are_among_those_since(random: Random) -> None:
    records, request = question(random, options=False)
    old = answer(records, dataclasses.replace(request, one_provider_per_tree=True))
    new = answer(records, dataclasses.replace(request, one_provider_per_tree=False))
    assert set(old) <= set(new)
    if all(r.parent_id is None for r in records):
        assert set(old) == set(new)


@seeds(300)
def test_renaming_permutes_the_answer(random: Random) -> None:
    records, request = question(random, options=False)
    new_uuid = {r.uuid: f"other-{random.randrange(10**9)}-{r.provider_id}" for r in records}
    names = list(SUFFIXES)
    random.shuffle(names)
    new_name = {**dict(zip(SUFFIXES, names, strict=True)), "": ""}
    groups = [
        dataclasses.replace(
            g, suffix=new_name[g.suffix], in_tree=g.in_tree and new_uuid.get(g.in_tree, g.in_tree)
        )
        for g in request.groups
    ]
    random.shuffle(groups)
    renamed = dataclasses.replace(
        request,
        groups=tuple(groups),
        same_subtrees=tuple(frozenset(new_name[s] for s in x) for x in request.same_subtrees),
    )
    moved = [dataclasses.replace(r, uuid=new_uuid[r.uuid]) for r in records]
    expected = {
        (allocations, frozenset((new_name[s], ps) for s, ps in mappings))
        for allocations, mappings in answer(records, request)
    }
    assert set(answer(moved, renamed)) == expected


@seeds(300)
def test_isolate_with_one_granular_group_equals_none(random: Random) -> None:
    records, request = question(random, options=False, most_groups=1)
    alone = dataclasses.replace(request, isolate=True)
    assert answer(records, alone) == answer(records, dataclasses.replace(request, isolate=False))


@seeds(300)
def test_one_class_alone_is_the_same_suffixed_or_not(random: Random) -> None:
    records = cloud(random)
    traits = tuple(frozenset([random.choice(TRAITS), SHARES]) for _ in range(random.randint(0, 1)))
    one = Group("", {random.choice(CLASSES): random.randint(1, 3)}, traits)
    _, request = question(random, options=False)
    plain = dataclasses.replace(request, groups=(one,), same_subtrees=())
    granular = with_group(plain, 0, suffix="_X")
    assert {a for a, _ in answer(records, plain)} == {a for a, _ in answer(records, granular)}


@seeds(300)
def test_every_candidate_can_be_claimed(random: Random) -> None:
    records, request = question(random)
    held = {r.provider_id: r.inventories for r in records}
    for allocations, _ in answer(records, request):
        for provider, name, amount in allocations:
            inventory = held[provider][name]
            assert inventory.used + amount <= inventory.capacity
            assert amount <= inventory.record.max_unit


@seeds(200)
def test_flat_clouds_without_sharing_have_candidates_of_one_provider(random: Random) -> None:
    records, request = question(random, options=False)
    flat = [
        dataclasses.replace(r, parent_id=None, root_id=r.provider_id, traits=r.traits - {SHARES})
        for r in records
    ]
    for _, mappings in answer(flat, request):
        assert len({p for _, ps in mappings for p in ps}) == 1


@seeds(200)
def test_more_inventory_removes_no_candidate(random: Random) -> None:
    records, request = question(random, options=False)
    number = random.randrange(len(records))
    more = {
        c: i._replace(record=i.record._replace(total=i.record.total + random.randint(0, 3)))
        for c, i in records[number].inventories.items()
    }
    grown = [*records]
    grown[number] = dataclasses.replace(records[number], inventories=more)
    assert set(answer(records, request)) <= set(answer(grown, request))


@seeds(400)
def test_the_only_tree_is_all_that_is_needed(random: Random) -> None:
    """What a request that names one tree finds in the cloud, it finds in the tree alone."""
    records, request = question(random, options=False)
    named = random.choice(records)
    single = dataclasses.replace(request.groups[0], suffix="", in_tree=named.uuid)
    request = dataclasses.replace(request, groups=(single,), same_subtrees=())
    tree = [record for record in records if record.root_id == named.root_id]

    if request.only_tree is None:
        assert not single.amounts
        return
    found = answer(records, request)

    assert request.only_tree == named.uuid
    # The ids of load() are those of the records.
    assert sorted(map(repr, answer(tree, request))) == sorted(map(repr, found))


def test_other_groups_reach_other_trees() -> None:
    unsuffixed = Group("", {"A": 1}, in_tree="x")
    alone = CandidateRequest((unsuffixed,))
    assert alone.only_tree == "x"
    for groups in (
        (unsuffixed, Group("1", {"B": 1})),
        (dataclasses.replace(unsuffixed, suffix="1"),),
        (dataclasses.replace(unsuffixed, amounts={}),),
        (dataclasses.replace(unsuffixed, in_tree=None),),
    ):
        assert CandidateRequest(groups).only_tree is None


@seeds(1000)
def test_where_a_condition_is_unmet_there_is_no_candidate(random: Random) -> None:
    """Also when all that is used is free again."""
    records, request = question(random, options=False)
    lacking = find_unmet(load(records), request)
    free = [
        dataclasses.replace(
            record,
            inventories={name: held._replace(used=0) for name, held in record.inventories.items()},
        )
        for record in records
    ]
    assert find_unmet(load(free), request) == lacking
    if lacking is not None:
        assert answer(free, request) == answer(records, request) == []

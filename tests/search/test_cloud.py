"""A cloud kept current by ``replace`` equals one loaded afresh; digests are those of the content."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np
import pytest

from placement.search import structure
from placement.search.cloud import BLOCK, BlockDigest, Cloud
from placement.search.index_set import FEW, IndexSet
from placement.search.records import ProviderRecord, Stock
from placement.search.search import search
from tests.search.builders import World, ask, group, ids, load, summarised
from tests.search.worlds import AGGREGATES, TRAITS, one_in, request, seeds, some, stock
from tests.search.worlds import cloud as random_cloud


def content(cloud: Cloud) -> Any:
    """Everything a search or a renderer can read, by provider id."""
    number = [*cloud.ids.tolist(), None]
    return {
        provider_id: (
            cloud.uuids[i],
            int(cloud.revisions[i]),
            number[cloud.parents[i]],
            number[cloud.roots[i]],
            cloud.traits[i],
            cloud.aggregates[i],
            cloud.inventories[i],
            cloud.names[i],
            int(cloud.generations[i]),
            int(cloud.modified[i]),
            {name: int(cloud.room(name)[i]) for name in cloud.classes},
            {name: column.units.get(i) for name, column in cloud.classes.items()},
        )
        for provider_id, i in cloud.index_of.items()
    }


def digests(records: Iterable[ProviderRecord]) -> dict[int, BlockDigest]:
    """Return the digest of each block, by the definition."""
    blocks: dict[int, list[ProviderRecord]] = {}
    for r in records:
        blocks.setdefault(r.provider_id // BLOCK, []).append(r)
    return {
        block: BlockDigest(len(rs), sum(r.provider_id for r in rs), sum(r.revision for r in rs))
        for block, rs in blocks.items()
    }


@seeds(80)
def test_replace_equals_a_fresh_load(random: Random) -> None:
    """Grow, shrink, move and change a cloud step by step; each time compare with a new one."""
    cloud = Cloud()
    world: dict[int, ProviderRecord] = {}
    for step in range(6):
        records = random_cloud(random, 12)
        if one_in(random, 2):
            records = [dataclasses.replace(r, revision=r.revision + step) for r in records]
        now = {r.provider_id: r for r in records}
        removed = set(world) - set(now)
        changed = [r for i, r in now.items() if world.get(i) != r]
        random.shuffle(changed)
        cloud.replace(changed, removed)
        world = now
        fresh = load(records)
        assert content(cloud) == content(fresh)
        assert cloud.block_digests() == fresh.block_digests() == digests(records)
        for _ in range(4):
            question = request(random, records)
            question = dataclasses.replace(question, seed=None)
            expected, found = search(fresh, question), search(cloud, question)
            assert ids(cloud, found) == ids(fresh, expected)
            for whole in (True, False):
                assert summarised(cloud, found, whole) == summarised(fresh, expected, whole)


@seeds(80)
def test_restock_does_to_inventories_what_replace_does(random: Random) -> None:
    records, others = random_cloud(random, 12), random_cloud(random, 12)
    stocks = [
        Stock(r.provider_id, r.revision + 1, r.generation + 1, 7, dict(other.inventories))
        for r, other in zip(records, others, strict=False)
    ]
    same = {r.provider_id: r for r in records}
    changed = [dataclasses.replace(same[s.provider_id], **_amounts(s)) for s in stocks]
    restocked, replaced = load(records), load(records)

    restocked.restock(stocks)
    replaced.replace(changed)

    assert content(restocked) == content(replaced)
    assert restocked.block_digests() == replaced.block_digests()
    assert (restocked.stamps == replaced.stamps).all()


def _amounts(stock: Stock) -> dict[str, Any]:
    return {key: value for key, value in stock._asdict().items() if key != "provider_id"}


def test_block_revisions() -> None:
    cloud = load(
        [ProviderRecord(i, f"u{i}", i + 5, None, i) for i in (1, BLOCK - 1, BLOCK, 3 * BLOCK)]
    )
    assert cloud.block_revisions(0) == {1: 6, BLOCK - 1: BLOCK + 4}
    assert cloud.block_revisions(1) == {BLOCK: BLOCK + 5}
    assert cloud.block_revisions(2) == {}
    assert set(cloud.block_digests()) == {0, 1, 3}
    assert not Cloud().block_digests()


def test_stamps_tell_what_changed() -> None:
    world = World().host("a", VCPU=4).host("b", VCPU=4)
    cloud = world.cloud()
    before = cloud.stamps.copy()
    cloud.replace([dataclasses.replace(world.records["b"], revision=2)])
    changed = (cloud.stamps != before).tolist()
    assert changed == [False, True]


def test_names_vanish_with_their_last_provider() -> None:
    world = World().host("a", VCPU=4, traits=["T1"]).host("b", VCPU=4)
    cloud = world.cloud()
    cloud.replace([dataclasses.replace(world.records["a"], traits=frozenset())])
    assert not cloud.has_trait("T1")
    cloud.replace([], removed=[1, 2])
    assert not cloud.has_class("VCPU")
    assert len(cloud) == 0
    assert len(search(cloud, ask(group(VCPU=1)))) == 0


def test_an_empty_cloud_has_no_candidates() -> None:
    for cloud in (Cloud(), load([])):
        assert len(search(cloud, ask(group(VCPU=1)))) == 0


@pytest.mark.parametrize(
    ("total", "reserved", "ratio", "used", "amount", "found"),
    [
        (8, 0, 0.3, 0, 2, True),
        (8, 0, 0.3, 0, 3, False),
        (10, 0, 0.7, 0, 7, True),  # 7.0 in doubles
        (10, 0, 1.1, 0, 11, True),  # 11.000000000000002
        (100, 0, 1.15, 0, 115, False),  # 114.99999999999999
        (100, 0, 1.15, 0, 114, True),
        (8, 8, 4.0, 0, 1, False),
        (8, 0, 1.0, 20, 1, False),
        (2**31 - 1, 0, 1.0, 0, 2**31 - 1, True),
        (2**31 - 1, 0, 3.0e38, 2**40, 1, True),
        (2**31 - 1, 0, -3.0e38, 1, 1, False),
    ],
)
def test_capacity_is_exact(
    total: int, reserved: int, ratio: float, used: int, amount: int, found: bool
) -> None:
    held = stock(total, reserved=reserved, allocation_ratio=ratio, used=used)
    world = World().host("a", VCPU=held)
    copied = Cloud()
    copied.replace(world.records.values())
    for cloud in (world.cloud(), copied):
        assert len(search(cloud, ask(group(VCPU=amount)))) == found
        assert cloud.inventories[0][0][:3] == ("VCPU", int((total - reserved) * ratio), used)


@seeds(50)
def test_an_index_set_is_a_set(random: Random) -> None:
    mirror: set[int] = set()
    members = IndexSet()
    top = random.choice([10, 300, 5000])
    for _ in range(random.choice([20, 3 * FEW])):
        index = random.randrange(top)
        if one_in(random, 3):
            members.discard(index)
            mirror.discard(index)
        else:
            members.add(index)
            mirror.add(index)
    assert len(members) == len(mirror)
    assert members.indexes(top).tolist() == sorted(mirror)
    assert members.mask(top).nonzero()[0].tolist() == sorted(mirror)
    assert all((i in members) == (i in mirror) for i in range(top + 9))


def test_a_ring_of_parents_is_cut_above_each_of_its_providers() -> None:
    """Also above the first provider of the cloud; the ids of the stored parents are kept."""
    world = World().host("a", VCPU=4).device("b", "a", VCPU=4)
    world.records["a"] = dataclasses.replace(world.records["a"], parent_id=2)

    cloud = world.cloud()

    assert (cloud.parents.tolist(), cloud.severed) == ([-1, -1], {0: 2, 1: 1})


def test_who_shares_with_whom_follows_each_change_alone() -> None:
    """Aggregates and the sharing trait leave the shape of the trees alone."""
    world = World().host("h", VCPU=4, aggregates=["a"]).pool("p", ["b"], DISK=10)
    cloud, question = world.cloud(), ask(group(VCPU=1, DISK=1))
    pool, host = world.records["p"], world.records["h"]
    steps = [
        (pool, 0),
        (dataclasses.replace(pool, aggregates=frozenset(["a"])), 1),
        (dataclasses.replace(pool, aggregates=frozenset(["a"]), traits=frozenset()), 0),
        (dataclasses.replace(pool, aggregates=frozenset(["a"])), 1),
        (dataclasses.replace(host, aggregates=frozenset()), 0),
    ]
    for record, expected in steps:
        cloud.replace([record])
        assert len(search(cloud, question)) == expected


def columns_of(cloud: Cloud):
    """Everything that a search reads, whatever the columns are."""
    return {
        cloud.uuids[index]: (
            cloud.names[index],
            cloud.inventories[index],
            cloud.traits[index],
            cloud.aggregates[index],
            [int(column.room[index]) for _, column in sorted(cloud.classes.items())],
            [cloud.with_trait(name)[index] for name in TRAITS],
            [cloud.in_aggregate(name)[index] for name in AGGREGATES],
            int(cloud.revisions[index]),
            cloud.uuids[int(cloud.roots[index])],
        )
        for index in range(cloud.size)
        if cloud.ids[index] >= 0
    }


@seeds(200)
def test_a_snapshot_and_its_origin_do_not_see_each_others_changes(random):
    """Whichever of the two changes, by records or by amounts, the other stays as it was."""
    records = random_cloud(random)
    origin = load(records)
    twin = origin.snapshot()
    pair = [origin, twin]
    random.shuffle(pair)
    changing, staying = pair
    before = columns_of(staying)

    for _ in range(3):
        changed = dataclasses.replace(
            random.choice(records),
            inventories={"VCPU": stock(random.randint(1, 9)), "NEW": stock(1)},
            traits=some(random, TRAITS, 2),
            aggregates=some(random, AGGREGATES, 2),
        )
        changing.replace([changed], [records[-1].provider_id] if one_in(random, 3) else [])
        held = changing.index_of.get(changed.provider_id)
        if held is not None:
            changing.use(held, {"VCPU": 1})

    assert columns_of(staying) == before
    assert columns_of(load(records)) == before


def test_providers_that_have_the_same_share_one_object_and_no_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows are told apart by a number made of them, and by themselves where two come to the same one."""
    world = World().host("empty")
    for number in range(4):
        world.host(f"host{number}", VCPU=8, MEMORY_MB=stock(64, used=number % 2))
        world.device(f"one{number}", f"host{number}", VGPU=stock(1, allocation_ratio=1.5))
        world.device(f"other{number}", f"host{number}", VGPU=stock(1, used=number))
    cloud = load(world.records.values())
    kept = {name: cloud.inventories[place] for place, name in enumerate(world.records)}

    assert kept["one0"] is kept["one3"]
    assert kept["empty"] == ()
    assert [kept[f"other{number}"][0][2] for number in range(4)] == [0, 1, 2, 3]
    assert [held[0] for held in kept["host1"]] == ["MEMORY_MB", "VCPU"]
    monkeypatch.setattr(structure, "MIX", np.uint64(0))
    assert content(load(world.records.values())) == content(cloud)

"""Moving allocations to those who take over."""

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.client.exceptions import ReshapeFailed
from placement.client.provider_tree import ProviderTree
from placement.client.relocation import Relocation, Takeover
from tests.support.bodies import Stock


def tree_of(**inventories: Stock) -> ProviderTree:
    """A host, whose children have what is given: name to inventory."""
    tree = ProviderTree()
    tree.new_root("host", "host")
    for name, inventory in inventories.items():
        tree.new_child(name, "host", name)
        tree.update_inventory(name, inventory)
    return tree


def record(**places: dict[str, int]) -> dict[str, Any]:
    """What a consumer has: provider to class to amount."""
    return {
        "allocations": {key: {"generation": 3, "resources": r} for key, r in places.items()},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 1,
    }


def held(records: dict[str, dict[str, Any]]) -> dict[str, dict[str, dict[str, int]]]:
    """Reduce records to consumer to provider to class to amount."""
    return {
        consumer: {key: place["resources"] for key, place in one["allocations"].items()}
        for consumer, one in records.items()
    }


def takeovers(*targets: str, classes: Iterable[str] = ("VGPU",), **more: Any) -> list[Takeover]:
    """Each target takes over each class from the host."""
    return [Takeover(one, "host", name, name, **more) for one in targets for name in classes]


def test_consumers_move_whole_large_ones_first() -> None:
    tree = tree_of(g0={"VGPU": {"total": 4}}, g1={"VGPU": {"total": 4}})
    records = {
        "a": record(host={"VGPU": 1, "VCPU": 2}),
        "b": record(host={"VGPU": 3}),
        "c": record(host={"VGPU": 4}),
        "d": record(host={"VCPU": 1}),
    }
    moves = Relocation(tree, records, takeovers("g0", "g1")).run()
    assert held(records) == {
        "a": {"host": {"VCPU": 2}, "g1": {"VGPU": 1}},
        "b": {"g1": {"VGPU": 3}},
        "c": {"g0": {"VGPU": 4}},
        "d": {"host": {"VCPU": 1}},
    }
    assert sorted(move.consumer_uuid for move in moves) == ["a", "b", "c"]
    assert records["a"]["project_id"] == "p" and records["a"]["consumer_generation"] == 1


def test_who_belongs_somewhere_goes_there() -> None:
    tree = tree_of(g0={"VGPU": {"total": 4}}, g1={"VGPU": {"total": 4}})
    records = {"a": record(host={"VGPU": 4}), "b": record(host={"VGPU": 1})}
    wanted = [
        *takeovers("g0", "g1"),
        *takeovers("g0", consumers=frozenset("b")),
    ]
    Relocation(tree, records, wanted).run()
    assert held(records) == {"a": {"g1": {"VGPU": 4}}, "b": {"g0": {"VGPU": 1}}}


def test_classes_of_a_consumer_stay_together() -> None:
    inventory = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 100}}
    tree = tree_of(n0=inventory, n1=inventory)
    records = {
        "a": record(host={"VCPU": 6, "MEMORY_MB": 10}),
        "b": record(host={"VCPU": 2, "MEMORY_MB": 95}),
    }
    Relocation(tree, records, takeovers("n0", "n1", classes=("VCPU", "MEMORY_MB"))).run()
    assert held(records) == {
        "a": {"n1": {"VCPU": 6, "MEMORY_MB": 10}},
        "b": {"n0": {"VCPU": 2, "MEMORY_MB": 95}},
    }


def test_what_is_too_large_for_one_is_divided_only_if_allowed() -> None:
    tree = tree_of(n0={"VCPU": {"total": 8, "step_size": 2}}, n1={"VCPU": {"total": 8}})
    records = {"a": record(host={"VCPU": 11})}
    before = copy.deepcopy(records)
    with pytest.raises(ReshapeFailed, match="consumer a"):
        Relocation(tree, copy.deepcopy(records), takeovers("n0", "n1", classes=["VCPU"])).run()
    assert records == before
    Relocation(tree, records, takeovers("n0", "n1", classes=["VCPU"], split=True)).run()
    assert held(records) == {"a": {"n0": {"VCPU": 8}, "n1": {"VCPU": 3}}}


@pytest.mark.parametrize(
    "inventory",
    [
        {"total": 3},
        {"total": 8, "reserved": 5},
        {"total": 8, "max_unit": 3},
        {"total": 8, "min_unit": 5},
        {"total": 8, "step_size": 3},
        {"total": 8, "allocation_ratio": 0.4},
    ],
)
def test_units_and_capacity_of_the_target_count(inventory: Stock) -> None:
    records = {"a": record(host={"VGPU": 4})}
    with pytest.raises(ReshapeFailed, match="no provider that takes over has room"):
        Relocation(tree_of(g0={"VGPU": inventory}), records, takeovers("g0")).run()


def test_what_others_have_on_the_target_is_not_free() -> None:
    tree = tree_of(g0={"VGPU": {"total": 4}})
    records = {"a": record(host={"VGPU": 2}), "b": record(g0={"VGPU": 3})}
    with pytest.raises(ReshapeFailed, match="g0 has 1 of VGPU free"):
        Relocation(tree, records, takeovers("g0")).run()


def test_a_class_can_change_its_name_in_place() -> None:
    tree = tree_of(g0={"PGPU": {"total": 4}})
    records = {"a": record(g0={"CUSTOM_GPU": 2})}
    Relocation(tree, records, [Takeover("g0", "g0", "CUSTOM_GPU", "PGPU")]).run()
    assert held(records) == {"a": {"g0": {"PGPU": 2}}}


@given(
    st.lists(st.integers(1, 9), max_size=6),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.booleans(),
)
def test_nothing_is_lost_and_nothing_overfilled(
    amounts: list[int], totals: list[int], split: bool
) -> None:
    tree = tree_of(**{f"g{n}": {"VGPU": {"total": t}} for n, t in enumerate(totals)})
    records = {f"c{n}": record(host={"VGPU": amount}) for n, amount in enumerate(amounts)}
    names = [f"g{n}" for n in range(len(totals))]
    try:
        Relocation(tree, records, takeovers(*names, split=split)).run()
    except ReshapeFailed:
        assert not split or sum(amounts) > sum(totals)
        return
    after = held(records)
    assert [sum(p["VGPU"] for p in after[f"c{n}"].values()) for n in range(len(amounts))] == amounts
    for name, total in zip(names, totals, strict=True):
        assert sum(p.get(name, {}).get("VGPU", 0) for p in after.values()) <= total
    assert all("host" not in places for places in after.values())
    assert split or all(len(places) == 1 for places in after.values())

"""ProviderTree against specification 05 section C3, and against a naive model."""

import copy
import pickle
import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.client.provider_tree import ProviderTree
from tests.support.processes import ENDS_S
from tests.support.world import new_uuid


@pytest.fixture
def tree() -> ProviderTree:
    """a (a1 (a11), a2) and b."""
    tree = ProviderTree()
    for name in ("a", "b"):
        tree.new_root(name, f"uuid-{name}", 0)
    for name, parent in (("a1", "a"), ("a2", "a"), ("a11", "a1")):
        tree.new_child(name, parent, f"uuid-{name}", 0)
    return tree


def names(tree: ProviderTree, uuids: Iterable[str]) -> list[str]:
    return [tree.data(one).name for one in uuids]


def test_an_empty_tree_has_nothing() -> None:
    assert ProviderTree().roots == []
    assert ProviderTree().get_provider_uuids() == []
    assert not ProviderTree().exists("a")


def test_parents_are_listed_before_their_children(tree: ProviderTree) -> None:
    listed = names(tree, tree.get_provider_uuids())
    assert sorted(listed) == ["a", "a1", "a11", "a2", "b"]
    assert listed.index("a") < listed.index("a1") < listed.index("a11")
    assert set(names(tree, tree.get_provider_uuids("a1"))) == {"a1", "a11"}


def test_the_tree_around_a_provider_starts_at_its_root(tree: ProviderTree) -> None:
    listed = names(tree, tree.get_provider_uuids_in_tree("uuid-a11"))
    assert listed[0] == "a"
    assert set(listed) == {"a", "a1", "a2", "a11"}


def test_uuids_win_over_names() -> None:
    tree = ProviderTree()
    tree.new_root("uuid-of-the-other", "uuid-1")
    tree.new_root("plain", "uuid-of-the-other")
    assert tree.data("uuid-of-the-other").name == "plain"


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.data("no"),
        lambda t: t.remove("no"),
        lambda t: t.get_provider_uuids("no"),
        lambda t: t.get_provider_uuids_in_tree("no"),
        lambda t: t.has_inventory("no"),
        lambda t: t.update_inventory("no", {}),
        lambda t: t.update_traits("no", []),
        lambda t: t.add_aggregates("no", "x"),
        lambda t: t.new_child("x", "no"),
        lambda t: t.new_root("a", new_uuid()),
        lambda t: t.new_root("x", "uuid-a"),
        lambda t: t.new_child("a1", "a"),
        lambda t: t.new_child("x", "a", "uuid-b"),
    ],
)
def test_what_is_not_there_or_taken_is_a_value_error(
    tree: ProviderTree, call: Callable[[ProviderTree], object]
) -> None:
    before = tree.places()
    with pytest.raises(ValueError, match=r"."):
        call(tree)
    assert tree.places() == before


def test_exists_never_raises(tree: ProviderTree) -> None:
    assert tree.exists("a") and tree.exists("uuid-a11")
    assert not tree.exists(None) and not tree.exists([]) and not tree.exists({})


def test_a_child_gets_a_uuid_if_it_has_none(tree: ProviderTree) -> None:
    assert uuid.UUID(tree.new_child("x", "b"))


def test_removing_takes_the_descendants_along(tree: ProviderTree) -> None:
    tree.remove("a1")
    assert not tree.exists("a11")
    tree.remove("uuid-a")
    assert names(tree, tree.get_provider_uuids()) == ["b"]
    tree.new_root("a", "uuid-a")


def test_a_snapshot_is_a_copy(tree: ProviderTree) -> None:
    tree.update_inventory("a", {"VCPU": {"total": 1}})
    data = tree.data("a")
    data.inventory["VCPU"]["total"] = 9
    data.traits.add("X")
    assert tree.data("a").inventory == {"VCPU": {"total": 1}}
    assert tree.data("a").traits == set()
    with pytest.raises(AttributeError):
        data.name = "x"  # type: ignore[misc]


FULL = {"VCPU": {"total": 8, "reserved": 0, "allocation_ratio": 16.0}}


@pytest.mark.parametrize(
    ("wanted", "changed"),
    [
        (FULL, False),
        ({"VCPU": {"total": 8}}, False),
        ({"VCPU": {}}, False),
        ({"VCPU": {"total": 8, "max_unit": 8}}, True),
        ({"VCPU": {"total": 9}}, True),
        ({}, True),
        (None, True),
        ({**FULL, "DISK_GB": {"total": 1}}, True),
    ],
)
def test_inventory_is_compared_by_what_is_mentioned(
    tree: ProviderTree, wanted: dict[str, Any] | None, changed: bool
) -> None:
    tree.update_inventory("a", FULL)
    assert tree.has_inventory_changed("a", wanted) is changed
    assert tree.update_inventory("a", wanted) is changed
    assert tree.data("a").inventory == ((wanted or {}) if changed else FULL)


def test_stored_inventory_is_a_copy(tree: ProviderTree) -> None:
    given_inventory = {"VCPU": {"total": 8}}
    tree.update_inventory("a", given_inventory)
    given_inventory["VCPU"]["total"] = 1
    assert tree.data("a").inventory == {"VCPU": {"total": 8}}
    assert tree.has_inventory("a") and not tree.has_inventory("b")


@pytest.mark.parametrize("method", ["update_inventory", "update_traits", "update_aggregates"])
def test_generations_are_stored_even_if_nothing_else_changes(
    tree: ProviderTree, method: str
) -> None:
    update = getattr(tree, method)
    nothing: dict[str, Any] | list[str] = {} if method == "update_inventory" else []
    assert update("a", nothing, 7) is False
    assert tree.data("a").generation == 7
    assert update("a", nothing) is False
    assert tree.data("a").generation == 7
    assert update("a", nothing, 0) is False
    assert tree.data("a").generation == 0


@pytest.mark.parametrize("aspect", ["traits", "aggregates"])
def test_sets_are_replaced_added_to_and_taken_from(tree: ProviderTree, aspect: str) -> None:
    def now() -> set[str]:
        return getattr(tree.data("a"), aspect)

    update, changed = getattr(tree, f"update_{aspect}"), getattr(tree, f"have_{aspect}_changed")
    assert update("a", iter(["x", "y"])) is True
    assert update("a", ["y", "x", "x"]) is False
    assert changed("a", ["x"]) and not changed("a", ("x", "y"))
    getattr(tree, f"add_{aspect}")("a", "z")
    getattr(tree, f"add_{aspect}")("a")
    assert now() == {"x", "y", "z"}
    getattr(tree, f"remove_{aspect}")("a", "x", "unknown")
    getattr(tree, f"remove_{aspect}")("a")
    assert now() == {"y", "z"}
    has_all = tree.has_traits if aspect == "traits" else tree.in_aggregates
    assert has_all("a", []) and has_all("a", ["y", "z"]) and not has_all("a", ["y", "x"])


def test_a_sharing_provider_needs_inventory_and_trait(tree: ProviderTree) -> None:
    tree.update_inventory("a", {"DISK_GB": {"total": 1}})
    tree.update_traits("b", ["MISC_SHARES_VIA_AGGREGATE"])
    assert not tree.has_sharing_provider("DISK_GB")
    tree.add_traits("a", "MISC_SHARES_VIA_AGGREGATE")
    assert tree.has_sharing_provider("DISK_GB")
    assert not tree.has_sharing_provider("VCPU")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_are_independent(
    tree: ProviderTree, duplicate: Callable[[ProviderTree], ProviderTree]
) -> None:
    tree.update_traits("a", ["X"])
    twin = duplicate(tree)
    assert twin.places() == tree.places()
    twin.add_traits("a", "Y")
    twin.remove("b")
    assert tree.data("a").traits == {"X"}
    assert tree.exists("b")
    held = threading.Event()

    def look() -> None:
        twin.data("a")
        held.set()

    with tree._lock:
        thread = threading.Thread(target=look)
        thread.start()
        assert held.wait(ENDS_S), "the copy waits for the lock of the original"
    thread.join()


def test_methods_are_atomic_between_threads() -> None:
    tree = ProviderTree()
    tree.new_root("a", "uuid-a")

    def work(number: int) -> None:
        for step in range(50):
            tree.new_child(f"{number}-{step}", "a")
            tree.get_provider_uuids()
            tree.remove(f"{number}-{step}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert names(tree, tree.get_provider_uuids()) == ["a"]


# ---- populate_from_iterable


def shown(
    name: str, parent: str | None = None, generation: int = 0, key: str | None = None
) -> dict[str, Any]:
    """A provider as the service shows it."""
    found = {"uuid": key or f"uuid-{name}", "name": name, "generation": generation}
    return {**found, "parent_provider_uuid": parent and f"uuid-{parent}"}


def test_a_provider_without_parent_key_is_a_root() -> None:
    tree = ProviderTree()
    tree.populate_from_iterable([{"uuid": "u", "name": "n", "generation": 3}])
    assert tree.data("n").parent_uuid is None
    assert tree.data("n").generation == 3


def test_replaced_providers_lose_what_they_had_and_who_is_below(tree: ProviderTree) -> None:
    tree.update_traits("a", ["X"])
    tree.update_traits("b", ["X"])
    tree.populate_from_iterable([shown("a2", "a"), shown("a", generation=5)])
    assert set(names(tree, tree.get_provider_uuids())) == {"a", "a2", "b"}
    assert tree.data("a").traits == set()
    assert tree.data("a").generation == 5
    assert tree.data("b").traits == {"X"}


def test_a_renamed_root_is_found_by_its_new_name_only(tree: ProviderTree) -> None:
    tree.populate_from_iterable([shown("new", key="uuid-b")])
    assert tree.exists("new") and not tree.exists("b")


def test_a_provider_that_took_a_name_is_found_by_it(tree: ProviderTree) -> None:
    """The cache may still hold the deleted provider that had the name."""
    tree.populate_from_iterable([shown("b", key="uuid-later")])
    assert tree.data("b").uuid == "uuid-later"
    tree.remove("uuid-later")
    assert tree.data("b").uuid == "uuid-b"


@pytest.mark.parametrize(
    "providers",
    [
        [shown("x", "nowhere")],
        [shown("x", "y"), shown("y", "x")],
        [shown("x", "x")],
        [shown("a"), shown("x", "a1")],  # a1 goes, as a descendant of a
        [shown("a", "a11")],
        [shown("b"), shown("x", "y"), shown("y", "z"), shown("z", "x")],
    ],
)
def test_missing_parents_and_cycles_leave_the_tree_alone(
    tree: ProviderTree, providers: list[dict[str, Any]]
) -> None:
    tree.update_traits("b", ["X"])
    before = pickle.dumps(tree)
    with pytest.raises(ValueError, match=r"not in the tree|ancestors"):
        tree.populate_from_iterable(providers)
    assert pickle.dumps(tree) == before


Model = dict[str, tuple[str | None, int]]
"""Name to parent and generation."""

Batch = list[tuple[str, str | None, int]]
"""Name, parent and generation of each provider."""

NAMES = "abcdef"
FORESTS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from([None, *NAMES]), st.integers(0, 9)),
        max_size=6,
        unique_by=lambda one: one[0],
    ),
    max_size=5,
)


def model_populate(model: Model, providers: Batch) -> Model | None:
    """The specification, read naively: name to (parent, generation); None if it must be refused."""

    def below(name: str, among: Model) -> set[str]:
        children = {one for one, (parent, _) in among.items() if parent == name}
        return children.union(*(below(child, among) for child in children))

    dropped = {name for one, *_ in providers for name in below(one, model) if one in model}
    result = {name: value for name, value in model.items() if name not in dropped}
    result.update({name: (parent, generation) for name, parent, generation in providers})
    for name in result:
        above: str | None = name
        steps = 0
        while above is not None:
            if above not in result or steps > len(result):
                return None
            above, steps = result[above][0], steps + 1
    return result


@given(FORESTS)
def test_populating_agrees_with_a_naive_model(batches: list[Batch]) -> None:
    tree = ProviderTree()
    model: Model = {}
    for batch in batches:
        wanted = model_populate(model, batch)
        providers = [shown(*one) for one in batch]
        if wanted is None:
            with pytest.raises(ValueError, match=r"."):
                tree.populate_from_iterable(providers)
            continue
        tree.populate_from_iterable(providers)
        model = wanted
        found = {
            data.name: (data.parent_uuid and data.parent_uuid[5:], data.generation)
            for data in (tree.data(one) for one in tree.get_provider_uuids())
        }
        assert found == model
        assert {root.name for root in tree.roots} == {n for n, v in model.items() if not v[0]}
        listed = names(tree, tree.get_provider_uuids())
        assert len(listed) == len(set(listed)) == len(model)
        assert all(
            parent is None or listed.index(parent) < listed.index(name)
            for name, (parent, _) in model.items()
        )

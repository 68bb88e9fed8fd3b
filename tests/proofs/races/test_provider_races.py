"""Writers of the provider side at the same moment, and the outcomes that are allowed (PROMISE 3, 4).

Every racer has a database object of its own, as a process would, so that only the database itself
is between them.
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import select

from placement.db import invariants, models, schema
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.objects import (
    inventory,
    provider_search,
    resource_class,
    resource_provider,
    trait,
)
from placement.objects.inventory import record_from
from placement.objects.picture import Picture
from tests.support.databases import KINDS, scratch_database
from tests.support.effort import examples
from tests.support.hosts import add_host
from tests.support.processes import ENDS_S
from tests.support.world import new_uuid

RACERS = 4
ROUNDS = examples(6)

Work = Callable[[Database], Any]


class Arena:
    """One scratch database and the database objects of its racers."""

    def __init__(self, url: str) -> None:
        self.databases = [Database(make_engine(url)) for _ in range(RACERS)]
        self.db = self.databases[0]

    def race(self, *works: Work) -> list[Any]:
        """Run all at once; return what each returned or raised, in order."""
        start = threading.Barrier(len(works))

        def run(work: Work, db: Database) -> Any:
            start.wait(ENDS_S)
            try:
                return work(db)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(works)) as racers:
            return list(racers.map(run, works, self.databases))

    def provider(self, parent_uuid: str | None = None) -> str:
        """Create a provider and return its uuid."""
        return add_host(self.db, parent=parent_uuid)

    def generation(self, provider_uuid: str) -> int:
        """Return the generation of a provider."""
        return resource_provider.show(self.db, provider_uuid).generation

    def assert_trees_are_trees(self) -> None:
        """Following the parents of any provider ends at the root it names."""
        table = models.resource_providers
        rows = self.db.read(
            lambda c: c.connection.execute(
                select(table.c.id, table.c.parent_provider_id, table.c.root_provider_id)
            ).all()
        )
        parents = {row[0]: row[1] for row in rows}
        for provider_id, _, root_id in rows:
            above, seen = provider_id, set()
            while parents[above] is not None:
                assert above not in seen, "the parents form a loop"
                seen.add(above)
                above = parents[above]
            assert above == root_id


def custom_name() -> str:
    """Return the name of a class or trait that nobody has made."""
    return f"CUSTOM_{uuid.uuid4().hex.upper()}"


@pytest.fixture(scope="module", params=KINDS)
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """An arena on each kind of database."""
    with ExitStack() as stack:
        made = Arena(stack.enter_context(scratch_database(request.param, schema.HEAD, named=True)))
        for each in made.databases:
            stack.callback(each.dispose)
        yield made


def of_type(outcomes: list[Any], kind: type) -> list[Any]:
    """Return those outcomes that are of exactly this type."""
    return [outcome for outcome in outcomes if type(outcome) is kind]


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_one_of_the_writers_with_the_same_generation_wins(arena: Arena, turn: int) -> None:
    """Whatever they write: inventories, one inventory, traits or aggregates."""
    host = add_host(arena.db, VCPU=4)
    known = {"generation": 1}
    record = record_from({"total": 8})

    outcomes = arena.race(
        lambda db: inventory.replace_all(db, host, {"VCPU": record}, may_be_full=True, **known),
        lambda db: inventory.replace(db, host, "VCPU", record, may_be_full=True, **known),
        lambda db: trait.replace_of_provider(db, host, ["HW_CPU_X86_AVX"], **known).generation,
        lambda db: resource_provider.replace_aggregates(db, host, [host], **known),
    )

    assert of_type(outcomes, int) == [2]
    lost = of_type(outcomes, inventory.GenerationConflict)
    lost += of_type(outcomes, resource_provider.GenerationMoved)
    assert len(lost) == RACERS - 1, outcomes
    assert arena.generation(host) == 2


def test_writers_without_a_generation_all_succeed_one_after_the_other(arena: Arena) -> None:
    """Adding records of different classes loses none of them and counts each."""
    host = arena.provider()
    classes = ["VCPU", "MEMORY_MB", "DISK_GB", "PCPU"]

    outcomes = arena.race(
        *(
            lambda db, name=name: inventory.add(
                db, host, name, record_from({"total": 1}), may_be_full=True
            )
            for name in classes
        )
    )

    assert sorted(outcomes) == [1, 2, 3, 4]
    assert {r.class_name for r in inventory.of_provider(arena.db, host).records} == set(classes)


def test_the_same_record_is_added_once(arena: Arena) -> None:
    """All others hear of a conflict."""
    host = arena.provider()

    outcomes = arena.race(
        *[lambda db: inventory.add(db, host, "VCPU", record_from({"total": 1}), may_be_full=True)]
        * RACERS
    )

    assert of_type(outcomes, int) == [1]
    assert len(of_type(outcomes, inventory.RecordExists)) == RACERS - 1, outcomes


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_the_same_provider_is_created_once(arena: Arena, turn: int) -> None:
    """The others hear that the uuid is taken, which tells a client that its provider is there."""
    made = new_uuid()

    outcomes = arena.race(*[lambda db: resource_provider.create(db, uuid=made, name=made)] * RACERS)

    assert len(of_type(outcomes, resource_provider.UuidTaken)) == RACERS - 1, outcomes
    assert arena.generation(made) == 0


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_name_is_given_once(arena: Arena, turn: int) -> None:
    """Two are created with it, one is renamed to it."""
    name, first, second = (new_uuid() for _ in range(3))
    old = arena.provider()

    outcomes = arena.race(
        lambda db: resource_provider.create(db, uuid=first, name=name),
        lambda db: resource_provider.create(db, uuid=second, name=name),
        lambda db: resource_provider.save(db, uuid=old, name=name),
    )

    refused = of_type(outcomes, resource_provider.NameTaken)
    refused += of_type(outcomes, resource_provider.NewNameTaken)
    assert len(refused) == 2, outcomes
    named = provider_search.look_up(arena.db, provider_search.ProviderQuery(name=name))
    assert len(named) == 1


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_parent_is_deleted_or_has_a_child(arena: Arena, turn: int) -> None:
    """A child never comes into being under a parent that is gone."""
    parent, child = arena.provider(), new_uuid()

    deleted, created = arena.race(
        lambda db: resource_provider.delete(db, parent),
        lambda db: resource_provider.create(db, uuid=child, name=child, parent_uuid=parent),
    )

    if deleted is None:
        assert type(created) is resource_provider.ProviderNotCreated
    else:
        assert type(deleted) is resource_provider.ProviderHasChildren
        assert created.parent_uuid == parent
    arena.assert_trees_are_trees()


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_moves_that_would_form_a_ring_do_not(arena: Arena, turn: int) -> None:
    """Three trees, each to go under a grandchild of the next: two may, one must not."""
    tops = [arena.provider() for _ in range(3)]
    leaves = [arena.provider(arena.provider(top)) for top in tops]

    outcomes = arena.race(
        *(
            lambda db, top=top, leaf=leaf: resource_provider.save(
                db, uuid=top, name=top, parent_uuid=leaf
            )
            for top, leaf in zip(tops, leaves[1:] + leaves[:1], strict=True)
        )
    )

    assert len(of_type(outcomes, resource_provider.ProviderNotSaved)) == 1, outcomes
    arena.assert_trees_are_trees()


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_two_roots_do_not_become_each_others_child(arena: Arena, turn: int) -> None:
    """The shortest loop."""
    one, other = arena.provider(), arena.provider()

    outcomes = arena.race(
        lambda db: resource_provider.save(db, uuid=one, name=one, parent_uuid=other),
        lambda db: resource_provider.save(db, uuid=other, name=other, parent_uuid=one),
    )

    assert len(of_type(outcomes, resource_provider.ProviderNotSaved)) == 1, outcomes
    arena.assert_trees_are_trees()


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_children_of_a_moving_tree_move_with_it(arena: Arena, turn: int) -> None:
    """A child that is created, or moved in, meanwhile ends under the right root."""
    top, target, stray = arena.provider(), arena.provider(), arena.provider()
    middle = arena.provider(top)
    leaf = arena.provider(middle)
    child = new_uuid()

    outcomes = arena.race(
        lambda db: resource_provider.save(db, uuid=top, name=top, parent_uuid=target),
        lambda db: resource_provider.create(db, uuid=child, name=child, parent_uuid=leaf),
        lambda db: resource_provider.save(db, uuid=stray, name=stray, parent_uuid=middle),
        lambda db: resource_provider.save(db, uuid=middle, name=middle, parent_uuid=None),
    )

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    arena.assert_trees_are_trees()


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_classes_created_at_once_get_ids_of_their_own(arena: Arena, turn: int) -> None:
    """Also where two of the creators mean the same class."""
    names = [custom_name() for _ in range(3)]

    outcomes = arena.race(
        *(lambda db, name=name: resource_class.ensure(db, name) for name in [*names, names[0]])
    )

    assert sorted(outcomes) == [False, True, True, True]
    ids = [found.id for found in resource_class.every(arena.db) if found.name in names]
    assert len(set(ids)) == 3
    assert min(ids) >= 10000


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_trait_is_created_once(arena: Arena, turn: int) -> None:
    """For the others it existed."""
    name = custom_name()

    outcomes = arena.race(*[lambda db: trait.ensure(db, name)[1]] * RACERS)

    assert sorted(outcomes) == [False] * (RACERS - 1) + [True]


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_new_aggregates_are_shared(arena: Arena, turn: int) -> None:
    """Several hosts join the same new aggregates, named in different orders."""
    hosts = [arena.provider() for _ in range(RACERS)]
    new = [new_uuid() for _ in range(3)]

    def replaced(place: int, host: str) -> Callable[[Database], int]:
        turned = new[place % 3 :] + new[: place % 3]
        return lambda db: resource_provider.replace_aggregates(db, host, turned, generation=0)

    outcomes = arena.race(*(replaced(place, host) for place, host in enumerate(hosts)))

    assert outcomes == [1] * RACERS
    query = provider_search.ProviderQuery(member_of=tuple(frozenset([each]) for each in new))
    found = provider_search.search(
        Picture(arena.db), query, lambda cloud, found: {cloud.uuids[index] for index in found}
    )
    assert found == set(hosts)


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_class_is_deleted_or_in_an_inventory(arena: Arena, turn: int) -> None:
    """No record is left with a class that is gone."""
    name, host = custom_name(), arena.provider()
    resource_class.create(arena.db, name)

    deleted, added = arena.race(
        lambda db: resource_class.delete(db, name),
        lambda db: inventory.add(db, host, name, record_from({"total": 1}), may_be_full=True),
    )

    if deleted is None:
        assert type(added) is inventory.InventoryClassMissing
    else:
        assert type(deleted) is resource_class.ClassInUse
        assert added == 1
    # Looked at at once: the next class that is made takes the id of the last.
    assert invariants.violations(arena.db) == []


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_trait_is_deleted_or_had_by_a_provider(arena: Arena, turn: int) -> None:
    """No provider is left with a trait that is gone."""
    name, host = custom_name(), arena.provider()
    trait.ensure(arena.db, name)

    deleted, given = arena.race(
        lambda db: trait.delete(db, name),
        lambda db: trait.replace_of_provider(db, host, [name], generation=0),
    )

    if deleted is None:
        assert type(given) is trait.UnknownTraits
        assert not trait.of_provider(arena.db, host).traits
    else:
        assert type(deleted) is trait.TraitInUse
        assert [each.name for each in given.traits] == [name]


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_class_is_renamed_while_it_gets_into_inventories(arena: Arena, turn: int) -> None:
    """Who used the old name wins or hears that it is unknown; the record follows the rename."""
    old, new = custom_name(), custom_name()
    resource_class.create(arena.db, old)
    host = arena.provider()

    renamed, added = arena.race(
        lambda db: resource_class.rename(db, old, new),
        lambda db: inventory.add(db, host, old, record_from({"total": 1}), may_be_full=True),
    )

    assert renamed is None
    shown = [each.class_name for each in inventory.of_provider(arena.db, host).records]
    if added == 1:
        assert shown == [new]
    else:
        assert type(added) is inventory.InventoryClassMissing
        assert shown == []

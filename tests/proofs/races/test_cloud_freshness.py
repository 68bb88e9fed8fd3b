"""Whoever searches after a write was acknowledged sees it, in any process (specification 04, PROMISE 8).

Every kind of write goes through one server process and is read_cloud for through the others at once.
"""

import random
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import delete, exc, insert, update

from placement.db import (
    change_rows,
    cloud_rows,
    invariants,
    models,
    provider_rows,
    writes,
)
from placement.db.change import Change
from placement.db.coexistence import state, takeover
from placement.db.database import Access, Database, Transaction
from placement.objects import picture
from placement.objects.picture import Picture
from placement.search.cloud import Cloud
from tests.support import bodies
from tests.support.looks import read_cloud
from tests.support.processes import ENDS_S
from tests.support.racing import Arena, emptied_arena, in_arenas
from tests.support.recorder import recorded
from tests.support.world import World

AGGREGATE = "aaaaaaaa-0000-4000-8000-00000000000{}"
SHARING = "MISC_SHARES_VIA_AGGREGATE"


@pytest.fixture(scope="module", params=in_arenas("postgresql", "mysql", "sqlite"))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three servers on one database."""
    with emptied_arena(request.param) as made:
        yield made


class Writer(World):
    """Writes through the first server, searches through all."""

    def __init__(self, place: Arena) -> None:
        super().__init__(place)
        self.place = place
        self.clients = place.clients(3)

    def found(self, query: str) -> list[set[str]]:
        """Return which providers take part in some candidate, as each server sees it now."""
        return [
            {key for each in answer["allocation_requests"] for key in each["allocations"]}
            for answer in self.seen(f"/allocation_candidates?{query}")
        ]

    def seen(self, path: str) -> list[Any]:
        """Return what each server answers now."""
        answers = [client.send("GET", path) for client in self.clients]
        assert [answer.status for answer in answers] == [200] * 3, answers
        return [answer.json for answer in answers]

    def listed(self, query: str) -> list[Any]:
        """Return the list of providers as each server shows it now."""
        return [
            answer["resource_providers"] for answer in self.seen(f"/resource_providers?{query}")
        ]

    def used_seen(self, query: str, provider: str, name: str) -> list[int]:
        """Return the usage of the provider that each server shows in its summaries."""
        return [
            answer["provider_summaries"][provider]["resources"][name]["used"]
            for answer in self.seen(f"/allocation_candidates?{query}")
        ]


@pytest.fixture
def writer(place: Arena) -> Writer:
    """The writer and its servers."""
    return Writer(place)


def claim_of(provider: str, generation: int | None, **amounts: int) -> dict[str, Any]:
    """Return the body of a PUT."""
    return bodies.entry({provider: amounts}, generation)


def test_provider_and_inventory(writer: Writer) -> None:
    """A new host is found, a changed inventory counts, a deleted host is gone."""
    host = writer.provider()
    query = f"resources=VCPU:5&in_tree={host}"
    assert writer.found(query) == [set()] * 3
    writer.replace(host, "inventories", {"VCPU": {"total": 8}})
    assert writer.found(query) == [{host}] * 3
    writer.replace(host, "inventories", {"VCPU": {"total": 4}})
    assert writer.found(query) == [set()] * 3
    writer.replace(host, "inventories", {"VCPU": {"total": 8}})
    assert writer.found(query) == [{host}] * 3
    writer.call("DELETE", f"/resource_providers/{host}/inventories")
    writer.call("DELETE", f"/resource_providers/{host}")
    assert writer.found(query) == [set()] * 3


def test_traits(writer: Writer) -> None:
    """Traits come and go."""
    host = writer.host(VCPU=8)
    query = f"resources=VCPU:1&required=HW_CPU_X86_VMX&in_tree={host}"
    assert writer.found(query) == [set()] * 3
    writer.replace(host, "traits", ["HW_CPU_X86_VMX"])
    assert writer.found(query) == [{host}] * 3
    writer.call("DELETE", f"/resource_providers/{host}/traits")
    assert writer.found(query) == [set()] * 3


def test_aggregates_below_and_above_1_19(writer: Writer) -> None:
    """Also the old form, which leaves the generation alone."""
    host, other = writer.host(VCPU=8), AGGREGATE.format(1)
    query = f"resources=VCPU:1&member_of={other}&in_tree={host}"
    before = writer.generation(host)
    path = f"/resource_providers/{host}/aggregates"
    writer.call("PUT", path, [other], version="1.18")
    assert writer.generation(host) == before
    assert writer.found(query) == [{host}] * 3
    writer.call("PUT", path, [], version="1.18")
    assert writer.found(query) == [set()] * 3
    writer.replace(host, "aggregates", [other])
    assert writer.found(query) == [{host}] * 3


def test_allocations(writer: Writer) -> None:
    """Claims, replacements that leave a host, and DELETE, which moves no generation."""
    host, second = writer.host(VCPU=8), writer.host(VCPU=8)
    consumer = f"/allocations/{uuid.uuid4()}"
    query = f"resources=VCPU:1&in_tree={host}"
    writer.call("PUT", consumer, claim_of(host, None, VCPU=5))
    assert writer.used_seen(query, host, "VCPU") == [5] * 3
    assert writer.found(f"resources=VCPU:4&in_tree={host}") == [set()] * 3
    writer.call("PUT", consumer, claim_of(second, 1, VCPU=5))
    assert writer.used_seen(query, host, "VCPU") == [0] * 3
    assert writer.used_seen(f"resources=VCPU:1&in_tree={second}", second, "VCPU") == [5] * 3
    writer.call("DELETE", consumer)
    assert writer.used_seen(f"resources=VCPU:1&in_tree={second}", second, "VCPU") == [0] * 3


def test_trees_and_sharing(writer: Writer) -> None:
    """A subtree that moves is found in its new tree; a sharing provider serves whom it may."""
    first, second = writer.provider(), writer.provider()
    child = writer.provider(parent=first)
    grandchild = writer.provider(parent=child, inventory={"VCPU": 8})
    assert writer.found(f"resources=VCPU:1&in_tree={first}") == [{grandchild}] * 3
    moved = {"name": child, "parent_provider_uuid": second}
    writer.call("PUT", f"/resource_providers/{child}", moved)
    assert writer.found(f"resources=VCPU:1&in_tree={first}") == [set()] * 3
    assert writer.found(f"resources=VCPU:1&in_tree={second}") == [{grandchild}] * 3

    pool, shared = writer.host(DISK_GB=100), AGGREGATE.format(2)
    writer.replace(pool, "aggregates", [shared])
    writer.replace(second, "aggregates", [shared])
    query = f"resources1=VCPU:1&in_tree1={second}&resources2=DISK_GB:1&in_tree2={pool}"
    query += "&group_policy=none"
    assert writer.found(query) == [set()] * 3
    writer.replace(pool, "traits", [SHARING])
    assert writer.found(query) == [{grandchild, pool}] * 3


def test_names_and_generations_in_lists(writer: Writer) -> None:
    """A list with ``resources`` comes from memory, and shows each provider as it is now."""
    host, above = writer.host(VCPU=8), writer.provider()
    path, consumer = f"/resource_providers/{host}", f"/allocations/{uuid.uuid4()}"
    below = {"name": f"{host}-2", "parent_provider_uuid": above}
    for write in (
        lambda: writer.call("PUT", path, {"name": f"{host}-1"}),
        lambda: writer.replace(host, "inventories", {"VCPU": {"total": 9}}),
        lambda: writer.replace(host, "traits", ["HW_CPU_X86_VMX"]),
        lambda: writer.replace(host, "aggregates", [AGGREGATE.format(3)]),
        lambda: writer.call("PUT", consumer, claim_of(host, None, VCPU=1)),
        lambda: writer.call("DELETE", consumer),
        lambda: writer.call("PUT", path, below),
    ):
        write()
        now = writer.get(path)
        assert writer.listed(f"resources=VCPU:1&uuid={host}") == [[now]] * 3
    assert now["root_provider_uuid"] == above
    assert now["name"] == f"{host}-2"
    assert writer.listed(f"resources=VCPU:1&name={host}-2") == [[now]] * 3
    assert writer.listed(f"resources=VCPU:1&name={host}-1") == [[]] * 3


def test_renamed_class(writer: Writer) -> None:
    """A class is asked for by its present name."""
    host, old, new = writer.provider(), "CUSTOM_OLD", "CUSTOM_NEW"
    writer.call("PUT", f"/resource_classes/{old}")
    writer.replace(host, "inventories", {old: {"total": 8}})
    assert writer.found(f"resources={old}:1&in_tree={host}") == [{host}] * 3
    writer.call("PUT", f"/resource_classes/{old}", {"name": new}, version="1.6")
    assert writer.found(f"resources={new}:1&in_tree={host}") == [{host}] * 3
    for client in writer.clients:
        gone = client.send("GET", f"/allocation_candidates?resources={old}:1")
        assert gone.status == 400


def test_reshape(writer: Writer) -> None:
    """What moved in one request is seen moved."""
    host = writer.host(VGPU=4)
    consumer = writer.claim({host: {"VGPU": 2}})
    child = writer.provider(parent=host)
    reshape = {
        "inventories": {
            host: bodies.stock(writer.generation(host), {}),
            child: bodies.stock(0, {"VGPU": 4}),
        },
        "allocations": {consumer: claim_of(child, 1, VGPU=2)},
    }
    writer.call("POST", "/reshaper", reshape)
    query = f"resources=VGPU:1&in_tree={host}"
    assert writer.found(query) == [{child}] * 3
    assert writer.used_seen(query, child, "VGPU") == [2] * 3


def ids_of(access: Access, *uuids: str) -> list[int]:
    """Return the ids of providers, in the order of their uuids here."""
    return [provider_rows.find(access, uuid=each)[0].id for each in uuids]


def test_repair_behind_the_back_of_the_servers(writer: Writer, place: Arena) -> None:
    """The repair command moves revisions, so that running servers see what it mended."""
    host = writer.host(VCPU=8)
    writer.claim({host: {"VCPU": 2}})
    query = f"resources=VCPU:1&in_tree={host}"
    place.db.write(
        lambda tx: tx.connection.execute(
            update(models.inventories).values(used=models.inventories.c.used + 1)
        )
    )
    place.db.write(lambda tx: writes.finish(tx, Change(touched=ids_of(tx, host))))
    assert writer.used_seen(query, host, "VCPU") == [3] * 3
    assert invariants.repair(place.db, invariants.COUNTERS) > 0
    assert writer.used_seen(query, host, "VCPU") == [2] * 3


def described(cloud: Cloud) -> dict[str, Any]:
    """Return what a search can see, whatever the order in which it came in."""
    live = [index for index, key in enumerate(cloud.ids.tolist()) if key >= 0]
    return {
        cloud.uuids[index]: (
            cloud.uuids[int(cloud.parents[index])] if cloud.parents[index] >= 0 else None,
            cloud.uuids[int(cloud.roots[index])],
            cloud.traits[index],
            cloud.aggregates[index],
            cloud.inventories[index],
            cloud.names[index],
            int(cloud.generations[index]),
            int(cloud.modified[index]),
            int(cloud.revisions[index]),
        )
        for index in live
    }


def test_picture_kept_up_equals_picture_read_anew(place: Arena) -> None:
    """Under writes of every kind from several clients, refreshing and reading anew agree."""
    writer = Writer(place)
    hosts = [writer.host(VCPU=50, MEMORY_MB=500) for _ in range(12)]
    kept = Picture(place.db)
    done = threading.Event()
    failures: list[str] = []

    def churn(seed: int) -> None:
        choice = random.Random(seed)
        client = place.clients(6)[3 + seed]
        consumers: list[str] = []
        while not done.is_set():
            action = choice.randrange(5)
            if action == 0 and consumers:
                client.send("DELETE", consumers.pop())
            elif action == 1:
                path = f"/resource_providers/{choice.choice(hosts)}/aggregates"
                client.send("PUT", path, [AGGREGATE.format(choice.randrange(3))], version="1.18")
            elif action == 2:
                name = {"name": str(uuid.uuid4())}
                client.send("PUT", f"/resource_providers/{choice.choice(hosts)}", name)
            else:
                path = f"/allocations/{uuid.uuid4()}"
                answer = client.send("PUT", path, claim_of(choice.choice(hosts), None, VCPU=1))
                if answer.status == 204:
                    consumers.append(path)
                elif answer.status != 409:
                    failures.append(answer.text)

    with ThreadPoolExecutor(3) as writers:
        churning = [writers.submit(churn, seed) for seed in range(3)]
        try:
            for _ in range(60):
                read_cloud(kept, len)
        finally:
            done.set()
    assert not failures
    assert not any(each.exception() for each in churning)
    assert read_cloud(kept, described) == read_cloud(Picture(place.db), described)


# The log of changed providers (placement/db/change_rows.py)

COMPARISON = "sum(resource_providers.revision)"


class Looker:
    """One worker's picture of the database, and how it was brought up to date last."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.picture = Picture(db)
        self.sent: list[str] = []
        self.look()

    def look(self) -> dict[str, Any]:
        """Return what the worker sees now."""
        with recorded(self.db) as statements:
            seen = read_cloud(self.picture, described)
        self.sent = list(statements)
        return seen

    def compared(self) -> bool:
        """Say whether the last look read the revisions of all providers."""
        return any(COMPARISON in statement for statement in self.sent)

    def is_right(self) -> bool:
        """Look, and say whether what is seen is what a new worker reads."""
        return self.look() == read_cloud(Picture(self.db), described)


@pytest.fixture
def hosts(writer: Writer) -> list[str]:
    """Two hosts."""
    return [writer.host(VCPU=8), writer.host(VCPU=8)]


def touch(tx: Transaction, host: str, slot: int = 5) -> None:
    """Move what searches see of a host, and name it in this slot."""
    tx.slot_seed = slot
    writes.finish(tx, Change(touched=ids_of(tx, host)))


def change_by_hand(db: Database, host: str) -> None:
    """Rename a host, and move its revision, without a word in the log."""
    rows = models.resource_providers
    changed = update(rows).where(rows.c.uuid == host)
    values = {"name": f"by hand {host}", "revision": rows.c.revision + 1}
    db.write(lambda tx: tx.connection.execute(changed.values(values)))


def test_who_searches_reads_what_the_log_names(writer: Writer, hosts: list[str]) -> None:
    """No write of the API makes another worker compare all providers, or look twice at rest."""
    looker, (host, other) = Looker(writer.place.db), hosts
    path, consumer = f"/resource_providers/{host}", f"/allocations/{uuid.uuid4()}"
    for write in (
        lambda: writer.replace(
            host, "inventories", {"VCPU": {"total": 9}, "DISK_GB": {"total": 9}}
        ),
        lambda: writer.call("DELETE", f"{path}/inventories/DISK_GB"),
        lambda: writer.replace(host, "traits", ["HW_CPU_X86_VMX"]),
        lambda: writer.call("DELETE", f"{path}/traits"),
        lambda: writer.replace(host, "aggregates", [AGGREGATE.format(4)]),
        lambda: writer.call("PUT", f"{path}/aggregates", [], version="1.18"),
        lambda: writer.call("PUT", consumer, claim_of(host, None, VCPU=1)),
        lambda: writer.call("PUT", consumer, claim_of(other, 1, VCPU=2)),
        lambda: writer.call("DELETE", consumer),
        lambda: writer.call("PUT", path, {"name": f"{host}-1", "parent_provider_uuid": other}),
        lambda: writer.provider(parent=host),
        lambda: writer.call("DELETE", f"/resource_providers/{writer.provider()}"),
    ):
        write()
        assert looker.is_right()
        assert not looker.compared()
    looker.look()
    looker.look()
    assert len(looker.sent) == 1


def test_of_a_host_that_was_claimed_only_its_stock_is_read(
    writer: Writer, hosts: list[str]
) -> None:
    """Unless something else has happened to it as well, be it by hand and without a word in the log."""
    db, consumer = writer.place.db, f"/allocations/{uuid.uuid4()}"
    looker, traits = Looker(db), "resource_provider_traits"
    writer.call("PUT", consumer, claim_of(hosts[0], None, VCPU=1))
    writer.call("PUT", consumer, claim_of(hosts[1], 1, VCPU=2))
    assert looker.is_right()
    assert not any(traits in statement for statement in looker.sent)

    writer.replace(hosts[0], "traits", ["HW_CPU_X86_VMX"])
    writer.call("PUT", consumer, claim_of(hosts[0], 2, VCPU=3))
    assert looker.is_right()
    assert any(traits in statement for statement in looker.sent)

    change_by_hand(db, hosts[0])
    writer.call("DELETE", consumer)
    assert looker.is_right()
    assert not looker.compared()


def test_a_log_that_was_cut_costs_a_comparison_and_no_freshness(
    writer: Writer, hosts: list[str]
) -> None:
    """More writes than a slot holds; more providers than it has room for; nobody knows which."""
    db, looker = writer.place.db, Looker(writer.place.db)
    for _ in range(change_rows.LENGTH // len("1:1;")):
        db.write(lambda tx: touch(tx, hosts[1]))
    db.write(lambda tx: touch(tx, hosts[0]))
    assert looker.is_right()
    assert looker.compared()

    db.write(lambda tx: change_rows.note(tx, range(10**6, 10**6 + 2_000)))
    assert looker.is_right()
    assert looker.compared()

    db.write(lambda tx: touch(tx, hosts[0]))
    assert looker.is_right()
    assert not looker.compared()

    db.write(lambda tx: writes.finish(tx, Change(is_unnamed=True)))
    assert looker.is_right()
    assert looker.compared()


def test_what_was_rolled_back_was_never_in_the_log(writer: Writer, hosts: list[str]) -> None:
    """The next write to the slot is found as if nothing had been between."""
    db, looker = writer.place.db, Looker(writer.place.db)
    before = looker.look()

    def refuse(tx: Transaction) -> None:
        touch(tx, hosts[0])
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        db.write(refuse)
    assert looker.look() == before
    assert len(looker.sent) == 1

    db.write(lambda tx: touch(tx, hosts[1]))
    assert looker.is_right()
    assert not looker.compared()


def test_two_writers_of_one_slot_are_both_seen(writer: Writer, hosts: list[str]) -> None:
    """The second waits for the first; whoever looks meanwhile sees neither, and later both."""
    db, looker = writer.place.db, Looker(writer.place.db)
    before = looker.look()
    holds, go = threading.Event(), threading.Event()

    def first(tx: Transaction) -> None:
        touch(tx, hosts[0])
        # What is written travels with what is read next.
        ids_of(tx, hosts[0])
        holds.set()
        assert go.wait(ENDS_S)

    with ThreadPoolExecutor(2) as writers:
        writers.submit(db.write, first)
        assert holds.wait(ENDS_S)
        writers.submit(db.write, lambda tx: touch(tx, hosts[1]))
        assert looker.look() == before
        go.set()

    assert looker.is_right()
    assert not looker.compared()
    revision = {host: seen[-1] for host, seen in looker.look().items()}
    assert [revision[host] - before[host][-1] for host in hosts] == [1, 1]


class LosesConnection:
    """Reads like ``work``, but not the first time."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work = work
        self.has_lost = False

    def __call__(self, *arguments: Any) -> Any:
        if not self.has_lost:
            self.has_lost = True
            raise exc.OperationalError("SELECT", {}, Exception("lost"), connection_invalidated=True)
        return self.work(*arguments)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "coexistence"])
def test_a_reading_that_breaks_off_and_is_repeated_misses_nothing(
    writer: Writer, hosts: list[str], monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """What the first attempt has learnt of the changes is not what the picture shows."""
    db, step = writer.place.db, "everything" if shared else "contents"
    if shared:
        db.write(state.begin)
    looker, losing = Looker(db), LosesConnection(getattr(cloud_rows, step))
    try:
        writer.replace(hosts[0], "inventories", {"VCPU": {"total": 5}})
        monkeypatch.setattr(cloud_rows, step, losing)
        assert looker.is_right()
        assert losing.has_lost
    finally:
        if shared:
            db.write(takeover.end)


def test_rows_changed_by_hand_are_seen_at_the_next_comparison(
    writer: Writer, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word in the log a revision that moved is found within ``COMPARE_EVERY_S``."""
    monkeypatch.setattr(picture, "COMPARE_EVERY_S", 0.0)
    looker = Looker(writer.place.db)
    change_by_hand(writer.place.db, hosts[0])
    assert looker.is_right()
    assert looker.compared()


def test_a_log_that_is_not_whole_costs_a_comparison_and_no_freshness(
    writer: Writer, hosts: list[str]
) -> None:
    """Slots that somebody has deleted are missed by the check, and inserted by its repair."""
    db, looker = writer.place.db, Looker(writer.place.db)
    db.write(lambda tx: tx.connection.execute(delete(models.provider_changes)))
    for host in hosts:
        db.write(partial(touch, host=host))
        assert looker.is_right()
        assert looker.compared()
    (broken,) = invariants.violations(db)
    assert invariants.repair(db, broken.invariant) == change_rows.SLOTS
    assert not invariants.violations(db)

    assert looker.is_right()
    db.write(lambda tx: touch(tx, hosts[0]))
    assert looker.is_right()
    assert not looker.compared()


def test_a_coexistence_between_two_searches(writer: Writer, hosts: list[str]) -> None:
    """What another service wrote, and put into no log, is seen by who has not searched meanwhile."""
    db, looker = writer.place.db, Looker(writer.place.db)
    providers, made = models.resource_providers, str(uuid.uuid4())

    def foreign(tx: Transaction) -> None:
        (gone,) = ids_of(tx, hosts[0])
        tx.connection.execute(
            delete(models.inventories).where(models.inventories.c.resource_provider_id == gone)
        )
        tx.connection.execute(
            update(providers).where(providers.c.id == gone).values(root_provider_id=None)
        )
        tx.connection.execute(delete(providers).where(providers.c.id == gone))
        new = tx.connection.execute(insert(providers).values(uuid=made, name=made, revision=0))
        assert new.inserted_primary_key is not None

    db.write(state.begin)
    db.write(foreign)
    db.write(takeover.end)

    seen = looker.look()
    assert looker.is_right()
    assert made in seen
    assert hosts[0] not in seen
    writer.call("DELETE", f"/resource_providers/{made}")

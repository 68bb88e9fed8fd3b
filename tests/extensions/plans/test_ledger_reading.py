"""What a plan reads of the ledger, and what it leaves unread when its time is over (10 section 4.2)."""

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest
from sqlalchemy import delete, or_, update

from placement.db import models, statements
from placement.db.database import Transaction
from placement.extensions.plans import ledger
from placement.extensions.plans.service import _occupy
from placement.extensions.plans.wanted import KeepWanted, Wanted
from placement.extensions.questions import affected
from placement.extensions.questions.survival import survival
from placement.objects.picture import Picture
from placement.search.work import Work
from tests.support.databases import KINDS
from tests.support.recorder import recorded
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

WANTED = Wanted(KeepWanted(()))
SHARES = "MISC_SHARES_VIA_AGGREGATE"


def let_end_after(looks: int) -> Work:
    """Return a bound whose time is over after so many looks."""
    looked = count(1)
    return Work(remaining_s=lambda: looks - next(looked) + 1)


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with running(request.param, insight__enabled=True) as made:
        yield made


class Pooled:
    """Two hosts whose servers have their disks on one pool, which is the oldest tree."""

    def __init__(self, service: Service) -> None:
        self.service, self.world, rack = service, World(service), new_uuid()
        self.pool = self.world.provider(None, None, {"DISK_GB": 100}, [SHARES], [rack])
        self.hosts = [
            self.world.provider(inventory={"VCPU": 8}, aggregates=[rack]) for _ in range(2)
        ]
        self.servers = [
            [self.world.claim({host: {"VCPU": 1}, self.pool: {"DISK_GB": 2}}) for _ in range(2)]
            for host in self.hosts
        ]

    def read(self, work: Work) -> tuple[dict[str, dict[str, dict[str, int]]], set[str]]:
        """Return who has what by provider, and the trees that were not read; the first host comes first."""
        cloud = Picture(self.service.db).copy_cloud()
        first = [cloud.index_of_uuid[self.hosts[0]]]
        found = ledger.read_ledger(self.service.db, cloud, first, (), work)
        held = {
            each.uuid: {
                str(cloud.uuids[index]): dict(amounts) for index, amounts in each.held.items()
            }
            for each in found.holders
        }
        return held, {str(cloud.uuids[root]) for root in found.unread}


@pytest.fixture
def pooled(service: Service) -> Pooled:
    return Pooled(service)


def read_few_at_once(monkeypatch: pytest.MonkeyPatch, consumers: int) -> None:
    """Let each tree cost a statement of its own, and what so many consumers have elsewhere one."""
    monkeypatch.setattr("placement.extensions.questions.survival.MOST", 1)
    monkeypatch.setattr(ledger, "MOST_PROVIDERS", 1)
    monkeypatch.setattr(ledger, "MOST", consumers)
    monkeypatch.setattr(affected, "batches", partial(statements.batches, most=consumers))


def test_a_pool_is_read_after_the_hosts(pooled: Pooled, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the consumers of all hosts: with it first no time was left for a plan."""
    read_few_at_once(monkeypatch, 2)
    wholes = {
        server: {host: {"VCPU": 1}, pooled.pool: {"DISK_GB": 2}}
        for host, mine in zip(pooled.hosts, pooled.servers, strict=True)
        for server in mine
    }

    assert pooled.read(Work()) == (wholes, set())
    # Both hosts are read, then the time is over: what the servers of the first one have on the pool is too.
    assert pooled.read(let_end_after(2)) == (
        {each: wholes[each] for each in pooled.servers[0]},
        {pooled.hosts[1], pooled.pool},
    )


def test_what_a_consumer_has_in_an_unread_tree_is_kept(
    pooled: Pooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step writes all that its consumer has, so the rules of a step ask for that part too."""
    read_few_at_once(monkeypatch, 2)
    cloud = Picture(pooled.service.db).copy_cloud()
    host, pool = (cloud.index_of_uuid[uuid] for uuid in (pooled.hosts[0], pooled.pool))

    found = ledger.read_ledger(pooled.service.db, cloud, [host], (), let_end_after(2))
    occupants = [_occupy(cloud.roots.tolist(), WANTED, found, each) for each in found.holders]

    assert {each.uuid for each in occupants} == set(pooled.servers[0])
    assert all(each.held == {host: {host: {"VCPU": 1}}} for each in occupants)
    assert all(each.elsewhere == {pool: {"DISK_GB": 2}} for each in occupants)


def test_a_tree_is_unread_unless_all_that_its_consumers_have_was_read(
    pooled: Pooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part on the pool is in every write: without it nothing may be moved."""
    read_few_at_once(monkeypatch, 1)

    held, unread = pooled.read(let_end_after(0))

    assert list(held) == pooled.servers[0][:1]
    assert unread == {*pooled.hosts, pooled.pool}


def test_statements_are_few_however_many_trees_there_are(pooled: Pooled) -> None:
    """PostgreSQL reads whole tables for each: a plan on 10,000 hosts read them thirteen times."""
    cloud = Picture(pooled.service.db).copy_cloud()
    with recorded(pooled.service.db) as statements_sent:
        ledger.read_ledger(pooled.service.db, cloud, [], (), Work())

    of_allocations = [text for text in statements_sent if "FROM allocations" in text]
    assert len(of_allocations) == 2
    # Nothing is looked up row by row, and what is read once goes unsorted.
    assert not any("(SELECT" in text or "ORDER BY" in text for text in of_allocations)


def test_consumer_of_a_provider_newer_than_the_picture_stays(pooled: Pooled) -> None:
    """A write of it would have to name what it has there, and the plan knows nothing of that provider."""
    world, server = pooled.world, pooled.servers[0][0]
    cloud = Picture(pooled.service.db).copy_cloud()
    newer = world.host(VCPU=4)
    world.claim(
        {pooled.hosts[0]: {"VCPU": 1}, pooled.pool: {"DISK_GB": 2}, newer: {"VCPU": 1}}, server, 1
    )

    found = ledger.read_ledger(pooled.service.db, cloud, [], (), Work())

    assert [each.uuid for each in found.holders if each.is_fixed] == [server]
    assert not found.unread


def test_consumer_without_a_record_or_a_project_stays(pooled: Pooled) -> None:
    """What damage has left in the tables takes room, and no step can name its owner."""
    db, (no_record, no_project) = pooled.service.db, pooled.servers[1]
    consumers = models.consumers
    other = pooled.world.claim({pooled.hosts[1]: {"VCPU": 1}}, project_id="other")

    def damage(tx: Transaction) -> None:
        tx.change_unshown(delete(consumers).where(consumers.c.uuid == no_record))
        tx.change_unshown(
            update(consumers)
            .where(consumers.c.uuid == no_project)
            .values(project_id=999, updated_at=models.now())
        )

    db.write(damage)
    cloud = Picture(db).copy_cloud()

    found = ledger.read_ledger(db, cloud, [], (), Work())

    holders = {each.uuid: each for each in found.holders}
    assert {uuid for uuid, each in holders.items() if each.is_fixed} == {no_record, no_project}
    assert holders[other].owner.project == "other"
    assert all(len(each.held) == 2 for each in holders.values() if each.uuid != other)


def test_allocations_of_a_class_that_is_gone_are_left_out(pooled: Pooled) -> None:
    db, allocations = pooled.service.db, models.allocations
    host = pooled.world.host(VCPU=4, VGPU=4)
    both = pooled.world.claim({host: {"VGPU": 2, "VCPU": 1}})
    alone = pooled.world.claim({host: {"VGPU": 2}})
    of_both = or_(allocations.c.consumer_id == both, allocations.c.consumer_id == alone)
    of_gpus = update(allocations).where(of_both, allocations.c.used == 2)
    gone = of_gpus.values(resource_class_id=9999, updated_at=models.now())
    assert db.write(lambda tx: tx.change_unshown(gone)) == 2
    cloud = Picture(db).copy_cloud()

    found = ledger.read_ledger(db, cloud, [], (), Work())

    holders = {each.uuid: each for each in found.holders}
    assert alone not in holders
    assert list(holders[both].held.values()) == [{"VCPU": 1}]


def test_counter_higher_than_the_allocations_takes_room(pooled: Pooled) -> None:
    """Each write is granted by the counter: a step into the room between the two was refused."""
    db, inventories = pooled.service.db, models.inventories
    full, old = pooled.hosts[1], Picture(pooled.service.db).copy_cloud()
    of_full = inventories.c.resource_provider_id == int(old.ids[old.index_of_uuid[full]])
    high = update(inventories).where(of_full).values(used=8, updated_at=models.now())
    db.write(lambda tx: tx.change_unshown(high))
    goal = {"empty": {"trees": [pooled.hosts[0]]}}

    used = []
    for cloud in (old, Picture(db).copy_cloud()):
        with recorded(db) as statements_sent:
            ledger.read_ledger(db, cloud, [], (), Work())
        of_counters = [text for text in statements_sent if "FROM inventories" in text]
        used.append((cloud.inventories[cloud.index_of_uuid[full]][0][2], len(of_counters)))
    answer = pooled.service.request("POST", "/-/plans", json={"goal": goal}, version="1.39")

    # A picture that agrees with the allocations is believed, and nothing more is read.
    assert used == [(2, 0), (8, 1)]
    assert answer.status_int == 409, answer.text


def test_survival_ends_in_time_while_it_reads(
    pooled: Pooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little time there is, it says what was tried until then."""
    read_few_at_once(monkeypatch, 1)
    picture, tried = Picture(pooled.service.db), []
    for looks in range(40):
        found = survival(
            pooled.service.db,
            picture,
            by_aggregate=False,
            top=9,
            avoid=frozenset(),
            work=let_end_after(looks),
        )
        tried.append(found.tried)

    assert (tried[0], tried[-1]) == (0, 3)
    assert tried == sorted(tried)

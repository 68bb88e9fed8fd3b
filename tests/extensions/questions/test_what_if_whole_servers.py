"""A server moves as one thing: its host reaches its disk after a drain or a failure (07 sections 4 and 9)."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from placement.extensions.questions import survival
from tests.extensions.claims.test_claims import claim, place
from tests.search import shared_worlds, worlds
from tests.search.shared_worlds import SharedWorld, draw_shared_world
from tests.support import recorder
from tests.support.effort import LONG
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

SHARES = ["MISC_SHARES_VIA_AGGREGATE"]


@pytest.fixture
def service() -> Iterator[Service]:
    with running(insight__enabled=True) as made:
        yield made


def drain(service: Service, *roots: str, changes: Any = ()) -> set[str]:
    """Return who is homeless if these trees are drained."""
    body = {"changes": [*changes, *({"drain": r} for r in roots)], "query": "resources=VCPU:1"}
    told = service.request("POST", "/-/what-if", json=body)
    assert told.status_int == 200, told.text
    assert told.json["complete"]
    return {each["uuid"] for each in told.json["homeless"]}


def lose(service: Service, level: str = "tree") -> dict[str, dict[str, str]]:
    """Return by tree, or aggregate, who is homeless if it fails, and why."""
    told = service.request("GET", f"/-/survival?top=1000&level={level}").json
    assert told["complete"]
    return {
        each["uuid"]: {one["uuid"]: one["stopped"]["why"] for one in each["homeless"]}
        for each in told["lost"]
    }


class Racks:
    """Two racks, each with two hosts of 8 and a pool; servers on the first host of the first rack."""

    def __init__(self, service: Service) -> None:
        self.service, self.world = service, World(service)
        self.racks = [new_uuid(), new_uuid()]
        self.hosts = [[self._make({"VCPU": 8}, [rack]) for _ in range(2)] for rack in self.racks]
        self.pools = [self._make({"DISK_GB": 100}, [rack], SHARES) for rack in self.racks]

    def _make(self, stock: Any, racks: list[str], traits: Any = ()) -> str:
        return self.world.provider(None, None, stock, traits, racks)

    def server(self, cores: int = 4, disk: int = 10) -> str:
        held = {self.hosts[0][0]: {"VCPU": cores}, self.pools[0]: {"DISK_GB": disk}}
        return self.world.claim(held)


def test_a_host_leaves_only_for_one_that_reaches_the_disk(service: Service) -> None:
    """Both hosts of the other rack have room, and do not reach the pool."""
    made = Racks(service)
    server, host = made.server(), made.hosts[0][0]
    assert drain(service, host) == set()
    blocker = made.world.claim({made.hosts[0][1]: {"VCPU": 6}})

    assert drain(service, host) == {server}
    assert lose(service)[host] == {server: "OUT_OF_REACH"}

    made.world.replace(made.hosts[1][0], "aggregates", made.racks)
    assert drain(service, host) == set()
    assert host not in lose(service)
    assert drain(service, made.hosts[0][1]) == set(), blocker


def test_a_disk_leaves_only_for_a_pool_that_the_host_reaches(service: Service) -> None:
    """Neither the pool nor a local disk of the other rack will do."""
    made = Racks(service)
    server, pool = made.server(), made.pools[0]
    made.world.set_inventory(made.hosts[1][0], {"VCPU": 8, "DISK_GB": 100})

    assert drain(service, pool) == {server}
    assert lose(service)[pool] == {server: "OUT_OF_REACH"}

    made.world.replace(made.pools[1], "aggregates", made.racks)
    assert drain(service, pool) == set()
    assert pool not in lose(service)


def test_a_disk_joins_its_host(service: Service) -> None:
    """The host has a disk itself, and no other pool is in reach."""
    made = Racks(service)
    made.server()
    made.world.set_inventory(made.hosts[0][0], {"VCPU": 8, "DISK_GB": 10})

    assert drain(service, made.pools[0]) == set()
    assert lose(service) == {}


def test_a_host_joins_the_other_host_of_its_consumer(service: Service) -> None:
    made = Racks(service)
    first, second = made.hosts[0]
    held = {first: {"VCPU": 4}, second: {"VCPU": 4}, made.pools[0]: {"DISK_GB": 1}}
    server = made.world.claim(held)

    assert drain(service, first) == set()
    made.world.claim({second: {"VCPU": 1}})
    assert drain(service, first) == {server}


def test_a_disk_joins_the_host_that_is_placed_last(service: Service) -> None:
    """The first host has room only where there is no disk, and the second host only where there is one."""
    world = World(service)
    leaving = [world.host(VCPU=2), world.host(VCPU=3)]
    pool = world.provider(None, None, {"DISK_GB": 1}, SHARES)
    server = {leaving[0]: {"VCPU": 2}, leaving[1]: {"VCPU": 3}, pool: {"DISK_GB": 1}}
    world.claim(server)
    world.host(VCPU=2)
    world.host(VCPU=3, DISK_GB=1)

    assert drain(service, *leaving, pool) == set()


def test_a_host_and_its_pool_move_together(service: Service) -> None:
    """The rack goes: to the other rack with the disk, and not if one of both has no room there."""
    made = Racks(service)
    server, rack = made.server(), [*made.hosts[0], made.pools[0]]
    assert drain(service, *rack) == set()
    assert made.racks[0] not in lose(service, "aggregate")

    made.world.claim({made.pools[1]: {"DISK_GB": 95}})
    far = made.world.provider(None, None, {"DISK_GB": 100}, SHARES)
    assert drain(service, *rack) == {server}
    assert lose(service, "aggregate")[made.racks[0]] == {server: "OUT_OF_REACH"}

    # Half a server takes nothing from others, which fill all that is left there, whoever comes first.
    made.world.claim({made.hosts[0][0]: {"VCPU": 4}})
    made.world.claim({made.hosts[0][1]: {"VCPU": 4}})
    made.world.claim({made.hosts[1][0]: {"VCPU": 8}})
    assert drain(service, *rack) == {server}, far


def test_changes_before_a_drain_decide_what_is_in_reach(service: Service) -> None:
    """An aggregate brings a host to the pool, and a trait makes a pool."""
    made = Racks(service)
    server, host = made.server(), made.hosts[0][0]
    made.world.claim({made.hosts[0][1]: {"VCPU": 6}})
    far = made.hosts[1][0]

    assert drain(service, host, changes=[{"aggregates": {far: made.racks}}]) == set()
    made.world.set_traits(made.pools[0], [])
    assert drain(service, host) == set()
    assert drain(service, host, changes=[{"traits": {made.pools[0]: SHARES}}]) == {server}


def test_members_of_groups_stay_in_reach_of_their_disks(service: Service) -> None:
    """The rule leaves only hosts of the other rack; and disks of members that are apart share a pool."""
    made = Racks(service)
    members = []
    for host in made.hosts[0]:
        made_claim = claim(
            query=f"resources_A=VCPU:1&resources_B=DISK_GB:1&in_tree_A={host}&group_policy=none",
            groups=["web"],
        )
        answer = place(service, made_claim, groups={"web": {"rule": "apart"}})
        assert answer.status_int == 200, answer.text
        members.append(made_claim["consumer_uuid"])
    rack = [*made.hosts[0], made.pools[0]]

    assert drain(service, made.hosts[0][0]) == {members[0]}
    assert drain(service, made.pools[0]) == {*members}
    assert drain(service, *rack) == set()
    spare = made.world.provider(None, None, {"DISK_GB": 100}, SHARES, [made.racks[0]])
    assert drain(service, made.pools[0]) == set(), spare


def test_a_member_moves_whole_or_not_at_all(service: Service) -> None:
    """Its host finds a place and its disk does not: another server takes the place of the host."""
    made = Racks(service)
    asked = claim(
        query=f"resources_A=VCPU:8&resources_B=DISK_GB:9&in_tree_A={made.hosts[0][0]}&group_policy=none",
        groups=["web"],
    )
    assert place(service, asked, groups={"web": {"rule": "apart"}}).status_int == 200
    other = made.world.claim({made.hosts[0][1]: {"VCPU": 8}})
    made.world.claim({made.hosts[1][0]: {"VCPU": 8}})
    made.world.claim({made.pools[1]: {"DISK_GB": 99}})

    assert drain(service, *made.hosts[0], made.pools[0]) == {asked["consumer_uuid"]}, other


def test_a_cloud_without_sharing_providers_pays_nothing(service: Service) -> None:
    """What consumers have in other trees than were read is read only if something shares."""
    world = World(service)
    first, second = world.host(VCPU=4), world.host(VCPU=4)
    world.claim({first: {"VCPU": 1}, second: {"VCPU": 1}})
    pool = world.provider(None, None, {"DISK_GB": 1})
    without = count_statements(service, first)
    world.set_traits(pool, SHARES)

    assert [n - m for n, m in zip(count_statements(service, first), without, strict=True)] == [1, 0]


def count_statements(service: Service, host: str) -> list[int]:
    """Return how many statements a drain and survival send when the picture is fresh."""
    found = []
    for ask in (lambda: drain(service, host), lambda: lose(service)):
        ask()
        with recorder.recorded(service.db) as sent:
            ask()
        found.append(len(sent))
    return found


def build(service: Service, drawn: SharedWorld) -> None:
    """Make the providers and the consumers of a world."""
    world = World(service)
    for each in drawn.providers:
        parent = drawn.providers[each.tree].uuid
        world.provider(
            None,
            None if parent == each.uuid else parent,
            dict(each.has),
            SHARES if each.shares else [],
            each.aggregates,
            key=each.uuid,
        )
    for consumer in drawn.consumers:
        held = {drawn.providers[n].uuid: dict(amounts) for n, amounts in consumer.held.items()}
        world.claim(held, consumer.uuid)


@worlds.seeds(1000 if LONG else 45, 3768680434573684950)
def test_what_if_and_survival_agree_with_the_oracle(random: Random) -> None:
    """On any one tree, and on any rack: who is homeless, the one, the other, and by the chapter alone."""
    drawn = draw_shared_world(random)
    uuid_of = [each.uuid for each in drawn.providers]
    batch = random.choice([survival.MOST, 1])
    with (
        pytest.MonkeyPatch.context() as patch,
        running(insight__enabled=True, insight__work_factor=10_000) as service,
    ):
        # Survival reads many trees at once, or one after the other.
        patch.setattr(survival, "MOST", batch)
        build(service, drawn)
        for level, places in (
            ("tree", {uuid_of[tree]: [tree] for tree in drawn.trees}),
            ("aggregate", drawn.by_aggregate()),
        ):
            lost = lose(service, level)
            for name, trees in places.items():
                expected = shared_worlds.find_homeless(drawn, trees)
                assert drain(service, *(uuid_of[tree] for tree in trees)) == expected
                assert lost.get(name, {}).keys() == expected

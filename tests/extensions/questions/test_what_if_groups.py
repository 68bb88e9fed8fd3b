"""Draining hosts whose consumers are members of groups: what-if and survival (07 sections 4 and 9)."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.extensions.claims.test_claims import claim, place
from tests.extensions.questions.test_survival import any_uuid, by_consumer, drained
from tests.search import worlds
from tests.support import recorder
from tests.support.service import Service, running
from tests.support.world import World, new_uuid


@pytest.fixture
def service() -> Iterator[Service]:
    with running(insight__enabled=True) as made:
        yield made


def member(service: Service, host: str, amount: int = 1, *groups: str, **rules: Any) -> str:
    """Claim on a host for a new member of groups, whose rules are given by name; return its uuid."""
    query = f"resources=VCPU:{amount}&in_tree={host}"
    made = claim(query=query, groups=[*groups, *rules])
    answer = place(service, made, groups=rules)
    assert answer.status_int == 200, answer.text
    return str(made["consumer_uuid"])


def homeless(service: Service, *changes: Any) -> dict[str, Any]:
    """Return the groups that keep homeless consumers out of places, by uuid."""
    body = {"changes": list(changes), "query": "resources=VCPU:1"}
    told = service.request("POST", "/-/what-if", json=body)
    assert told.status_int == 200, told.text
    assert told.json["complete"]
    return {each["uuid"]: each.get("groups") for each in told.json["homeless"]}


def test_members_that_are_apart_stay_apart(service: Service) -> None:
    """There is room beside another member, and that is no place; one that is in no group takes it."""
    world = World(service)
    full, other = world.host(VCPU=3), world.host(VCPU=8)
    rule = {"rule": "apart"}
    first, second = member(service, full, web=rule), member(service, other, web=rule)
    free = world.claim({full: {"VCPU": 1}})

    assert homeless(service, {"drain": full}) == {first: ["web"]}
    assert homeless(service, {"remove": second}, {"drain": full}) == {}
    assert homeless(service, {"drain": other}) == {second: ["web"]}
    # Both close at once: it is not the rule that keeps them out.
    all_lost = {first: None, second: None, free: None}
    assert homeless(service, {"drain": full}, {"drain": other}) == all_lost


def test_members_that_are_together_go_where_all_fit(service: Service) -> None:
    """The first host with room for one has none for two."""
    world = World(service)
    old = world.host(VCPU=4)
    members = [member(service, old, 2, pair={"rule": "together"}) for _ in range(2)]
    for _ in range(5):
        world.host(VCPU=3)
    apart = homeless(service, {"drain": old})
    world.host(VCPU=4)

    assert homeless(service, {"drain": old}) == {}
    assert list(apart.values()) == [["pair"]]
    assert apart.keys() < {*members}


def test_the_disk_of_a_member_moves_in_its_turn(service: Service) -> None:
    """Its host stays, so no rule is asked: the older disk is first, in what-if as in survival."""
    world = World(service)
    rack = new_uuid()
    host = world.provider(inventory={"VCPU": 8}, aggregates=[rack])
    sharing: dict[str, Any] = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "aggregates": [rack]}
    pool = world.provider(inventory={"DISK_GB": 7}, **sharing)
    world.provider(inventory={"DISK_GB": 3}, **sharing)
    world.claim({host: {"VCPU": 1}, pool: {"DISK_GB": 3}})
    young = member(service, host, g={"rule": "apart"})
    world.claim({host: {"VCPU": 1}, pool: {"DISK_GB": 1}}, young, generation=1)

    lost = {each["uuid"]: each["homeless"] for each in survival(service)["lost"]}
    assert [each["uuid"] for each in lost[pool]] == [young]
    assert homeless(service, {"drain": pool}) == {young: None}


def test_racks_are_those_of_the_copy(service: Service) -> None:
    """A member may not go to the other rack, where one is, unless the changes make that another rack."""
    world = World(service)
    racks = [new_uuid() for _ in range(2)]
    old, spare, far = (world.host(VCPU=4) for _ in range(3))
    for host, rack in ((old, racks[0]), (spare, racks[1]), (far, racks[1])):
        world.replace(host, "aggregates", [rack])
    rule = {"rule": "apart", "level": "aggregate", "of": racks}
    moved, _ = member(service, old, g=rule), member(service, far, g=rule)

    assert homeless(service, {"drain": old}) == {moved: ["g"]}
    assert homeless(service, {"aggregates": {spare: []}}, {"drain": old}) == {}
    assert homeless(service, {"aggregates": {spare: [racks[0]]}}, {"drain": old}) == {}


def test_no_place_at_all_is_no_matter_of_rules(service: Service) -> None:
    world = World(service)
    old, other = world.host(VCPU=5), world.host(VCPU=2)
    moved = member(service, old, 4, g={"rule": "apart"})
    member(service, other, 1, "g")

    assert homeless(service, {"drain": old}) == {moved: None}
    lost = survival(service)["lost"]
    why = {each["uuid"]: each["homeless"][0]["stopped"]["why"] for each in lost}
    assert why == {old: "NO_CAPACITY", other: "GROUP_RULE"}
    assert [each["homeless"][0].get("groups") for each in lost] == [
        ["g"] if each["uuid"] == other else None for each in lost
    ]


def survival(service: Service, level: str = "tree") -> Any:
    return service.request("GET", f"/-/survival?level={level}&top=1000").json


def test_survival_of_groups_is_draining_each_tree() -> None:
    """Whatever the groups, a tree is lost with the consumers that what-if leaves homeless, and why."""

    @worlds.seeds(25)
    def compare(random: Random) -> None:
        with running(insight__enabled=True, insight__work_factor=10_000) as service:
            trees = build(service, random)
            told = survival(service)
            alone = survival(service, "aggregate")
            expected = {root: drained(service, [root], {root: [root]}) for root in trees}
            expected = {root: lost for root, lost in expected.items() if lost}
            found = {each["uuid"]: by_consumer(each["homeless"]) for each in told["lost"]}
            assert found == expected
            groups = {
                each["uuid"]: {one["uuid"]: one.get("groups") for one in each["homeless"]}
                for each in told["lost"]
            }
            assert groups == {root: homeless(service, {"drain": root}) for root in groups}
            # One tree is the whole of each aggregate here.
            lost = [by_consumer(each["homeless"]) for each in alone["lost"]]
            assert all(each in expected.values() for each in lost)

    compare()


def build(service: Service, random: Random) -> list[str]:
    """Make hosts, some in an aggregate of their own, with members of groups and other servers in them."""
    world, roots, racks = World(service), [], []
    for _ in range(random.randrange(2, 5)):
        mine = [any_uuid(random)] if random.random() < 0.5 else []
        stock = {"VCPU": random.randrange(2, 6)}
        roots.append(world.provider(None, None, stock, aggregates=mine, key=any_uuid(random)))
        racks += mine
    rules: dict[str, Any] = {}
    for name in "gh":
        rules[name] = {"rule": random.choice(["apart", "together"])}
        if racks and random.random() < 0.5:
            rules[name] |= {"level": "aggregate", "of": racks}
    for _ in range(random.randrange(2, 10)):
        made = claim(
            consumer_uuid=any_uuid(random),
            query=f"resources=VCPU:{random.randrange(1, 3)}&in_tree={random.choice(roots)}",
            groups=[name for name in rules if random.random() < 0.4],
        )
        answer = place(service, made, groups={name: rules[name] for name in made["groups"]})
        # One for which there is no room, or no place that its rules allow, is refused.
        assert answer.status_int in (200, 409), answer.text
    return roots


def test_a_cloud_without_groups_pays_nothing(service: Service) -> None:
    """As many statements as before there were groups; one more for a host of which none is in one."""
    world = World(service)
    old, other = world.host(VCPU=4), world.host(VCPU=4)
    world.claim({old: {"VCPU": 1}})

    without = statements(service, old)
    member(service, other, g={"rule": "apart"})
    beside = statements(service, old)
    member(service, old, 1, "g")

    within = statements(service, old)
    assert [beside[n] - without[n] for n in range(2)] == [1, 3]
    assert [within[n] - without[n] for n in range(2)] == [3, 3]


def statements(service: Service, host: str) -> tuple[int, int]:
    """Return how many statements a drain and survival send, asked twice so that the picture is fresh."""
    found = []
    for ask in (lambda: homeless(service, {"drain": host}), lambda: survival(service)):
        ask()
        with recorder.recorded(service.db) as sent:
            ask()
        found.append(len(sent))
    return found[0], found[1]

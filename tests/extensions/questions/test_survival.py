"""Survival: would the consumers of any one host, or aggregate, fit elsewhere (07 section 9)."""

from random import Random
from typing import Any
from uuid import UUID

from tests.search import worlds
from tests.support.service import Service, running
from tests.support.world import World

SHARES = "MISC_SHARES_VIA_AGGREGATE"


def test_survival_is_draining_each_place_after_the_other() -> None:
    """A tree or an aggregate is lost with the consumers that what-if leaves homeless, and no other is."""

    @worlds.seeds(25)
    def compare(random: Random) -> None:
        with running(insight__enabled=True, insight__work_factor=10_000) as service:
            trees, members = build(World(service), random)
            check(service, "tree", {root: [root] for root in trees}, trees)
            check(service, "aggregate", members, trees)

    compare()


def any_uuid(random: Random) -> str:
    """Return a uuid that the seed decides: the order of trees is that of a digest of theirs."""
    return str(UUID(int=random.getrandbits(128), version=4))


def build(world: World, random: Random) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Make hosts, some with nodes, a pool that shares its disk, and servers in them.

    Return the providers by root, and the roots by aggregate.
    """
    aggregates = [any_uuid(random) for _ in range(2)]
    trees: dict[str, list[str]] = {}
    members: dict[str, list[str]] = {uuid: [] for uuid in aggregates}
    for _ in range(random.randrange(2, 6)):
        mine = [each for each in aggregates if random.random() < 0.5]
        total = random.randrange(3, 8)
        stock: Any = {"VCPU": {"total": total, "max_unit": random.randrange(3, total + 1)}}
        traits = ["COMPUTE_STATUS_DISABLED"] if random.random() < 0.25 else []
        root = world.provider(None, None, stock, traits, mine, key=any_uuid(random))
        trees[root] = [root]
        for uuid in mine:
            members[uuid].append(root)
        if random.random() < 0.5:
            stock = {"VGPU": 4, "VCPU": random.randrange(1, 4)}
            node = world.provider(None, root, stock, key=any_uuid(random))
            trees[root].append(node)
    pool = any_uuid(random)
    world.provider(None, None, {"DISK_GB": 9}, [SHARES], aggregates[:1], key=pool)
    trees[pool] = [pool]
    members[aggregates[0]].append(pool)
    for _ in range(random.randrange(1, 12)):
        held = {
            uuid: {name: random.randrange(1, 4)}
            for uuid in random.choice(list(trees.values()))
            for name in ("DISK_GB" if uuid == pool else "VCPU",)
        }
        if random.random() < 0.3:
            held[pool] = {"DISK_GB": 1}
        body = {
            "allocations": {uuid: {"resources": amounts} for uuid, amounts in held.items()},
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "consumer_generation": None,
        }
        # One for which there is no room is refused.
        world.call("PUT", f"/allocations/{any_uuid(random)}", body, expect=(204, 409))
    return trees, {uuid: roots for uuid, roots in members.items() if roots}


def check(
    service: Service, level: str, places: dict[str, list[str]], trees: dict[str, list[str]]
) -> None:
    told = service.request("GET", f"/-/survival?level={level}&top=1000").json
    assert (told["places"], told["tried"], told["complete"]) == (len(places), len(places), True)
    expected = {uuid: drained(service, roots, trees) for uuid, roots in places.items()}
    expected = {uuid: homeless for uuid, homeless in expected.items() if homeless}
    assert told["survivable"] == len(places) - len(expected)
    assert {each["uuid"]: by_consumer(each["homeless"]) for each in told["lost"]} == expected
    counts = [each["homeless_count"] for each in told["lost"]]
    assert counts == sorted(map(len, expected.values()), reverse=True)


def by_consumer(homeless: list[Any]) -> dict[str, Any]:
    return {each["uuid"]: each["allocations"] for each in homeless}


def drained(service: Service, roots: list[str], trees: dict[str, list[str]]) -> dict[str, Any]:
    """Return what becomes homeless if all these trees take nothing more, and are emptied one by one."""
    closing: dict[str, Any] = {}
    if len(roots) > 1:
        for uuid in (each for root in roots for each in trees[root]):
            shown = service.request("GET", f"/resource_providers/{uuid}/inventories")
            stock = shown.json["inventories"]
            closing[uuid] = {
                name: record | {"reserved": record["total"]} for name, record in stock.items()
            }
    changes: list[Any] = [{"inventories": closing}] if closing else []
    changes += ({"drain": root} for root in roots)
    body = {"changes": changes, "query": "resources=VCPU:1"}
    told = service.request("POST", "/-/what-if", json=body)
    assert told.status_int == 200, told.text
    return by_consumer(told.json["homeless"])

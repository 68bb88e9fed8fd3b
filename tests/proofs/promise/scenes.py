"""What is there before, and requests: every kind of write, and pairs and triples of writes that touch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.proofs.promise.stage import Order
from tests.support import bodies
from tests.support.bodies import entry, entry_1_12

HOST = "10000000-0000-4000-8000-000000000001"
CHILD = "10000000-0000-4000-8000-000000000002"
OTHER = "10000000-0000-4000-8000-000000000003"
NEW = "10000000-0000-4000-8000-000000000004"
HOLDER = "20000000-0000-4000-8000-000000000001"
ANN = "20000000-0000-4000-8000-000000000002"
BOB = "20000000-0000-4000-8000-000000000003"
RED = "30000000-0000-4000-8000-000000000001"
BLUE = "30000000-0000-4000-8000-000000000002"


@dataclass(frozen=True)
class Scene:
    """The orders that make the state before, and those that are played against one another.

    ``wins``: how many of them get a 2xx in every order, if that is known. ``over``: the holds are.
    ``unseen``: what has happened since the process has looked; None: no claim is chosen on what may be old.
    ``bare``: a consumer of which there is only a record, of another service.
    """

    name: str
    before: Sequence[Order]
    orders: Sequence[Order]
    wins: int | None = None
    over: bool = False
    unseen: Sequence[Order] | None = None
    bare: str = ""


def take_turns(routes: Sequence[str], scenes: Sequence[Scene], scene: Scene) -> str:
    """Return the route on which a scene is played in CI: each route has its share of the scenes."""
    return routes[scenes.index(scene) % len(routes)]


def provider(uuid: str, parent: str | None = None, name: str | None = None) -> Order:
    """Create a provider."""
    body = {"uuid": uuid, "name": name or uuid, "parent_provider_uuid": parent}
    return Order("POST", "/resource_providers", body)


def adopt(uuid: str, parent: str | None) -> Order:
    """Give a provider a parent."""
    return Order(
        "PUT", f"/resource_providers/{uuid}", {"name": uuid, "parent_provider_uuid": parent}
    )


def stock(uuid: str, generation: int, **totals: int) -> Order:
    """Give a provider these totals by class and no others."""
    return Order("PUT", f"/resource_providers/{uuid}/inventories", bodies.stock(generation, totals))


def stock_one(uuid: str, generation: int, name: str, total: int) -> Order:
    """Change the total of one class."""
    body = {"resource_provider_generation": generation, "total": total}
    return Order("PUT", f"/resource_providers/{uuid}/inventories/{name}", body)


def claim(consumer: str, uuid: str = HOST, generation: Any = None, **resources: int) -> Order:
    """Replace a consumer's allocations by some of one provider."""
    sets = {uuid: resources} if resources else {}
    return Order("PUT", f"/allocations/{consumer}", entry(sets, generation))


def blind_claim(consumer: str, **resources: int) -> Order:
    """Replace a consumer's allocations, whatever they are (before 1.28)."""
    return Order("PUT", f"/allocations/{consumer}", entry_1_12({HOST: resources}), "1.12")


def release(consumer: str) -> Order:
    """Delete a consumer's allocations."""
    return Order("DELETE", f"/allocations/{consumer}")


def many(entries: Mapping[str, Any]) -> Order:
    """Replace the allocations of several consumers at once."""
    return Order("POST", "/allocations", dict(entries))


def delete(uuid: str, what: str = "") -> Order:
    """Delete a provider, or something of it."""
    return Order("DELETE", f"/resource_providers/{uuid}{what}")


def aggregates(generation: int, *uuids: str) -> Order:
    """Replace the aggregates of the host."""
    body = {"resource_provider_generation": generation, "aggregates": list(uuids)}
    return Order("PUT", f"/resource_providers/{HOST}/aggregates", body)


def traits(generation: int, *names: str) -> Order:
    """Replace the traits of the host."""
    body = {"resource_provider_generation": generation, "traits": list(names)}
    return Order("PUT", f"/resource_providers/{HOST}/traits", body)


def reshape(host_generation: int, child_generation: int, **held: tuple[int, int]) -> Order:
    """Move the host's VCPU to the child, with consumers: by name (generation, amount)."""
    consumers = {"holder": HOLDER, "ann": ANN}
    return Order(
        "POST",
        "/reshaper",
        {
            "inventories": {
                HOST: {"resource_provider_generation": host_generation, "inventories": {}},
                CHILD: {
                    "resource_provider_generation": child_generation,
                    "inventories": {"VCPU": {"total": 4}},
                },
            },
            "allocations": {
                consumers[name]: entry({CHILD: {"VCPU": amount}}, generation)
                for name, (generation, amount) in held.items()
            },
        },
    )


TRAIT = Order("PUT", "/traits/CUSTOM_A")
NO_TRAIT = Order("DELETE", "/traits/CUSTOM_A")
CLASS = Order("PUT", "/resource_classes/CUSTOM_C")
NO_CLASS = Order("DELETE", "/resource_classes/CUSTOM_C")

EMPTY_HOST = (provider(HOST),)
FREE = (*EMPTY_HOST, stock(HOST, 0, VCPU=4))
HELD = (*FREE, claim(HOLDER, VCPU=2))
FULL = (*EMPTY_HOST, stock(HOST, 0, VCPU=2), claim(HOLDER, VCPU=2))
TREE = (*HELD, provider(CHILD, HOST))

PAIRS = (
    Scene("claim-claim", HELD, (claim(ANN, VCPU=2), claim(BOB, VCPU=2)), 1),
    Scene("claim-claim-room", FREE, (claim(ANN, VCPU=2), claim(BOB, VCPU=2)), 2),
    Scene("claim-release", FULL, (claim(ANN, VCPU=1), release(HOLDER))),
    Scene(
        "replace-replace",
        HELD,
        (claim(HOLDER, generation=1, VCPU=3), claim(HOLDER, generation=1, VCPU=4)),
        1,
    ),
    Scene("replace-release", HELD, (claim(HOLDER, generation=1, VCPU=3), release(HOLDER))),
    Scene(
        "replace-empty",
        HELD,
        (claim(HOLDER, generation=1, VCPU=3), claim(HOLDER, generation=1)),
        1,
    ),
    Scene("blind-blind", HELD, (blind_claim(HOLDER, VCPU=3), blind_claim(HOLDER, VCPU=4)), 2),
    Scene("blind-release", HELD, (blind_claim(HOLDER, VCPU=3), release(HOLDER)), 2),
    Scene("release-release", HELD, (release(HOLDER), release(HOLDER)), 1),
    Scene("claim-reshape", TREE, (claim(ANN, VCPU=1), reshape(2, 0, holder=(1, 2)))),
    Scene("reshape-reshape", TREE, (reshape(2, 0, holder=(1, 2)),) * 2, 1),
    Scene("release-reshape", TREE, (release(HOLDER), reshape(2, 0, holder=(1, 2)))),
    Scene("claim-shrink", HELD, (claim(ANN, VCPU=2), stock(HOST, 2, VCPU=2)), 1),
    Scene("claim-shrink-one", HELD, (claim(ANN, VCPU=2), stock_one(HOST, 2, "VCPU", 2)), 1),
    Scene("claim-no-inventory", FREE, (claim(ANN, VCPU=1), delete(HOST, "/inventories/VCPU")), 1),
    Scene("claim-no-provider", FREE, (claim(ANN, VCPU=1), delete(HOST)), 1),
    Scene(
        "owners",
        FREE,
        (
            many({ANN: entry({HOST: {"VCPU": 1}}, project_id="new", user_id="new")}),
            many({BOB: entry({HOST: {"VCPU": 1}}, project_id="new", user_id="new")}),
        ),
        2,
    ),
    Scene("same-consumer", FREE, (claim(ANN, VCPU=1), claim(ANN, VCPU=2)), 1),
    Scene(
        "exchange",
        (*HELD, claim(ANN, VCPU=1)),
        (
            many({HOLDER: entry({HOST: {"VCPU": 1}}, 1), ANN: entry({HOST: {"VCPU": 3}}, 1)}),
            many({ANN: entry({HOST: {"VCPU": 2}}, 1), HOLDER: entry({HOST: {"VCPU": 2}}, 1)}),
        ),
        1,
    ),
    Scene(
        "two-hosts",
        (*FREE, provider(OTHER), stock(OTHER, 0, VCPU=1)),
        (
            Order("PUT", f"/allocations/{ANN}", entry({HOST: {"VCPU": 1}, OTHER: {"VCPU": 1}})),
            Order("PUT", f"/allocations/{BOB}", entry({OTHER: {"VCPU": 1}, HOST: {"VCPU": 1}})),
        ),
        1,
    ),
    Scene("aggregates-aggregates", EMPTY_HOST, (aggregates(0, RED), aggregates(0, RED, BLUE)), 1),
    Scene(
        "traits-traits",
        (*EMPTY_HOST, TRAIT),
        (traits(0, "CUSTOM_A"), traits(0, "HW_CPU_X86_VMX")),
        1,
    ),
    Scene("stock-stock", FREE, (stock(HOST, 1, VCPU=8), stock(HOST, 1, DISK_GB=9)), 1),
    Scene("aggregates-traits", EMPTY_HOST, (aggregates(0, RED), traits(0, "HW_CPU_X86_VMX")), 1),
    Scene("aggregates-stock", EMPTY_HOST, (aggregates(0, RED), stock(HOST, 0, VCPU=1)), 1),
    Scene("traits-stock", EMPTY_HOST, (traits(0, "HW_CPU_X86_VMX"), stock(HOST, 0, VCPU=1)), 1),
    Scene("stock-claim-grow", FULL, (stock(HOST, 2, VCPU=4), claim(ANN, VCPU=2))),
    Scene("trait-deleted", (*EMPTY_HOST, TRAIT), (traits(0, "CUSTOM_A"), NO_TRAIT), 1),
    Scene("trait-made", EMPTY_HOST, (TRAIT, TRAIT), 2),
    Scene("class-deleted", (*EMPTY_HOST, CLASS), (stock(HOST, 0, CUSTOM_C=1), NO_CLASS), 1),
    Scene("class-made", EMPTY_HOST, (CLASS, CLASS), 2),
    Scene("same-name", (), (provider(HOST, name="n"), provider(OTHER, name="n")), 1),
    Scene("child-orphan", EMPTY_HOST, (provider(CHILD, HOST), delete(HOST)), 1),
    Scene("ring", (*EMPTY_HOST, provider(OTHER)), (adopt(HOST, OTHER), adopt(OTHER, HOST)), 1),
    Scene("child-moved", (*TREE, provider(OTHER)), (provider(NEW, CHILD), adopt(HOST, OTHER)), 2),
)

TRIPLES = (
    Scene("claims-release", FULL, (claim(ANN, VCPU=2), claim(BOB, VCPU=1), release(HOLDER))),
    Scene(
        "claim-reshape-shrink",
        TREE,
        (claim(ANN, VCPU=1), reshape(2, 0, holder=(1, 2)), stock(HOST, 2, VCPU=2)),
    ),
    Scene(
        "replaces-release",
        HELD,
        (
            claim(HOLDER, generation=1, VCPU=1),
            blind_claim(HOLDER, VCPU=4),
            release(HOLDER),
        ),
    ),
    Scene(
        "generation-of-all",
        FREE,
        (aggregates(1, RED), traits(1, "HW_CPU_X86_VMX"), claim(ANN, VCPU=4)),
    ),
    Scene(
        "round",
        (*FREE, claim(HOLDER, VCPU=1), claim(ANN, VCPU=1), claim(BOB, VCPU=1)),
        (
            many({HOLDER: entry({HOST: {"VCPU": 2}}, 1), ANN: entry({}, 1)}),
            many({ANN: entry({HOST: {"VCPU": 2}}, 1), BOB: entry({}, 1)}),
            many({BOB: entry({HOST: {"VCPU": 2}}, 1), HOLDER: entry({}, 1)}),
        ),
    ),
    Scene(
        "new-owners",
        FREE,
        tuple(
            many({each: entry({HOST: {"VCPU": 2}}, project_id="new", consumer_type="NEW")})
            for each in (ANN, BOB, HOLDER)
        ),
        2,
    ),
)

PROVIDER = (provider(HOST),)
MARKED = (*PROVIDER, TRAIT, traits(0, "CUSTOM_A", "HW_CPU_X86_VMX"))
GROUPED = (*PROVIDER, aggregates(0, RED))
FAMILY = (*TREE, provider(OTHER))
RECORD = {"resource_class": "DISK_GB", "total": 5}

REQUESTS = tuple(
    Scene(name, before, (order,))
    for name, before, order in (
        ("create provider", (), provider(HOST)),
        ("create child", PROVIDER, provider(CHILD, HOST)),
        ("create provider twice", PROVIDER, provider(HOST)),
        (
            "rename provider",
            PROVIDER,
            Order("PUT", f"/resource_providers/{HOST}", {"name": "new"}),
        ),
        ("move provider", FAMILY, adopt(HOST, OTHER)),
        ("delete provider", MARKED[:1], delete(HOST)),
        ("delete provider in use", HELD, delete(HOST)),
        ("add inventory", HELD, Order("POST", f"/resource_providers/{HOST}/inventories", RECORD)),
        ("replace inventories", HELD, stock(HOST, 2, VCPU=8, MEMORY_MB=1)),
        ("replace inventory", HELD, stock_one(HOST, 2, "VCPU", 3)),
        ("replace inventory too late", HELD, stock_one(HOST, 1, "VCPU", 3)),
        ("delete inventory", FREE, delete(HOST, "/inventories/VCPU")),
        ("delete inventories", FREE, delete(HOST, "/inventories")),
        ("aggregates", GROUPED, aggregates(1, BLUE)),
        ("traits", MARKED, traits(1, "CUSTOM_A", "HW_GPU_API_VULKAN")),
        ("delete traits", MARKED, delete(HOST, "/traits")),
        ("create trait", (), TRAIT),
        ("delete trait", (TRAIT,), NO_TRAIT),
        ("create class", (), Order("POST", "/resource_classes", {"name": "CUSTOM_C"})),
        ("ensure class", (), CLASS),
        (
            "rename class",
            (CLASS,),
            Order("PUT", "/resource_classes/CUSTOM_C", {"name": "CUSTOM_D"}, "1.6"),
        ),
        ("delete class", (CLASS,), NO_CLASS),
        ("claim", HELD, claim(ANN, VCPU=1)),
        ("claim too much", HELD, claim(ANN, VCPU=3)),
        (
            "claim for new owners",
            HELD,
            many({ANN: entry({HOST: {"VCPU": 1}}, project_id="new", consumer_type="NEW")}),
        ),
        ("replace claim", HELD, claim(HOLDER, generation=1, VCPU=4)),
        (
            "move claim",
            (*HELD, provider(OTHER), stock(OTHER, 0, VCPU=4)),
            claim(HOLDER, OTHER, 1, VCPU=2),
        ),
        (
            "claim of two hosts",
            (*HELD, provider(OTHER), stock(OTHER, 0, VCPU=4)),
            Order("PUT", f"/allocations/{ANN}", entry({HOST: {"VCPU": 1}, OTHER: {"VCPU": 1}})),
        ),
        ("empty claim", HELD, claim(HOLDER, generation=1)),
        (
            "claims of many",
            HELD,
            many(
                {
                    HOLDER: entry({}, 1),
                    ANN: entry({HOST: {"VCPU": 2}}),
                    BOB: entry({HOST: {"VCPU": 2}}),
                }
            ),
        ),
        ("release", HELD, release(HOLDER)),
        ("reshape", TREE, reshape(2, 0, holder=(1, 2), ann=(None, 1))),
        ("adopt a root", (*FAMILY, provider(NEW, OTHER)), adopt(OTHER, CHILD)),
    )
)
"""Every kind of write alone, and some that are refused."""

SHARED = (
    Scene(
        "allocations at once",
        (*EMPTY_HOST, stock(HOST, 0, VCPU=6)),
        tuple(claim(each, VCPU=2) for each in (ANN, BOB, NEW)),
    ),
    Scene(
        "changes of allocations at once",
        (*HELD, claim(BOB, VCPU=1), provider(OTHER), stock(OTHER, 0, VCPU=4)),
        (
            claim(ANN, OTHER, VCPU=1),
            claim(HOLDER, OTHER, 1, VCPU=1),
            many({NEW: entry({HOST: {"VCPU": 1}}, project_id="new")}),
            claim(BOB, OTHER, 1, VCPU=2),
        ),
    ),
)
"""Changes of allocations that arrive at one process while it writes the first, and share a transaction."""

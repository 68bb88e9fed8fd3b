"""Named clouds as data: providers, consumers, and the questions that are asked of each.

A cloud is generated, never stored: every uuid follows from the cloud's name, the kind of object and
its number, so that the loader, the client processes and a later run agree without exchanging lists.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

TRAITS_PER_HOST = 24
CONSUMERS_PER_HOST = 20
BIG_PROJECT_CONSUMERS = 20_000
SHARING = "MISC_SHARES_VIA_AGGREGATE"
CLAIM = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


def uuid_of(*key: object) -> str:
    """Return the uuid of the object named by ``key``; indexes see no order in them."""
    digest = blake2b("/".join(map(str, key)).encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider with all that is known about it; ``parent`` is a uuid."""

    uuid: str
    name: str
    inventories: Mapping[str, Mapping[str, float]]
    parent: str | None = None
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer with its allocations: amounts by class by provider uuid."""

    uuid: str
    project: str
    user: str
    allocations: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Question:
    """A named query for candidates; ``since`` is the microversion it needs."""

    name: str
    query: str
    since: tuple[int, int] = (1, 29)
    under_claims: bool = False


@dataclass(frozen=True)
class Cloud:
    """A cloud of one named shape and size.

    :param trees: makes the providers of tree ``i``, parents first.
    :param hosts: how many trees.
    :param claim: what a claim takes from a host; empty when claims make no sense here.
    """

    name: str
    hosts: int
    trees: Callable[[str, int], list[Provider]]
    questions: tuple[Question, ...]
    consumers_per_host: int = 0
    shared: tuple[Provider, ...] = ()
    claim: Mapping[str, int] = field(default_factory=dict)

    def tree(self, number: int) -> list[Provider]:
        """Return the providers of one host, parents first."""
        return self.trees(self.name, number)

    def providers(self) -> Iterator[Provider]:
        """Yield every provider: the shared ones, then tree by tree."""
        yield from self.shared
        for number in range(self.hosts):
            yield from self.tree(number)

    def host_uuid(self, number: int) -> str:
        """Return the uuid of the root of tree ``number``."""
        return uuid_of(self.name, "host", number)

    def consumers_of(self, number: int) -> list[Consumer]:
        """Return the consumers on one host.

        The first ones of every host belong to one project, which so gets up to 20,000; the others
        to a hundred smaller projects.
        """
        per_host = -(-BIG_PROJECT_CONSUMERS // self.hosts)
        host = self.host_uuid(number)
        found = []
        for place in range(self.consumers_per_host):
            serial = number * self.consumers_per_host + place
            in_big = place < per_host and number * per_host + place < BIG_PROJECT_CONSUMERS
            project = self.big_project if in_big else uuid_of(self.name, "project", serial % 100)
            user = uuid_of(self.name, "user", serial % 300)
            consumer = uuid_of(self.name, "consumer", serial)
            found.append(Consumer(consumer, project, user, {host: CLAIM}))
        return found

    @property
    def big_project(self) -> str:
        """The project that owns the most consumers."""
        return uuid_of(self.name, "project", "big")

    @property
    def ledger(self) -> int:
        """How many allocation rows the loaded cloud has."""
        return self.hosts * self.consumers_per_host * len(CLAIM)

    def names(self) -> tuple[list[str], list[str]]:
        """Return the custom traits and custom classes that some provider uses."""
        traits: dict[str, None] = {}
        classes: dict[str, None] = {}
        sample = range(0, self.hosts, max(1, self.hosts // 200))
        for provider in [*self.shared, *(one for number in sample for one in self.tree(number))]:
            traits |= dict.fromkeys(provider.traits)
            classes |= dict.fromkeys(provider.inventories)
        custom = "CUSTOM_"
        return (
            [name for name in traits if name.startswith(custom)] + list(_varied_traits()),
            [name for name in classes if name.startswith(custom)],
        )


def _inventory(total: int, ratio: float = 1.0, **fields: int) -> dict[str, float]:
    return {"total": total, "allocation_ratio": ratio, "max_unit": total, **fields}


COMMON_TRAITS = tuple(f"CUSTOM_BENCH_COMMON_{number}" for number in range(TRAITS_PER_HOST - 4))


def _varied_traits() -> Iterator[str]:
    for word, count in (("HALF", 2), ("TENTH", 10), ("RACK", 50), ("ROW", 100)):
        yield from (f"CUSTOM_BENCH_{word}_{number}" for number in range(count))


def _host_traits(number: int) -> tuple[str, ...]:
    return (
        *COMMON_TRAITS,
        f"CUSTOM_BENCH_HALF_{number % 2}",
        f"CUSTOM_BENCH_TENTH_{number % 10}",
        f"CUSTOM_BENCH_RACK_{number % 50}",
        f"CUSTOM_BENCH_ROW_{number % 100}",
    )


def _flat_tree(cloud: str, number: int) -> list[Provider]:
    """One compute host; every hundredth has a big disk."""
    return [
        Provider(
            uuid_of(cloud, "host", number),
            f"{cloud}-host-{number}",
            {
                "VCPU": _inventory(64, 16.0),
                "MEMORY_MB": _inventory(262_144, 1.5, reserved=512),
                "DISK_GB": _inventory(8_000 if number % 100 == 0 else 2_000),
            },
            traits=_host_traits(number),
            aggregates=(
                uuid_of(cloud, "zone", number % 3),
                uuid_of(cloud, "rack", number // 40),
            ),
        )
    ]


def _shared_disk_tree(cloud: str, number: int) -> list[Provider]:
    """A compute host whose disk comes from the pool of its zone."""
    (host,) = _flat_tree(cloud, number)
    kept = {name: held for name, held in host.inventories.items() if name != "DISK_GB"}
    return [replace(host, inventories=kept)]


def _disk_pool(cloud: str, number: int) -> Provider:
    return Provider(
        uuid_of(cloud, "pool", number),
        f"{cloud}-pool-{number}",
        {"DISK_GB": _inventory(10_000_000)},
        traits=(SHARING,),
        aggregates=(uuid_of(cloud, "zone", number),),
    )


def _numa_tree(cloud: str, number: int) -> list[Provider]:
    """A host with two NUMA nodes of eight network functions each; its disk is shared."""
    host = uuid_of(cloud, "host", number)
    found = [
        Provider(
            host,
            f"{cloud}-host-{number}",
            {},
            traits=_host_traits(number),
            aggregates=(uuid_of(cloud, "zone", number % 3),),
        )
    ]
    for node in range(2):
        cell = uuid_of(cloud, "numa", number, node)
        found.append(
            Provider(
                cell,
                f"{cloud}-host-{number}-numa-{node}",
                {"VCPU": _inventory(32, 4.0), "MEMORY_MB": _inventory(131_072, 1.5)},
                parent=host,
                traits=("HW_NUMA_ROOT",),
            )
        )
        for function in range(8):
            found.append(
                Provider(
                    uuid_of(cloud, "function", number, node, function),
                    f"{cloud}-host-{number}-numa-{node}-pf-{function}",
                    {"SRIOV_NET_VF": _inventory(8)},
                    parent=cell,
                    traits=(f"CUSTOM_BENCH_PHYSNET_{function % 2}",),
                )
            )
    return found


def _device_tree(devices: int, cloud: str, number: int) -> list[Provider]:
    """A host with that many devices of one unit each."""
    host = uuid_of(cloud, "host", number)
    inventories = _flat_tree(cloud, number)[0].inventories
    return [
        Provider(host, f"{cloud}-host-{number}", inventories),
        *(
            Provider(
                uuid_of(cloud, "device", number, device),
                f"{cloud}-host-{number}-device-{device}",
                {"CUSTOM_BENCH_DEVICE": _inventory(1)},
                parent=host,
                traits=(f"CUSTOM_BENCH_DEVICE_MODEL_{device % 2}",),
            )
            for device in range(devices)
        ),
    ]


def _wide_host_tree(devices: int, cloud: str, number: int) -> list[Provider]:
    """A compute host with traits and aggregates, and that many devices."""
    (host,) = _flat_tree(cloud, number)
    return [host, *_device_tree(devices, cloud, number)[1:]]


THREE = "resources=VCPU:1,MEMORY_MB:1024,DISK_GB:10"


def _flat_questions(cloud: str) -> tuple[Question, ...]:
    zone, host = uuid_of(cloud, "zone", 1), uuid_of(cloud, "host", 0)
    compute = "VCPU:1,MEMORY_MB:1024"
    return (
        Question("three classes, limit=10", f"{THREE}&limit=10"),
        Question("three classes, limit=1000", f"{THREE}&limit=1000", under_claims=True),
        Question("three classes, no limit", THREE),
        Question(
            "required traits, limit=1000",
            f"{THREE}&required=CUSTOM_BENCH_COMMON_3,CUSTOM_BENCH_HALF_1,CUSTOM_BENCH_TENTH_3"
            "&limit=1000",
        ),
        Question(
            "forbidden trait, limit=1000", f"{THREE}&required=!CUSTOM_BENCH_HALF_1&limit=1000"
        ),
        Question("aggregate, limit=1000", f"{THREE}&member_of={zone}&limit=1000"),
        Question("in_tree", f"{THREE}&in_tree={host}", (1, 31)),
        Question(
            "two granular groups, limit=1000",
            f"resources1={compute}&resources2=DISK_GB:10&group_policy=none&limit=1000",
        ),
        Question("no host fits", "resources=VCPU:1,DISK_GB:100000000&limit=1000"),
    )


def _groups(count: int, policy: str) -> str:
    wanted = "&".join(f"resources{n}=CUSTOM_BENCH_DEVICE:1" for n in range(1, count + 1))
    return f"{wanted}&group_policy={policy}"


NUMA_QUERY = (
    "resources=DISK_GB:10"
    "&resources_NUMA0=VCPU:2,MEMORY_MB:1024&resources_NUMA1=VCPU:2,MEMORY_MB:1024"
    "&resources_PORT0=SRIOV_NET_VF:1&resources_PORT1=SRIOV_NET_VF:1"
    "&same_subtree=_NUMA0,_PORT0&same_subtree=_NUMA1,_PORT1&group_policy=isolate"
)


def _flat(name: str, hosts: int, consumers: int) -> Cloud:
    return Cloud(name, hosts, _flat_tree, _flat_questions(name), consumers, claim=CLAIM)


def _shared(name: str, hosts: int, consumers: int) -> Cloud:
    questions = (
        Question("three classes, limit=1000", f"{THREE}&limit=1000", under_claims=True),
        Question("three classes, no limit", THREE),
    )
    pools = tuple(_disk_pool(name, number) for number in range(3))
    compute = {"VCPU": 1, "MEMORY_MB": 1024}
    return Cloud(name, hosts, _shared_disk_tree, questions, shared=pools, claim=compute)


def _numa(name: str, hosts: int, consumers: int) -> Cloud:
    pools = tuple(_disk_pool(name, number) for number in range(3))
    questions = (
        Question("2 NUMA + 2 ports, limit=10", f"{NUMA_QUERY}&limit=10", (1, 36)),
        Question("2 NUMA + 2 ports, limit=1000", f"{NUMA_QUERY}&limit=1000", (1, 36)),
    )
    return Cloud(name, hosts, _numa_tree, questions, shared=pools)


def _wide(name: str, hosts: int, consumers: int) -> Cloud:
    questions = (
        Question("4 groups, isolate, limit=10", f"{_groups(4, 'isolate')}&limit=10"),
        Question("4 groups, isolate, limit=1000", f"{_groups(4, 'isolate')}&limit=1000"),
        Question("6 groups, isolate, limit=1000", f"{_groups(6, 'isolate')}&limit=1000"),
    )
    return Cloud(name, hosts, partial(_device_tree, 16), questions)


def _many_trees(name: str, hosts: int, consumers: int) -> Cloud:
    device = "resources_D=CUSTOM_BENCH_DEVICE:1&required_D=CUSTOM_BENCH_DEVICE_MODEL_1"
    questions = (
        Question("three classes, limit=10", f"{THREE}&limit=10"),
        Question("three classes, limit=1000", f"{THREE}&limit=1000", under_claims=True),
        Question("a device beside them, limit=10", f"{THREE}&{device}&limit=10", (1, 33)),
        Question("4 devices, isolate, limit=10", f"{_groups(4, 'isolate')}&limit=10"),
        Question("no host fits", "resources=VCPU:1,DISK_GB:100000000&limit=1000"),
    )
    trees = partial(_wide_host_tree, 15)
    return Cloud(name, hosts, trees, questions, consumers, claim=CLAIM)


def _one_wide(name: str, hosts: int, consumers: int) -> Cloud:
    questions = (
        Question("4 groups, isolate, limit=1000", f"{_groups(4, 'isolate')}&limit=1000"),
        Question("8 groups, isolate, limit=1000", f"{_groups(8, 'isolate')}&limit=1000"),
        Question("8 groups, none, limit=1000", f"{_groups(8, 'none')}&limit=1000"),
        Question("9 groups for 8 devices", f"{_groups(9, 'isolate')}&limit=1000"),
    )
    return Cloud(name, hosts, partial(_device_tree, 8), questions)


SHAPES: dict[str, tuple[Callable[[str, int, int], Cloud], int]] = {
    "tiny": (_flat, 100),
    "flat-1k": (_flat, 1_000),
    "flat-10k": (_flat, 10_000),
    "flat-50k": (_flat, 50_000),
    "flat-100k": (_flat, 100_000),
    "shared-1k": (_shared, 1_000),
    "shared-10k": (_shared, 10_000),
    "numa-pf": (_numa, 500),
    "wide-pci": (_wide, 1_000),
    "one-wide": (_one_wide, 1),
    "trees-1k": (_many_trees, 62),
    "trees-10k": (_many_trees, 625),
    "trees-100k": (_many_trees, 6_250),
    "trees-1m": (_many_trees, 62_500),
}


BUSY = re.compile(r"(?P<shape>.+)-busy(?P<consumers>[0-9]*)")


def cloud_named(name: str) -> Cloud:
    """Return the cloud of a name like ``flat-10k``, ``flat-10k-busy`` or ``flat-10k-busy40``.

    Busy means 20 consumers on every host, or as many as the name says.

    :raises KeyError: there is no such shape, or it has no busy form.
    """
    busy = BUSY.fullmatch(name)
    make, hosts = SHAPES[busy["shape"] if busy else name]
    if busy and make is not _flat:
        raise KeyError(name)
    consumers = int(busy["consumers"] or CONSUMERS_PER_HOST) if busy else 0
    return make(name, hosts, consumers)

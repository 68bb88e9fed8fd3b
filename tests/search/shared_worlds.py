"""Small clouds whose disks are shared, and where their consumers may go (specification 07 section 4.2).

An oracle for what-if, survival and plans: it reads like the chapter, tries everything, and knows nothing of
the code that moves. Providers are numbers; in a tree no two providers have the same class, so that a tree has
one way at most to take a part.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import NamedTuple
from uuid import UUID

from placement.inventory_record import InventoryRecord
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.records import ProviderRecord, UsedInventory

VCPU, VGPU, DISK = "VCPU", "VGPU", "DISK_GB"

MARK = "COMPUTE_STATUS_DISABLED"
"""On a root: the tree takes nothing new. On a child it means nothing."""

Held = Mapping[int, Mapping[str, int]]
"""Amounts by class, by provider."""

Slots = dict[tuple[int, str], int]
"""Amounts by provider and class."""


class Provider(NamedTuple):
    """A provider; ``tree``: the number of its root. ``is_marked``: it has the trait :data:`MARK`."""

    uuid: str
    tree: int
    has: Mapping[str, int]
    aggregates: frozenset[str] = frozenset()
    shares: bool = False
    is_marked: bool = False


class Consumer(NamedTuple):
    """A consumer with all that it has."""

    uuid: str
    held: Held


@dataclass
class SharedWorld:
    """Providers in the order of their ids, consumers in the order of their allocations."""

    providers: list[Provider] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)

    @property
    def trees(self) -> list[int]:
        """The roots, in the order in which they were made."""
        return [n for n, provider in enumerate(self.providers) if provider.tree == n]

    @property
    def turns(self) -> list[int]:
        """The roots in the order in which they are searched: by a hash of their uuids."""
        return sorted(
            self.trees,
            key=lambda n: blake2b(self.providers[n].uuid.encode(), digest_size=8).digest(),
        )

    @property
    def avoided(self) -> list[int]:
        """The roots of the trees that take nothing new."""
        return [tree for tree in self.trees if self.providers[tree].is_marked]

    def members(self, tree: int) -> list[int]:
        """Return the providers of a tree."""
        return [n for n, provider in enumerate(self.providers) if provider.tree == tree]

    def by_aggregate(self) -> dict[str, list[int]]:
        """Return the trees of each aggregate."""
        found: dict[str, set[int]] = {}
        for provider in self.providers:
            for uuid in provider.aggregates:
                found.setdefault(uuid, set()).add(provider.tree)
        return {uuid: sorted(trees) for uuid, trees in found.items()}

    def used(self) -> Slots:
        """Return what all consumers have."""
        return add_up(consumer.held for consumer in self.consumers)

    def parts(self, held: Held) -> list[Held]:
        """Return what a consumer has, tree by tree."""
        roots = sorted({self.providers[n].tree for n in held})
        return [{n: a for n, a in held.items() if self.providers[n].tree == r} for r in roots]

    def as_cloud(self) -> Cloud:
        """Return the cloud that a search reads. The index of a provider is its number."""
        used = self.used()
        cloud = Cloud()
        cloud.replace(
            ProviderRecord(
                number + 1,
                each.uuid,
                0,
                None if each.tree == number else each.tree + 1,
                each.tree + 1,
                inventories={
                    name: UsedInventory(
                        InventoryRecord(total, 0, 1, total, 1, 1.0), used.get((number, name), 0)
                    )
                    for name, total in each.has.items()
                },
                traits=frozenset(
                    [SHARING_TRAIT] * each.shares + [MARK] * each.is_marked,
                ),
                aggregates=each.aggregates,
            )
            for number, each in enumerate(self.providers)
        )
        return cloud


def add_up(several: Iterable[Held]) -> Slots:
    """Return the sums by provider and class."""
    sums: Slots = {}
    for held in several:
        for number, amounts in held.items():
            for name, amount in amounts.items():
                sums[number, name] = sums.get((number, name), 0) + amount
    return sums


# -- the rule ------------------------------------------------------------------------------------


def reaches(world: SharedWorld, tree: int, pool: int) -> bool:
    """Tell whether a tree has a sharing provider, or a provider in one of its aggregates."""
    wanted = world.providers[pool].aggregates
    return world.providers[pool].tree == tree or any(
        world.providers[number].aggregates & wanted for number in world.members(tree)
    )


class Kept(NamedTuple):
    """What a consumer has beside a part: trees of hosts, and sharing providers."""

    hosts: frozenset[int] = frozenset()
    pools: frozenset[int] = frozenset()

    def and_more(self, hosts: Iterable[int] = (), pools: Iterable[int] = ()) -> "Kept":
        """Return these with more."""
        return Kept(self.hosts.union(hosts), self.pools.union(pools))


def keep(world: SharedWorld, providers: Iterable[int]) -> Kept:
    """Return what a consumer keeps that uses these providers."""
    found = Kept()
    for number in providers:
        each = world.providers[number]
        found = found.and_more(pools=[number]) if each.shares else found.and_more([each.tree])
    return found


def is_disk(world: SharedWorld, part: Iterable[int]) -> bool:
    """Tell whether a part is on sharing providers alone."""
    return all(world.providers[number].shares for number in part)


def may_go(world: SharedWorld, part: Iterable[int], kept: Kept, to: Iterable[int]) -> bool:
    """Tell whether a part, on the providers that it uses now, may go to some providers of one tree."""
    if kept.hosts and is_disk(world, part):
        return all(
            world.providers[number].tree in kept.hosts
            or (
                world.providers[number].shares
                and all(reaches(world, h, number) for h in kept.hosts)
            )
            for number in to
        )
    return all(
        reaches(world, world.providers[number].tree, pool) for number in to for pool in kept.pools
    )


def are_whole(
    world: SharedWorld, parts: Sequence[Held], taken: Sequence[Held], stays: Iterable[int]
) -> bool:
    """Tell whether parts of a consumer may go to these places all at once.

    A part that was on a host is a host wherever it goes.
    """
    disks = [is_disk(world, part) for part in parts]
    for number, (part, place) in enumerate(zip(parts, taken, strict=True)):
        others = [n for n in range(len(parts)) if n != number]
        kept = keep(world, stays)
        for n in others:
            if not disks[n]:
                kept = kept.and_more(world.providers[each].tree for each in taken[n])
        has_host = bool(kept.hosts)
        for n in others:
            if disks[n]:
                more = keep(world, taken[n])
                # A disk that joins a host is none, but without a host it is one.
                kept = kept.and_more(() if has_host else more.hosts, more.pools)
        if not may_go(world, part, kept, place):
            return False
    return True


# -- who is homeless ------------------------------------------------------------------------------


def find_homeless(world: SharedWorld, closed: Sequence[int]) -> set[str]:
    """Return the consumers that find no other place if some trees close, all at once.

    One after the other, tree by tree in the order of their ids, each with all its parts or not at all.
    """
    used, homeless = world.used(), set[str]()
    shut = [*closed, *world.avoided]
    seen: list[Consumer] = []
    for tree in sorted(closed):
        for each in world.consumers:
            if each not in seen and any(world.providers[n].tree == tree for n in each.held):
                seen.append(each)
    for consumer in seen:
        parts = world.parts(consumer.held)
        leaving = [p for p in parts if world.providers[min(p)].tree in closed]
        stays = [number for part in parts if part not in leaving for number in part]
        leaving.sort(key=lambda part: is_disk(world, part))
        ways = find_ways(world, leaving, keep(world, stays), shut, used)
        taken = next((way for way in ways if are_whole(world, leaving, way, stays)), None)
        if taken is None:
            homeless.add(consumer.uuid)
        else:
            used = add_slots(used, add_up(taken))
    return homeless


def find_ways(
    world: SharedWorld,
    leaving: Sequence[Held],
    kept: Kept,
    closed: Sequence[int],
    used: Slots,
) -> Iterator[list[Held]]:
    """Yield where the parts of a consumer have room together, the first candidates first."""
    if not leaving:
        yield []
        return
    for place in list_places(world, leaving[0], kept, closed, used):
        more = add_slots(used, add_up([place]))
        then = add_place(world, kept, leaving[0], place)
        for rest in find_ways(world, leaving[1:], then, closed, more):
            yield [place, *rest]


def add_place(world: SharedWorld, kept: Kept, part: Held, place: Held) -> Kept:
    """Return what a consumer has with a part where it goes: a host is a host wherever that is."""
    if not is_disk(world, part):
        return kept.and_more(world.providers[number].tree for number in place)
    more = keep(world, place)
    return kept.and_more(() if kept.hosts else more.hosts, more.pools)


def list_places(
    world: SharedWorld, part: Held, kept: Kept, closed: Sequence[int], used: Slots
) -> list[Held]:
    """Return where a part has room: in the trees that are open, for a disk first on other pools."""
    places = [fit(world, part, tree, used) for tree in world.turns if tree not in closed]
    found = [place for place in places if place is not None]
    if is_disk(world, part):
        found.sort(key=lambda each: any(world.providers[n].tree in kept.hosts for n in each))
    return found


def fit(world: SharedWorld, part: Held, tree: int, used: Slots) -> Held | None:
    """Return how a tree takes a part: what is on one provider stays on one provider."""
    taken: dict[int, dict[str, int]] = {}
    for amounts in part.values():
        number = next(
            (n for n in world.members(tree) if amounts.keys() <= world.providers[n].has.keys()),
            None,
        )
        if number is None:
            return None
        for name, amount in amounts.items():
            if used.get((number, name), 0) + amount > world.providers[number].has[name]:
                return None
        taken.setdefault(number, {}).update(amounts)
    return taken


def add_slots(used: Slots, more: Slots) -> Slots:
    """Return what is used with more."""
    return {slot: used.get(slot, 0) + more.get(slot, 0) for slot in used.keys() | more.keys()}


# -- drawing --------------------------------------------------------------------------------------


def draw_shared_world(draw: Random) -> SharedWorld:
    """Return a world of two or three racks: hosts with and without disks, pools, consumers of both."""
    world = SharedWorld()
    racks = [_draw_uuid(draw) for _ in range(draw.randint(2, 3))]
    for _ in range(draw.randint(2, 4)):
        _add_host(draw, world, racks)
    for _ in range(draw.randint(1, 3)):
        has = {DISK: draw.randint(2, 8)}
        if draw.random() < 0.1:
            has[VCPU] = draw.randint(1, 4)
        mine = frozenset(rack for rack in racks if draw.random() < 0.6)
        number = len(world.providers)
        world.providers.append(Provider(_draw_uuid(draw), number, has, mine, shares=True))
    for _ in range(draw.randint(1, 8)):
        _add_consumer(draw, world)
    return world


def draw_marked_world(draw: Random) -> SharedWorld:
    """Return such a world with the mark on some roots, and on some providers below."""
    world = draw_shared_world(draw)
    share = draw.choice([0.2, 0.4, 0.7])
    world.providers = [each._replace(is_marked=draw.random() < share) for each in world.providers]
    return world


def _draw_uuid(draw: Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))


def _add_host(draw: Random, world: SharedWorld, racks: Sequence[str]) -> None:
    number, kind = len(world.providers), draw.choice(["plain", "plain", "disk", "device", "child"])
    has = {VCPU: draw.randint(2, 7)}
    if kind == "disk":
        has[DISK] = draw.randint(2, 6)
    mine = frozenset(draw.sample(racks, draw.choice([0, 1, 1, 1, 2])))
    world.providers.append(Provider(_draw_uuid(draw), number, has, mine))
    if kind == "device":
        world.providers.append(Provider(_draw_uuid(draw), number, {VGPU: draw.randint(1, 4)}))
    if kind == "child":
        shared = draw.random() < 0.5
        has = {DISK: draw.randint(2, 6)}
        world.providers.append(Provider(_draw_uuid(draw), number, has, mine, shared))


def _add_consumer(draw: Random, world: SharedWorld) -> None:
    """Add a consumer, if there is room; mostly one that a candidate would place so."""
    held: dict[int, dict[str, int]] = {}
    used = world.used()

    def take(number: int, name: str) -> None:
        free = world.providers[number].has.get(name, 0) - used.get((number, name), 0)
        if free > 0 and name not in held.get(number, {}):
            held.setdefault(number, {})[name] = draw.randint(1, min(free, 3))

    hosts = [n for n in world.trees if not world.providers[n].shares]
    pools = [n for n, provider in enumerate(world.providers) if provider.shares]
    for host in draw.sample(hosts, draw.choice([0, 1, 1, 1, 1, min(2, len(hosts))])):
        for number in world.members(host):
            for name in world.providers[number].has:
                if name == VCPU or draw.random() < 0.5:
                    take(number, name)
    near = [p for p in pools if all(reaches(world, world.providers[n].tree, p) for n in held)]
    if near and draw.random() < 0.7:
        take(draw.choice(near), DISK)
    if draw.random() < 0.1:
        take(draw.choice(pools), DISK)
    if held:
        world.consumers.append(Consumer(_draw_uuid(draw), held))

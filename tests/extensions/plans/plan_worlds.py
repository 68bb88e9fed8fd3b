"""Small clouds with consumers, and every sequence of steps on them (specification 10 section 3).

It knows nothing of the code that plans: hosts are numbers, and what a consumer has is where it is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, product
from math import inf
from random import Random
from typing import NamedTuple

from placement.extensions.plans.planning.values import (
    Costs,
    Empty,
    Fit,
    Goal,
    Keep,
    Limits,
    Occupant,
)
from placement.inventory_record import InventoryRecord
from placement.placing.members import Members
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import GroupRule
from placement.search.records import ProviderRecord, UsedInventory
from placement.search.request import CandidateRequest, Group

VCPU, VGPU, DISK = "VCPU", "VGPU", "DISK_GB"
RACKS = ("aa", "bb")
GIVEN_BACK = -1
MOST_STATES = 20_000


class Node(NamedTuple):
    """A provider: its tree, and what it has."""

    tree: int
    has: Mapping[str, int]
    max_unit: int = 1000
    min_unit: int = 1
    step_size: int = 1


class Consumer(NamedTuple):
    """What it has: for each of its trees amounts by provider. What may become of it; its groups."""

    held: tuple[tuple[tuple[int, tuple[tuple[str, int], ...]], ...], ...]
    may_move: bool
    may_remove: bool
    groups: tuple[str, ...]


class Asked(NamedTuple):
    """What a request asks of a host."""

    vcpu: int
    vgpu: int
    disk: int


class Room(NamedTuple):
    """So many requests fit."""

    asked: Asked
    times: int


class Emptied(NamedTuple):
    """So many of these domains, each some trees, are empty."""

    domains: list[tuple[int, ...]]
    enough: int


class Kept(NamedTuple):
    """The rules of all groups hold."""


Wanted = Room | Emptied | Kept


@dataclass
class World:
    """Providers, of which some trees are racks and one shares; consumers; a goal and what it may cost.

    ``avoided``: trees that take nothing new, by the trait :data:`MARK` of their root.
    """

    nodes: list[Node]
    trees: int
    racks: list[str]
    pool: int | None
    reached: frozenset[int]
    consumers: list[Consumer]
    rules: dict[str, GroupRule]
    goal: Wanted
    costs: Costs = field(default_factory=Costs)
    limits: Limits = field(default_factory=Limits)
    avoided: frozenset[int] = frozenset()


MARK = "COMPUTE_STATUS_DISABLED"


def draw_marked_world(draw: Random) -> World:
    """Return such a world in which some trees, also that of what is shared, take nothing new."""
    world = _mark(draw, _draw_world(draw))
    for _ in range(4):
        if not holds(world, start_of(world)):
            break
        world = _mark(draw, _draw_world(draw))
    return world


def _mark(draw: Random, world: World) -> World:
    share = draw.choice([0.2, 0.4])
    world.avoided = frozenset(tree for tree in range(world.trees) if draw.random() < share)
    return world


def draw_world(draw: Random) -> World:
    """Return a world of up to five hosts and eight consumers; mostly one whose goal does not hold yet."""
    world = _draw_world(draw)
    for _ in range(4):
        if not holds(world, start_of(world)):
            break
        world = _draw_world(draw)
    return world


def _draw_world(draw: Random) -> World:
    kind = draw.choice(["flat", "devices", "merging", "shared", "shared"])
    shape = draw.choice(["loose", "loose", "full", "spread", "cut"])
    hosts = draw.randint(2, 5)
    nodes = _draw_hosts(draw, kind, hosts)
    pool, trees = None, hosts
    if kind == "shared":
        pool, trees = len(nodes), hosts + 1
        nodes.append(Node(hosts, {DISK: draw.randint(3, 12)}))
    reached = frozenset(h for h in range(hosts) if pool is not None and draw.random() < 0.8)
    racks = [draw.choice(RACKS) if tree < hosts else "none" for tree in range(trees)]
    rules: dict[str, GroupRule] = {}
    if draw.random() < 0.35:
        of = draw.choice([(), (), RACKS])
        rules["g"] = GroupRule(draw.choice(["apart", "apart", "together"]), 1, of)
        if rules["g"].rule == "apart":
            rules["g"] = GroupRule("apart", draw.choice([1, 1, 2]), of)
    world = World(nodes, trees, racks, pool, reached, [], rules, Kept())
    free = Counter(
        {(n, name): total for n, node in enumerate(nodes) for name, total in node.has.items()}
    )
    for _ in range(draw.randint(1, draw.choice([4, 6, 8])) + 2 * (shape == "full")):
        consumer = _draw_consumer(draw, world, free, is_spread=shape == "spread")
        if consumer is not None:
            world.consumers.append(consumer)
    if shape == "full":
        _fill_up(draw, world, free)
    if shape == "cut":
        _cut_units(draw, world)
    world.goal = _draw_goal(draw, world, hosts)
    world.costs = draw.choice([_draw_costs, _draw_costs, _draw_far_costs])(draw)
    world.limits = Limits(
        draw.choice([inf, inf, inf, 2, 3]),
        draw.random() < 0.25,
        frozenset([draw.randrange(hosts)]) if draw.random() < 0.1 else frozenset(),
    )
    return world


def _draw_hosts(draw: Random, kind: str, hosts: int) -> list[Node]:
    nodes: list[Node] = []
    for host in range(hosts):
        root = {VCPU: draw.randint(2, 6)}
        if kind == "flat" and draw.random() < 0.3:
            root[DISK] = draw.randint(2, 6)
        if kind == "shared" and draw.random() < 0.4:
            root[DISK] = draw.randint(2, 5)
        nodes.append(Node(host, root, draw.choice([1000, 1000, 4])))
        if kind == "merging":
            nodes += [Node(host, {VGPU: draw.randint(2, 4)})] * draw.randint(1, 2)
        if kind == "devices":
            for _ in range(draw.randint(0, 2)):
                nodes.append(Node(host, {VGPU: draw.randint(1, 4)}))
    return nodes


def _draw_costs(draw: Random) -> Costs:
    return Costs(
        draw.choice([1.0, 1.0, 2.0]),
        draw.choice([10.0, 10.0, 1.5, 0.5]),
        draw.choice([{}, {}, {VCPU: 0.25}]),
    )


def _draw_far_costs(draw: Random) -> Costs:
    """Return costs that are far from one, and from one another."""

    def cost() -> float:
        return float(draw.choice([1, 2, 3])) * 10.0 ** draw.randint(-6, 5)

    if draw.random() < 0.2:
        return Costs(1e-300, draw.choice([3e-300, 1e6]), {})
    return Costs(cost(), cost(), draw.choice([{}, {VCPU: cost()}]))


def _fill_up(draw: Random, world: World, free: Counter[tuple[int, str]]) -> None:
    """Leave of most classes what two servers have at most, so that some must make way for others."""
    for number, node in enumerate(world.nodes):
        left = {
            n: total - free[number, n] + draw.choice([0, 0, 1, 2]) for n, total in node.has.items()
        }
        has = {name: max(1, min(total, left[name])) for name, total in node.has.items()}
        world.nodes[number] = node._replace(has=has)


def _cut_units(draw: Random, world: World) -> None:
    """Let some providers not admit any more what consumers have."""
    for number, node in enumerate(world.nodes):
        if number == world.pool or draw.random() < 0.3:
            cut = draw.choice([{"max_unit": 1}, {"max_unit": 2}, {"min_unit": 2}, {"step_size": 2}])
            world.nodes[number] = node._replace(**cut)


def _draw_consumer(
    draw: Random, world: World, free: Counter[tuple[int, str]], *, is_spread: bool
) -> Consumer | None:
    roots = [n for n, node in enumerate(world.nodes) if VCPU in node.has]
    root = draw.choice(roots)
    mine: dict[int, dict[str, int]] = {root: {VCPU: draw.randint(1, 3)}}
    children = [
        n
        for n, node in enumerate(world.nodes)
        if VGPU in node.has and node.tree == world.nodes[root].tree
    ]
    if children and draw.random() < 0.6:
        mine[draw.choice(children)] = {VGPU: draw.randint(1, 2)}
    if len(children) > 1 and draw.random() < 0.4:
        # Both may come together on one device, and then move on in one piece.
        mine |= {child: {VGPU: 1} for child in children}
    if DISK in world.nodes[root].has and draw.random() < 0.6:
        mine[root][DISK] = draw.randint(1, 2)
    elif world.pool is not None and draw.random() < 0.5:
        mine[world.pool] = {DISK: draw.randint(1, 3)}
    if is_spread and draw.random() < 0.6:
        mine.setdefault(draw.choice(roots), {VCPU: draw.randint(1, 2)})
    slots = {(n, name): amount for n, a in mine.items() for name, amount in a.items()}
    if any(
        free[slot] < amount or amount > world.nodes[slot[0]].max_unit
        for slot, amount in slots.items()
    ):
        return None
    free.subtract(slots)
    held: dict[int, list[tuple[int, tuple[tuple[str, int], ...]]]] = {}
    for n, amounts in mine.items():
        held.setdefault(world.nodes[n].tree, []).append((n, tuple(sorted(amounts.items()))))
    groups = ("g",) if world.rules and draw.random() < 0.5 else ()
    return Consumer(
        tuple(tuple(each) for each in held.values()),
        draw.random() < 0.9,
        draw.random() < 0.25,
        groups,
    )


def _draw_goal(draw: Random, world: World, hosts: int) -> Wanted:
    kinds = ["fit", "fit", "empty", "any"] + (["keep"] if world.rules else [])
    kind = draw.choice(kinds)
    if kind == "fit":
        vgpu = draw.randint(0, 3) if any(VGPU in node.has for node in world.nodes) else 0
        disk = draw.randint(0, 3) if any(DISK in node.has for node in world.nodes) else 0
        return Room(Asked(draw.randint(1, 6), vgpu, disk), draw.choice([1, 1, 1, 2, 3]))
    if kind == "keep":
        return Kept()
    domains: list[tuple[int, ...]] = [(tree,) for tree in range(hosts)]
    if draw.random() < 0.3:
        domains = [tuple(t for t in range(hosts) if world.racks[t] == rack) for rack in RACKS]
        domains = [each for each in domains if each]
    if kind == "empty":
        chosen = draw.sample(domains, min(draw.randint(1, 2), len(domains)))
        return Emptied(chosen, len(chosen))
    chosen = draw.sample(domains, draw.randint(1, len(domains)))
    return Emptied(chosen, draw.randint(1, len(chosen)))


# -- as planning takes it ------------------------------------------------------------------------


def uuid_of(node: int) -> str:
    return f"node-{node}"


class Given(NamedTuple):
    """The arguments of ``make_plan``."""

    cloud: Cloud
    occupants: list[Occupant]
    members: Members
    goal: Goal
    limits: Limits


class _Row(NamedTuple):
    consumer_uuid: str
    root_uuid: str
    shares: bool


def give(world: World) -> Given:
    """Return a world as planning takes it."""
    roots: dict[int, int] = {}
    for number, node in enumerate(world.nodes):
        roots.setdefault(node.tree, number)
    cloud = Cloud()
    cloud.replace(_records(world, roots))
    index = {number: cloud.index_of[number + 1] for number in range(len(world.nodes))}
    tree_root = {tree: index[root] for tree, root in roots.items()}
    occupants, rows = [], []
    groups_of = {}
    for number, consumer in enumerate(world.consumers):
        uuid = f"consumer-{number}"
        held = {
            tree_root[world.nodes[part[0][0]].tree]: {
                index[n]: dict(amounts) for n, amounts in part
            }
            for part in consumer.held
        }
        occupants.append(Occupant(uuid, held, consumer.may_move, consumer.may_remove))
        if consumer.groups:
            groups_of[uuid] = consumer.groups
            for (node_number, _), *_ in consumer.held:
                root = uuid_of(roots[world.nodes[node_number].tree])
                rows.append(_Row(uuid, root, node_number == world.pool))
    members = Members(world.rules, dict.fromkeys(world.rules, rows), groups_of)
    limits = Limits(
        world.limits.most,
        world.limits.all_at_once,
        frozenset(tree_root[tree] for tree in world.limits.closed)
        | frozenset(cloud.list_avoided(frozenset([MARK]))),
    )
    return Given(cloud, occupants, members, _goal(world, tree_root), limits)


def _records(world: World, roots: Mapping[int, int]) -> list[ProviderRecord]:
    free = free_in(world, start_of(world))
    records = []
    for number, node in enumerate(world.nodes):
        root = roots[node.tree]
        # The pool is in no rack: it would share with all hosts there.
        aggregates = {"pool"} if number == world.pool else {world.racks[node.tree]}
        if node.tree in world.reached and number == root:
            aggregates.add("pool")
        units = node.min_unit, node.max_unit, node.step_size
        inventories = {
            name: UsedInventory(InventoryRecord(total, 0, *units), total - free[number, name])
            for name, total in node.has.items()
        }
        records.append(
            ProviderRecord(
                provider_id=number + 1,
                uuid=uuid_of(number),
                revision=1,
                parent_id=None if number == root else root + 1,
                root_id=root + 1,
                inventories=inventories,
                traits=frozenset(
                    [SHARING_TRAIT] * (number == world.pool)
                    + [MARK] * (number == root and node.tree in world.avoided)
                ),
                aggregates=frozenset(aggregates),
            )
        )
    return records


def _goal(world: World, tree_root: Mapping[int, int]) -> Goal:
    match world.goal:
        case Room(asked, times):
            amounts = {VCPU: asked.vcpu} | ({DISK: asked.disk} if asked.disk else {})
            groups = [Group("", amounts)] + (
                [Group("_1", {VGPU: asked.vgpu})] if asked.vgpu else []
            )
            return Fit(CandidateRequest(tuple(groups)).avoiding(frozenset([MARK])), times)
        case Emptied(domains, number):
            return Empty([[tree_root[tree] for tree in domain] for domain in domains], number)
        case Kept():
            return Keep(tuple(world.rules))


# -- every sequence of steps ---------------------------------------------------------------------

Where = tuple[tuple[int, ...], ...]
"""Of each consumer the providers that it is on, in the order of what it holds; () once all is given back."""

Arrived = frozenset[int]
"""The trees that steps have gone to."""

Taken = tuple[tuple[tuple[int, str], int], ...]
"""What all steps have taken, by provider and class."""


class TooMany(Exception):
    """There are more states than are looked at."""


def find_cheapest(world: World) -> float:
    """Return what the cheapest plan costs, infinite if there is none."""
    start, ticket = start_of(world), count()
    queue: list[tuple[float, int, int, Where, Taken, Arrived]] = [
        (0.0, 0, next(ticket), start, (), frozenset())
    ]
    seen: set[object] = set()
    free_at_start = free_in(world, start)
    domains = world.goal.domains if isinstance(world.goal, Emptied) else []
    watched = {tree for domain in domains for tree in domain}
    while queue:
        cost, steps, _, where, taken, arrived = heappop(queue)
        key = where, taken, arrived, steps if world.limits.most < inf else 0
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > MOST_STATES:
            raise TooMany
        if holds(world, where, arrived):
            return cost
        if steps >= world.limits.most:
            continue
        for price, then, needs, target in list_steps(world, where):
            if not is_found(world, where, then):
                continue
            more = taken
            if world.limits.all_at_once and needs:
                sums = Counter(dict(taken))
                sums.update(needs)
                if any(free_at_start[slot] < amount for slot, amount in sums.items()):
                    continue
                more = tuple(sorted(sums.items()))
            passed = arrived | ({target} & watched)
            heappush(queue, (cost + price, steps + 1, next(ticket), then, more, passed))
    return inf


def is_found(world: World, where: Where, then: Where) -> bool:
    """Say whether a search finds the places of a step: it judges the units of each amount by itself."""
    return all(
        old == new or admits(world, (new, name), amount)
        for consumer, before, after in zip(world.consumers, where, then, strict=True)
        for old, new, amounts in zip(before, after, parts_of(consumer), strict=False)
        for name, amount in amounts
    )


def start_of(world: World) -> Where:
    """Return where everything is at the beginning."""
    return tuple(tuple(n for tree in c.held for n, _ in tree) for c in world.consumers)


def free_in(world: World, where: Where) -> Counter[tuple[int, str]]:
    """Return what is free."""
    free = list_totals(world)
    for consumer, nodes in zip(world.consumers, where, strict=True):
        for node, amounts in zip(nodes, parts_of(consumer), strict=False):
            for name, amount in amounts:
                free[node, name] -= amount
    return free


def list_totals(world: World) -> Counter[tuple[int, str]]:
    """Return what there is, by provider and class."""
    nodes = enumerate(world.nodes)
    return Counter({(n, name): total for n, node in nodes for name, total in node.has.items()})


def parts_of(consumer: Consumer) -> list[tuple[tuple[str, int], ...]]:
    return [amounts for tree in consumer.held for _, amounts in tree]


def list_steps(
    world: World, where: Where
) -> Iterator[tuple[float, Where, Counter[tuple[int, str]], int]]:
    """Yield what each step costs, what is where after it, what it takes, and the tree it goes to."""
    for number, consumer in enumerate(world.consumers):
        if where[number] and consumer.may_remove:
            then = (*where[:number], (), *where[number + 1 :])
            yield world.costs.remove, then, Counter(), -1
        if where[number] and consumer.may_move:
            begin = 0
            for tree in consumer.held:
                part = range(begin, begin + len(tree))
                yield from _list_moves(world, where, number, part)
                begin = part.stop


def _list_moves(
    world: World, where: Where, number: int, part: range
) -> Iterator[tuple[float, Where, Counter[tuple[int, str]], int]]:
    """Yield the moves of one part of a consumer."""
    consumer, mine = world.consumers[number], where[number]
    free, excess = free_in(world, where), excess_of(world, where)
    moved = parts_of(consumer)[part.start : part.stop]
    price = world.costs.move + sum(
        world.costs.per_unit.get(name, 0.0) * amount
        for amounts in moved
        for name, amount in amounts
    )
    for target in range(world.trees):
        shut = world.limits.closed | world.avoided
        if target == world.nodes[mine[part.start]].tree or target in shut:
            continue
        nodes = [n for n, node in enumerate(world.nodes) if node.tree == target]
        for chosen in product(nodes, repeat=len(part)):
            needs: Counter[tuple[int, str]] = Counter()
            for node, amounts in zip(chosen, moved, strict=True):
                for name, amount in amounts:
                    needs[node, name] += amount
            if any(free[slot] < amount for slot, amount in needs.items()):
                continue
            if not may_be_written(world, consumer, mine, part, chosen):
                continue
            mine_then = (*mine[: part.start], *chosen, *mine[part.stop :])
            then = (*where[:number], mine_then, *where[number + 1 :])
            if consumer.groups and excess_of(world, then) > excess:
                continue
            yield price, then, needs, target


def may_be_written(
    world: World, consumer: Consumer, mine: tuple[int, ...], part: range, chosen: Sequence[int]
) -> bool:
    """Tell whether a part of a consumer may go to these providers by what the consumer is and keeps."""
    others = [node for n, node in enumerate(mine) if n not in part]
    here = {world.nodes[mine[n]].tree for n in part}
    if here & {world.nodes[node].tree for node in others}:
        # What has joined another part moves no more.
        return False
    if len({(mine[n], node) for n, node in zip(part, chosen, strict=True)}) > len(
        {mine[n] for n in part}
    ):
        # What is on one provider goes to one provider.
        return False
    parts = parts_of(consumer)
    moved: Counter[tuple[int, str]] = Counter()
    kept: Counter[tuple[int, str]] = Counter()
    for n, node in enumerate(mine):
        for name, amount in parts[n]:
            (moved if n in part else kept)[chosen[n - part.start] if n in part else node, name] += (
                amount
            )
    sums = moved + kept
    if not all(
        admits(world, slot, amount) for each in (moved, sums) for slot, amount in each.items()
    ):
        return False
    return is_in_reach(world, [mine[n] for n in part], others, chosen)


def admits(world: World, slot: tuple[int, str], amount: int) -> bool:
    """Tell whether a provider has a class, and one allocation may have so much of it."""
    node = world.nodes[slot[0]]
    return (
        slot[1] in node.has
        and node.min_unit <= amount <= min(node.max_unit, node.has[slot[1]])
        and amount % node.step_size == 0
    )


def is_in_reach(
    world: World, source: Sequence[int], others: Sequence[int], chosen: Sequence[int]
) -> bool:
    """Tell whether hosts reach the pool after a step that did so before, or go together."""
    target = world.nodes[chosen[0]].tree
    if world.pool is None:
        return True
    hosts = {world.nodes[node].tree for node in others if node != world.pool}
    if set(source) == {world.pool} and hosts:
        # There is one pool: the part joins a host.
        return target in hosts
    return world.pool not in others or target in world.reached or set(chosen) == {world.pool}


def excess_of(world: World, where: Where) -> int:
    """Return by how many members the group is broken."""
    if not world.rules:
        return 0
    rule = world.rules["g"]
    domains = []
    for consumer, nodes in zip(world.consumers, where, strict=True):
        if not consumer.groups or not nodes:
            continue
        trees = {world.nodes[n].tree for n in nodes if n != world.pool} or {
            world.nodes[n].tree for n in nodes
        }
        domains.append({world.racks[tree] if rule.of else tree for tree in trees})
    counts: Counter[object] = Counter(domain for each in domains for domain in each)
    if rule.rule == "apart":
        return sum(max(0, n - rule.at_most) for n in counts.values())
    return len(domains) - max(counts.values(), default=0)


def holds(world: World, where: Where, arrived: Arrived = frozenset()) -> bool:
    """Tell whether the goal holds; a tree that a step has gone to is none of those that the plan empties."""
    match world.goal:
        case Room(asked, times):
            return _fits(world, free_in(world, where), asked, times)
        case Emptied(domains, number):
            occupied = {world.nodes[n].tree for nodes in where for n in nodes} | arrived
            return sum(occupied.isdisjoint(domain) for domain in domains) >= number
    return excess_of(world, where) == 0


def _fits(world: World, free: Counter[tuple[int, str]], asked: Asked, times: int) -> bool:
    if times == 0:
        return True
    for host in set(range(world.trees)) - world.avoided:
        nodes = [n for n, node in enumerate(world.nodes) if node.tree == host]
        roots = [n for n in nodes if VCPU in world.nodes[n].has]
        gpus: Sequence[int | None] = (
            [n for n in nodes if VGPU in world.nodes[n].has] if asked.vgpu else [None]
        )
        disks: list[int | None] = [None]
        if asked.disk:
            disks = [n for n in nodes if DISK in world.nodes[n].has]
            is_open = world.pool is not None and world.nodes[world.pool].tree not in world.avoided
            if is_open and host in world.reached:
                disks.append(world.pool)
        for root, gpu, disk in product(roots, gpus, disks):
            needs = {(root, VCPU): asked.vcpu}
            if gpu is not None:
                needs[gpu, VGPU] = asked.vgpu
            if disk is not None:
                needs[disk, DISK] = asked.disk
            if all(free[s] >= a and admits(world, s, a) for s, a in needs.items()):
                left = free.copy()
                left.subtract(needs)
                if _fits(world, left, asked, times - 1):
                    return True
    return False

"""The tree shapes of specification 04 section 6.5, and requests that make a naive search hang.

Work is asserted in placements tried, not in seconds: it does not depend on the machine.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from random import Random
from typing import Any

import pytest

from placement.search.assignment import Matching
from placement.search.combine import Solutions, enough_in_all, enough_places
from placement.search.problem import AssignmentProblem, ReachableProvider, Rules, Solution
from placement.search.request import CandidateRequest, GenerationStrategy, Group
from placement.search.search import search
from placement.search.work import Work
from tests.search.builders import World, ask, group, ids
from tests.search.worlds import seeds

HOST: dict[str, Any] = {"VCPU": 64, "MEMORY_MB": 65536, "DISK_GB": 1000}
FLAVOR = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


def hosts(roots: int, children: int, units: int) -> World:
    """Hosts with as many devices of as many units."""
    world = World()
    for root in range(roots):
        world.host(f"h{root}", **HOST)
        for child in range(children):
            world.device(f"h{root}d{child}", f"h{root}", DEVICE=units)
    return world


def request(groups: int, **rules: Any) -> CandidateRequest:
    devices = (Group(f"_{n}", {"DEVICE": 1}) for n in range(groups))
    return ask(Group("", FLAVOR), *devices, **rules)


BREADTH = "breadth-first"
TABLE = [
    (2, 8, 8, 2, 100000, BREADTH, 1000, 128, 2),
    (2, 8, 8, 4, 100000, BREADTH, 1000, 1000, 2),
    (2, 8, 8, 6, 100000, "depth-first", 1000, 1000, 1),
    (2, 8, 8, 6, 100000, BREADTH, 1000, 1000, 2),
    (2, 8, 8, 4, 8000, BREADTH, 9000, 8000, 2),
    (2, 8, 8, 4, -1, BREADTH, 9000, 8192, 2),
    (1, 8, 1, 8, 1000, BREADTH, 10000, 1000, 1),
    *((roots, 21, 1, n, 1000, BREADTH, 1000, 1000, roots) for roots in (1, 2) for n in (8, 16, 21)),
    (2, 32, 1, 32, 1000, BREADTH, 1000, 1000, 2),
    (2, 48, 1, 48, 100, BREADTH, 100, 100, 2),
    (2, 64, 1, 64, 10, BREADTH, 10, 10, 2),
    (1, 63, 1, 64, 1000, BREADTH, 10000, 0, 0),
    (1, 63, 1, 64, 1000, "depth-first", 10000, 0, 0),
    (2000, 2, 1, 2, 10000, BREADTH, 10000, 4000, 2000),
]


@pytest.mark.parametrize(
    ("roots", "children", "units", "groups", "bound", "strategy", "limit", "found", "used"), TABLE
)
def test_scale_of_many_groups(
    roots: int,
    children: int,
    units: int,
    groups: int,
    bound: int,
    strategy: GenerationStrategy,
    limit: int,
    found: int,
    used: int,
) -> None:
    """The table of section 6.5: how many are found, and of how many trees."""
    cloud = hosts(roots, children, units).cloud()
    asked = request(groups, maximum=bound, strategy=strategy, limit=limit)
    result = search(cloud, asked)
    answer = ids(cloud, result)
    assert len(answer) == found
    assert len(set(answer)) == found
    trees = Counter(int(cloud.roots[c.members[0]]) for c in result)
    assert len(trees) == used
    if strategy == BREADTH and used == 2:
        assert abs(trees.most_common()[0][1] - trees.most_common()[1][1]) <= 1
    assert result.complete


def test_one_unit_too_many_is_seen_before_anything_is_tried() -> None:
    cloud = hosts(1, 63, 1).cloud()
    for isolate in (False, True):
        result = search(cloud, request(64, isolate=isolate))
        assert len(result) == 0
        assert result.work == 0


def test_limit_stops_the_work() -> None:
    cloud = hosts(1, 64, 1).cloud()
    result = search(cloud, request(64, limit=10))
    assert len(result) == 10
    assert result.work < 200


def test_like_hosts_share_the_work() -> None:
    cloud = hosts(300, 16, 1).cloud()
    result = search(cloud, request(4, isolate=True, limit=1000))
    assert len(result) == 1000
    assert result.work < 40
    assert len({int(cloud.roots[c.members[0]]) for c in result}) == 300


def test_devices_too_few_for_those_who_need_them() -> None:
    """Hall's condition: 8 groups want one of 7 red devices, others could take anything."""
    world = World().host("h", **HOST)
    for n in range(7):
        world.device(f"red{n}", "h", DEVICE=1, traits=["RED"])
    for n in range(20):
        world.device(f"any{n}", "h", DEVICE=1)
    groups = [group(f"_r{n}", DEVICE=1, required=["RED"]) for n in range(8)]
    groups += [group(f"_a{n}", DEVICE=1) for n in range(8)]
    for isolate in (False, True):
        for asked in (groups, groups[::-1]):
            result = search(world.cloud(), ask(*asked, isolate=isolate))
            assert len(result) == 0
            assert result.complete
            assert result.work <= 1


def test_traits_that_do_not_come_together_are_tried_once() -> None:
    """One device has T1 and another T2, and one can be had: of the ten other classes no choice helps."""
    ten = dict.fromkeys((f"CUSTOM_{n}" for n in range(10)), 1)
    world = World().host("h").device("a", "h", ["T3"], **ten).device("b", "h", **ten)
    world.device("c", "h", ["T1"], DEVICE=1).device("d", "h", ["T2"], DEVICE=1)
    asked = group(required=["T1", "T2", "T3"], **ten, DEVICE=1)

    result = search(world.cloud(), ask(asked))

    assert len(result) == 0
    assert result.complete
    assert result.work < 100


def test_choices_never_strand_those_that_come_later() -> None:
    """A chain: group n can use devices n and n+1; each wrong choice strands the rest."""
    world = World().host("h", **HOST)
    for n in range(25):
        world.device(f"d{n}", "h", DEVICE=1, traits=[f"N{n}"])
    groups = [group(f"_{n}", DEVICE=1, required=[{f"N{n}", f"N{n + 1}"}]) for n in range(25)]
    result = search(world.cloud(), ask(*groups, isolate=True))
    assert len(result) == 1
    assert result.work < 200


def test_few_devices_for_each_of_many_groups() -> None:
    """40 groups, each on one of two to four of 42 devices: no choice that strands a later group is made.

    The matching has to follow each placement: asked at the start alone, the search tries 225 to 530
    placements here, the exact check runs for each after the hundredth, and another candidate comes first.
    """
    for seed in range(10):
        random = Random(seed)
        devices = [f"N{n}" for n in range(42)]
        world = World().host("h", **HOST)
        for device in devices:
            world.device(device, "h", DEVICE=1, traits=[device])
        groups = [
            group(
                f"_{n}", DEVICE=1, required=[{own, *random.sample(devices, random.randint(1, 3))}]
            )
            for n, own in enumerate(random.sample(devices, 40))
        ]

        result = search(world.cloud(), ask(*groups, limit=1))

        assert len(result) == 1
        assert result.work < 100


def test_bins_that_cannot_be_packed() -> None:
    """Ten groups of 3 and two of 2 on eight devices of 4: every device takes one only."""
    world = World().host("h", **HOST)
    for n in range(11):
        world.device(f"d{n}", "h", DEVICE=4)
    groups = [group(f"_{n}", DEVICE=3) for n in range(10)]
    groups += [group(f"_x{n}", DEVICE=2) for n in range(3)]
    result = search(world.cloud(), ask(*groups))
    assert len(result) == 0
    assert result.complete
    assert result.work < 2000


def test_two_classes_that_pull_apart() -> None:
    """Each class fits by itself, both together do not; devices all differ a little."""
    world = World().host("h", **HOST)
    for n in range(8):
        world.device(f"d{n}", "h", VF=4 + n % 2, MBPS=1000 + 10 * n)
    groups = [group(f"_{n}", VF=3, MBPS=100) for n in range(5)]
    groups += [group(f"_w{n}", VF=2, MBPS=900) for n in range(5)]
    result = search(world.cloud(), ask(*groups, limit=5))
    assert result.complete


def test_a_search_that_gives_up_says_so() -> None:
    world = hosts(1, 12, 5)
    groups = [group(f"_{n}", DEVICE=2 + n % 3) for n in range(14)]
    result = search(world.cloud(), ask(*groups, limit=10**6), work=Work(1000))
    assert not result.complete
    assert len(result) < 1000


def test_a_hard_tree_leaves_work_for_the_others() -> None:
    """One host exhausts its patience without an answer, the next one answers."""
    world = World().host("hard").host("easy")
    for n in range(12):
        world.device(f"d{n}", "hard", A=6 + n % 3, B=5 + n % 4)
        world.device(f"e{n}", "easy", A=100, B=100)
    groups = [group(f"_{n}", A=2 + n % 4, B=2 + (n * n) % 3) for n in range(22)]
    cloud = world.cloud()
    for maximum in (-1, 1000):
        result = search(cloud, ask(*groups, limit=5, maximum=maximum), work=Work(4000))
        assert len(result) == 5


def test_same_subtree_of_many_groups() -> None:
    """One NUMA cell holds all of a long set; a set over both cells holds nothing."""
    world = World().host("h")
    for cell in range(4):
        world.device(f"c{cell}", "h", VCPU=64, traits=["CELL"])
        for n in range(8):
            world.device(f"c{cell}f{n}", f"c{cell}", VF=1)
    ports = [group(f"_{n}", VF=1) for n in range(8)]
    anchor = group("_N", required=["CELL"])
    tie = frozenset(g.suffix for g in [*ports, anchor])
    result = search(world.cloud(), ask(anchor, *ports, isolate=True, same_subtrees=(tie,), limit=9))
    assert len(result) == 9
    more = [*ports, group("_9", VF=1)]
    none = ask(anchor, *more, isolate=True, same_subtrees=(tie | {"_9"},))
    assert len(search(world.cloud(), none)) == 0


# -- each prune against brute force ---------------------------------------------------------------


def random_place(random: Random, rules: Rules, number: int) -> ReachableProvider:
    """A place that may serve some of the slots that fit into its rooms."""
    rooms = {name: random.randint(0, total) for name, total in rules.contested.items()}
    fitting = [
        1 << slot
        for slot, amounts in enumerate(rules.amounts)
        if all(amount <= rooms.get(name, amount) for name, amount in amounts.items())
    ]
    return ReachableProvider(
        sum(bit for bit in fitting if random.random() < 0.7),
        tuple(rooms.values()),
        random.randrange(4) & rules.demands,
        tree=random.randrange(2),
        parent=random.randrange(-1, number) if random.random() < 0.6 else -1,
    )


def random_problem(random: Random) -> AssignmentProblem:
    """A problem of a few positions and slots that contest two classes."""
    slots = random.randint(1, 4)
    amounts = tuple(
        {name: random.randint(1, 3) for name in random.sample(["A", "B"], random.randint(0, 2))}
        for _ in range(slots)
    )
    granular = frozenset(s for s in range(slots) if random.random() < 0.7)
    subtrees = tuple(
        tuple(sorted(random.sample(sorted(granular), 2)))
        for _ in range(random.randrange(3))
        if len(granular) > 1
    )
    demands = (1 << random.randrange(3)) - 1 if len(granular) < slots else 0
    rules = Rules(
        amounts, granular, random.random() < 0.5, subtrees, demands, random.random() < 0.3
    )
    places = [random_place(random, rules, number) for number in range(random.randint(1, 5))]
    own = random.randrange(1 << len(places)) if random.random() < 0.3 else 0
    return AssignmentProblem(rules, places, Work(20 * 10**6), own=own)


def keeps_all_rules(problem: AssignmentProblem, solution: Solution) -> bool:
    """Tell whether a solution keeps every rule, one after the other."""
    rules, places = problem.rules, problem.places
    if problem.own and not any(problem.own >> p & 1 for p in solution):
        return False
    alone = [solution[s] for s in rules.granular]
    if rules.isolate and len(set(alone)) < len(alone):
        return False
    for column, name in enumerate(rules.contested):
        for p, place in enumerate(places):
            takers = [
                a.get(name, 0) for a, q in zip(rules.amounts, solution, strict=True) if p == q
            ]
            if sum(takers) > place.rooms[column]:
                return False

    def line(p: int) -> list[int]:
        return [] if p < 0 else [p, *line(places[p].parent)]

    for slots in rules.subtrees:
        chosen = {solution[s] for s in slots}
        if not any(all(q in line(p) for p in chosen) for q in chosen):
            return False
    met = 0
    for slot, p in enumerate(solution):
        met |= 0 if slot in rules.granular else places[p].meets
    if rules.demands & ~met:
        return False
    users = {p for p, amounts in zip(solution, rules.amounts, strict=True) if amounts}
    trees = [places[p].tree for p in users]
    return not rules.one_provider_per_tree or len(set(trees)) == len(trees)


def brute_force(problem: AssignmentProblem) -> set[Solution]:
    """Return all solutions by trying everything."""
    choices = [
        [p for p, place in enumerate(problem.places) if place.slots >> slot & 1]
        for slot in range(len(problem.rules.amounts))
    ]
    return {s for s in product(*choices) if keeps_all_rules(problem, s)}


def all_solutions(solutions: Solutions) -> list[Solution]:
    """Return them in the order in which they come."""
    number, found = 0, []
    while (solution := solutions.get(number)) is not None:
        found.append(solution)
        number += 1
    return found


@seeds(1500)
def test_combinations_are_those_of_brute_force(random: Random) -> None:
    problem = random_problem(random)
    expected = brute_force(problem)
    solutions = Solutions(problem)
    found = all_solutions(solutions)
    assert len(found) == len(set(found))
    assert set(found) == expected
    if problem.exact_count is not None:
        assert problem.exact_count == len(expected)
    assert solutions.count_up_to(3) == min(3, len(expected))


def test_bounds_refuse_only_the_impossible() -> None:
    tried = refused = 0

    @seeds(500)
    def one(random: Random) -> None:
        nonlocal tried, refused
        problem = random_problem(random)
        tried += 1
        if not (enough_in_all(problem) and enough_places(problem)):
            refused += 1
            assert not brute_force(problem)

    one()
    assert refused > tried / 10


@seeds(1000)
def test_a_matching_tells_exactly_whether_all_slots_fit(random: Random) -> None:
    """Fix and release slots at random; each verdict against all assignments."""
    slots, places = random.randint(1, 4), random.randint(1, 4)
    domains = [random.randrange(1, 1 << places) for _ in range(slots)]
    capacity = [random.randint(0, 2) for _ in range(places)]
    possible = [
        seats
        for seats in product(range(places), repeat=slots)
        if all(domains[s] >> p & 1 for s, p in enumerate(seats))
        and all(seats.count(p) <= capacity[p] for p in range(places))
    ]
    matching = Matching(range(slots), domains, capacity)
    assert matching.possible == bool(possible)
    fixed: dict[int, int] = {}
    for _ in range(12 if possible else 0):
        slot = random.randrange(slots)
        if slot in fixed:
            matching.release(slot)
            del fixed[slot]
            continue
        place = random.choice([p for p in range(places) if domains[slot] >> p & 1])
        wanted = {**fixed, slot: place}
        verdict = any(all(seats[s] == p for s, p in wanted.items()) for seats in possible)
        assert matching.fix(slot, place) == verdict
        if verdict:
            fixed = wanted


def test_every_order_of_like_devices_comes_once_and_all_have_one_shape() -> None:
    """A renderer makes one template for all orders of like devices, not one for each."""
    result = search(hosts(1, 5, 1).cloud(), request(5, isolate=True))
    picks = [tuple(c.mappings[f"_{n}"][0] for n in range(5)) for c in result]
    assert len(picks) == len(set(picks)) == len(list(permutations(range(5))))
    assert len({candidate.combination for candidate in result}) == len(picks)
    assert len({candidate.combination.shape for candidate in result}) == 1

"""Places for many claims, against every assignment there is, on small clouds (specification 09 section 3)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from random import Random
from typing import Any, NamedTuple

import pytest

from placement.inventory_record import InventoryRecord
from placement.placing import board, pool
from placement.placing import choose as choosing
from placement.placing.choose import WAYS, choose
from placement.placing.wishes import ChosenPlace, GroupState, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.group_rules import Domains, GroupRule, Occupancy
from placement.search.records import ProviderRecord, UsedInventory
from placement.search.request import CandidateRequest, Group, NameSets
from placement.search.work import Work
from tests.search.worlds import seeds

RACKS = ("aa", "bb")
MEMORY, PROCESSORS = "MEMORY_MB", "VCPU"


class Host(NamedTuple):
    """Memory of the root, processors of each of its nodes, and the racks that it is in."""

    memory: int
    nodes: tuple[int, ...]
    racks: Domains


class Asked(NamedTuple):
    """Memory of a root, processors of one node below it, and membership in groups."""

    memory: int
    processors: int
    groups: tuple[str, ...]


class Case(NamedTuple):
    """A cloud, what is asked of it, and groups with the hosts of their members."""

    hosts: list[Host]
    asked: list[Asked]
    rules: dict[str, GroupRule]
    members: dict[str, list[int]]

    def domains(self, name: str, host: int) -> Domains:
        rule = self.rules[name]
        return rule.domains([uuid_of(host)], {uuid_of(host): self.hosts[host].racks})


def uuid_of(host: int, node: int = 0) -> str:
    return f"{host}-{node}"


def drawn(draw: Random) -> Case:
    hosts = [
        Host(
            draw.randint(1, 4),
            tuple(draw.randint(1, 3) for _ in range(draw.randint(1, 2))),
            frozenset(rack for rack in RACKS if draw.random() < 0.5),
        )
        for _ in range(draw.randint(1, 3))
    ]
    kinds = [(draw.randint(1, 2), draw.randint(1, 3)) for _ in range(2)]
    names = draw.choice(["", "gh", "gh"])
    asked = [
        Asked(*draw.choice(kinds), tuple(name for name in names if draw.random() < 0.4))
        for _ in range(draw.randint(1, 5))
    ]
    rules = {
        name: GroupRule(
            draw.choice(["apart", "together"]), draw.randint(1, 2), draw.choice([(), RACKS])
        )
        for name in names
    }
    members = {
        name: [draw.randrange(len(hosts)) for _ in range(draw.choice([0, 0, 1]))] for name in names
    }
    return Case(hosts, asked, rules, members)


def drawn_tight(draw: Random) -> Case:
    """Hosts in one rack and in two, and as many members as racks take: one in seven needs all ways."""
    hosts = [
        Host(draw.randint(1, 3), (draw.randint(1, 3),), frozenset(racks))
        for racks in (RACKS, RACKS[:1], draw.choice([RACKS, RACKS[1:], RACKS[1:]]))
    ]
    draw.shuffle(hosts)
    most = draw.randint(1, 2)
    rules = {"g": GroupRule("apart", most, RACKS)}
    if draw.random() < 0.5:
        level = draw.choice([(), RACKS])
        rules["h"] = GroupRule(draw.choice(["apart", "together"]), 2, level)
    kinds = [(1, 1), (draw.randint(1, 2), 1)]
    names = draw.choice([("g",), tuple(rules)])
    asked = [Asked(*draw.choice(kinds), draw.choice([("g",), names])) for _ in range(2 * most)]
    return Case(hosts, asked, rules, {name: [] for name in rules})


def cloud_of(case: Case) -> Cloud:
    cloud, records, number = Cloud(), [], 0
    for index, host in enumerate(case.hosts):
        number = root = number + 1
        for node, total in enumerate((host.memory, *host.nodes)):
            name = PROCESSORS if node else MEMORY
            stock = InventoryRecord(total, 0, 1, total, 1, 1.0)
            records.append(
                ProviderRecord(
                    provider_id=root + node,
                    uuid=uuid_of(index, node),
                    revision=1,
                    parent_id=root if node else None,
                    root_id=root,
                    inventories={name: UsedInventory(stock)},
                    aggregates=frozenset() if node else host.racks,
                )
            )
        number += len(host.nodes)
    cloud.replace(records)
    return cloud


def chosen(
    case: Case,
    draw: Random,
    work: Work | None = None,
    ways: int = WAYS,
    *,
    in_one_order: bool = False,
) -> Sequence[ChosenPlace] | NoPlace:
    requests = {
        (asked.memory, asked.processors): CandidateRequest(
            (Group("", {MEMORY: asked.memory}), Group("_1", {PROCESSORS: asked.processors}))
        )
        for asked in case.asked
    }
    wishes = [Wish(requests[asked[:2]], asked.groups) for asked in case.asked]
    aggregates = {uuid_of(index): host.racks for index, host in enumerate(case.hosts)}
    groups = {
        name: GroupState(
            rule, [case.domains(name, host) for host in case.members[name]], aggregates
        )
        for name, rule in case.rules.items()
    }
    strategy = draw.choice(["any", "spread", "pack"])
    return choose(
        cloud_of(case),
        NameSets(),
        wishes,
        groups,
        strategy,
        work or Work(),
        draw,
        ways,
        in_one_order=in_one_order,
    )


Assignment = Sequence[tuple[int, int]]
"""Host and node of each that is asked for."""


def is_sound(case: Case, assignment: Assignment) -> bool:
    """The rules of specification 09, written down plainly."""
    used: Counter[str] = Counter()
    for (host, node), asked in zip(assignment, case.asked, strict=True):
        used[uuid_of(host)] += asked.memory
        used[uuid_of(host, node)] += asked.processors
    room = {
        uuid_of(index, node): total
        for index, host in enumerate(case.hosts)
        for node, total in enumerate((host.memory, *host.nodes))
    }
    if any(amount > room[uuid] for uuid, amount in used.items()):
        return False
    return all(_keeps(case, name, assignment) for name in case.rules)


def _keeps(case: Case, name: str, assignment: Assignment) -> bool:
    named = [
        host
        for (host, _), asked in zip(assignment, case.asked, strict=True)
        if name in asked.groups
    ]
    if not named:
        return True
    domains = [case.domains(name, host) for host in (*case.members[name], *named)]
    if case.rules[name].rule == "together":
        return bool(frozenset.intersection(*domains))
    each = Counter(domain for one in domains for domain in one)
    return max(each.values()) <= case.rules[name].at_most


def fits(case: Case) -> bool:
    places = [
        (index, node)
        for index, host in enumerate(case.hosts)
        for node in range(1, len(host.nodes) + 1)
    ]
    return any(is_sound(case, each) for each in product(places, repeat=len(case.asked)))


def require_sound(case: Case, found: Sequence[ChosenPlace]) -> None:
    uuids = cloud_of(case).uuids
    assignment = [
        tuple(map(int, str(uuids[place.mappings["_1"][0]]).split("-"))) for place in found
    ]
    assert is_sound(case, [(host, node) for host, node in assignment])
    assert [uuids[place.root] for place in found] == [uuid_of(host) for host, _ in assignment]


@seeds(200)
def test_places_are_found_exactly_where_there_are_some(draw: Random) -> None:
    """What is chosen fits and keeps the rules; a refusal is exact, and no assignment exists."""
    case = draw.choice([drawn, drawn_tight])(draw)

    found = chosen(case, draw)

    if isinstance(found, NoPlace):
        assert found.exact
        assert not fits(case)
    else:
        require_sound(case, found)


@seeds(60)
def test_places_in_one_order_are_sound(draw: Random) -> None:
    """A refusal without a further try is certain only where nothing fits."""
    case = drawn(draw)

    found = chosen(case, draw, in_one_order=True)

    if not isinstance(found, NoPlace):
        require_sound(case, found)
    elif found.exact:
        assert not fits(case)


@pytest.mark.parametrize("seed", range(6))
def test_every_tree_has_its_turn_in_one_order(seed: int) -> None:
    """As many as there are hosts, on hosts that take one each: in all strategies, drawn by the seeds."""
    hosts = [Host(1, (1,), frozenset())] * 12
    apart = GroupRule("apart")
    case = Case(hosts, [Asked(1, 1, ("g",))] * len(hosts), {"g": apart}, {"g": []})

    found = chosen(case, Random(seed), in_one_order=True)

    assert not isinstance(found, NoPlace)
    require_sound(case, found)


@pytest.mark.parametrize("seed", range(6))
def test_a_new_group_goes_elsewhere_where_its_first_host_is_too_small(seed: int) -> None:
    """Without trying all ways."""
    hosts = [Host(1, (1,), frozenset())] * 9 + [Host(2, (2,), frozenset())]
    together = GroupRule("together")
    case = Case(hosts, [Asked(1, 1, ("g",))] * 2, {"g": together}, {"g": []})

    found = chosen(case, Random(seed), ways=0)

    assert not isinstance(found, NoPlace)
    require_sound(case, found)


@seeds(60)
def test_what_ends_early_is_sound_and_exact_only_where_nothing_fits(draw: Random) -> None:
    """Whatever ends first, the work, the time or the ways: what is certain is true."""
    case = draw.choice([drawn, drawn_tight])(draw)
    looks = iter(range(draw.randint(0, 12), 0, -1))
    work = draw.choice([Work(limit=draw.randint(0, 30)), Work(remaining_s=lambda: next(looks, 0))])

    found = chosen(case, draw, work, draw.choice([1, 3, WAYS]))

    if isinstance(found, NoPlace):
        assert not (found.exact and fits(case))
    else:
        require_sound(case, found)


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        (None, 40 + 1),
        (GroupRule("apart", 3), 30 + 1),
        (GroupRule("apart", 7, RACKS), 14 + 1),
        (GroupRule("together", 1, RACKS), 20 + 1),
    ],
)
def test_more_equal_claims_than_fit_are_refused_for_certain(
    rule: GroupRule | None, asked: int
) -> None:
    """By counting: there are more ways than can be tried. One claim less fits."""
    hosts = [Host(4, (4,), frozenset([RACKS[number % 2]])) for number in range(10)]
    groups = ("g",) if rule else ()
    case = Case(hosts, [Asked(1, 1, groups)] * asked, {"g": rule} if rule else {}, {"g": []})

    refused = chosen(case, Random(1))

    assert isinstance(refused, NoPlace)
    assert (refused.exact, refused.kept_out) == (True, groups)
    assert len(chosen(case._replace(asked=case.asked[1:]), Random(1))) == asked - 1


@pytest.mark.parametrize(
    ("rule", "members", "kept"),
    [
        (GroupRule("apart"), ["a", "b"], True),
        (GroupRule("apart"), ["a", "a"], False),
        (GroupRule("apart", at_most=2), ["a", "a"], True),
        (GroupRule("together"), [], True),
        (GroupRule("together"), ["ab", "b"], True),
        (GroupRule("together"), ["a", "b"], False),
        (GroupRule("together"), ["ab", "bc", "ac"], False),
    ],
)
def test_a_rule_is_kept_by_all_members_at_once(
    rule: GroupRule, members: list[str], kept: bool
) -> None:
    """Each member stands for the domains that it is in, by a letter each."""
    assert Occupancy.with_members(rule, map(frozenset, members)).kept is kept


# -- the order of the trees ----------------------------------------------------------------------


class Flat(NamedTuple):
    """Hosts with two classes, (used, total) of each, and what is asked of each class."""

    hosts: list[tuple[tuple[int, int], tuple[int, int]]]
    asked: list[tuple[int, int]]

    def cloud(self) -> Cloud:
        cloud = Cloud()
        cloud.replace(
            ProviderRecord(
                provider_id=number + 1,
                uuid=uuid_of(number),
                revision=1,
                parent_id=None,
                root_id=number + 1,
                inventories={
                    name: UsedInventory(InventoryRecord(total), used)
                    for name, (used, total) in zip((MEMORY, PROCESSORS), host, strict=True)
                },
            )
            for number, host in enumerate(self.hosts)
        )
        return cloud

    def wishes(self) -> list[Wish]:
        """Return the wishes; equal ones share their request."""
        requests = {
            asked: CandidateRequest(
                (Group("", {name: n for name, n in zip((MEMORY, PROCESSORS), asked, strict=True) if n}),)
            )
            for asked in self.asked
        }
        return [Wish(requests[asked]) for asked in self.asked]

    def fullness(self, host: int, asked: tuple[int, int], taken: Counter[tuple[int, int]]) -> float:
        """Return the used part of the fullest class that is asked for."""
        return max(
            (used + taken[host, number]) / total
            for number, (used, total) in enumerate(self.hosts[host])
            if asked[number]
        )

    def is_ordered(self, strategy: str, chosen: Sequence[int]) -> bool:
        """Tell whether each took the best host that had room, after some order of those before it."""
        return any(
            self._is_ordered(strategy, chosen, order)
            for order in permutations(range(len(self.asked)))
        )

    def _is_ordered(self, strategy: str, chosen: Sequence[int], order: Sequence[int]) -> bool:
        taken: Counter[tuple[int, int]] = Counter()
        sign = -1 if strategy == "pack" else 1
        for number in order:
            asked = self.asked[number]
            best = min(
                sign * self.fullness(host, asked, taken)
                for host, stock in enumerate(self.hosts)
                if all(
                    used + taken[host, name] + asked[name] <= total
                    for name, (used, total) in enumerate(stock)
                )
            )
            if sign * self.fullness(chosen[number], asked, taken) != best:
                return False
            taken.update({(chosen[number], name): amount for name, amount in enumerate(asked)})
        return True


@seeds(300)
def test_each_claim_takes_the_best_tree_as_those_before_it_have_left_it(draw: Random) -> None:
    """Specification 09 section 2, strategy: whatever the kinds, and however they take turns."""
    strategy = draw.choice(["pack", "spread"])
    kinds = [(draw.randint(0, 2), draw.randint(1, 3)) for _ in range(3)]
    hosts = [
        tuple((draw.randint(0, 3), draw.randint(4, 12)) for _ in range(2))
        for _ in range(draw.randint(2, 4))
    ]
    case = Flat(hosts, [draw.choice(kinds) for _ in range(draw.randint(2, 5))])

    found = choose(
        case.cloud(), None, case.wishes(), {}, strategy, Work(), draw, in_one_order=True
    )

    if not isinstance(found, NoPlace):
        assert case.is_ordered(strategy, [place.root for place in found])


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("strategy", ["any", "spread", "pack"])
def test_among_equal_trees_one_is_drawn(strategy: Any, grouped: bool) -> None:
    """Else racing clients would all run to the same. Where nothing is drawn it is always one."""
    case = Flat([((0, 8), (0, 8))] * 4, [(1, 1)])
    groups = {"g": GroupState(GroupRule("apart"))} if grouped else {}
    wishes = [replace(wish, groups=tuple(groups)) for wish in case.wishes()]

    def taken(draw: Random | None) -> int:
        found = choose(case.cloud(), None, wishes, groups, strategy, Work(), draw)
        assert not isinstance(found, NoPlace)
        return found[0].root

    assert {taken(Random(seed)) for seed in range(40)} == {0, 1, 2, 3}
    assert len({taken(None) for _ in range(9)}) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_gang_of_two_kinds_packs_together(seed: int) -> None:
    """The second follows the first, for which one host has room: that has become the fuller one."""
    case = Flat([((0, 8), (0, 16)), ((0, 4), (1, 16))], [(8, 8), (0, 4)])

    found = choose(case.cloud(), None, case.wishes(), {}, "pack", Work(), Random(seed))

    assert not isinstance(found, NoPlace)
    assert [place.root for place in found] == [0, 0]


@seeds(60)
def test_where_requests_lie_in_memory_changes_nothing(draw: Random) -> None:
    """Which of several claims is refused, and who takes what, depends on what is asked alone."""
    hosts = [((0, draw.randint(2, 6)), (0, draw.randint(2, 6))) for _ in range(2)]
    kinds = draw.sample([(1, 3), (3, 1), (2, 2), (1, 2), (2, 1)], 4)
    case, seed = Flat(hosts, kinds), draw.random()

    def outcome(*, falling: bool) -> Any:
        spare = [CandidateRequest(()) for _ in kinds]
        spare.sort(key=id, reverse=falling)
        for request, wish in zip(spare, case.wishes(), strict=True):
            object.__setattr__(request, "groups", wish.request.groups)
        found = choose(
            case.cloud(), None, [Wish(request) for request in spare], {}, "any", Work(), Random(seed)
        )
        return found.number if isinstance(found, NoPlace) else [each.root for each in found]

    assert outcome(falling=False) == outcome(falling=True)


# -- what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["any", "spread", "pack"])
def test_claims_that_all_differ_cost_one_look_at_the_trees_each(
    strategy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One provider serves them, and what has room for them is known from the look."""
    case = Flat([((0, 64), (0, 4096))] * 12, [(1 + n % 5, 100 + n) for n in range(200)])
    called: Counter[str] = Counter()

    def counted(function: Callable[..., Any], *given: Any) -> Any:
        called[function.__name__] += 1
        return function(*given)

    for module in (choosing, pool, board):
        for name in {"search", "prospect", "pack"} & vars(module).keys():
            monkeypatch.setattr(module, name, partial(counted, getattr(module, name)))

    found = choose(case.cloud(), None, case.wishes(), {}, strategy, Work(), Random(1))

    assert not isinstance(found, NoPlace)
    # Of thirteen at the latest two would go to one host, and then all are placed one after another.
    assert called["search"] <= len(case.hosts) + 1
    assert (called["prospect"], called["pack"]) == (len(case.asked), 0)


def test_more_than_there_is_of_a_class_is_refused_for_certain() -> None:
    """However different the claims are."""
    case = Flat([((0, 8), (0, 8))] * 3, [(1 + n % 3, 1 + n % 2) for n in range(20)])

    found = choose(case.cloud(), None, case.wishes(), {}, "any", Work(), Random(1))

    assert isinstance(found, NoPlace)
    assert found.exact


@seeds(60)
def test_what_ends_for_want_of_time_says_so(draw: Random) -> None:
    """A refusal that is not certain is one of the bounds that are counted, or of the time."""
    case = drawn(draw)
    looks = iter(range(draw.randint(0, 30), 0, -1))

    found = chosen(case, draw, Work(remaining_s=lambda: next(looks, 0)))

    if isinstance(found, NoPlace):
        assert found.exact is not found.timed_out


class Counted(str):
    """A text that counts how often its hash is asked for."""

    hashed = 0

    def __hash__(self) -> int:
        Counted.hashed += 1
        return super().__hash__()


def test_of_the_aggregates_of_a_rule_those_of_the_tree_are_looked_at() -> None:
    """A rule may name a thousand, and is asked for each claim, group and tree."""
    racks = tuple(Counted(f"rack{n:03}") for n in range(100))
    rule = GroupRule("apart", 1, racks)
    inside = {"in one": frozenset({"rack007"}), "in another": frozenset({"elsewhere"})}
    Counted.hashed = 0

    found = [rule.domains([root], inside) for root in ("in one", "in another", "in none")]

    assert found == [{"rack007"}, {"in another"}, {"in none"}]
    assert Counted.hashed == 0


@pytest.mark.parametrize("rule", [GroupRule("apart"), GroupRule("apart", 1, ("rack",))])
def test_trees_that_a_rule_excludes_are_looked_at_until_the_time_is_over(
    rule: GroupRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tree may be excluded: no other look would come before the last of them."""
    hosts = 500
    case = Flat([((0, 8), (0, 8))] * hosts, [(1, 1)])
    uuids = [str(uuid) for uuid in case.cloud().uuids]
    inside = dict.fromkeys(uuids, frozenset(rule.of))
    members = [rule.domains([uuid], inside) for uuid in uuids[: 1 if rule.of else hosts]]
    asked, domains, looks = list[Any](), GroupRule.domains, iter(range(40, 0, -1))

    def counted(self: GroupRule, roots: Any, aggregates: Any) -> Domains:
        asked.append(roots)
        return domains(self, roots, aggregates)

    monkeypatch.setattr(GroupRule, "domains", counted)
    found = choose(
        case.cloud(),
        None,
        [replace(wish, groups=("g",)) for wish in case.wishes()],
        {"g": GroupState(rule, members, inside)},
        "any",
        Work(remaining_s=lambda: next(looks, 0)),
        None,
    )

    assert isinstance(found, NoPlace)
    assert (found.timed_out, found.exact) == (True, False)
    assert 0 < len(asked) <= 40

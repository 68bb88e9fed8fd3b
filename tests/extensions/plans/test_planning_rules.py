"""Plans hold to the rules of steps where a search would like to bend them (specification 10 section 2)."""

import logging
from collections.abc import Mapping, Sequence

import pytest

from placement.extensions.plans.ledger import Resident
from placement.extensions.plans.planning import plan as planning
from placement.extensions.plans.planning import solver
from placement.extensions.plans.planning.departures import Departures
from placement.extensions.plans.planning.plan import make_plan
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import (
    Costs,
    Empty,
    Fit,
    Goal,
    Keep,
    Limits,
    MoveStep,
    NoPlan,
    Occupant,
    Plan,
)
from placement.extensions.plans.steps import show_steps
from placement.extensions.plans.wanted import MoveShown, Ownership
from placement.placing.members import Members
from placement.placing.wishes import ChosenPlace
from placement.search.group_rules import GroupRule
from placement.search.request import CandidateRequest
from placement.search.work import Work
from tests.search.builders import World, group
from tests.search.worlds import stock


class Given:
    """A cloud with occupants, which are named."""

    def __init__(self, world: World) -> None:
        self.cloud = world.cloud()
        self.index = {name: self.cloud.index_of_uuid[f"uuid-of-{name}"] for name in world.records}
        self.occupants: list[Occupant] = []
        self.members = Members()

    def occupant(
        self,
        uuid: str,
        held: Mapping[str, Mapping[str, int]],
        *,
        may_move: bool = True,
        may_remove: bool = False,
        elsewhere: Mapping[str, Mapping[str, int]] | None = None,
    ) -> "Given":
        """Add an occupant with what it has of each provider; ``elsewhere``: in trees that were not read."""
        by_root: dict[int, dict[int, Mapping[str, int]]] = {}
        for name, amounts in held.items():
            index = self.index[name]
            by_root.setdefault(int(self.cloud.roots[index]), {})[index] = amounts
        unread = {self.index[name]: amounts for name, amounts in (elsewhere or {}).items()}
        self.occupants.append(Occupant(uuid, by_root, may_move, may_remove, unread))
        return self

    def plan(
        self, goal: Goal, costs: Costs | None = None, limits: Limits | None = None
    ) -> Plan | NoPlan:
        """Ask for a plan."""
        unread = {int(self.cloud.roots[i]) for each in self.occupants for i in each.elsewhere}
        return make_plan(
            *(self.cloud, None, self.occupants, self.members, goal),
            *(costs or Costs(), limits or Limits(), unread, Work()),
        )

    def empty(self, *hosts: str) -> Empty:
        """Return the goal that these hosts are empty."""
        return Empty([[self.index[host]] for host in hosts], len(hosts))

    def list_moves(self, found: Plan | NoPlan) -> list[tuple[str, str]]:
        """Return who moves to which tree, in the order of the steps."""
        assert isinstance(found, Plan), found
        name_of = {index: name for name, index in self.index.items()}
        moves = [step for step in found.steps if isinstance(step, MoveStep)]
        return [(self.occupants[m.occupant].uuid, name_of[m.place.root]) for m in moves]


class Row:
    """Where a member of a group is."""

    shares = False

    def __init__(self, uuid: str, root: str) -> None:
        self.consumer_uuid, self.root_uuid = uuid, f"uuid-of-{root}"


def test_members_that_may_not_move_are_not_brought_together() -> None:
    """Two that are fixed are on different hosts; wherever the third one goes, they are not together."""
    given = Given(World().host("a", VCPU=stock(8, 2)).host("b", VCPU=stock(8, 4)))
    given.occupant("one", {"a": {"VCPU": 2}}, may_move=False)
    given.occupant("two", {"b": {"VCPU": 2}}, may_move=False)
    given.occupant("three", {"b": {"VCPU": 2}})
    rows: Sequence[Row] = [Row("one", "a"), Row("two", "b"), Row("three", "b")]
    names = {each.uuid: ("g",) for each in given.occupants}
    given.members = Members({"g": GroupRule("together")}, {"g": rows}, names)

    found = given.plan(Keep(("g",)))

    assert isinstance(found, NoPlan) and found.exact, found


def test_a_small_cloud_is_walked_before_a_programme_is_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small servers stand in the way of members: twenty programmes gave ends that no order reaches."""
    world = World().host("a", VCPU=stock(6, 6)).host("b", VCPU=stock(6, 5)).host("c", VCPU=stock(6, 5))
    given = Given(world)
    for host in "bc":
        for number in range(5):
            given.occupant(f"{host}{number}", {host: {"VCPU": 1}})
    members = ["one", "two", "three"]
    for uuid in members:
        given.occupant(uuid, {"a": {"VCPU": 2}})
    rows: Sequence[Row] = [Row(uuid, "a") for uuid in members]
    given.members = Members(
        {"g": GroupRule("apart", 1)}, {"g": rows}, dict.fromkeys(members, ("g",))
    )

    def refuse(*_: object) -> None:
        raise AssertionError("a programme was made")

    monkeypatch.setattr(planning, "Programme", refuse)

    found = given.plan(Keep(("g",)))

    assert isinstance(found, Plan) and found.minimal, found
    assert found.cost == 5, given.list_moves(found)


def test_a_pool_that_too_few_hosts_can_follow_is_refused_without_a_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other pool is in reach of one host. That a server moved was enough, to wherever."""
    world = World().host("near", aggregates=["R0"], VCPU=stock(8, 6))
    world.host("both", aggregates=["R0", "R1"], VCPU=stock(8, 6))
    world.pool("old", ["R0"], DISK_GB=stock(12, 5)).pool("new", ["R1"], DISK_GB=12)
    given = Given(world)
    for number, host in enumerate(["near"] * 3 + ["both"] * 2):
        cores = 2 if host == "near" else 3
        given.occupant(f"server{number}", {host: {"VCPU": cores}, "old": {"DISK_GB": 1}})
    monkeypatch.setattr(planning, "STATES_FIRST", 0)
    monkeypatch.setattr(planning, "MOST_STATES", 0)

    found = given.plan(given.empty("old"))

    assert isinstance(found, NoPlan) and found.exact, found


def test_what_has_no_room_in_all_trees_together_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On 1,000 hosts it was not known after five seconds: each of them alone can be made empty."""
    world = World()
    for number in range(70):
        world.host(f"h{number}", VCPU=stock(4, 1))
    given, goal = Given(world), Fit(CandidateRequest((group("", VCPU=4),)), 70)
    for number in range(70):
        given.occupant(f"s{number}", {f"h{number}": {"VCPU": 1}}, may_remove=number == 0)
    monkeypatch.setattr(solver, "load_solver", lambda: False)

    found = given.plan(goal)
    three_fit = given.plan(Fit(goal.request, 3))

    assert isinstance(found, NoPlan) and found.exact, found
    assert isinstance(three_fit, Plan)


def test_a_tree_that_is_to_be_empty_is_no_third_place_of_a_ring() -> None:
    """Two servers would have to change places, and the only other host is the one to be emptied."""
    world = World().host("a", VCPU=stock(9, 1), VGPU=stock(1, 1))
    world.host("b", VCPU=stock(3, 3), VGPU=1).host("c", VCPU=stock(3, 2))
    given = Given(world)
    given.occupant("leaves", {"a": {"VCPU": 1, "VGPU": 1}})
    given.occupant("large", {"b": {"VCPU": 3}}).occupant("small", {"c": {"VCPU": 2}})
    a, c = given.index["a"], given.index["c"]

    found = given.plan(given.empty("a"))
    any_of_two = given.plan(Empty([[a], [a, c]], 1))

    assert isinstance(found, NoPlan) and found.exact, found
    assert isinstance(any_of_two, NoPlan) and any_of_two.exact, any_of_two


@pytest.mark.parametrize("move", [1.0, 3e-7, 1e-300, 1e6])
def test_a_consumer_goes_where_it_has_made_way_for_itself(move: float) -> None:
    """Its part on the second host leaves, and its part on the first one takes that room."""
    world = World().host("a", VCPU=stock(2, 1), VGPU=stock(1, 1))
    given = Given(world.host("b", VCPU=stock(2, 2), VGPU=1).host("c", VCPU=2))
    given.occupant("both", {"a": {"VCPU": 1, "VGPU": 1}, "b": {"VCPU": 2}})

    found = given.plan(given.empty("a"), Costs(move))

    assert given.list_moves(found) == [("both", "c"), ("both", "b")]
    assert isinstance(found, Plan) and (found.cost, found.minimal) == (2 * move, True)


@pytest.mark.parametrize("move", [1.0, 3e-7, 1e-300, 1e6])
def test_the_cheapest_plan_is_found_whatever_the_order_of_magnitude(move: float) -> None:
    """Three servers can leave at once; two steps are fewer, the first of which makes way for the second."""
    world = World().host("a", VCPU=stock(3, 3)).host("b", VCPU=stock(3, 2)).host("c", VCPU=2)
    given = Given(world.host("d", VCPU=stock(3, 3)))
    given.occupant("large", {"a": {"VCPU": 3}}).occupant("in its way", {"b": {"VCPU": 2}})
    for number in range(3):
        given.occupant(f"small {number}", {"d": {"VCPU": 1}})

    found = given.plan(Empty([[given.index["a"]], [given.index["d"]]], 1), Costs(move))

    assert given.list_moves(found) == [("in its way", "c"), ("large", "b")]
    assert isinstance(found, Plan) and found.minimal


def test_a_part_joins_another_part_of_its_consumer() -> None:
    given = Given(World().host("a", VCPU=stock(2, 1)).host("b", VCPU=stock(3, 2)))
    given.occupant("both", {"a": {"VCPU": 1}, "b": {"VCPU": 2}})

    assert given.list_moves(given.plan(given.empty("a"))) == [("both", "b")]


@pytest.mark.parametrize("cut", [{"max_unit": 2}, {"min_unit": 4}, {"step_size": 2}])
@pytest.mark.parametrize("is_held", [False, True], ids=["", "held"])
@pytest.mark.parametrize("is_read", [False, True], ids=["unread", ""])
def test_a_consumer_stays_whose_disk_would_not_be_granted_again(
    cut: dict[str, int], is_held: bool, is_read: bool
) -> None:
    """The write of its step names the disk too, which its pool does not admit any more."""
    world = World().host("h1", (), ["g"], VCPU=stock(4, 2)).host("h2", (), ["g"], VCPU=4)
    given = Given(world.pool("pool", ["g"], DISK_GB=stock(9, 3, **cut)))
    server, disk = {"h1": {"VCPU": 2}}, {"pool": {"DISK_GB": 3}}
    if is_read:
        given.occupant("server", server | disk)
    else:
        given.occupant("server", server, elsewhere=disk)

    found = given.plan(given.empty("h1"), limits=Limits(all_at_once=is_held))

    assert isinstance(found, NoPlan) and (found.exact, found.staying) == (is_read, (0,)), found


def test_a_disk_that_would_not_be_granted_again_moves_before_its_server() -> None:
    world = World().host("h1", (), ["g"], VCPU=stock(4, 2)).host("h2", (), ["g"], VCPU=4)
    world.pool("cut", ["g"], DISK_GB=stock(9, 3, max_unit=2)).pool("whole", ["g"], DISK_GB=9)
    given = Given(world).occupant("server", {"h1": {"VCPU": 2}, "cut": {"DISK_GB": 3}})

    moves = given.list_moves(given.plan(given.empty("h1")))

    assert moves == [("server", "whole"), ("server", "h2")]


@pytest.mark.parametrize("emptied", ["h1", "pool"])
def test_a_server_stays_in_reach_of_its_disk(emptied: str) -> None:
    """A host of another rack has room for all of it, but is in reach of neither part."""
    world = World().host("h1", (), ["g"], VCPU=stock(4, 2))
    world.host("far", (), ["other"], VCPU=4, DISK_GB=9)
    given = Given(world.pool("pool", ["g"], DISK_GB=stock(9, 3)))
    given.occupant("server", {"h1": {"VCPU": 2}, "pool": {"DISK_GB": 3}})

    found = given.plan(given.empty(emptied))

    assert isinstance(found, NoPlan) and (found.exact, found.staying) == (True, (0,)), found


def test_a_removal_that_serves_several_trees_counts_once() -> None:
    """Two of six places are on the hosts of one consumer, and one removal makes room for both."""
    world = World()
    for host in "abcd":
        world.host(host, VCPU=stock(4, 2))
    given = Given(world)
    for uuid, hosts in (("wide", "ab"), ("x", "c"), ("y", "d")):
        held = {host: {"VCPU": 2} for host in hosts}
        given.occupant(uuid, held, may_move=False, may_remove=True)

    found = given.plan(Fit(CandidateRequest((group("", VCPU=2),)), 6))

    assert isinstance(found, Plan) and (found.cost, found.minimal) == (10.0, True), found


@pytest.mark.parametrize(
    ("is_wide", "bound"), [(False, 40.0), (True, 20.0)], ids=["one host", "two"]
)
def test_several_requests_cost_what_their_hosts_cost_together(
    monkeypatch: pytest.MonkeyPatch, is_wide: bool, bound: float
) -> None:
    """Each host must be rid of two servers; without a solver too, unless one removal may serve two hosts."""
    monkeypatch.setattr(solver, "load_solver", lambda: False)
    world = World()
    for number in range(20):
        world.host(f"r{number}", VCPU=stock(4, 4))
    given = Given(world)
    for one, other in ((f"r{n}", f"r{n + 1}") for n in range(0, 20, 2)):
        two = {"VCPU": 2}
        wide = [{one: two, other: two}] if is_wide else [{one: two}, {other: two}]
        for number, held in enumerate([*wide, {one: two}, {other: two}]):
            given.occupant(f"{one}-{number}", held, may_move=False, may_remove=True)

    found = given.plan(Fit(CandidateRequest((group("", VCPU=4),)), 2))

    assert isinstance(found, Plan) and (found.cost, found.lower_bound) == (40.0, bound), found


def test_a_server_makes_way_without_a_solver_and_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest sets of departures alone find a plan: a large cloud without a solver has nothing else."""
    monkeypatch.setattr(solver, "load_solver", lambda: False)
    monkeypatch.setattr(planning, "STATES_FIRST", 0)
    monkeypatch.setattr(planning, "MOST_STATES", 0)
    given = Given(World().host("a", VCPU=stock(4, 2)).host("b", VCPU=2))
    given.occupant("server", {"a": {"VCPU": 2}})

    found = given.plan(Fit(CandidateRequest((group("", VCPU=4),)), 1))

    assert given.list_moves(found) == [("server", "b")]


def test_a_plan_that_breaks_a_rule_is_a_fault_that_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is never the answer; the search goes on, and finds the next best one."""
    given = Given(World().host("a", VCPU=stock(4, 2)).host("b", VCPU=4).host("shut", VCPU=4))
    given.occupant("server", {"a": {"VCPU": 2}})
    shut = given.index["shut"]

    def settle_badly(state: State, leaving: Departures, _: Work) -> None:
        (share,) = leaving.moved
        state.go(share, ChosenPlace(shut, (shut,), {shut: {"VCPU": 2}}, {"_1": (shut,)}))

    monkeypatch.setattr(planning, "settle", settle_badly)
    with caplog.at_level(logging.ERROR):
        found = given.plan(given.empty("a"), limits=Limits(closed=frozenset([shut])))

    assert given.list_moves(found) == [("server", "b")]
    (record,) = caplog.records
    assert "'closed'" in record.getMessage()


def test_groups_of_mappings_are_the_providers_that_are_left_in_their_order() -> None:
    """Whatever the order in which the rows of the consumer were read."""
    world = World()
    for host in ("a", "b"):
        world.host(host, VCPU=8).device(f"{host}-gpu", host, VGPU=2)
        world.device(f"{host}-disk", host, DISK_GB=9)
    held = {"a-disk": {"DISK_GB": 1}, "a-gpu": {"VGPU": 1}, "a": {"VCPU": 1}}
    given = Given(world).occupant("server", held)
    found = given.plan(given.empty("a"))
    assert isinstance(found, Plan)
    read = {given.index[name]: dict(amounts) for name, amounts in held.items()}
    resident = Resident("server", 1, Ownership("p", "u", None), read)

    (step,) = show_steps(given.cloud, [resident], found.steps)

    assert isinstance(step, MoveShown)
    assert list(step.place.mappings) == ["_1", "_2", "_3"]
    taken = [step.place.allocations[uuid] for (uuid,) in step.place.mappings.values()]
    assert taken == [*step.left.values()]

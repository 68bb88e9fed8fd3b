"""The one gate of planning against the rules, on small clouds (specification 10 section 2.4)."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

from placement.extensions.plans.planning import gate
from placement.extensions.plans.planning.scene import Scene, Share
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import Costs, Limits, Occupant
from placement.placing.members import Members
from placement.placing.wishes import ChosenPlace
from placement.search.work import Work
from tests.extensions.plans.plan_worlds import Where, World, draw_world, give, list_steps, start_of
from tests.search import builders
from tests.search.worlds import seeds

STEPS = 4
"""Steps that are taken in each cloud; before each of them all steps are judged that there are."""


def test_the_gate_lets_through_what_the_rules_allow() -> None:
    """Each step that can be thought of, from many states; and each rule is one that refuses."""
    refused = Counter[str]()

    @seeds(900)
    def compare(draw: Random) -> None:
        world = draw_world(draw)
        about, seen = str(world), set[str]()
        walked = Walked(world)
        for _ in range(STEPS):
            allowed = {
                then for _, then, _, target in list_steps(world, walked.where) if target >= 0
            }
            passed: dict[Where, tuple[Share, ChosenPlace]] = {}
            for share, place, then in walked.list_moves():
                if not walked.can_be_held(place):
                    allowed.discard(then)
                broken = gate.find_broken(walked.state, share, place)
                if broken is None:
                    passed[then] = share, place
                else:
                    seen.add(broken)
            assert passed.keys() == allowed, about
            if not passed:
                break
            walked.where = draw.choice(sorted(passed))
            walked.state.go(*passed[walked.where])
        refused.update(seen)

    compare()
    assert refused.keys() == gate.RULES.keys()
    print("clouds in which each rule refuses:", dict(refused))


def test_what_has_joined_a_part_that_was_not_read_moves_no_more() -> None:
    """Else the part would leave with it, which nobody has asked whether it may."""
    cloud = builders.World().host("a", VCPU=4).host("b", VCPU=4).host("c", VCPU=4).cloud()
    a, b, c = (cloud.index_of_uuid[f"uuid-of-{name}"] for name in "abc")
    held = Occupant("server", {a: {a: {"VCPU": 1}}}, elsewhere={b: {"VCPU": 1}})
    scene = Scene(cloud, None, [held], Members(), Costs(), Limits(), Work())
    state, (share,) = State(scene), scene.shares_of(0)

    def place(root: int) -> ChosenPlace:
        return ChosenPlace(root, (root,), {root: {"VCPU": 1}}, {"_1": (root,)})

    assert gate.may_go(state, share, place(c))
    state.go(share, place(b))
    assert gate.find_broken(state, share, place(c)) == "tree"


class Walked:
    """A world after some steps, as planning knows it and by the numbers of its providers."""

    def __init__(self, world: World) -> None:
        self.world, given = world, give(world)
        self.scene = Scene(
            given.cloud, None, given.occupants, given.members, world.costs, given.limits, Work()
        )
        self.state, self.where = State(self.scene), start_of(world)
        self._index = [given.cloud.index_of[number + 1] for number in range(len(world.nodes))]

    def list_moves(self) -> Iterator[tuple[Share, ChosenPlace, Where]]:
        """Yield each share with each place in any tree, and what is where after that move."""
        for number, consumer in enumerate(self.world.consumers):
            begin = 0
            for part, share in zip(consumer.held, self.scene.shares_of(number), strict=True):
                end, mine = begin + len(part), self.where[number]
                for tree in range(self.world.trees):
                    nodes = [n for n, node in enumerate(self.world.nodes) if node.tree == tree]
                    for chosen in product(nodes, repeat=len(part)):
                        place = self._place(part, chosen)
                        after = (*mine[:begin], *chosen, *mine[end:])
                        yield share, place, (*self.where[:number], after, *self.where[number + 1 :])
                begin = end

    def can_be_held(self, place: ChosenPlace) -> bool:
        """Tell whether a place has room beside all that steps have taken, while nothing has left."""
        return not self.world.limits.all_at_once or all(
            self.scene.free((index, name)) - self.state.taken[index, name] >= amount
            for index, amounts in place.allocations.items()
            for name, amount in amounts.items()
        )

    def _place(self, part: tuple[tuple[int, object], ...], chosen: tuple[int, ...]) -> ChosenPlace:
        # The groups of a request are in the order of the providers that are left.
        order = sorted(range(len(part)), key=lambda n: self._index[part[n][0]])
        allocations: dict[int, Counter[str]] = {}
        for n in order:
            allocations.setdefault(self._index[chosen[n]], Counter()).update(dict(part[n][1]))  # type: ignore[call-overload]
        mappings = {f"_{k}": (self._index[chosen[n]],) for k, n in enumerate(order, 1)}
        root = int(self.scene.cloud.roots[self._index[chosen[0]]])
        return ChosenPlace(root, (root,), allocations, mappings)

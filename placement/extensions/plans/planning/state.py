"""A scene after some steps: the places of shares, and the free room (specification 10 section 3). Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import fsum

from placement.extensions.plans.planning.scene import Scene, Share, Slot, count_excess, sum_slots
from placement.extensions.plans.planning.values import MoveStep, RemovalStep, Step
from placement.placing.wishes import ChosenPlace, GroupState
from placement.search.group_rules import Domains


class State:
    """A scene after some steps: the present place of each share, and the free room.

    ``taken``: the amounts that all steps have taken, if destinations are held from the beginning.
    ``arrived``: the number of steps to each tree, by root. ``reserved``: the number of places reserved for
    the goal's request.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.at: dict[int, ChosenPlace | None] = {}
        self.steps: list[Step] = []
        self._prices: list[float] = []
        self.arrived: Counter[int] = Counter()
        self._change: Counter[Slot] = Counter()
        self._reserved: Counter[Slot] = Counter()
        self.reserved = 0
        self.taken: Counter[Slot] = Counter()
        self._undo: list[tuple[Step, list[tuple[int, ChosenPlace | None]]]] = []
        self._trees: dict[str, dict[str, frozenset[str]]] = {}

    def place_of(self, share: Share) -> ChosenPlace | None:
        """Return the present place of a share, None if it was removed."""
        return self.at.get(share.number, share.place)

    def free(self, slot: Slot) -> int:
        """Return the amount that is free now."""
        return self.scene.free(slot) - self._change[slot] - self._reserved[slot]

    @property
    def cost(self) -> float:
        """Return the cost of all steps, rounded once: prices may differ by many orders of magnitude."""
        return fsum(self._prices)

    def find_share(self, step: MoveStep) -> Share | None:
        """Return the share that a step moves, None if its occupant has no resources there."""
        for share in self.scene.shares_of(step.occupant):
            place = self.place_of(share)
            if place is not None and place.root == step.root:
                return share
        return None

    def keeps_groups(self, share: Share, place: ChosenPlace) -> bool:
        """Return whether a step leaves the excess of every group unchanged or lower."""
        uuid = self.scene.occupants[share.occupant].uuid
        names = self.scene.members.list_groups(uuid)
        if not names:
            return True
        after = [
            place if each is share else self.place_of(each)
            for each in self.scene.shares_of(share.occupant)
        ]
        elsewhere = self.scene.occupants[share.occupant].elsewhere
        trees = self.scene.trees_of((each for each in after if each is not None), elsewhere)
        for name in names:
            rule = self.scene.members.rules[name]
            now = self.domains(name)
            then = {**now, uuid: rule.domains(trees, self.scene.aggregates)}
            if count_excess(rule, then.values()) > count_excess(rule, now.values()):
                return False
        return True

    def domains(self, name: str) -> dict[str, Domains]:
        """Return the domains of the members of a group now, by uuid."""
        self.scene.work.go_on()
        rule = self.scene.members.rules[name]
        trees = self._members(name)
        return {uuid: rule.domains(mine, self.scene.aggregates) for uuid, mine in trees.items()}

    def _members(self, name: str) -> dict[str, frozenset[str]]:
        """Return the trees of the members of a group by uuid, which steps keep."""
        if name not in self._trees:
            own: defaultdict[str, set[str]] = defaultdict(set)
            all_: defaultdict[str, set[str]] = defaultdict(set)
            for row in self.scene.members.rows[name]:
                all_[row.consumer_uuid].add(row.root_uuid)
                if not row.shares:
                    own[row.consumer_uuid].add(row.root_uuid)
            self._trees[name] = {
                uuid: frozenset(own[uuid] or trees) for uuid, trees in all_.items()
            }
            for number in {self.scene.share(each).occupant for each in self.at}:
                self._note_trees(number)
        return self._trees[name]

    def keeps(self, name: str) -> bool:
        """Return whether the rule of a group holds now."""
        return not count_excess(self.scene.members.rules[name], self.domains(name).values())

    # -- steps --

    def take(self, step: Step) -> None:
        """Take a step of a plan, which may be taken."""
        if isinstance(step, RemovalStep):
            self.remove(step.occupant)
            return
        share = self.find_share(step)
        assert share is not None
        self.go(share, step.place)

    def go(self, share: Share, place: ChosenPlace) -> None:
        """Move a share to a place."""
        here = self.place_of(share)
        assert here is not None
        goes = {here.mappings[name][0]: target for name, (target,) in place.mappings.items()}
        step = MoveStep(share.occupant, here.root, place, goes)
        self._undo.append((step, [(share.number, here)]))
        self.steps.append(step)
        self._prices.append(share.cost)
        self.arrived[place.root] += 1
        self._change.subtract(sum_slots(here.allocations))
        self._change.update(sum_slots(place.allocations))
        self.taken.update(sum_slots(place.allocations))
        self.at[share.number] = place
        self._note_trees(share.occupant)

    def remove(self, occupant: int) -> None:
        """Remove an occupant from all its places."""
        step, were = RemovalStep(occupant), list[tuple[int, ChosenPlace | None]]()
        for share in self.scene.shares_of(occupant):
            here = self.place_of(share)
            assert here is not None
            were.append((share.number, here))
            self._change.subtract(sum_slots(here.allocations))
            self.at[share.number] = None
        self._undo.append((step, were))
        self.steps.append(step)
        self._prices.append(self.scene.costs.remove)
        self._note_trees(occupant)

    def let_go(self, moved: Iterable[Share], removed: Iterable[int]) -> None:
        """Remove shares without a destination; this does not count as a step."""
        for share in [
            *moved,
            *(share for number in removed for share in self.scene.shares_of(number)),
        ]:
            here = self.place_of(share)
            if here is not None:
                self._change.subtract(sum_slots(here.allocations))
                self.at[share.number] = None

    def reserve(self, place: ChosenPlace) -> None:
        """Reserve a place for the goal's request; this does not count as a step."""
        self._reserved.update(sum_slots(place.allocations))
        self.reserved += 1

    def forget_reserved(self) -> None:
        """Free all reserved places."""
        self._reserved.clear()
        self.reserved = 0

    def list_used(self) -> Iterator[tuple[Slot, int]]:
        """Yield the increase of each slot's use since the beginning, as it counts for the next move."""
        # If all destinations are taken at the beginning, a departure does not make room for them.
        moved = self.taken if self.scene.limits.all_at_once else self._change
        for slot in moved.keys() | self._reserved.keys():
            yield slot, moved[slot] + self._reserved[slot]

    def take_back(self) -> None:
        """Undo the last step."""
        step, were = self._undo.pop()
        self.steps.pop()
        self._prices.pop()
        for number, here in were:
            assert here is not None
            now = self.at[number]
            if now is not None:
                self._change.subtract(sum_slots(now.allocations))
                self.taken.subtract(sum_slots(now.allocations))
            self._change.update(sum_slots(here.allocations))
            self.at[number] = here
        if isinstance(step, MoveStep):
            self.arrived[step.place.root] -= 1
        self._note_trees(step.occupant)

    def _note_trees(self, occupant: int) -> None:
        uuid = self.scene.occupants[occupant].uuid
        for name in self.scene.members.list_groups(uuid):
            if name not in self._trees:
                continue
            places = [self.place_of(share) for share in self.scene.shares_of(occupant)]
            here = [place for place in places if place is not None]
            mine = self._trees[name]
            if here:
                mine[uuid] = self.scene.trees_of(here, self.scene.occupants[occupant].elsewhere)
            else:
                mine.pop(uuid, None)

    # -- rules for those who choose places for all at once --

    def group_states(self, moving: Sequence[Share]) -> Iterator[tuple[str, GroupState]]:
        """Yield the groups of moving shares, without the occupants of these shares as members."""
        gone = {self.scene.occupants[share.occupant].uuid for share in moving}
        for name in sorted(
            {name for uuid in gone for name in self.scene.members.list_groups(uuid)}
        ):
            rule = self.scene.members.rules[name]
            stay = [domains for uuid, domains in self.domains(name).items() if uuid not in gone]
            yield name, GroupState(rule, stay, self.scene.aggregates)

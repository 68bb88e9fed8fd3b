"""The scene of a plan: a cloud with its occupants, as read (specification 10 section 3). Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from math import fsum, inf

import numpy as np

from placement.extensions.plans.planning.values import Costs, Limits, Occupant
from placement.inventory_record import InventoryRecord
from placement.placing.members import AmountsByIndex, Members
from placement.placing.mover import HeldInTree, make_request, without_sharing
from placement.placing.reach import KeptParts, Reach
from placement.placing.wishes import ChosenPlace
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import Domains, GroupRule
from placement.search.index_set import Mask
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import search
from placement.search.work import Work

Slot = tuple[int, str]
"""A slot: a provider index and a class."""


def sum_slots(allocations: AmountsByIndex) -> dict[Slot, int]:
    """Return amounts by provider and class."""
    return {
        (index, name): n for index, amounts in allocations.items() for name, n in amounts.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The holdings of an occupant in one tree.

    ``cost``: the cost of a move. ``kind``: a value that is equal for equal requests.
    """

    number: int
    occupant: int
    root: int
    place: ChosenPlace
    slots: Mapping[Slot, int]
    kind: HeldInTree
    cost: float


class Scene:
    """The unchanging facts of a plan: the holdings of occupants, the cost of each step, and the rules.

    Shares are made on demand: of 60,000 occupants a plan uses a few hundred. ``closed``: the roots of trees
    that are not destinations, since they are avoided or emptied. ``work``: the time budget of the whole plan,
    which every loop over shares, places or trees checks.
    """

    def __init__(
        self,
        cloud: Cloud,
        known: NameSets | None,
        occupants: Sequence[Occupant],
        members: Members,
        costs: Costs,
        limits: Limits,
        work: Work,
        emptied: frozenset[int] = frozenset(),
    ) -> None:
        self.work = work
        self.closed = limits.closed | emptied
        self.reach = Reach(cloud)
        self.cloud, self.known, self.occupants = cloud, known, occupants
        self.members, self.costs, self.limits = members, costs, limits
        self.share_count = sum(len(occupant.held) for occupant in occupants)
        self._occupants_in: defaultdict[int, list[int]] = defaultdict(list)
        for number, occupant in enumerate(occupants):
            for root in occupant.held:
                self._occupants_in[root].append(number)
        self._made: dict[int, Share] = {}
        self._shares_of: dict[int, list[Share]] = {}
        self._on_provider: dict[int, dict[int, list[Share]]] = {}
        self._free: dict[int, dict[str, int]] = {}
        self._places: dict[HeldInTree, tuple[int, tuple[list[ChosenPlace], bool]]] = {}
        self._admitted: dict[tuple[Slot, int], bool] = {}
        self._misfits: dict[int, tuple[int, ...]] = {}

    # -- shares --

    def share(self, number: int) -> Share:
        """Return the share with this number, which was made before."""
        return self._made[number]

    def shares_of(self, occupant: int) -> list[Share]:
        """Return the shares of an occupant, one for each tree."""
        found = self._shares_of.get(occupant)
        if found is None:
            held = self.occupants[occupant].held
            found = [self._make_share(occupant, root, mine) for root, mine in held.items()]
            self._shares_of[occupant] = found
        return found

    def in_tree(self, root: int) -> list[Share]:
        """Return the shares of occupants in a tree."""
        numbers = self._occupants_in.get(root, ())
        return [s for number in numbers for s in self.shares_of(number) if s.root == root]

    def list_occupants(self, root: int) -> Sequence[int]:
        """Return the numbers of the occupants that have resources in a tree."""
        return self._occupants_in.get(root, ())

    def count_shares(self, root: int) -> int:
        """Return how many occupants have resources in a tree."""
        return len(self._occupants_in.get(root, ()))

    def on_provider(self, index: int) -> list[Share]:
        """Return the shares of occupants with resources on a provider, including the rest of its tree."""
        root = int(self.cloud.roots[index])
        if root not in self._on_provider:
            by_index: defaultdict[int, list[Share]] = defaultdict(list)
            for share in self.in_tree(root):
                for each in share.place.allocations:
                    by_index[each].append(share)
            self._on_provider[root] = by_index
        return self._on_provider[root].get(index, [])

    def list_amounts(self, slot: Slot) -> list[tuple[int, float]]:
        """Return the amount of a class on a provider of each occupant that may leave, and its cost."""
        self.work.go_on()
        index, name = slot
        root = int(self.cloud.roots[index])
        found = []
        for number in self._occupants_in.get(root, ()):
            amount = self.occupants[number].held[root].get(index, {}).get(name)
            cost = self._cheapest(number, root) if amount else inf
            if amount and cost < inf:
                found.append((amount, cost))
        return found

    @cached_property
    def shares(self) -> list[Share]:
        """All shares."""
        return [share for number in range(len(self.occupants)) for share in self.shares_of(number)]

    def _make_share(self, occupant: int, root: int, held: AmountsByIndex) -> Share:
        ordered = sorted(held.items())
        kind = tuple(tuple(sorted(amounts.items())) for _, amounts in ordered)
        mappings = {f"_{n}": (index,) for n, (index, _) in enumerate(ordered, 1)}
        place = ChosenPlace(root, (root,), dict(ordered), mappings)
        cost = self._cost_move(held)
        self.work.go_on()
        share = Share(len(self._made), occupant, root, place, sum_slots(held), kind, cost)
        self._made[share.number] = share
        return share

    # -- who may leave --

    def may_move(self, share: Share) -> bool:
        """Return whether a share may move to another tree, now or after another part of its consumer."""
        return self._can_move(share.occupant)

    def may_leave(self, share: Share) -> bool:
        """Return whether a share may move or be removed."""
        return self.occupants[share.occupant].may_remove or self.may_move(share)

    def _can_move(self, number: int) -> bool:
        """Return whether an occupant may move and the writes of its steps can be granted."""
        occupant = self.occupants[number]
        if not occupant.may_move:
            return False
        # Each write includes everything that the consumer has, so with two parts of wrong units neither can
        # move first.
        return len(self._find_misfits(number)) < 2

    def find_blocker(self, share: Share) -> Share | None:
        """Return the part of a share's consumer that must move first, since its units are wrong now."""
        for root in self._find_misfits(share.occupant):
            if root != share.root:
                return next(s for s in self.shares_of(share.occupant) if s.root == root)
        return None

    def _find_misfits(self, number: int) -> tuple[int, ...]:
        """Return the roots of trees in which an occupant's amounts are no longer admitted.

        Amounts in unread trees count twice, since they cannot move.
        """
        occupant = self.occupants[number]
        if not self.is_spread(number):
            # Nothing of it stays when it moves.
            return ()
        if number not in self._misfits:
            parts = [*occupant.held.items(), *[(-1, occupant.elsewhere)] * 2]
            self._misfits[number] = tuple(
                root
                for root, held in parts
                if not all(starmap(self.admits, sum_slots(held).items()))
            )
        return self._misfits[number]

    def is_spread(self, number: int) -> bool:
        """Return whether an occupant has resources in more than one tree."""
        occupant = self.occupants[number]
        return len(occupant.held) > 1 or bool(occupant.elsewhere)

    def admits(self, slot: Slot, amount: int) -> bool:
        """Return whether a provider has inventory of a class that admits this amount in one allocation."""
        key = slot, amount
        if key not in self._admitted:
            index, name = slot
            held = self.cloud.find_held(index, name)
            record = None if held is None else InventoryRecord._make(held[3])
            self._admitted[key] = record is not None and record.admits(amount)
        return self._admitted[key]

    def sum_elsewhere(self, occupant: int) -> dict[Slot, int]:
        """Return the amounts of an occupant in unread trees."""
        return sum_slots(self.occupants[occupant].elsewhere)

    def cheapest(self, share: Share) -> float:
        """Return the least cost of the departure of a share; its consumer's shares divide a removal."""
        return self._cheapest(share.occupant, share.root)

    def cost_to_empty(self, root: int) -> float:
        """Return the least cost of emptying a tree; infinite if an occupant must stay."""
        self.work.go_on()
        return fsum(self._cheapest(number, root) for number in self._occupants_in.get(root, ()))

    def _cheapest(self, number: int, root: int) -> float:
        """Return the least cost of an occupant's departure from a tree; infinite if it must stay."""
        occupant = self.occupants[number]
        remove = self.costs.remove / len(occupant.held) if occupant.may_remove else inf
        return (
            min(self._cost_move(occupant.held[root]), remove) if self._can_move(number) else remove
        )

    def _cost_move(self, held: AmountsByIndex) -> float:
        per_unit = self.costs.per_unit
        if not per_unit:
            return self.costs.move
        return self.costs.move + sum(
            per_unit.get(name, 0.0) * n for amounts in held.values() for name, n in amounts.items()
        )

    @cached_property
    def cheapest_step(self) -> float:
        """Return the least cost of a step; infinite if there is no step."""
        steps = set[float]()
        for occupant in self.occupants:
            if occupant.may_move:
                steps.add(self.costs.move)
            if occupant.may_remove:
                steps.add(self.costs.remove)
        return min(steps, default=inf)

    def find_likeness(self, share: Share) -> object:
        """Return a key that is equal for shares that are interchangeable in any place."""
        occupant = self.occupants[share.occupant]
        if self.is_spread(share.occupant) or self.members.list_groups(occupant.uuid):
            return share.number
        return share.kind, occupant.may_move, occupant.may_remove

    def mark_reach(self, share: Share, gone: Collection[int] = ()) -> Mask | None:
        """Mark the providers in reach of a consumer's other resources, except its own hosts; None marks all.

        Equal answers are one object, since a pool can serve thousands of hosts.

        :param gone: numbers of its other shares that leave too.
        """
        if not self.reach.shares:
            return None
        is_pool = self.reach.is_pool(share.place.allocations)
        return self.reach.mark_apart(self.find_kept(share, gone), is_pool=is_pool)

    def find_kept(self, share: Share, gone: Collection[int] = ()) -> KeptParts:
        """Return the resources of a consumer outside a share, and outside its shares with these numbers."""
        others = [each for each in self.shares_of(share.occupant) if each is not share]
        kept = [index for s in others if s.number not in gone for index in s.place.allocations]
        return KeptParts.from_providers(
            self.cloud, [*kept, *self.occupants[share.occupant].elsewhere]
        )

    # -- room --

    def free(self, slot: Slot) -> int:
        """Return the free amount of a class on a provider; negative if the provider is overfull."""
        index, name = slot
        if index not in self._free:
            self._free[index] = {
                held[0]: held[1] - held[2] for held in self.cloud.inventories[index]
            }
        return self._free[index].get(name, 0)

    @cached_property
    def bare(self) -> Cloud:
        """The cloud without everything that may leave: a request that does not fit here never fits."""
        freed: dict[int, dict[str, int]] = {}
        for occupant in self.occupants:
            self.work.go_on()
            if occupant.may_move or occupant.may_remove:
                for held in occupant.held.values():
                    for index, amounts in held.items():
                        mine = freed.setdefault(index, {})
                        for name, amount in amounts.items():
                            mine[name] = mine.get(name, 0) - amount
        bare = self.cloud.snapshot()
        for index, amounts in freed.items():
            bare.use(index, amounts)
        return bare

    # -- places --

    def list_places(self, share: Share, most: int, work: Work) -> tuple[list[ChosenPlace], bool]:
        """Return the possible places of a share, in any tree, and whether the list is complete."""
        looked_for, found = self._places.get(share.kind, (0, ([], False)))
        if not found[1] and looked_for < most:
            found = self._search_places(self.bare, share, None, most, work)
            self._places[share.kind] = most, found
        return found

    def list_open_places(self, share: Share, most: int, work: Work) -> list[ChosenPlace]:
        """Return some places with room for a share now, in reach of its consumer's other resources."""
        places = self._search_places(self.cloud, share, self.mark_reach(share), most, work)[0]
        if self.reach.is_pool(share.place.allocations) and (hosts := self.find_kept(share).hosts):
            # The part of a pool may join its consumer's host.
            own = np.isin(self.cloud.roots, [*hosts])
            places += self._search_places(self.cloud, share, own, most, work)[0]
        return places

    def _search_places(
        self, cloud: Cloud, share: Share, among: Mask | None, most: int, work: Work
    ) -> tuple[list[ChosenPlace], bool]:
        request = replace(make_request(share.kind, among), limit=most)
        found = search(without_sharing(cloud), request, None, work)
        places = []
        for each in found:
            work.go_on()
            places.append(self._place(each.allocations, each.mappings))
        complete = found.complete and len(places) < most
        return [each for each in places if each.root not in self.closed], complete

    def _place(
        self, allocations: AmountsByIndex, mappings: Mapping[str, tuple[int, ...]]
    ) -> ChosenPlace:
        root = int(self.cloud.roots[next(iter(allocations))])
        return ChosenPlace(root, (root,), allocations, mappings)

    def list_goal_places(
        self, request: CandidateRequest, most: int, work: Work
    ) -> tuple[list[ChosenPlace], bool]:
        """Return the places where a request could fit after all departures, and whether the list is complete.

        :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
        """
        asked = replace(request, limit=most, maximum=-1, seed=None)
        found = search(self.bare, asked, self.known, work)
        places = []
        for each in found:
            work.go_on()
            root = int(self.cloud.roots[each.members[0]])
            places.append(ChosenPlace.from_candidate(self.cloud, root, each))
        return places, found.complete and len(places) < most

    # -- rules of groups --

    @cached_property
    def aggregates(self) -> dict[str, Domains]:
        """Return the aggregates of each tree that are in rules, by uuid of the root."""
        named = {uuid for rule in self.members.rules.values() for uuid in rule.of}
        found: dict[str, set[str]] = {}
        for uuid in named:
            for root in {int(r) for r in self.cloud.roots[self.cloud.in_aggregate(uuid)]}:
                found.setdefault(str(self.cloud.uuids[root]), set()).add(uuid)
        return {root: frozenset(mine) for root, mine in found.items()}

    def trees_of(
        self, places: Iterable[ChosenPlace], elsewhere: Iterable[int] = ()
    ) -> frozenset[str]:
        """Return the uuids of the roots that count for the groups of a consumer at these places.

        :param elsewhere: its providers in unread trees.
        """
        own, all_ = set(), set()
        for index in (*(each for place in places for each in place.allocations), *elsewhere):
            root = str(self.cloud.uuids[self.cloud.roots[index]])
            all_.add(root)
            if SHARING_TRAIT not in self.cloud.traits[index]:
                own.add(root)
        return frozenset(own or all_)


def count_excess(rule: GroupRule, domains: Iterable[Domains]) -> int:
    """Return the number of members that break a rule, 0 if it holds (specification 10 section 3)."""
    members = list(domains)
    counts = Counter(domain for each in members for domain in each)
    if rule.rule == "apart":
        return sum(max(0, count - rule.at_most) for count in counts.values())
    return len(members) - max(counts.values(), default=0)

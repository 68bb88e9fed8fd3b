"""The cheapest shares that must leave so that a place has room (specification 10 section 3). Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from placement.extensions.plans.planning.scene import Scene, Share, Slot, sum_slots
from placement.extensions.plans.planning.state import State
from placement.placing.wishes import ChosenPlace

MOST_TRIED = 5_000
"""The most sets that are tried for one place; then the cheapest one found is used."""

MOST_OPTIONS = 300
"""The most shares and removals of one place that are considered: a pool can serve thousands of consumers."""


@dataclass(frozen=True, slots=True)
class Departures:
    """The shares that move and the numbers of the occupants that are removed; ``cost``:

    the cost of both. ``placed``: where the request of the goal is then. ``emptied``: the roots of trees that
    take nothing any more.
    """

    moved: tuple[Share, ...] = ()
    removed: tuple[int, ...] = ()
    cost: float = 0.0
    placed: tuple[ChosenPlace, ...] = ()
    emptied: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Option:
    """An option to free room: a share moves, or its occupant is removed."""

    cost: float
    freed: Mapping[Slot, int]
    share: Share
    is_removal: bool


def find_lacking(state: State, place: ChosenPlace) -> dict[Slot, int]:
    """Return what a place lacks now."""
    state.scene.work.go_on()
    lacking = {}
    for slot, amount in sum_slots(place.allocations).items():
        missing = amount - state.free(slot)
        if missing > 0:
            lacking[slot] = missing
    return lacking


def find_part_lacking(state: State, place: ChosenPlace) -> float:
    """Return the lacking part of a place's request, summed over classes."""
    slots = sum_slots(place.allocations)
    return sum(missing / slots[slot] for slot, missing in find_lacking(state, place).items())


def bound_cost(scene: Scene, lacking: Mapping[Slot, int]) -> float:
    """Return a lower bound of the cost to free these amounts; infinite if that is impossible.

    The bound considers one slot at a time: a least number of shares must leave, and each costs at least as
    much as the cheapest.
    """
    most = 0.0
    for slot, missing in lacking.items():
        here = scene.list_amounts(slot)
        amounts = sorted((amount for amount, _ in here), reverse=True)
        count = _count_needed(list(accumulate(amounts)), missing)
        if count is None:
            return inf
        costs = sorted(cost for _, cost in here)
        most = max(most, sum(costs[:count]))
    return most


def _count_needed(sums: Sequence[int], missing: int) -> int | None:
    return next((n for n, total in enumerate(sums, 1) if total >= missing), None)


def choose_departures(state: State, lacking: Mapping[Slot, int]) -> tuple[Departures | None, bool]:
    """Return the cheapest set that frees these amounts, or None, and whether that is certain."""
    if not lacking:
        return Departures(), True
    options = _list_options(state, lacking)
    if not options:
        return None, True
    search = _Search(options[:MOST_OPTIONS], lacking)
    search.walk(0, dict(lacking), 0.0, [])
    is_certain = search.tried < MOST_TRIED and len(options) <= MOST_OPTIONS
    chosen = search.best
    if chosen is None:
        return None, is_certain
    leaving = Departures(
        tuple(option.share for option in chosen if not option.is_removal),
        tuple(option.share.occupant for option in chosen if option.is_removal),
        sum(option.cost for option in chosen),
    )
    return leaving, is_certain


def _list_options(state: State, lacking: Mapping[Slot, int]) -> list[_Option]:
    scene = state.scene
    shares: dict[int, Share] = {}
    for index, _ in lacking:
        for share in scene.on_provider(index):
            if state.place_of(share) is share.place and not lacking.keys().isdisjoint(share.slots):
                shares[share.number] = share
    options = []
    removable: set[int] = set()
    for share in shares.values():
        occupant, may_move = scene.occupants[share.occupant], scene.may_move(share)
        if may_move:
            options.append(_Option(share.cost, _sum_freed([share], lacking), share, False))
        if occupant.may_remove and share.occupant not in removable:
            removable.add(share.occupant)
            mine = scene.shares_of(share.occupant)
            if not may_move or scene.costs.remove < share.cost or len(mine) > 1:
                freed = _sum_freed(mine, lacking)
                options.append(_Option(scene.costs.remove, freed, share, True))
    # Options that free much at a low cost come first, so that a good plan is found early and bounds the rest.
    return sorted(
        options, key=lambda each: (each.cost / sum(each.freed.values()), each.share.number)
    )


def _sum_freed(shares: Iterable[Share], lacking: Mapping[Slot, int]) -> dict[Slot, int]:
    freed: dict[Slot, int] = {}
    for share in shares:
        for slot in lacking.keys() & share.slots.keys():
            freed[slot] = freed.get(slot, 0) + share.slots[slot]
    return freed


def _is_of_one(option: _Option, other: _Option) -> bool:
    """Return whether two options belong to one occupant and one of them removes it."""
    is_removal = option.is_removal or other.is_removal
    return is_removal and option.share.occupant == other.share.occupant


class _Search:
    """A branch-and-bound search that takes or skips each option, while it can still beat the best."""

    def __init__(self, options: Sequence[_Option], lacking: Mapping[Slot, int]) -> None:
        self._options, self._most = options, inf
        self.best: list[_Option] | None = None
        self.tried = 0
        self._cheapest = min(option.cost for option in options)
        self._sums = {
            slot: list(accumulate(sorted((o.freed.get(slot, 0) for o in options), reverse=True)))
            for slot in lacking
        }
        # The room that all options from each number on free together: if that is too little, the branch ends.
        self._left: list[dict[Slot, int]] = [dict.fromkeys(lacking, 0)]
        for option in reversed(options):
            last = self._left[-1]
            self._left.append({slot: n + option.freed.get(slot, 0) for slot, n in last.items()})
        self._left.reverse()

    def walk(
        self, number: int, lacking: Mapping[Slot, int], cost: float, chosen: list[_Option]
    ) -> None:
        if not lacking:
            if cost < self._most:
                self.best, self._most = list(chosen), cost
            return
        self.tried += 1
        if self.tried >= MOST_TRIED or number == len(self._options):
            return
        if any(self._left[number][slot] < missing for slot, missing in lacking.items()):
            return
        count = max(_count_needed(self._sums[slot], n) or 0 for slot, n in lacking.items())
        if cost + count * self._cheapest >= self._most:
            return
        option = self._options[number]
        if not any(_is_of_one(option, each) for each in chosen):
            left = {
                slot: missing - option.freed.get(slot, 0)
                for slot, missing in lacking.items()
                if missing > option.freed.get(slot, 0)
            }
            self.walk(number + 1, left, cost + option.cost, [*chosen, option])
        self.walk(number + 1, lacking, cost, chosen)

"""Can every slot still get a place? A matching kept up to date while slots are fixed one by one."""

from __future__ import annotations

from collections.abc import Sequence

from placement.search.bit_set import BitSet, bit_set, members


class Matching:
    """Slots matched to positions of limited capacity: a witness that all slots fit at once.

    Proof of the prune: every combination is such a matching (each slot on a position of its
    domain, no position over its capacity), so where none exists that agrees with the slots fixed
    so far, no combination does. Fixing a slot repairs the witness along one augmenting path; by
    Berge's theorem a matching exists if and only if such a path does. Releasing a slot needs no
    repair: the witness agrees with fewer fixed slots all the more.
    """

    def __init__(self, slots: Sequence[int], domains: Sequence[BitSet], capacity: Sequence[int]):
        self._domain = {slot: domains[slot] for slot in slots}
        self._capacity = capacity
        self._at: list[list[int]] = [[] for _ in capacity]
        self._match: dict[int, int] = {}
        self._fixed: set[int] = set()
        self._spare = bit_set(place for place, room in enumerate(capacity) if room > 0)
        self.possible = all(self._enter(slot) for slot in slots)

    def fix(self, slot: int, place: int) -> bool:
        """Pin the slot to the place; return False, changing nothing, if the others then fail."""
        old = self._match[slot]
        if old != place:
            self._leave(slot, old)
            if not self._spare >> place & 1 and not self._free(place):
                self._sit(slot, old)
                return False
            self._sit(slot, place)
        self._fixed.add(slot)
        return True

    def release(self, slot: int) -> None:
        """Let the slot move again."""
        self._fixed.discard(slot)

    def _enter(self, slot: int) -> bool:
        domain = self._domain[slot]
        open_places = domain & self._spare
        if not open_places:
            freed = self._augment(list(members(domain)), domain)
            if freed is None:
                return False
            self._sit(slot, freed)
            return True
        self._sit(slot, (open_places & -open_places).bit_length() - 1)
        return True

    def _free(self, place: int) -> bool:
        return self._augment([place], 1 << place) is not None

    def _augment(self, queue: list[int], seen: BitSet) -> int | None:
        """Move slots along a shortest path so that one place of the queue gets room."""
        came_from: dict[int, tuple[int, int]] = {}
        for place in queue:
            for slot in self._at[place]:
                if slot in self._fixed:
                    continue
                options = self._domain[slot] & ~seen
                open_places = options & self._spare
                if open_places:
                    goal = (open_places & -open_places).bit_length() - 1
                    return self._shift(slot, place, goal, came_from)
                seen |= options
                for option in members(options):
                    came_from[option] = (place, slot)
                    queue.append(option)
        return None

    def _shift(
        self, slot: int, place: int, goal: int, came_from: dict[int, tuple[int, int]]
    ) -> int:
        while True:
            self._leave(slot, place)
            self._sit(slot, goal)
            if place not in came_from:
                return place
            goal = place
            place, slot = came_from[place]

    def _sit(self, slot: int, place: int) -> None:
        self._match[slot] = place
        at = self._at[place]
        at.append(slot)
        if len(at) >= self._capacity[place]:
            self._spare &= ~(1 << place)

    def _leave(self, slot: int, place: int) -> None:
        self._at[place].remove(slot)
        self._spare |= 1 << place

"""The question at one anchor, without names (specification 04 sections 5.4 to 5.6).

An ``AssignmentProblem`` has positions instead of providers, and rooms cut to the requested amounts, so that
similar anchors share one. Small sets of slots, positions or demands are bits of one number.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import perm, prod

from placement.search.work import FIRST_PATIENCE, PATIENCE_SHARE, Work

BitSet = int
"""A bit set: bit n is set if n is a member; ``a & ~b`` is the difference, ``a >> n & 1`` a membership."""

SlotDomains = tuple[BitSet, ...]
"""The positions that may take a slot, by slot."""

Solution = tuple[int, ...]
"""The position that takes a slot, by slot."""


def members(bits: BitSet) -> Iterator[int]:
    """Yield the members, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def bit_set(numbers: Iterable[int]) -> BitSet:
    """Return the set of these distinct numbers."""
    return sum(1 << number for number in numbers)


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of the question that is equal at every anchor of a request.

    ``amounts``: the amounts by slot. ``granular``: the slots that are suffixed groups; the others are the
    classes of the unsuffixed group. ``subtrees``: sets of slots. ``demands``: bit set of the trait demands
    that the unsuffixed slots meet together.
    """

    amounts: tuple[Mapping[str, int], ...]
    granular: frozenset[int]
    isolate: bool = False
    subtrees: tuple[tuple[int, ...], ...] = ()
    demands: BitSet = 0
    one_provider_per_tree: bool = False

    @property
    def contested(self) -> dict[str, int]:
        """The classes that two or more slots request, with the total; other classes need no sums."""
        totals: dict[str, list[int]] = {}
        for amounts in self.amounts:
            for name, amount in amounts.items():
                totals.setdefault(name, []).append(amount)
        return {name: sum(parts) for name, parts in totals.items() if len(parts) > 1}


@dataclass(frozen=True, slots=True)
class ReachableProvider:
    """One provider as seen from an anchor.

    ``slots``: bit set of the slots that fit by themselves. ``rooms``: the room for each contested class, cut
    to the requested total. ``meets``: bit set of the met trait demands. ``tree``: a number that is equal for
    places of one tree. ``parent``: the position of the nearest ancestor among the places, which precedes this
    one, or -1.
    """

    slots: BitSet
    rooms: tuple[int, ...] = ()
    meets: BitSet = 0
    shared: bool = False
    tree: int = 0
    parent: int = -1


@dataclass(slots=True)
class AssignmentProblem:
    """The question of one kind of anchor: which slot goes to which place, named by its position.

    ``own``: the positions in the anchor's own tree if at least one slot must be there, otherwise 0. ``idle``:
    the placements tried since the last solution; at ``patience`` the problem is set aside, or at
    ``later_patience`` once it has a solution. ``dead``: states without a solution, kept from one kind of
    anchor to the next.
    """

    rules: Rules
    places: Sequence[ReachableProvider]
    work: Work
    shuffler: random.Random | None = None
    own: BitSet = 0
    dead: set[object] = field(default_factory=set)
    domains: SlotDomains = field(init=False)
    given_up: bool = field(init=False, default=False)
    patience: int = field(init=False)
    later_patience: int = field(init=False)
    idle: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.later_patience = self.work.limit // PATIENCE_SHARE
        self.patience = min(self.later_patience, FIRST_PATIENCE)
        self.domains = tuple(
            bit_set(p for p, place in enumerate(self.places) if place.slots >> slot & 1)
            for slot in range(len(self.rules.amounts))
        )

    def spend(self, cost: int = 1) -> bool:
        """Count placements; return False if the problem must be given up."""
        # Every placement calls this, which is mostly only the comparison.
        self.idle += cost
        work = self.work
        work.done += cost
        if work.done < work.check_at and self.idle <= self.patience:
            return True
        if not self.given_up:
            if not self.work.may_go_on():
                self.given_up = True
            elif self.idle > self.patience:
                self.given_up = True
                self.work.set_aside += 1
        if self.given_up:
            # The next call then reaches this line again, and also returns False.
            self.patience = -1
        return not self.given_up

    def take_up(self) -> bool:
        """Continue after the problem was set aside; return False if it was not, or the budget is spent."""
        if not self.given_up or self.work.is_over:
            return False
        self.work.set_aside -= 1
        # This tree may use the rest of the work, since every other tree has been tried.
        self.given_up, self.idle, self.patience = False, 0, self.work.limit
        return True

    def in_some_order(self, positions: BitSet) -> list[int]:
        """Return the positions ascending, or shuffled if the request has a seed."""
        in_order = list(members(positions))
        if self.shuffler is not None:
            self.shuffler.shuffle(in_order)
        return in_order

    @property
    def sharers_may_serve_all(self) -> bool:
        """Return whether sharing providers alone can serve every slot, which two anchors can find (5.2)."""
        shared = bit_set(p for p, place in enumerate(self.places) if place.shared)
        # Each combination then uses a place of the tree that does not share.
        if self.own and not self.own & shared:
            return False
        return all(domain & shared for domain in self.domains)

    @property
    def exact_count(self) -> int | None:
        """The number of combinations by a formula, None if they must be counted.

        The formula is the product of the choices; but g granular groups under isolate that share m places
        give m!/(m-g)!.
        """
        rules = self.rules
        if self.own or rules.subtrees or rules.demands or rules.one_provider_per_tree:
            return None
        alone = rules.granular if rules.isolate and len(rules.granular) > 1 else frozenset()
        if len({self.domains[slot] for slot in alone}) > 1 or not self._rooms_suffice(alone):
            return None
        free = prod(d.bit_count() for s, d in enumerate(self.domains) if s not in alone)
        if not alone:
            return free
        return free * perm(self.domains[min(alone)].bit_count(), len(alone))

    def _rooms_suffice(self, alone: frozenset[int]) -> bool:
        """Return whether no place can be overfilled; slots of ``alone`` never share a place."""
        for column, (name, total) in enumerate(self.rules.contested.items()):
            slots = {s for s, amounts in enumerate(self.rules.amounts) if name in amounts}
            if slots <= alone:
                continue
            places = {p for slot in slots for p in members(self.domains[slot])}
            if any(self.places[p].rooms[column] < total for p in places):
                return False
        return True

"""The values of planning: the question and the answer (specification 10). Pure.

Trees are named by the provider indexes of their roots, consumers by their numbers in a list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from placement.placing.members import AmountsByIndex
from placement.placing.wishes import ChosenPlace
from placement.search.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Occupant:
    """A consumer that is an obstacle, or may be one.

    ``held``: amounts by class, by provider index, by root of the tree. ``may_move``: its resources in one
    tree may move to another tree. ``may_remove``: it may be removed. ``elsewhere``: its resources in unread
    trees, which stay there.
    """

    uuid: str
    held: Mapping[int, AmountsByIndex]
    may_move: bool = True
    may_remove: bool = False
    elsewhere: AmountsByIndex = field(default_factory=dict)


# -- goals ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
    """The goal that a request fits a number of times, all at once."""

    request: CandidateRequest
    times: int = 1


@dataclass(frozen=True, slots=True)
class Empty:
    """The goal that ``count`` of these domains, each the roots of some trees, are empty and stay empty."""

    domains: Sequence[Sequence[int]]
    count: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The goal that the rules of the groups with these names hold."""

    groups: Sequence[str]


Goal = Fit | Empty | Keep


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of steps. ``per_unit``: by class, the additional cost of each unit that moves."""

    move: float = 1.0
    remove: float = 10.0
    per_unit: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a plan must keep.

    ``most``: the number of steps. ``all_at_once``: all destinations must have room together while nothing has
    left yet, so that they can be held. ``closed``: the roots of trees that are not destinations.
    """

    most: float = inf
    all_at_once: bool = False
    closed: frozenset[int] = frozenset()


ROUNDING = 1e-9
"""The relative difference below which costs are equal: they are sums of floats in different orders."""


def reaches(bound: float, cost: float) -> bool:
    """Return whether a bound reaches a cost of any order of magnitude, within rounding."""
    return bound >= cost * (1 - ROUNDING)


# -- plans ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The move of an occupant's holdings in the tree ``root`` to a place in another tree.

    ``goes``: the destination provider by source provider.
    """

    occupant: int
    root: int
    place: ChosenPlace
    goes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """The removal of all resources of an occupant."""

    occupant: int


Step = MoveStep | RemovalStep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps after which the goal holds, in an order that works.

    ``lower_bound``: no plan costs less. ``complete``: false if the time ended during the search for a cheaper
    one. ``placed``: for the goal :class:`Fit`, the places of the request afterwards; ``emptied``: for
    :class:`Empty`, the numbers of the domains.
    """

    steps: Sequence[Step]
    cost: float
    lower_bound: float
    complete: bool
    placed: Sequence[ChosenPlace] = ()
    emptied: Sequence[int] = ()

    @property
    def minimal(self) -> bool:
        """Whether it is certain that no plan costs less."""
        return reaches(self.lower_bound, self.cost)


@dataclass(frozen=True, slots=True)
class NoPlan:
    """The answer that no plan was found. ``exact``: it is certain that none exists.

    ``timed_out``: the time ended during the search. ``staying``: for the goal :class:`Empty`, the numbers of
    occupants that cannot leave. ``groups``: the names of groups whose rules were obstacles. ``fewest_steps``:
    the least number of steps of any plan if it exceeds the allowed number, otherwise 0.
    """

    exact: bool
    timed_out: bool = False
    staying: Sequence[int] = ()
    groups: Sequence[str] = ()
    fewest_steps: int = 0

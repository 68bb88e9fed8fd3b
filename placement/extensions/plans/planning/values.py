"""The question and the answer of planning: its values (specification 10). Pure.

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
    """A consumer that stands in the way, or may.

    ``held``: by root of a tree, what it has there: amounts by class, by provider index. ``may_move``: what it
    has in one tree may go to another tree. ``may_remove``: it may give back all that it has. ``elsewhere``:
    what it has in trees that were not read, which stays there.
    """

    uuid: str
    held: Mapping[int, AmountsByIndex]
    may_move: bool = True
    may_remove: bool = False
    elsewhere: AmountsByIndex = field(default_factory=dict)


# -- goals ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
    """A request fits so many times, all at once."""

    request: CandidateRequest
    times: int = 1


@dataclass(frozen=True, slots=True)
class Empty:
    """The goal that ``count`` of these domains, each the roots of some trees, hold and take nothing."""

    domains: Sequence[Sequence[int]]
    count: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The rules of the groups of these names hold."""

    groups: Sequence[str]


Goal = Fit | Empty | Keep


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of steps. ``per_unit``: by class, the further cost of a move for each unit that moves."""

    move: float = 1.0
    remove: float = 10.0
    per_unit: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a plan must keep.

    ``most``: steps. ``all_at_once``: all destinations have room together while nothing has left yet, so that
    they can be held. ``closed``: roots of trees that nothing moves to.
    """

    most: float = inf
    all_at_once: bool = False
    closed: frozenset[int] = frozenset()


ROUNDING = 1e-9
"""Costs that differ by so small a part are equal: they are sums of floats, in orders of their own."""


def reaches(bound: float, cost: float) -> bool:
    """Return whether a bound is as high as a cost, which may be of any order of magnitude."""
    return bound >= cost * (1 - ROUNDING)


# -- plans ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The move of an occupant's holdings in the tree ``root`` to a place in another tree.

    ``goes``: by each provider that it leaves, the one that takes it.
    """

    occupant: int
    root: int
    place: ChosenPlace
    goes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """An occupant gives back all that it has."""

    occupant: int


Step = MoveStep | RemovalStep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps after which the goal holds, in an order that works.

    ``lower_bound``: no plan costs less. ``complete``: false if the search for a cheaper one ended for want of
    time. ``placed``: of the goal :class:`Fit` where the request then fits; ``emptied``: of :class:`Empty` the
    numbers of the domains.
    """

    steps: Sequence[Step]
    cost: float
    lower_bound: float
    complete: bool
    placed: Sequence[ChosenPlace] = ()
    emptied: Sequence[int] = ()

    @property
    def minimal(self) -> bool:
        """Whether no plan costs less for certain."""
        return reaches(self.lower_bound, self.cost)


@dataclass(frozen=True, slots=True)
class NoPlan:
    """The answer that no plan was found. ``exact``: there is none.

    ``timed_out``: the search ended for want of time. ``staying``: of the goal :class:`Empty`, numbers of
    occupants that cannot leave. ``groups``: names of those whose rules were in the way. ``fewest_steps``: of
    any plan, if these are more than are allowed, else 0.
    """

    exact: bool
    timed_out: bool = False
    staying: Sequence[int] = ()
    groups: Sequence[str] = ()
    fewest_steps: int = 0

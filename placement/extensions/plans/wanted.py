"""The question and the answer of plans: the values that the modules of plans pass on (10)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from placement.extensions.plans.planning.values import Costs
from placement.placing.explain import Explanation
from placement.placing.remedies import RelaxableRequest

# -- what is asked -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FitWanted:
    """A request is to fit so many times, all at once."""

    asked: RelaxableRequest
    times: int = 1


@dataclass(frozen=True, slots=True)
class EmptyWanted:
    """Domains are to be empty: ``count`` of those that are named.

    ``uuids``: providers of trees, or aggregates, each once; None for all. ``count``: None for all of them.
    """

    level: Literal["tree", "aggregate"]
    uuids: Sequence[str] | None
    count: int | None


@dataclass(frozen=True, slots=True)
class KeepWanted:
    """The rules of groups are to hold."""

    groups: Sequence[str]


GoalWanted = FitWanted | EmptyWanted | KeepWanted


@dataclass(frozen=True, slots=True)
class Removable:
    """The consumers that may be removed; None for any type, or any project. None among types: without one."""

    types: frozenset[str | None] | None = None
    projects: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """The consumers that a plan may touch, and where it may bring them.

    ``move_types``: None for all but ``MIGRATION``; a member None is for consumers without a type.
    ``untouched``: consumers that stay as they are. ``not_to``: providers to whose trees nothing moves.
    ``most``: steps. ``removable``: None for no consumer.
    """

    move_types: frozenset[str | None] | None = None
    untouched: frozenset[str] = frozenset()
    not_to: frozenset[str] = frozenset()
    most: float = inf
    removable: Removable | None = None

    def lets_move(self, type_: str | None) -> bool:
        """Return whether consumers of a type may be moved."""
        if self.move_types is None:
            return type_ != MIGRATION
        return type_ in self.move_types

    def lets_remove(self, type_: str | None, project: str | None) -> bool:
        """Return whether such a consumer may be removed."""
        removable = self.removable
        return (
            removable is not None
            and (removable.types is None or type_ in removable.types)
            and (removable.projects is None or project in removable.projects)
        )


MIGRATION = "MIGRATION"
"""The type of consumers that hold room for another one, in Nova too."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A plan as it is asked for.

    ``avoid``: traits; nothing moves to a tree whose root has one. A request that is to fit says so itself.
    ``hold_s``: for how long the destinations are held; None: not at all.
    """

    goal: GoalWanted
    permission: Permission = field(default_factory=Permission)
    costs: Costs = field(default_factory=Costs)
    avoid: frozenset[str] = frozenset()
    hold_s: int | None = None


# -- what is answered ----------------------------------------------------------------------------

Held = Mapping[str, Mapping[str, int]]
"""Amounts by class, by uuid of the provider."""


class Ownership(NamedTuple):
    """The members of a write of a consumer beside its allocations. ``type``: None if it has none."""

    project: str
    user: str
    type: str | None


@dataclass(frozen=True, slots=True)
class PlaceShown:
    """A place by uuids."""

    allocations: Held
    mappings: Mapping[str, Sequence[str]]
    root_uuid: str


@dataclass(frozen=True, slots=True)
class ConsumerNow:
    """A consumer with the generation to send next."""

    uuid: str
    generation: int


@dataclass(frozen=True, slots=True)
class MoveShown:
    """A move: ``left`` is what leaves, ``after`` where all is after it that the consumer has.

    ``held_by``: the consumer that holds the destination.
    """

    consumer: ConsumerNow
    owner: Ownership
    left: Held
    after: Held
    place: PlaceShown
    held_by: ConsumerNow | None = None


@dataclass(frozen=True, slots=True)
class RemovalShown:
    """A consumer gives back all that it has, ``left``."""

    consumer: ConsumerNow
    owner: Ownership
    left: Held


StepShown = MoveShown | RemovalShown


@dataclass(frozen=True, slots=True)
class PlanShown:
    """A plan by uuids.

    ``avoided``: how many trees take nothing new. ``placed``, ``emptied``: None where the goal is another one.
    ``expires_at``: until when the destinations are held, in milliseconds since the epoch.
    """

    steps: Sequence[StepShown]
    cost: float
    lower_bound: float
    minimal: bool
    complete: bool
    avoided: int
    placed: Sequence[PlaceShown] | None = None
    emptied: Sequence[str] | None = None
    expires_at: int | None = None


class StayingShown(NamedTuple):
    """A consumer that cannot leave, with what it has in the trees that are to be empty."""

    uuid: str
    owner: Ownership
    held: Held


@dataclass(frozen=True, slots=True)
class NoPlanShown:
    """The answer without a plan. ``stuck``: of trees to be empty. ``explanation``: of a request to fit.

    ``avoided``: how many trees take nothing new. ``domains``: how many there are, if more are to be empty.
    ``most``: steps that were allowed; ``fewest``: of any plan, if these are more, else 0.
    """

    exact: bool
    groups: Sequence[str]
    avoided: int
    stuck: Sequence[StayingShown] | None = None
    explanation: tuple[RelaxableRequest, Explanation] | None = None
    domains: int | None = None
    most: float = inf
    fewest: int = 0

"""The values that the modules of plans pass to each other: the question and the answer (10)."""

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
    """The wanted goal that a request fits a number of times, all at once."""

    asked: RelaxableRequest
    times: int = 1


@dataclass(frozen=True, slots=True)
class EmptyWanted:
    """The wanted goal that ``count`` of the named domains are empty. ``uuids``:

    providers of trees, or aggregates, each once; None means all. ``count``: None means all of them.
    """

    level: Literal["tree", "aggregate"]
    uuids: Sequence[str] | None
    count: int | None


@dataclass(frozen=True, slots=True)
class KeepWanted:
    """The wanted goal that the rules of groups hold."""

    groups: Sequence[str]


GoalWanted = FitWanted | EmptyWanted | KeepWanted


@dataclass(frozen=True, slots=True)
class Removable:
    """The consumers that may be removed; None allows any type or project. A type None means no type."""

    types: frozenset[str | None] | None = None
    projects: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """The consumers that a plan may change, and their possible destinations.

    ``move_types``: None means all types but ``MIGRATION``; a member None stands for consumers without a type.
    ``untouched``: consumers that must stay. ``not_to``: providers whose trees are not destinations. ``most``:
    the number of steps. ``removable``: None means no consumer.
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
        """Return whether a consumer of this type and project may be removed."""
        removable = self.removable
        return (
            removable is not None
            and (removable.types is None or type_ in removable.types)
            and (removable.projects is None or project in removable.projects)
        )


MIGRATION = "MIGRATION"
"""The type of consumers that hold room for another consumer, in Nova too."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A plan as requested.

    ``avoid``: traits; a tree whose root has one is not a destination. A request to fit has its own ``avoid``.
    ``hold_s``: the duration of the holds on destinations; None makes no holds.
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
    """The members of a consumer's write other than its allocations. ``type``: None without a type."""

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
    """A move: ``left`` leaves; ``after`` is everything that the consumer has afterwards.

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
    """The removal of all resources of a consumer, ``left``."""

    consumer: ConsumerNow
    owner: Ownership
    left: Held


StepShown = MoveShown | RemovalShown


@dataclass(frozen=True, slots=True)
class PlanShown:
    """A plan by uuids.

    ``avoided``: the number of avoided trees. ``placed``, ``emptied``: None for other goals. ``expires_at``:
    the end of the holds on destinations, in milliseconds since the epoch.
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
    """A consumer that cannot leave, with its resources in the trees to empty."""

    uuid: str
    owner: Ownership
    held: Held


@dataclass(frozen=True, slots=True)
class NoPlanShown:
    """The answer without a plan.

    ``stuck``: the consumers that cannot leave trees to empty. ``explanation``: the explanation of a request
    to fit. ``avoided``: the number of avoided trees. ``domains``: the number of domains if more are to be
    empty. ``most``: the allowed number of steps; ``fewest``: the least number of any plan if it is larger,
    otherwise 0.
    """

    exact: bool
    groups: Sequence[str]
    avoided: int
    stuck: Sequence[StayingShown] | None = None
    explanation: tuple[RelaxableRequest, Explanation] | None = None
    domains: int | None = None
    most: float = inf
    fewest: int = 0

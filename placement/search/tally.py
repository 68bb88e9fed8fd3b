"""The tally counts what every test removed, which answers "why is there no candidate?"."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from placement.search.index_set import Mask

ANY_OF = " or "
"""The text between alternative names in a step's subject."""


class _Explained(StrEnum):
    """Constants with a sentence that explains each."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> _Explained:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class Reason(_Explained):
    """The tests of a search. The names never change: clients and operators compare them."""

    ROOT_REQUIRED = (
        "ROOT_REQUIRED",
        "The root lacks the trait that ``root_required`` wants.",
    )
    ROOT_FORBIDDEN = (
        "ROOT_FORBIDDEN",
        "The root has a trait that ``root_required`` forbids.",
    )
    AVOIDED = (
        "AVOIDED",
        "The root has a trait of ``[insight]/avoid``: the tree takes nothing new.",
    )
    CAPACITY = (
        "CAPACITY",
        "Not enough of the class is free, or the amount is outside ``min_unit``, ``max_unit``, "
        "``step_size``. Compare the provider's inventory with its usages. All providers without "
        "inventory of the class count here too.",
    )
    IN_TREE = (
        "IN_TREE",
        "The provider is in another tree than the one that ``in_tree`` asks for.",
    )
    ALL_CLASSES = (
        "ALL_CLASSES",
        "The provider cannot give this class. A group with a suffix needs all its classes from "
        "*one* provider.",
    )
    REQUIRED_TRAITS = (
        "REQUIRED_TRAITS",
        "The provider lacks the trait, or all of those that would do. In the group without suffix "
        "the traits may be on any of the providers that take part: with several classes the step "
        "counts trees.",
    )
    FORBIDDEN_TRAITS = (
        "FORBIDDEN_TRAITS",
        "The provider has a trait that is not wanted.",
    )
    MEMBER_OF = (
        "MEMBER_OF",
        "The provider is not in the aggregates. In the group without suffix it is enough that its "
        "root is.",
    )
    NOT_MEMBER_OF = (
        "NOT_MEMBER_OF",
        "The provider is in an aggregate that is not wanted. Counted in trees: its root is.",
    )
    NO_DEMAND = (
        "NO_DEMAND",
        "The group has no resources and wants nothing, and so matches no provider.",
    )
    NO_CHOICE = (
        "NO_CHOICE",
        "Neither in the tree nor among the providers that share with it is one left for this group.",
    )
    OTHER_GROUPS = (
        "OTHER_GROUPS",
        "The tree has a choice for this group, and none for an earlier one.",
    )


class Stop(_Explained):
    """The reason why a search ended without a candidate."""

    NO_ROOT = ("NO_ROOT", "No root has the traits that ``root_required`` asks for.")
    NO_MEMBER = ("NO_MEMBER", "No provider is in the wanted aggregates of the group.")
    NO_TREE = ("NO_TREE", "``in_tree`` of the group names no provider.")
    NO_CAPACITY = ("NO_CAPACITY", "No provider can give what the group asks of this class.")
    NO_CHOICE = ("NO_CHOICE", "No tree has a choice for this group.")
    NO_COMMON_TREE = (
        "NO_COMMON_TREE",
        "Each group has a choice, but no tree has one for every group.",
    )
    NO_COMBINATION = (
        "NO_COMBINATION",
        "Each group has a choice, but not together: ``group_policy=isolate``, ``same_subtree``, or "
        "the sum of several groups on one provider.",
    )
    WORK_LIMIT = (
        "WORK_LIMIT",
        "The search tried as many placements as one may, or reached ``[api]/search_deadline``, and gave up. "
        "A WARNING in the log says how many it tried. Ask for fewer groups.",
    )


class Unit(StrEnum):
    """The unit in which a test counts."""

    PROVIDERS = "providers"
    TREES = "trees"


class Step(NamedTuple):
    """One test, the group it belongs to ("" unsuffixed, None the whole request), and its effect.

    ``subject``: the trait (several alternatives are joined by " or "), otherwise the resource class whose
    providers were tested, otherwise None. ``removed``: the providers, or roots of trees, that the test
    removed; None unless the search is explained.
    """

    group: str | None
    test: Reason
    subject: str | None
    unit: Unit
    before: int
    left: int
    removed: Mask | None = None

    def __str__(self) -> str:
        name = _describe(self.group, self.test, self.subject)
        unit = " (trees)" if self.unit is Unit.TREES else ""
        return f"{name}{unit}: {self.before - self.left} removed, {self.left} left"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a search, with its group and resource class, if any."""

    why: Stop
    group: str | None = None
    subject: str | None = None

    def __str__(self) -> str:
        return _describe(self.group, self.why, self.subject)


@dataclass(slots=True)
class Tally:
    """The tests in the order in which they ran, and the reason why the search ended without a candidate.

    With ``explain`` each step also keeps the providers or trees that it removed.
    """

    explain: bool = False
    steps: list[Step] = field(default_factory=list)
    stopped: Stopped | None = None

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        if self.stopped:
            lines.append(f"stopped: {self.stopped}")
        return "; ".join(lines)


class Funnel:
    """A mask that tests make smaller one by one; the tally counts each."""

    __slots__ = ("_count", "_group", "_tally", "_unit", "mask")

    def __init__(
        self, tally: Tally, group: str | None, unit: Unit, mask: Mask, count: int | None = None
    ) -> None:
        """Begin with a mask, which is not changed; ``count``: the number of its members, if known."""
        self.mask = mask
        self._tally, self._group, self._unit = tally, group, unit
        self._count = int(np.count_nonzero(mask)) if count is None else count

    def __bool__(self) -> bool:
        return self._count > 0

    def keep(self, test: Reason, subject: str | None, passed: Mask) -> None:
        """Remove the members that fail the test."""
        mask: Mask = self.mask & passed
        left = int(np.count_nonzero(mask))
        removed = self.mask & ~mask if self._tally.explain else None
        self._tally.steps.append(
            Step(self._group, test, subject, self._unit, self._count, left, removed)
        )
        self.mask, self._count = mask, left


def _describe(group: str | None, constant: str, subject: str | None) -> str:
    scope = "request" if group is None else f"group '{group}'"
    return f"{scope}: {constant}" + (f" {subject}" if subject else "")

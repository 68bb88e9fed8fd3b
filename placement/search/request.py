"""The parsed question of GET /allocation_candidates (contract 04, sections 3 and 5.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Strategy = Literal["depth-first", "breadth-first"]


class UnknownName(Exception):
    """A name in the request exists neither in the cloud nor outside it (section 5.8)."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnknownTrait(UnknownName):
    """The request names a trait that does not exist (check K3)."""


class UnknownClass(UnknownName):
    """The request names a resource class that does not exist (check K4)."""


@dataclass(frozen=True, slots=True)
class Group:
    """One request group; the suffix "" is the unsuffixed group, all others are granular.

    ``required`` and ``member_of`` are conjunctions of any-of sets: a plain required trait is a set
    of one. ``in_tree`` is the uuid of any provider of the wanted tree.
    """

    suffix: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """Groups in query order and the rules that bind them all.

    ``maximum`` below zero means no bound, 0 acts as 1. A ``seed`` asks for a random selection and
    order. ``one_provider_per_tree`` is the rule for microversions before 1.29 (section 5.7).
    """

    groups: tuple[Group, ...]
    isolate: bool = False
    same_subtrees: tuple[frozenset[str], ...] = ()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    limit: int | None = None
    maximum: int = -1
    strategy: Strategy = "depth-first"
    seed: int | None = None
    one_provider_per_tree: bool = False

    @property
    def bound(self) -> int | None:
        """Number of candidates that may survive generation, or None (section 6.2)."""
        return None if self.maximum < 0 else max(self.maximum, 1)

"""The parsed question of GET /allocation_candidates (specification 04 sections 3 and 5.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from placement.search.index_set import Mask

GenerationStrategy = Literal["depth-first", "breadth-first"]


@dataclass(frozen=True, slots=True)
class NameSets:
    """Names of traits and of resource classes."""

    traits: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()

    @classmethod
    def in_requests(cls, requests: Iterable[CandidateRequest]) -> NameSets:
        """Return all names that the requests mention."""
        mentioned = [request.names for request in requests]
        return cls(
            frozenset().union(*(names.traits for names in mentioned)),
            frozenset().union(*(names.classes for names in mentioned)),
        )


class UnknownName(Exception):
    """A name in the request exists neither in the cloud nor outside it (section 5.8)."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnknownTraitName(UnknownName):
    """The request names a trait that does not exist (check K3)."""


class UnknownClassName(UnknownName):
    """The request names a resource class that does not exist (check K4)."""


@dataclass(frozen=True, slots=True)
class Group:
    """One request group; the suffix "" is the unsuffixed group, all others are granular.

    ``required`` and ``member_of`` are conjunctions of any-of sets. ``in_tree`` is the uuid of any provider of
    the wanted tree. ``among``: the providers of the cloud that may serve it, None for all; no query sets it,
    but the kept parts of a consumer do (:mod:`placement.placing.reach`).
    """

    suffix: str
    amounts: Mapping[str, int] = field(default_factory=dict)
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None
    among: Mask | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """Groups in query order and the rules that bind them all.

    ``maximum`` below zero means no bound, 0 acts as 1. A ``seed`` asks for a random selection and order.
    ``start``, any number of 64 bits, decides where in the order of the trees the search begins and with which
    stride it continues; None begins at the first tree with stride one; a seed overrides it.
    ``one_provider_per_tree``: the rule before 1.29 (section 5.7). ``anchor``: uuid of the only root to
    search, None for all. ``avoid``: traits; trees whose root has one give nothing, directly or by sharing (07
    section 1.1). No query sets it.
    """

    groups: tuple[Group, ...]
    isolate: bool = False
    same_subtrees: tuple[frozenset[str], ...] = ()
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    limit: int | None = None
    maximum: int = -1
    strategy: GenerationStrategy = "depth-first"
    seed: int | None = None
    start: int | None = None
    one_provider_per_tree: bool = False
    anchor: str | None = None
    avoid: frozenset[str] = frozenset()

    def avoiding(self, traits: frozenset[str]) -> CandidateRequest:
        """Return the request with these traits to avoid, except the traits that it requires."""
        required = self.root_required.union(
            *(names for group in self.groups for names in group.required)
        )
        return replace(self, avoid=traits - required)

    @property
    def only_tree(self) -> str | None:
        """The uuid of a provider whose tree has all candidates, if the request alone shows that.

        ``in_tree`` of the unsuffixed group excludes other trees (section 5.5), but for that group only.
        """
        if len(self.groups) > 1 or self.groups[0].suffix or not self.groups[0].amounts:
            return None
        return self.groups[0].in_tree

    @property
    def names(self) -> NameSets:
        """All names that the request mentions."""
        return NameSets(
            self.root_required.union(
                self.root_forbidden,
                *(group.forbidden for group in self.groups),
                *(names for group in self.groups for names in group.required),
            ),
            frozenset(name for group in self.groups for name in group.amounts),
        )

    @property
    def amounts(self) -> Counter[str]:
        """Return the amounts that all groups ask for together, by class."""
        asked: Counter[str] = Counter()
        for group in self.groups:
            asked.update(group.amounts)
        return asked

    @property
    def bound(self) -> int | None:
        """The number of candidates that may survive generation, or None (section 6.2)."""
        return None if self.maximum < 0 else max(self.maximum, 1)

"""The values of choosing: wishes to place, and their places (09 section 3). Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from placement.search.candidate import Candidate
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import Domains, GroupRule
from placement.search.request import CandidateRequest

Likeness = tuple[int, tuple[str, ...], tuple[int, ...]]
"""The number of the first wish with the same request, groups, and roots of further trees."""


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """A claim to place. Equal requests are one object.

    ``stays``: the roots of its further trees for the rules of its groups, independent of its place.
    """

    request: CandidateRequest
    groups: tuple[str, ...] = ()
    stays: tuple[int, ...] = ()


class WishList:
    """Wishes by number, with groups of equal ones.

    ``alike``: the numbers of wishes with equal requests, by the first of them.
    """

    def __init__(self, wishes: Sequence[Wish]) -> None:
        self.wishes = wishes
        # The queries are compared by identity: claims in one request with one query share its parsed request.
        firsts: dict[int, int] = {}
        self._first_alike = [
            firsts.setdefault(id(wish.request), number) for number, wish in enumerate(wishes)
        ]
        self.alike: dict[int, list[int]] = {}
        for number, first in enumerate(self._first_alike):
            self.alike.setdefault(first, []).append(number)

    @cached_property
    def asked(self) -> Counter[str]:
        """Return the amounts that all wishes ask for together, by class."""
        return sum((wish.request.amounts for wish in self.wishes), Counter())

    def __len__(self) -> int:
        return len(self.wishes)

    def __getitem__(self, number: int) -> Wish:
        return self.wishes[number]

    def first_alike(self, number: int) -> int:
        """Return the number of the first wish with an equal request."""
        return self._first_alike[number]

    def likeness(self, number: int) -> Likeness:
        """Return a key that is equal for interchangeable wishes."""
        wish = self.wishes[number]
        return self._first_alike[number], wish.groups, wish.stays


class ChosenPlace(NamedTuple):
    """The place of a wish, by provider indexes: the root of its tree, amounts by class, providers by group.

    ``trees``: the roots that count for groups (:func:`placement.search.group_rules.domains_by_member`).
    """

    root: int
    trees: tuple[int, ...]
    allocations: Mapping[int, Mapping[str, int]]
    mappings: Mapping[str, tuple[int, ...]]

    @classmethod
    def from_candidate(cls, cloud: Cloud, root: int, candidate: Candidate) -> "ChosenPlace":
        """Return the place that a candidate of a tree describes."""
        allocations = candidate.allocations
        own = {int(cloud.roots[i]) for i in allocations if SHARING_TRAIT not in cloud.traits[i]}
        trees = own or {int(cloud.roots[index]) for index in allocations}
        return cls(root, tuple(trees), allocations, candidate.mappings)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as it was read, with the domains of its members.

    ``aggregates``: the tree's aggregates that are in the rule, by uuid of the root.
    """

    rule: GroupRule
    members: Sequence[Domains] = ()
    aggregates: Mapping[str, Domains] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoPlace:
    """The wish that could not be placed, on a cloud with the wishes that were placed before.

    ``exact``: it is certain that not all can be placed. ``kept_out``: the groups whose rules excluded trees.
    ``timed_out``: the time ended, so that another wish may be the real obstacle.
    """

    number: int
    cloud: Cloud
    exact: bool
    kept_out: tuple[str, ...] = ()
    timed_out: bool = False

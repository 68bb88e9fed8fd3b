"""The filters: the conditions that a group, or the request, may set for providers.

``FILTERS`` and ``ROOT_FILTERS`` serve the search, the counts of what stops the next placement, explanations,
and the parsing of the query. The conditions are those of specification 04 sections 5.3 to 5.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import numpy as np

from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.index_set import Mask
from placement.search.request import CandidateRequest, Group
from placement.search.tally import ANY_OF, Reason, Stop

Asker = TypeVar("Asker", Group, CandidateRequest)


class Scope(Enum):
    """The providers of the unsuffixed group that must meet a condition (section 5.5), in order of steps."""

    EACH = "each provider"
    EACH_AND_ROOT = "each provider and the root"
    """The scope of every provider, and the root of the tree."""
    SOME = "some provider"
    """The scope in which one provider is enough: only a combination can decide if there are several."""
    EACH_OR_ROOT = "each provider or its root"
    """The scope of every provider; in the anchor's own tree the root alone suffices."""
    TREE = "the tree"
    """The scope of every provider, without sharing providers of other trees. Tested with the amounts."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A kind of property with names: the providers of a name, and the names of a provider."""

    members: Callable[[Cloud, str], Mask]
    names: Callable[[Cloud, int], Iterable[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Generic[Asker]):
    """One kind of condition that a query can set.

    ``parameter``: the name of the parameter without suffix. ``asked``: the conditions, each a set of names of
    which a provider must have one (``wanted``) or none. ``sign``: the text before them in the query.
    ``unmet``: why a tree cannot serve, with {names}, {suffix} and {where}. ``example``: the obstacle at one
    provider, given the step's subject, all requested names, and the provider's names. ``one_by_one``: whether
    each condition is a separate step. ``stop``: why the search ends at once if no provider meets the
    conditions.
    """

    parameter: str
    reason: Reason
    scope: Scope
    attribute: Attribute
    asked: Callable[[Asker], Collection[frozenset[str]]]
    unmet: str
    example: Callable[[str, frozenset[str], frozenset[str]], dict[str, Any]]
    wanted: bool = True
    sign: str = ""
    one_by_one: bool = False
    stop: Stop | None = None

    def test(self, cloud: Cloud, names: frozenset[str]) -> Mask:
        """Return the providers that meet a condition; the mask is arbitrary at free slots."""
        having = has_any(cloud, names, self.attribute)
        return having if self.wanted else ~having

    def value(self, names: frozenset[str]) -> str:
        """Return a condition as the value of the parameter."""
        any_of = "in:" if len(names) > 1 else ""
        return f"{self.sign}{any_of}{','.join(sorted(names))}"


def conditions(
    table: Iterable[Filter[Asker]], asker: Asker
) -> Iterator[tuple[Filter[Asker], frozenset[str]]]:
    """Yield every condition of a group, or of a request, in the order of the table."""
    for each in table:
        for names in each.asked(asker):
            yield each, names


def words(names: Iterable[str]) -> str:
    """Return the names of a condition as the subject of a step."""
    return ANY_OF.join(sorted(names))


# -- the tests of providers ----------------------------------------------------------------------


def fits(cloud: Cloud, name: str, amount: int) -> Mask:
    """Return fits(p, c, n) of section 5.1; an amount beyond any capacity fits nowhere."""
    column = cloud.classes.get(name)
    if column is None or not 0 < amount <= LARGEST_AMOUNT:
        return np.zeros(cloud.size, np.bool_)
    passed: Mask = column.room >= amount
    if column.units:
        providers, minimum, step = column.unit_columns()
        passed[providers[(minimum > amount) | (amount % step != 0)]] = False
    return passed


def has_any(cloud: Cloud, names: Iterable[str], attribute: Attribute) -> Mask:
    """Return the providers that have at least one of the names."""
    union = None
    for name in names:
        members = attribute.members(cloud, name)
        union = members if union is None else union | members
    return np.zeros(cloud.size, np.bool_) if union is None else union


def in_tree(cloud: Cloud, provider_uuid: str) -> Mask:
    """Return the providers with root(p) = root(in); none if no provider has this uuid."""
    index = cloud.index_of_uuid.get(provider_uuid)
    if index is None:
        return np.zeros(cloud.size, np.bool_)
    tree: Mask = cloud.roots == cloud.roots[index]
    return tree


TRAIT = Attribute(Cloud.with_trait, lambda cloud, provider: cloud.traits[provider])
AGGREGATE = Attribute(Cloud.in_aggregate, lambda cloud, provider: cloud.aggregates[provider])
TREE = Attribute(in_tree, lambda cloud, provider: ())


# -- the table -----------------------------------------------------------------------------------


def _singly(names: frozenset[str]) -> list[frozenset[str]]:
    return [frozenset([name]) for name in sorted(names)] if names else []


ROOT_FILTERS: tuple[Filter[CandidateRequest], ...] = (
    Filter(
        "root_required",
        Reason.ROOT_REQUIRED,
        Scope.EACH,
        TRAIT,
        asked=lambda request: _singly(request.root_required),
        unmet="trait {names} is missing on the root provider",
        example=lambda subject, asked, held: {"missing": [subject]},
        one_by_one=True,
    ),
    Filter(
        "root_required",
        Reason.ROOT_FORBIDDEN,
        Scope.EACH,
        TRAIT,
        asked=lambda request: _singly(request.root_forbidden),
        unmet="the root provider has trait {names}, which is not wanted",
        example=lambda subject, asked, held: {"present": sorted(asked & held)},
        wanted=False,
        sign="!",
        one_by_one=True,
    ),
)
"""The conditions for the root of a tree."""

FILTERS: tuple[Filter[Group], ...] = (
    Filter(
        "required",
        Reason.REQUIRED_TRAITS,
        Scope.SOME,
        TRAIT,
        asked=lambda group: group.required,
        unmet="trait {names} is missing on every provider of the tree{where}",
        example=lambda subject, asked, held: {"missing": subject.split(ANY_OF)},
        one_by_one=True,
    ),
    Filter(
        "required",
        Reason.FORBIDDEN_TRAITS,
        Scope.EACH,
        TRAIT,
        asked=lambda group: _singly(group.forbidden),
        unmet="every provider of the tree has trait {names}, which is not wanted{where}",
        example=lambda subject, asked, held: {"present": sorted(asked & held)},
        wanted=False,
        sign="!",
    ),
    Filter(
        "member_of",
        Reason.MEMBER_OF,
        Scope.EACH_OR_ROOT,
        AGGREGATE,
        asked=lambda group: group.member_of,
        unmet="no provider of the tree is in aggregate {names}{where}",
        example=lambda subject, asked, held: {"member_of": sorted(held)},
        stop=Stop.NO_MEMBER,
    ),
    Filter(
        "member_of",
        Reason.NOT_MEMBER_OF,
        Scope.EACH_AND_ROOT,
        AGGREGATE,
        asked=lambda group: _singly(group.forbidden_aggregates),
        unmet="the root provider is in aggregate {names}, which is not wanted{where}",
        example=lambda subject, asked, held: {"member_of": sorted(asked & held)},
        wanted=False,
        sign="!",
    ),
    Filter(
        "in_tree",
        Reason.IN_TREE,
        Scope.TREE,
        TREE,
        asked=lambda group: [] if group.in_tree is None else [frozenset([group.in_tree])],
        unmet="in_tree{suffix} asks for another tree",
        example=lambda subject, asked, held: {},
        stop=Stop.NO_TREE,
    ),
)
"""The conditions for the providers of a group, in the order of a suffixed group's steps."""

_ALL: tuple[Filter[Any], ...] = (*ROOT_FILTERS, *FILTERS)
BY_REASON = {each.reason: each for each in _ALL}

GROUP_PARAMETERS = ("resources", *dict.fromkeys(each.parameter for each in FILTERS))
"""The parameters of a query that may have a suffix."""


def list_group_conditions(group: Group) -> Iterator[tuple[Filter[Group], frozenset[str]]]:
    """Yield the conditions for the providers of a group.

    ``in_tree`` does not restrict the providers of a group without resources (specification 04 section 5.4).
    """
    for each, names in conditions(FILTERS, group):
        if group.amounts or each.scope is not Scope.TREE:
            yield each, names

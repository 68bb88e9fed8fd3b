"""The rules between the members of a group. Pure.

A member is in one or more domains: trees, or the aggregates of its trees. A rule depends only on the domains
of the members, so that the choice, the check under locks and ``db check`` share it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Domains = frozenset[str]
"""Uuids of the trees' roots, or of aggregates."""


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The rule of a group: ``apart`` (at most ``at_most`` members per domain) or ``together`` (one domain).

    ``of``: the aggregates that are domains; if empty, trees are the domains. A tree in none of these
    aggregates is its own domain.
    """

    rule: Literal["apart", "together"]
    at_most: int = 1
    of: tuple[str, ...] = ()
    _among: frozenset[str] = field(init=False, repr=False, compare=False)
    """The aggregates of ``of`` as a set, so that a tree with few aggregates needs few look-ups."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_among", frozenset(self.of))

    @property
    def level(self) -> Literal["tree", "aggregate"]:
        """Return the kind of domains: trees or aggregates."""
        return "aggregate" if self.of else "tree"

    def domains(self, roots: Iterable[str], aggregates: Mapping[str, Domains]) -> Domains:
        """Return the domains of a member.

        :param roots: the uuids of the roots of its trees.
        :param aggregates: the aggregates of a tree's providers, by uuid of the root.
        """
        found: set[str] = set()
        for root in roots:
            found |= aggregates.get(root, frozenset()) & self._among or {root}
        return frozenset(found)


class InTree(Protocol):
    """The holdings of a member in one tree. ``shares``: whether they are on a sharing provider."""

    @property
    def consumer_uuid(self) -> str:
        """The member."""

    @property
    def root_uuid(self) -> str:
        """The root of the tree."""

    @property
    def shares(self) -> bool:
        """Whether the provider shares."""


def domains_by_member(
    rule: GroupRule, members: Sequence[InTree], aggregates: Mapping[str, Domains]
) -> dict[str, Domains]:
    """Return the domains of members by consumer uuid; a tree that only shares counts if there is no other."""
    own = {member.consumer_uuid for member in members if not member.shares}
    roots: dict[str, set[str]] = {}
    for member in members:
        if not member.shares or member.consumer_uuid not in own:
            roots.setdefault(member.consumer_uuid, set()).add(member.root_uuid)
    return {uuid: rule.domains(trees, aggregates) for uuid, trees in sorted(roots.items())}


@dataclass(slots=True)
class Occupancy:
    """A group with the domains of its present members."""

    rule: GroupRule
    members: list[Domains] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def with_members(cls, rule: GroupRule, members: Iterable[Domains]) -> "Occupancy":
        """Return a group with these members."""
        found = cls(rule)
        for domains in members:
            found.add(domains)
        return found

    def add(self, domains: Domains) -> None:
        """Count one more member."""
        self.members.append(domains)
        self._counts.update(domains)

    def remove_last(self) -> None:
        """Remove the member that was added last."""
        self._counts.subtract(self.members.pop())

    @property
    def kept(self) -> bool:
        """Whether the rule is kept."""
        if self.rule.rule == "apart":
            return all(count <= self.rule.at_most for count in self._counts.values())
        return not self.members or max(self._counts.values(), default=0) == len(self.members)

    def admits(self, domains: Collection[str]) -> bool:
        """Return whether the rule stays kept with one more member in these domains."""
        if self.rule.rule == "apart":
            return all(self._counts[domain] < self.rule.at_most for domain in domains)
        return not self.members or any(
            self._counts[domain] == len(self.members) for domain in domains
        )

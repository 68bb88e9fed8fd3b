"""The trees of groups' members while members move (specification 09 section 4). Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from placement.placing.wishes import GroupState
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import GroupRule, InTree, domains_by_member

AmountsByIndex = Mapping[int, Mapping[str, int]]
"""Amounts by class, by provider index."""


class _Taken(NamedTuple):
    """The holdings of a member on a provider: :class:`InTree`."""

    consumer_uuid: str
    root_uuid: str
    shares: bool


@dataclass(frozen=True, slots=True)
class Members:
    """The groups of some consumers, by name, with the trees of all their members. Immutable."""

    rules: Mapping[str, GroupRule] = field(default_factory=dict)
    rows: Mapping[str, Sequence[InTree]] = field(default_factory=dict)
    groups_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def list_groups(self, consumer_uuid: str | None) -> Sequence[str]:
        """Return the names of the groups of a consumer."""
        return self.groups_of.get(consumer_uuid or "", ())

    # -- as they come and go --

    def without_trees(self, root_uuids: Iterable[str], names: Iterable[str]) -> "Members":
        """Return the members without the holdings of members of these groups in some trees."""
        gone = set(root_uuids)
        fewer = {
            name: [row for row in self.rows[name] if row.root_uuid not in gone] for name in names
        }
        return replace(self, rows={**self.rows, **fewer})

    def without(self, consumer_uuid: str) -> "Members":
        """Return the members without a consumer."""
        return replace(
            self,
            rows={
                name: [row for row in rows if row.consumer_uuid != consumer_uuid]
                for name, rows in self.rows.items()
            },
        )

    def with_place(self, cloud: Cloud, consumer_uuid: str, given: AmountsByIndex) -> "Members":
        """Return the members with the new place of a consumer."""
        rows = dict(self.rows)
        for name in self.list_groups(consumer_uuid):
            more = [
                _Taken(
                    consumer_uuid,
                    str(cloud.uuids[cloud.roots[index]]),
                    SHARING_TRAIT in cloud.traits[index],
                )
                for index in given
            ]
            rows[name] = [*rows[name], *more]
        return replace(self, rows=rows)

    def with_rows_of(self, others: "Members", consumer_uuid: str) -> "Members":
        """Return the members with one consumer at the places that it has in another ``Members``."""
        rows = dict(self.rows)
        for name in self.list_groups(consumer_uuid):
            kept = [row for row in rows[name] if row.consumer_uuid != consumer_uuid]
            mine = [row for row in others.rows[name] if row.consumer_uuid == consumer_uuid]
            rows[name] = [*kept, *mine]
        return replace(self, rows=rows)

    # -- as a choice takes them --

    def states(self, cloud: Cloud, moving: Collection[str]) -> dict[str, GroupState]:
        """Return the groups of the moving consumers, without these as members."""
        names = {name for uuid in moving for name in self.list_groups(uuid)}
        # The domain aggregates of each tree, by uuid of its root.
        domains_of: dict[str, set[str]] = {}
        for uuid in {uuid for name in names for uuid in self.rules[name].of}:
            for root in np.unique(cloud.roots[cloud.in_aggregate(uuid)]).tolist():
                domains_of.setdefault(str(cloud.uuids[root]), set()).add(uuid)
        aggregates = {root: frozenset(mine) for root, mine in domains_of.items()}
        states = {}
        for name in sorted(names):
            stay = [row for row in self.rows[name] if row.consumer_uuid not in moving]
            domains = domains_by_member(self.rules[name], stay, aggregates)
            states[name] = GroupState(self.rules[name], list(domains.values()), aggregates)
        return states

    def stays(self, cloud: Cloud, moving: Collection[str]) -> dict[str, tuple[int, ...]]:
        """Return for each moving consumer the roots of the trees in which it stays a member."""
        found: dict[str, set[int]] = {}
        for name in {name for uuid in moving for name in self.list_groups(uuid)}:
            for row in self.rows[name]:
                root = cloud.index_of_uuid.get(row.root_uuid)
                if row.consumer_uuid in moving and not row.shares and root is not None:
                    found.setdefault(row.consumer_uuid, set()).add(root)
        return {uuid: tuple(sorted(roots)) for uuid, roots in found.items()}

"""Groups while their members move: in which trees these are (specification 09 section 4). Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import GroupRule, InTree

AmountsByIndex = Mapping[int, Mapping[str, int]]
"""Amounts by class, by provider index."""


class _Taken(NamedTuple):
    """What a member takes of a provider: :class:`InTree`."""

    consumer_uuid: str
    root_uuid: str
    shares: bool


@dataclass(frozen=True, slots=True)
class Members:
    """The groups of some consumers, by name, with the trees of all their members. Nothing changes it."""

    rules: Mapping[str, GroupRule] = field(default_factory=dict)
    rows: Mapping[str, Sequence[InTree]] = field(default_factory=dict)
    groups_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def of(self, consumer_uuid: str | None) -> Sequence[str]:
        """Return the names of the groups of a consumer."""
        return self.groups_of.get(consumer_uuid or "", ())

    def without_trees(self, root_uuids: Iterable[str], names: Iterable[str]) -> "Members":
        """Return these groups without what their members have in some trees."""
        gone = set(root_uuids)
        return replace(
            self,
            rows={
                name: [row for row in self.rows[name] if row.root_uuid not in gone]
                for name in names
            },
        )

    def without(self, consumer_uuid: str) -> "Members":
        """Return them without a consumer."""
        return replace(
            self,
            rows={
                name: [row for row in rows if row.consumer_uuid != consumer_uuid]
                for name, rows in self.rows.items()
            },
        )

    def with_place(self, cloud: Cloud, consumer_uuid: str, given: AmountsByIndex) -> "Members":
        """Return them with what a consumer takes."""
        rows = dict(self.rows)
        for name in self.of(consumer_uuid):
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

"""Where members of groups go when their trees are drained: as claims of many do (specification 07 section 4).

Places are chosen for all that leave at once. If they do not fit, the one that found no place is left out, and
places are chosen again for the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from placement.db import group_rows
from placement.db.database import Access
from placement.db.group_rows import MemberRow
from placement.db.tree_rows import HeldBy
from placement.insight.choose import GroupState, Refusal, Wish, choose
from placement.objects.groups import domains_by_member, rule_of
from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.group_rules import Domains, GroupRule
from placement.search.request import CandidateRequest
from placement.search.search import search
from placement.search.tally import Stop, Stopped
from placement.search.work import Work

WAYS = 500
"""Places that are tried before a consumer is left out, beside orders of the consumers."""

Given = Mapping[int, Mapping[str, int]]
"""Amounts by provider index."""


class KeptOut(NamedTuple):
    """There is room for a consumer, where the rules of these groups do not let it."""

    groups: tuple[str, ...]


class Part(NamedTuple):
    """What a consumer needs in place of what it has in one tree. Equal requests are one object."""

    consumer_uuid: str
    request: CandidateRequest


class Moved(NamedTuple):
    """By number of the part: what it takes, or why it takes nothing. ``cut_short``: a bound came first."""

    given: Mapping[int, Given]
    stopped: Mapping[int, Stopped | KeptOut]
    cut_short: bool


@dataclass(frozen=True, slots=True)
class Members:
    """The groups of some consumers, by name, with the trees of all their members. Nothing changes it."""

    rules: Mapping[str, GroupRule] = field(default_factory=dict)
    rows: Mapping[str, Sequence[MemberRow]] = field(default_factory=dict)
    groups_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, tx: Access, held: Sequence[HeldBy]) -> "Members":
        """Return the groups of the consumers that have these allocations, as they were read by provider.

        No statement if no consumer of the cloud is a member of a group or held, one if none of these is.
        """
        if not any(row.claims_are_used for row in held):
            return cls()
        groups_of = group_rows.names_by_consumer(tx, sorted({row.consumer_uuid for row in held}))
        if not groups_of:
            return cls()
        groups = group_rows.of(tx, sorted({name for names in groups_of.values() for name in names}))
        rows: dict[int, list[MemberRow]] = {}
        for row in group_rows.members(tx, [group.id for group in groups.values()]):
            rows.setdefault(row.group_id, []).append(row)
        return cls(
            {name: rule_of(group) for name, group in groups.items()},
            {name: rows.get(group.id, []) for name, group in groups.items()},
            groups_of,
        )

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

    def with_place(self, cloud: Cloud, consumer_uuid: str, given: Given) -> "Members":
        """Return them with what a consumer takes."""
        rows = dict(self.rows)
        for name in self.of(consumer_uuid):
            more = [
                MemberRow(
                    0,
                    consumer_uuid,
                    0,
                    str(cloud.uuids[cloud.roots[index]]),
                    SHARING_TRAIT in cloud.traits[index],
                )
                for index in given
            ]
            rows[name] = [*rows[name], *more]
        return replace(self, rows=rows)


def move(cloud: Cloud, members: Members, parts: Sequence[Part], work: Work, share: int) -> Moved:
    """Find a place in one tree for each part, where it keeps the rules. The cloud stays as it is.

    :param members: without what is moved.
    :param share: the part of the work that is left which each choice may take.
    """
    given: dict[int, Given] = {}
    stopped: dict[int, Stopped | KeptOut] = {}
    cut_short = False
    for numbers in _rounds(parts):
        found = _move_at_once(cloud, members, {n: parts[n] for n in numbers}, work, share)
        cloud = cloud.snapshot()
        for number, mine in found.given.items():
            for index, amounts in mine.items():
                cloud.use(index, amounts)
            members = members.with_place(cloud, parts[number].consumer_uuid, mine)
        given |= found.given
        stopped |= found.stopped
        cut_short |= found.cut_short
    return Moved(given, stopped, cut_short)


def _rounds(parts: Sequence[Part]) -> list[list[int]]:
    """Return the numbers of the parts: the first of each consumer, the second, and so on."""
    rounds: list[list[int]] = []
    seen: dict[str, int] = {}
    for number, part in enumerate(parts):
        turn = seen[part.consumer_uuid] = seen.get(part.consumer_uuid, -1) + 1
        rounds += [[]] if turn == len(rounds) else []
        rounds[turn].append(number)
    return rounds


def _move_at_once(
    cloud: Cloud, members: Members, parts: Mapping[int, Part], work: Work, share: int
) -> Moved:
    waiting, stopped, cut_short = list(parts), dict[int, Stopped | KeptOut](), False
    while waiting:
        # One that was left out is a member where it stays.
        moving = {parts[number].consumer_uuid for number in waiting}
        states, stays = _states(cloud, members, moving), _stays(cloud, members, moving)
        wishes = [
            Wish(
                parts[number].request,
                tuple(members.of(parts[number].consumer_uuid)),
                stays.get(parts[number].consumer_uuid, ()),
            )
            for number in waiting
        ]
        with work.part(share) as part:
            found = choose(cloud, None, wishes, states, "any", part, None, WAYS)
            if not isinstance(found, Refusal):
                given = {n: place.allocations for n, place in zip(waiting, found, strict=True)}
                return Moved(given, stopped, cut_short)
            cut_short |= part.timed_out or found.timed_out
            stopped[waiting[found.number]] = _why(found, wishes[found.number], part)
        del waiting[found.number]
    return Moved({}, stopped, cut_short)


def _states(cloud: Cloud, members: Members, moving: set[str]) -> dict[str, GroupState]:
    """Return the groups as they are without those that are moved."""
    names = {name for uuid in moving for name in members.of(uuid)}
    aggregates = _aggregates(cloud, {uuid for name in names for uuid in members.rules[name].of})
    states = {}
    for name in sorted(names):
        stay = [row for row in members.rows[name] if row.consumer_uuid not in moving]
        domains = domains_by_member(members.rules[name], stay, aggregates)
        states[name] = GroupState(members.rules[name], list(domains.values()), aggregates)
    return states


def _aggregates(cloud: Cloud, uuids: Iterable[str]) -> dict[str, Domains]:
    """Return which of these aggregates each tree is in, by uuid of its root."""
    found: dict[str, set[str]] = {}
    for uuid in uuids:
        for root in np.unique(cloud.roots[cloud.in_aggregate(uuid)]).tolist():
            found.setdefault(str(cloud.uuids[root]), set()).add(uuid)
    return {root: frozenset(mine) for root, mine in found.items()}


def _stays(cloud: Cloud, members: Members, moving: set[str]) -> dict[str, tuple[int, ...]]:
    """Return the roots of the trees that consumers stay in, and that count for their groups."""
    found: dict[str, set[int]] = {}
    for rows in members.rows.values():
        for row in rows:
            root = cloud.index_of_uuid.get(row.root_uuid)
            if row.consumer_uuid in moving and not row.shares and root is not None:
                found.setdefault(row.consumer_uuid, set()).add(root)
    return {uuid: tuple(sorted(roots)) for uuid, roots in found.items()}


def _why(refusal: Refusal, wish: Wish, work: Work) -> Stopped | KeptOut:
    """Return whether rules alone keep a wish out, or what ends the search without them."""
    result = search(refusal.cloud, wish.request, None, work)
    if next(iter(result), None) is not None:
        return KeptOut(refusal.kept_out or tuple(wish.groups))
    return result.tally.stopped or Stopped(Stop.WORK_LIMIT)

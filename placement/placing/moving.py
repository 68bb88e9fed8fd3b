"""Where members of groups go when their trees are drained: as claims of many do (specification 07 section 4).

Places are chosen for all that leave at once. If they do not fit, the one that found no place is left out, and
places are chosen again for the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement.placing.choose import choose
from placement.placing.members import AmountsByIndex, Members
from placement.placing.wishes import GroupState, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.group_rules import Domains, domains_by_member
from placement.search.request import CandidateRequest
from placement.search.search import search
from placement.search.tally import Stop, Stopped
from placement.search.work import Work

WAYS = 500
"""Places that are tried before a consumer is left out, beside orders of the consumers."""


class KeptOut(NamedTuple):
    """There is room for a consumer, where the rules of these groups do not let it."""

    groups: tuple[str, ...]


class Part(NamedTuple):
    """What a consumer needs in place of what it has in one tree. Equal requests are one object."""

    consumer_uuid: str
    request: CandidateRequest


class Moved(NamedTuple):
    """By number of the part: what it takes, or why it takes nothing. ``cut_short``: a bound came first."""

    given: Mapping[int, AmountsByIndex]
    stopped: Mapping[int, Stopped | KeptOut]
    cut_short: bool


def move(cloud: Cloud, members: Members, parts: Sequence[Part], work: Work, share: int) -> Moved:
    """Find a place in one tree for each part, where it keeps the rules. The cloud stays as it is.

    :param members: without what is moved.
    :param share: the part of the work that is left which each choice may take.
    """
    given: dict[int, AmountsByIndex] = {}
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
            if not isinstance(found, NoPlace):
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


def _why(refusal: NoPlace, wish: Wish, work: Work) -> Stopped | KeptOut:
    """Return whether rules alone keep a wish out, or what ends the search without them."""
    result = search(refusal.cloud, wish.request, None, work)
    if next(iter(result), None) is not None:
        return KeptOut(refusal.kept_out or tuple(wish.groups))
    return result.tally.stopped or Stopped(Stop.WORK_LIMIT)

"""The moves of consumers when their trees close: the one engine of what-if, survival and plans. Pure.

A consumer moves as a whole: all its resources in the closing trees find places, or nothing moves. Its
resources in one tree, a part, take the first candidate in a tree in reach of the rest
(:mod:`placement.placing.reach`), one consumer after the other (specification 07 section 4). Members of groups
come before the others, and places are chosen for all of them at once, as for claims; a member without a place
is left out, and places are chosen again for the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from placement.placing.board import has_room
from placement.placing.choose import choose
from placement.placing.members import AmountsByIndex, Members
from placement.placing.reach import KeptParts, Reach
from placement.placing.wishes import NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.filters import fits
from placement.search.index_set import Mask
from placement.search.request import CandidateRequest, Group
from placement.search.search import search
from placement.search.structure import Sharing
from placement.search.tally import Stop, Stopped
from placement.search.work import Work

WAYS = 500
"""The number of places that are tried before a member of a group is left out, in addition to orders of the
members; and for all parts of a consumer that leaves several trees.
"""

SHARE = 4
"""The divisor of the remaining work for each search and each choice: a fourth."""

HeldInTree = tuple[tuple[tuple[str, int], ...], ...]
"""The holdings of a consumer in one tree: on each provider, amounts by class."""


class Leaving(NamedTuple):
    """A consumer with its resources in the closing trees: its parts, one for each tree.

    ``pools``: the number of last parts that are on sharing providers alone. ``kept``: its resources in other
    trees.
    """

    consumer_uuid: str | None
    parts: tuple[HeldInTree, ...]
    pools: int = 0
    kept: KeptParts = KeptParts()

    def is_pool(self, number: int) -> bool:
        """Return whether a part is on sharing providers alone."""
        return number >= len(self.parts) - self.pools

    @property
    def hosts(self) -> int:
        """The number of the first parts, the ones whose trees count for the rules of groups."""
        # A tree that only shares counts only if there is no other (09 section 4).
        bare = self.pools == len(self.parts) and not self.kept.hosts
        return len(self.parts) - (0 if bare else self.pools)


class KeptOut(NamedTuple):
    """A consumer has room only in places that the rules of these groups exclude."""

    groups: tuple[str, ...]


class OutOfReach(NamedTuple):
    """Each part of a consumer has room, but only out of reach of its other parts."""


class MovedTo(NamedTuple):
    """The place of a consumer elsewhere, with all its parts."""

    given: AmountsByIndex


class Stayed(NamedTuple):
    """A consumer stays, since it has no other place, for certain or as far as orders and ways were tried."""

    why: Stopped | KeptOut | OutOfReach


class CutShort(NamedTuple):
    """A bound was reached before it was known whether a consumer has another place; ``why``: the reason."""

    why: KeptOut | None = None


Destination = MovedTo | Stayed | CutShort


class Mover:
    """A copy of a cloud on which trees close and their consumers move, until everything is undone.

    ``cloud`` and ``members``, the groups of the moving consumers, are the present state. No provider shares
    in this copy, since a part in one tree moves to one tree; ``reach`` says which tree is possible.
    ``avoid``: traits; trees whose root has one are closed from the beginning, and stay closed. A first
    candidate is searched for once and used until it is full: while trees only close and room is only taken,
    no earlier candidate gets room. With this, survival of 10,000 hosts takes 1.5 s instead of a search for
    each of 20,000 consumers.
    """

    def __init__(
        self, cloud: Cloud, members: Members | None = None, avoid: frozenset[str] = frozenset()
    ) -> None:
        self.cloud, self.reach = without_sharing(cloud), Reach(cloud)
        close_trees(self.cloud, cloud.list_avoided(avoid))
        self.members = members or Members()
        self._back: list[Callable[[], object]] = []
        self._closed: list[int] = []
        self._requests: dict[_Question, CandidateRequest] = {}
        self._firsts: dict[_Question, MovedTo | Stayed] = {}
        self._later: dict[_Question, MovedTo | Stayed] = {}
        self._whole: dict[tuple[Any, ...], MovedTo | Stayed] = {}

    def leave(
        self,
        consumer_uuid: str | None,
        parts: Sequence[AmountsByIndex],
        stays: Iterable[int] = (),
    ) -> Leaving:
        """Return a consumer that leaves trees, from its amounts by provider in each of them.

        :param stays: the providers that it uses in other trees, needed if any provider of the cloud shares.
        """
        if not self.reach.shares:
            return Leaving(consumer_uuid, tuple(_list_amounts(part) for part in parts))
        hosts = [part for part in parts if not self.reach.is_pool(part)]
        pools = [part for part in parts if self.reach.is_pool(part)]
        held = tuple(_list_amounts(part) for part in [*hosts, *pools])
        return Leaving(
            consumer_uuid, held, len(pools), KeptParts.from_providers(self.reach.cloud, stays)
        )

    def look_ahead(self, leaving: Iterable[Leaving], work: Work) -> bool:
        """Find the first candidates in the unchanged cloud, for all trees that will close.

        This is worthwhile if several trees hold the same amounts.

        :returns: False if a bound was reached before.
        """
        assert not self._back, "the cloud is as it was given"
        for each in leaving:
            if len(each.parts) > 1:
                continue
            question = self._ask(each)
            if question not in self._firsts:
                first = self._search(question, work)
                if isinstance(first, CutShort):
                    return False
                self._firsts[question] = first
        return True

    def close(self, roots: Sequence[int]) -> None:
        """Close some trees by leaving no room in them."""
        self._back += close_trees(self.cloud, roots)
        self._closed += roots

    def move(self, leaving: Sequence[Leaving], work: Work) -> Iterator[tuple[int, Destination]]:
        """Move each consumer elsewhere; yield the outcomes by number, members of groups first.

        If the caller stops, the consumers reported so far, and all members of groups, have moved.
        """
        grouped = {n: each for n, each in enumerate(leaving) if self.is_grouped(each)}
        if grouped:
            yield from sorted(self._move_members(grouped, work).items())
        for number in sorted({*range(len(leaving))}.difference(grouped)):
            yield number, self._move_one(leaving[number], work)

    def is_grouped(self, leaving: Leaving) -> bool:
        """Return whether a consumer moves by the rules of its groups, before consumers without such rules."""
        # If the host stays, no tree that counts for a rule changes.
        return bool(self.members.list_groups(leaving.consumer_uuid)) and leaving.hosts > 0

    def undo(self) -> None:
        """Open all trees again, and undo all moves."""
        # The last step is undone first: a tree may have lost room before it was closed.
        self._undo_to(0)
        self._closed.clear()
        self._forget()

    def _undo_to(self, count: int) -> None:
        while len(self._back) > count:
            self._back.pop()()

    def _forget(self) -> None:
        """Forget all answers that more room could change."""
        self._later.clear()
        self._whole.clear()

    # -- one by one --

    def _move_one(self, leaving: Leaving, work: Work) -> Destination:
        if len(leaving.parts) > 1:
            return self._move_parts(leaving, work)
        found = self._first(self._ask(leaving), work)
        if isinstance(found, Stayed) and leaving.pools and leaving.kept.hosts:
            found = next(self._join_hosts(leaving.parts[0], leaving.kept.hosts, work), found)
        if isinstance(found, MovedTo):
            self._take(found.given)
            return found
        return self._explain_reach(found, leaving.parts, work)

    def _ask(self, leaving: Leaving) -> "_Question":
        """Return the first question for the only part of a consumer."""
        return _Question(
            leaving.parts[0],
            self.reach.mark_apart(leaving.kept, is_pool=leaving.is_pool(0)),
        )

    def _first(self, question: "_Question", work: Work) -> Destination:
        """Return the present first candidate, or the reason why there is none."""
        first = self._later.get(question) or self._firsts.get(question)
        # A part without a candidate earlier has none now either, since room never grows.
        if isinstance(first, Stayed) or (first is not None and has_room(self.cloud, first.given)):
            return first
        found = self._search(question, work)
        if not isinstance(found, CutShort):
            self._later[question] = found
        return found

    def _search(self, question: "_Question", work: Work) -> Destination:
        return self._run(self._request(question), work)

    def _run(self, request: CandidateRequest, work: Work) -> Destination:
        with work.part(SHARE) as part:
            result = search(self.cloud, request, None, part)
        candidate = next(iter(result), None)
        if candidate is not None:
            return MovedTo(candidate.allocations)
        if not result.complete or result.tally.stopped is None:
            return CutShort()
        return Stayed(result.tally.stopped)

    def _request(self, question: "_Question") -> CandidateRequest:
        """Return the request for a consumer's resources in one tree, with a group for each provider."""
        if question not in self._requests:
            self._requests[question] = make_request(question.held, question.among)
        return self._requests[question]

    def _join_hosts(
        self, held: HeldInTree, hosts: Iterable[int], work: Work
    ) -> Iterator[MovedTo | CutShort]:
        """Yield the places of a pool's part in the trees of the consumer's hosts."""
        for host in sorted(hosts, key=self.cloud.forest.place.__getitem__):
            providers = self.cloud.forest.tree(host)
            # No search is made here, since each host would be another question.
            if all(self._has_taker(providers, dict(amounts)) for amounts in held):
                request = replace(make_request(held), anchor=str(self.cloud.uuids[host]))
                found = self._run(request, work)
                if not isinstance(found, Stayed):
                    yield found

    def _has_taker(self, providers: Any, amounts: Mapping[str, int]) -> bool:
        has_class = all(map(self.cloud.has_class, amounts))
        return has_class and bool(
            np.logical_and.reduce(
                [self.cloud.room(n)[providers] >= a for n, a in amounts.items()]
            ).any()
        )

    def _explain_reach(
        self, found: Stayed | CutShort, parts: Iterable[HeldInTree], work: Work
    ) -> Stayed | CutShort:
        """Return whether only reach is the obstacle: each part by itself has a candidate."""
        if not isinstance(found, Stayed):
            return found
        for held in parts:
            alone = self._first(_Question(held), work)
            if not isinstance(alone, MovedTo):
                return alone
        return Stayed(OutOfReach())

    def _take(self, given: AmountsByIndex) -> None:
        for index, amounts in given.items():
            self.cloud.use(index, amounts)
            back = {name: -amount for name, amount in amounts.items()}
            self._back.append(partial(self.cloud.use, index, back))

    # -- several parts --

    def _move_parts(self, leaving: Leaving, work: Work) -> Destination:
        """Move a consumer that leaves several trees, completely or not at all."""
        asked = leaving[1:]
        first = self._whole.get(asked)
        # As for one part: a question without places earlier has none now, and no place before the first gets
        # room.
        if isinstance(first, Stayed):
            return first
        if first is not None and has_room(self.cloud, first.given):
            self._take(first.given)
            return first
        walk = _PartsWalk(WAYS)
        taken = self._walk(leaving, [], leaving.kept, walk, work)
        if taken is None and walk.is_cut:
            return CutShort()
        found: Destination
        if taken is not None:
            found = MovedTo(add_up(taken))
        else:
            found = self._explain_reach(Stayed(OutOfReach()), leaving.parts, work)
        if not isinstance(found, CutShort):
            self._whole[asked] = found
        return found

    def _walk(
        self,
        leaving: Leaving,
        taken: list[AmountsByIndex],
        kept: KeptParts,
        walk: "_PartsWalk",
        work: Work,
    ) -> list[AmountsByIndex] | None:
        """Take places for the parts without one; return None, with nothing more taken, if that fails."""
        number = len(taken)
        if number == len(leaving.parts):
            return taken if self._is_whole(leaving, taken) else None
        before = len(self._back)
        for given in self._list_places(leaving, number, kept, walk, work):
            if walk.left <= 0:
                break
            walk.left -= 1
            self._take(given)
            more = self.reach.add(kept, given, is_pool=leaving.is_pool(number))
            found = self._walk(leaving, [*taken, given], more, walk, work)
            if found is not None:
                return found
            self._undo_to(before)
        return None

    def _is_whole(self, leaving: Leaving, taken: Sequence[AmountsByIndex]) -> bool:
        """Return whether all parts reach each other where they are now."""
        parts = [(leaving.is_pool(number), [*given]) for number, given in enumerate(taken)]
        return not self.reach.shares or self.reach.admits_parts(parts, leaving.kept)

    def _list_places(
        self, leaving: Leaving, number: int, kept: KeptParts, walk: "_PartsWalk", work: Work
    ) -> Iterator[AmountsByIndex]:
        """Yield the possible places of a part, the first candidates first."""
        held = leaving.parts[number]
        marked = self._mark_with_rest(leaving, number, kept)
        request = make_request(held, marked)
        passed = 0
        # The first candidate nearly always suffices.
        for limit in (1, WAYS):
            with work.part(SHARE) as part:
                result = search(self.cloud, replace(request, limit=limit), None, part)
            walk.is_cut |= not result.complete
            places = [each.allocations for each in result]
            yield from places[passed:]
            passed = len(places)
            if passed < limit:
                break
        if leaving.is_pool(number) and kept.hosts:
            for joined in self._join_hosts(held, kept.hosts, work):
                walk.is_cut |= isinstance(joined, CutShort)
                if isinstance(joined, MovedTo):
                    yield joined.given

    def _mark_with_rest(self, leaving: Leaving, number: int, kept: KeptParts) -> Mask | None:
        """Mark the places of a part that leave places for the later parts on pools."""
        is_pool = leaving.is_pool(number)
        marked = self.reach.mark_apart(kept, is_pool=is_pool)
        if is_pool:
            return marked
        first_pool = len(leaving.parts) - leaving.pools
        for held in leaving.parts[first_pool:]:
            takers = self._mark_takers(held)
            if kept.hosts and takers[np.isin(self.cloud.roots, list(kept.hosts))].any():
                continue
            roots = np.unique(self.cloud.roots[takers])
            # The part may join a host of the consumer that is placed later.
            later_hosts = map(self._mark_takers, leaving.parts[number + 1 : first_pool])
            if any(np.isin(self.cloud.roots[hosts], roots).any() for hosts in later_hosts):
                continue
            pools = takers & self.reach.cloud.sharing.mask
            if kept.hosts:
                pools &= self.reach.mark_pools_of(kept.hosts)
            near = self.reach.mark_trees_that_reach(pools) | np.isin(self.cloud.roots, roots)
            marked = near if marked is None else marked & near
        return marked

    def _mark_takers(self, held: HeldInTree) -> Mask:
        """Mark the providers with room for a part's resources on its first provider."""
        return np.logical_and.reduce([fits(self.cloud, name, n) for name, n in held[0]])

    # -- members of groups --

    def _move_members(self, leaving: Mapping[int, Leaving], work: Work) -> dict[int, Destination]:
        """Move members of groups: all their hosts at once, then the parts of each on pools."""
        names = {
            name
            for each in leaving.values()
            for name in self.members.list_groups(each.consumer_uuid)
        }
        closed = [str(self.cloud.uuids[root]) for root in self._closed]
        # Holdings of members in a closing tree exclude nobody from an aggregate, since all of them leave it.
        self._set_members(self.members.without_trees(closed, names))
        before = self.members
        moves = {number: _MemberMove(each, each.kept) for number, each in leaving.items()}
        for turn in range(max(each.hosts for each in leaving.values())):
            self._choose_places(moves, turn, work)
        for move in moves.values():
            self._move_pools(move, work)
        for move in moves.values():
            if move.ends is None and not self._is_whole(move.leaving, move.taken):
                move.ends = Stayed(OutOfReach())
            if move.ends is not None and move.taken:
                # A consumer never moves partly.
                for given in move.taken:
                    self._take(_negate(given))
                uuid = str(move.leaving.consumer_uuid)
                self._set_members(self.members.with_rows_of(before, uuid))
                self._forget()
        return {number: move.ends or MovedTo(add_up(move.taken)) for number, move in moves.items()}

    def _choose_places(self, moves: Mapping[int, "_MemberMove"], turn: int, work: Work) -> None:
        """Choose places for one part on a host of each member that has this many, all at once.

        Parts of a consumer are chosen separately: together they would count as two members that exclude each
        other.
        """
        waiting = [
            move for move in moves.values() if move.ends is None and move.leaving.hosts > turn
        ]
        while waiting:
            # A member that was left out counts in its present place.
            moving = {str(move.leaving.consumer_uuid) for move in waiting}
            states = self.members.states(self.cloud, moving)
            stays = self.members.stays(self.cloud, moving)
            wishes = []
            for move in waiting:
                uuid = str(move.leaving.consumer_uuid)
                among = self._mark_with_rest(move.leaving, turn, move.kept)
                held = move.leaving.parts[turn]
                # A temporary mask is not cached; equal requests are one object.
                is_lasting = not move.leaving.pools
                ask = (
                    self._request(_Question(held, among))
                    if is_lasting
                    else make_request(held, among)
                )
                wishes.append(Wish(ask, tuple(self.members.list_groups(uuid)), stays.get(uuid, ())))
            with work.part(SHARE) as part:
                chosen = choose(self.cloud, None, wishes, states, "any", part, None, WAYS)
                if isinstance(chosen, NoPlace):
                    move = waiting.pop(chosen.number)
                    move.ends = _explain(chosen, wishes[chosen.number], part)
                    continue
            for move, place in zip(waiting, chosen, strict=True):
                uuid = str(move.leaving.consumer_uuid)
                self._take(place.allocations)
                move.note(self.reach, place.allocations, is_pool=move.leaving.is_pool(turn))
                self._set_members(self.members.with_place(self.cloud, uuid, place.allocations))
            break

    def _move_pools(self, move: "_MemberMove", work: Work) -> None:
        """Move a member's parts on pools, after its host."""
        for held in move.leaving.parts[move.leaving.hosts :]:
            if move.ends is not None:
                return
            found = self._move_one(Leaving(None, (held,), 1, move.kept), work)
            if isinstance(found, MovedTo):
                move.note(self.reach, found.given, is_pool=True)
            else:
                move.ends = found

    def _set_members(self, members: Members) -> None:
        self._back.append(partial(setattr, self, "members", self.members))
        self.members = members


class _Question:
    """The question to a search: a part, and its possible providers; None means all.

    Two questions are equal if their amounts are equal and their mask is the same object, as it is for equal
    questions.
    """

    __slots__ = ("_hash", "among", "held")

    def __init__(self, held: HeldInTree, among: Mask | None = None) -> None:
        self.held, self.among = held, among
        self._hash = hash((held, id(among)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Question) and self.among is other.among and self.held == other.held
        )


@dataclass(slots=True)
class _PartsWalk:
    """The remaining ways to place a consumer; ``is_cut``: whether a search ended at a bound."""

    left: int
    is_cut: bool = False


@dataclass(slots=True)
class _MemberMove:
    """A member that is moving: ``taken`` by its parts, ``kept`` with these; ``ends``: why it stays."""

    leaving: Leaving
    kept: KeptParts
    taken: list[AmountsByIndex] = field(default_factory=list)
    ends: Stayed | CutShort | None = None

    def note(self, reach: Reach, given: AmountsByIndex, *, is_pool: bool) -> None:
        """Note the place that a part has taken."""
        self.taken.append(given)
        self.kept = reach.add(self.kept, given, is_pool=is_pool)


def add_up(taken: Sequence[AmountsByIndex]) -> AmountsByIndex:
    """Return the total amounts of several parts."""
    if len(taken) == 1:
        return taken[0]
    sums: dict[int, Counter[str]] = {}
    for given in taken:
        for index, amounts in given.items():
            sums.setdefault(index, Counter()).update(amounts)
    return {index: dict(amounts) for index, amounts in sums.items()}


def _negate(given: AmountsByIndex) -> AmountsByIndex:
    return {index: {name: -n for name, n in amounts.items()} for index, amounts in given.items()}


def _list_amounts(part: AmountsByIndex) -> HeldInTree:
    return tuple(tuple(amounts.items()) for amounts in part.values())


def without_sharing(cloud: Cloud) -> Cloud:
    """Return a copy of a cloud as if no provider shared."""
    none: Any = np.zeros(0, np.int32)
    return cloud.with_sharing(
        Sharing(none, cloud.roots, cloud.aggregates.__getitem__, lambda _: none, cloud.keys)
    )


def close_trees(cloud: Cloud, roots: Sequence[int]) -> list[Callable[[], object]]:
    """Leave no room in some trees; return a function that restores their room."""
    if not roots:
        return []
    providers, back = cloud.forest.trees(np.array(roots))[0], list[Callable[[], object]]()
    # Only room changes: removing the trees would cost a new forest each time, and must be undone.
    for name in list(cloud.classes):
        room = cloud.room(name)[providers]
        back.append(partial(cloud.set_rooms, name, providers, room))
        cloud.set_rooms(name, providers, np.zeros_like(room))
    return back


def make_request(held: HeldInTree, among: Mask | None = None) -> CandidateRequest:
    """Return the request for a consumer's resources in one tree, with a group for each provider."""
    groups = (Group(f"_{n}", dict(each), among=among) for n, each in enumerate(held, 1))
    return CandidateRequest(tuple(groups), limit=1)


def _explain(refusal: NoPlace, wish: Wish, work: Work) -> Stayed | CutShort:
    """Return whether only rules or only reach exclude a wish, or what ends the search without them."""
    is_cut = work.timed_out or refusal.timed_out
    found, stopped = _has_candidate(refusal.cloud, wish.request, work)
    if found:
        why = KeptOut(refusal.kept_out or tuple(wish.groups))
        return CutShort(why) if is_cut else Stayed(why)
    if is_cut:
        return CutShort()
    if any(group.among is not None for group in wish.request.groups):
        anywhere = tuple(replace(group, among=None) for group in wish.request.groups)
        request = replace(wish.request, groups=anywhere)
        found, stopped = _has_candidate(refusal.cloud, request, work)
        if found:
            return Stayed(OutOfReach())
    return Stayed(stopped or Stopped(Stop.WORK_LIMIT))


def _has_candidate(
    cloud: Cloud, request: CandidateRequest, work: Work
) -> tuple[bool, Stopped | None]:
    result = search(cloud, request, None, work)
    return next(iter(result), None) is not None, result.tally.stopped

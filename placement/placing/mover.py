"""Where consumers go when their trees close: the one engine of what-if, survival and plans. Pure.

Each takes the first candidate elsewhere for what it has in one tree, one after the other (specification 07
section 4). Members of groups come before the others, and places are chosen for all of them at once, as for
claims; the one that found no place is left out, and places are chosen again for the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from placement.placing.board import has_room
from placement.placing.choose import choose
from placement.placing.members import AmountsByIndex, Members
from placement.placing.wishes import NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, Group
from placement.search.search import search
from placement.search.structure import Sharing
from placement.search.tally import Stop, Stopped
from placement.search.work import Work

WAYS = 500
"""Places that are tried before a member of a group is left out, beside orders of the members."""

SHARE = 4
"""Each search, and each choice, may take a fourth of the work that is left."""

HeldInTree = tuple[tuple[tuple[str, int], ...], ...]
"""What a consumer has in one tree: on each provider, amounts by class."""


class Leaving(NamedTuple):
    """A consumer with what it has in one tree that closes; in several trees it is one for each."""

    consumer_uuid: str | None
    held: HeldInTree

    @classmethod
    def of(cls, consumer_uuid: str | None, held: Iterable[Mapping[str, int]]) -> "Leaving":
        """Return a consumer with its amounts on each provider."""
        return cls(consumer_uuid, tuple(tuple(amounts.items()) for amounts in held))


class KeptOut(NamedTuple):
    """There is room for a consumer, where the rules of these groups do not let it."""

    groups: tuple[str, ...]


class MovedTo(NamedTuple):
    """What a consumer takes elsewhere."""

    given: AmountsByIndex


class Stayed(NamedTuple):
    """A consumer has no other place, for certain or as far as orders and ways were tried."""

    why: Stopped | KeptOut


class CutShort(NamedTuple):
    """A bound came before it was known whether a consumer has another place; ``why``: what is known."""

    why: KeptOut | None = None


Destination = MovedTo | Stayed | CutShort


class Mover:
    """A copy of a cloud on which trees close and their consumers move, until everything is undone.

    ``cloud`` and ``members``, the groups of those that move: as they are now. No provider shares here: what a
    consumer has in one tree goes to one tree.

    A first candidate is searched for once, and taken until it is full: as long as trees only close and room
    is only taken, none before it gets room. That makes survival of 10,000 hosts 1.5 s instead of a search for
    each of 20,000 consumers.
    """

    def __init__(self, cloud: Cloud, members: Members | None = None) -> None:
        self.cloud = without_sharing(cloud)
        self.members = members or Members()
        self._back: list[Callable[[], object]] = []
        self._closed: list[int] = []
        self._requests: dict[HeldInTree, CandidateRequest] = {}
        self._firsts: dict[HeldInTree, MovedTo | Stayed] = {}
        self._later: dict[HeldInTree, MovedTo | Stayed] = {}

    def look_ahead(self, held: Iterable[HeldInTree], work: Work) -> bool:
        """Find the first candidates in the cloud as it was given, for all trees that will close.

        Worth it where several trees hold the same amounts.

        :returns: False if a bound came before that.
        """
        assert not self._back, "the cloud is as it was given"
        for each in held:
            if each not in self._firsts:
                first = self._search(each, work)
                if isinstance(first, CutShort):
                    return False
                self._firsts[each] = first
        return True

    def close(self, roots: Sequence[int]) -> None:
        """Leave no room in some trees."""
        self._back += close_trees(self.cloud, roots)
        self._closed += roots

    def move(self, leaving: Sequence[Leaving], work: Work) -> Iterator[tuple[int, Destination]]:
        """Let each take a place in one tree; yield by number where it went, members of groups first.

        A caller that breaks off has moved those that it was told of, and all members of groups.
        """
        grouped = {n: each for n, each in enumerate(leaving) if self.members.of(each.consumer_uuid)}
        if grouped:
            names = {
                name for each in grouped.values() for name in self.members.of(each.consumer_uuid)
            }
            closed = [str(self.cloud.uuids[root]) for root in self._closed]
            # What members have in a tree that closes keeps nobody out of an aggregate: they all leave it.
            self._set_members(self.members.without_trees(closed, names))
            moved: dict[int, Destination] = {}
            for together in _rounds(grouped):
                moved |= self._move_at_once(together, work)
            yield from sorted(moved.items())
        for number in sorted({*range(len(leaving))}.difference(grouped)):
            found = self._first(leaving[number].held, work)
            if isinstance(found, MovedTo):
                self._take(found.given)
            yield number, found

    def undo(self) -> None:
        """Open all trees again, and take everything back."""
        # The last first: a tree may have been taken from before it was closed.
        while self._back:
            self._back.pop()()
        self._closed.clear()
        self._later.clear()

    # -- one by one --

    def _first(self, held: HeldInTree, work: Work) -> Destination:
        """Return the first candidate now, or why there is none."""
        first = self._later.get(held) or self._firsts.get(held)
        # What had no candidate has none now: nothing gets room.
        if isinstance(first, Stayed) or (first is not None and has_room(self.cloud, first.given)):
            return first
        found = self._search(held, work)
        if not isinstance(found, CutShort):
            self._later[held] = found
        return found

    def _search(self, held: HeldInTree, work: Work) -> Destination:
        with work.part(SHARE) as part:
            result = search(self.cloud, self._request(held), None, part)
        candidate = next(iter(result), None)
        if candidate is not None:
            return MovedTo(candidate.allocations)
        if not result.complete or result.tally.stopped is None:
            return CutShort()
        return Stayed(result.tally.stopped)

    def _request(self, held: HeldInTree) -> CandidateRequest:
        """Return the request for what a consumer has in one tree, a group for each provider."""
        if held not in self._requests:
            self._requests[held] = make_request(held)
        return self._requests[held]

    def _take(self, given: AmountsByIndex) -> None:
        for index, amounts in given.items():
            self.cloud.use(index, amounts)
            back = {name: -amount for name, amount in amounts.items()}
            self._back.append(partial(self.cloud.use, index, back))

    # -- members of groups --

    def _move_at_once(self, leaving: Mapping[int, Leaving], work: Work) -> dict[int, Destination]:
        """Choose places for members of groups, each of which leaves one tree."""
        waiting, found = list(leaving), dict[int, Destination]()
        while waiting:
            # One that was left out is a member where it stays.
            moving = {str(leaving[number].consumer_uuid) for number in waiting}
            states, stays = (
                self.members.states(self.cloud, moving),
                self.members.stays(self.cloud, moving),
            )
            wishes = [
                Wish(
                    self._request(leaving[number].held),
                    tuple(self.members.of(leaving[number].consumer_uuid)),
                    stays.get(str(leaving[number].consumer_uuid), ()),
                )
                for number in waiting
            ]
            with work.part(SHARE) as part:
                chosen = choose(self.cloud, None, wishes, states, "any", part, None, WAYS)
                if isinstance(chosen, NoPlace):
                    number = waiting.pop(chosen.number)
                    found[number] = _explain(chosen, wishes[chosen.number], part)
                    continue
            for number, place in zip(waiting, chosen, strict=True):
                self._take(place.allocations)
                uuid = str(leaving[number].consumer_uuid)
                self._set_members(self.members.with_place(self.cloud, uuid, place.allocations))
                found[number] = MovedTo(place.allocations)
            break
        return found

    def _set_members(self, members: Members) -> None:
        self._back.append(partial(setattr, self, "members", self.members))
        self.members = members


def without_sharing(cloud: Cloud) -> Cloud:
    """Return a copy of a cloud as if no provider shared."""
    none: Any = np.zeros(0, np.int32)
    return cloud.with_sharing(
        Sharing(none, cloud.roots, cloud.aggregates.__getitem__, lambda _: none, cloud.keys)
    )


def close_trees(cloud: Cloud, roots: Sequence[int]) -> list[Callable[[], object]]:
    """Leave no room in some trees; return what gives them their room back."""
    if not roots:
        return []
    providers, back = cloud.forest.trees(np.array(roots))[0], list[Callable[[], object]]()
    # Room alone: a removal would cost a new forest each time, and must be taken back.
    for name in list(cloud.classes):
        room = cloud.room(name)[providers]
        back.append(partial(cloud.set_rooms, name, providers, room))
        cloud.set_rooms(name, providers, np.zeros_like(room))
    return back


def make_request(held: HeldInTree) -> CandidateRequest:
    """Return the request for what a consumer has in one tree, a group for each provider."""
    groups = tuple(Group(f"_{n}", dict(amounts)) for n, amounts in enumerate(held, 1))
    return CandidateRequest(groups, limit=1)


def _rounds(leaving: Mapping[int, Leaving]) -> list[dict[int, Leaving]]:
    """Return first what each consumer has in one tree, then in a second, and so on.

    In one choice a consumer would be two members of its group, which keep each other out.
    """
    rounds: list[dict[int, Leaving]] = []
    seen: dict[str | None, int] = {}
    for number, each in leaving.items():
        turn = seen[each.consumer_uuid] = seen.get(each.consumer_uuid, -1) + 1
        rounds += [{}] if turn == len(rounds) else []
        rounds[turn][number] = each
    return rounds


def _explain(refusal: NoPlace, wish: Wish, work: Work) -> Stayed | CutShort:
    """Say whether rules alone keep a wish out, or what ends the search without them."""
    is_cut = work.timed_out or refusal.timed_out
    result = search(refusal.cloud, wish.request, None, work)
    if next(iter(result), None) is not None:
        why = KeptOut(refusal.kept_out or tuple(wish.groups))
        return CutShort(why) if is_cut else Stayed(why)
    return CutShort() if is_cut else Stayed(result.tally.stopped or Stopped(Stop.WORK_LIMIT))

"""Whether the consumers of any one tree, or of any one aggregate, would fit elsewhere (07 section 9).

A place fails as what-if drains it: each consumer takes the first candidate elsewhere, one after the other.
Two things make 10,000 places cheap, 1.5 s for 20,000 consumers of eight sizes. The first candidate of some
amounts is searched for once, and taken until it is full: none before it gets room meanwhile. And what becomes
of a list of consumers is known for all places that hold an equal list, unless one of them went to the very
place that fails. Members of groups are placed before the others, as what-if places them, and each place anew:
about 1 ms for each place that has some, of 10,000 hosts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from placement.db import tree_rows
from placement.db.database import Database, Snapshot
from placement.db.statements import MOST
from placement.db.tree_rows import HeldBy
from placement.insight.affected import AffectedConsumer, list_consumers, read_members
from placement.insight.what_if import (
    WORK_SHARE,
    request_to_move,
    without_sharing,
)
from placement.objects.picture import Picture
from placement.placing.members import AmountsByIndex, Members
from placement.placing.moving import KeptOut, Moved, Part, move
from placement.placing.packing import roots_by_aggregate
from placement.search.candidate import Candidate
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest
from placement.search.search import search
from placement.search.tally import Stopped
from placement.search.work import Work

MOST_NAMED = 100
"""The most homeless consumers that are named of one place."""

Amounts = tuple[tuple[tuple[str, int], ...], ...]
"""What a consumer has on each provider of a tree."""


class FailureDomain(NamedTuple):
    """A tree, or the trees of an aggregate, which has no name."""

    uuid: str
    name: str | None
    roots: list[int]


class Homeless(NamedTuple):
    """A consumer with what it would lose, and what ended the search for another place."""

    consumer: AffectedConsumer
    stopped: Stopped | KeptOut


class Loss(NamedTuple):
    """A place that must not fail: the number of its consumers, of the homeless among them, and the first."""

    place: FailureDomain
    consumers: int
    homeless: int
    named: list[Homeless]


@dataclass(slots=True)
class Survival:
    """Of so many places how many were tried and how many may fail; ``losses``: the worst of the others."""

    places: int
    tried: int = 0
    survivable: int = 0
    losses: list[Loss] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all places were tried."""
        return self.tried == self.places


def survival(
    db: Database, picture: Picture, *, by_aggregate: bool, top: int, work: Work
) -> Survival:
    """Try for each tree, or aggregate, whether its consumers fit elsewhere if it fails. Nothing is written.

    :param top: the most losses to tell, most homeless first.
    :param work: the time that it may take; placements are bounded for each place.
    """
    cloud = picture.copy_cloud()
    places = _aggregates(cloud) if by_aggregate else _trees(cloud)
    found = Survival(len(places))
    failures = _Failures(without_sharing(cloud), work)
    for batch in _batches(cloud, places):
        held, failures.members = _held(db, cloud, batch)
        for place in batch:
            if not work.look():
                return found
            parts = [part for root in place.roots for part in held.get(root, [])]
            _try(failures, place, parts, found)
        found.losses.sort(key=lambda loss: (-loss.homeless, loss.place.name or loss.place.uuid))
        del found.losses[top:]
    return found


# -- what fails ----------------------------------------------------------------------------------


def _trees(cloud: Cloud) -> list[FailureDomain]:
    roots = sorted(cloud.forest.roots.tolist(), key=cloud.ids.__getitem__)
    return [FailureDomain(str(cloud.uuids[root]), cloud.names[root], [root]) for root in roots]


def _aggregates(cloud: Cloud) -> list[FailureDomain]:
    """Return the aggregates with the trees that have a provider in them."""
    return [
        FailureDomain(uuid, None, sorted(roots, key=cloud.ids.__getitem__))
        for uuid, roots in sorted(roots_by_aggregate(cloud).items())
    ]


def _batches(cloud: Cloud, places: Sequence[FailureDomain]) -> Iterator[list[FailureDomain]]:
    """Yield places of which one statement reads the allocations; more if it is one large place."""
    batch: list[FailureDomain] = []
    providers = 0
    for place in places:
        count = int(cloud.forest.trees(np.array(place.roots))[1].sum())
        if batch and providers + count > MOST:
            yield batch
            batch, providers = [], 0
        batch.append(place)
        providers += count
    if batch:
        yield batch


Share = tuple[AffectedConsumer, Mapping[int, Mapping[str, int]]]
"""A consumer, and its amounts by provider id in one tree."""


def _held(
    db: Database, cloud: Cloud, places: Sequence[FailureDomain]
) -> tuple[dict[int, list[Share]], Members]:
    """Return by root what each consumer has in the trees of some places, oldest first, and their groups."""
    roots = np.array(sorted({root for place in places for root in place.roots}))
    ids = sorted(cloud.ids[cloud.forest.trees(roots)[0]].tolist())
    rows_of: dict[int, list[HeldBy]] = {}

    def read(tx: Snapshot) -> tuple[list[HeldBy], Members]:
        rows = tree_rows.allocations(tx, ids)
        return rows, read_members(tx, rows)

    rows, members = db.snapshot(read)
    for row in rows:
        rows_of.setdefault(int(cloud.roots[cloud.index_of[row.provider_id]]), []).append(row)
    held: dict[int, list[Share]] = {
        root: [(consumer, consumer.held) for consumer in list_consumers(rows)]
        for root, rows in rows_of.items()
    }
    return held, members


def _try(
    failures: "_Failures", place: FailureDomain, parts: Sequence[Share], found: Survival
) -> None:
    """Let a place fail, and note the outcome; a place whose search was cut short was not tried."""
    stopped = failures.outcome(place.roots, [(c.uuid, _amounts(held)) for c, held in parts])
    if stopped is None:
        return
    found.tried += 1
    if not stopped:
        found.survivable += 1
        return
    homeless: dict[str, Homeless] = {}
    for number, why in sorted(stopped.items()):
        consumer, held = parts[number]
        # A tree may be in several places: each has its own list of what is lost.
        kept_out_by = why.groups if isinstance(why, KeptOut) else ()
        alone = Homeless(replace(consumer, lost={}, kept_out_by=kept_out_by), why)
        first = homeless.setdefault(str(consumer.uuid), alone)
        first.consumer.lost |= {
            failures.uuid(provider_id): dict(amounts) for provider_id, amounts in held.items()
        }
    consumers = len({consumer.uuid for consumer, _ in parts})
    named = list(homeless.values())[:MOST_NAMED]
    found.losses.append(Loss(place, consumers, len(homeless), named))


def _amounts(held: Mapping[int, Mapping[str, int]]) -> Amounts:
    return tuple(tuple(amounts.items()) for amounts in held.values())


# -- failing -------------------------------------------------------------------------------------


class _CutShort(Exception):
    """A search ended at a bound, without a candidate."""


class _Outcome(NamedTuple):
    """The consumers without a place, by number in the list; the roots of the trees that took the others."""

    stopped: dict[int, Stopped | KeptOut]
    taken: set[int]


Moving = tuple[str | None, Amounts]
"""The uuid of a consumer, and what it needs."""


class _Failures:
    """Lets places fail on a copy of the cloud, which is as before after each.

    ``members``: the groups of the consumers that are asked about. ``_firsts``: the first candidate for some
    amounts in the whole cloud. ``_outcomes``: what becomes of a list of consumers there, by its digest.
    """

    def __init__(self, cloud: Cloud, work: Work) -> None:
        self._cloud = cloud
        self._whole_work = work
        self._work = work
        self._firsts: dict[Amounts, Candidate | Stopped] = {}
        self._outcomes: dict[bytes, _Outcome] = {}
        self._requests: dict[Amounts, CandidateRequest] = {}
        self.members = Members()

    def uuid(self, provider_id: int) -> str:
        """Return the uuid of a provider."""
        return str(self._cloud.uuids[self._cloud.index_of[provider_id]])

    def outcome(
        self, closed: Sequence[int], consumers: Sequence[Moving]
    ) -> dict[int, Stopped | KeptOut] | None:
        """Return which consumers find no place when these trees are closed, None if a bound came first."""
        self._work = Work(
            remaining_s=self._whole_work.remaining_s, reserve_s=self._whole_work.reserve_s
        )
        try:
            for _, amounts in consumers:
                if amounts not in self._firsts:
                    self._firsts[amounts] = self._searched(amounts)
            if any(self.members.of(uuid) for uuid, _ in consumers):
                return self._placed(consumers, closed).stopped
            outcome = self._known_outcome([amounts for _, amounts in consumers])
            if not outcome.taken.isdisjoint(closed):
                outcome = self._placed(consumers, closed)
        except _CutShort:
            return None
        return outcome.stopped

    def _known_outcome(self, consumers: Sequence[Amounts]) -> _Outcome:
        digest = blake2b(repr(consumers).encode(), digest_size=16).digest()
        if digest not in self._outcomes:
            self._outcomes[digest] = self._placed([(None, amounts) for amounts in consumers], [])
        return self._outcomes[digest]

    def _placed(self, consumers: Sequence[Moving], closed: Sequence[int]) -> _Outcome:
        """Place the consumers one after the other where closed trees have no room, and take all back."""
        outcome = _Outcome({}, set())
        firsts: dict[Amounts, Candidate | Stopped] = {}
        taken: list[tuple[int, Mapping[str, int]]] = []

        def take(given: AmountsByIndex) -> None:
            for index, amounts in given.items():
                self._cloud.use(index, amounts)
                taken.append((index, amounts))
                outcome.taken.add(int(self._cloud.roots[index]))

        rooms = self._close(closed)
        try:
            members = [n for n, (uuid, _) in enumerate(consumers) if self.members.of(uuid)]
            if members:
                moved = self._moved([consumers[number] for number in members], closed)
                for given in moved.given.values():
                    take(given)
                outcome.stopped.update((members[n], why) for n, why in moved.stopped.items())
            for number in sorted({*range(len(consumers))}.difference(members)):
                amounts = consumers[number][1]
                first = firsts.get(amounts) or self._firsts[amounts]
                if isinstance(first, Candidate) and not self._has_room(first):
                    first = firsts[amounts] = self._searched(amounts)
                if isinstance(first, Stopped):
                    outcome.stopped[number] = first
                else:
                    take(first.allocations)
        finally:
            for index, amounts in taken:
                self._cloud.use(index, {name: -amount for name, amount in amounts.items()})
            for name, providers, room in rooms:
                self._cloud.set_rooms(name, providers, room)
        return outcome

    def _moved(self, consumers: Sequence[Moving], closed: Sequence[int]) -> Moved:
        """Find places for members of groups."""
        parts = []
        for uuid, amounts in consumers:
            if amounts not in self._requests:
                self._requests[amounts] = request_to_move(map(dict, amounts))
            parts.append(Part(str(uuid), self._requests[amounts]))
        names = {name for uuid, _ in consumers for name in self.members.of(uuid)}
        roots = [str(self._cloud.uuids[root]) for root in closed]
        members = self.members.without_trees(roots, names)
        moved = move(self._cloud, members, parts, self._work, WORK_SHARE)
        if moved.cut_short:
            raise _CutShort
        return moved

    def _close(self, roots: Sequence[int]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Leave no room in some trees, and return what there was."""
        rooms = []
        if roots:
            members = self._cloud.forest.trees(np.array(roots))[0]
            for name in list(self._cloud.classes):
                room = self._cloud.room(name)[members]
                rooms.append((name, members, room))
                self._cloud.set_rooms(name, members, np.zeros_like(room))
        return rooms

    def _has_room(self, candidate: Candidate) -> bool:
        return all(
            self._cloud.room(name)[index] >= amount
            for index, amounts in candidate.allocations.items()
            for name, amount in amounts.items()
        )

    def _searched(self, amounts: Amounts) -> Candidate | Stopped:
        """Return the first candidate, or why there is none."""
        request = request_to_move(map(dict, amounts))
        with self._work.part(WORK_SHARE) as part:
            result = search(self._cloud, request, None, part)
        first = next(iter(result), None)
        if first is not None:
            return first
        if not result.complete or result.tally.stopped is None:
            raise _CutShort
        return result.tally.stopped

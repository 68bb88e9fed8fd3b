"""The survival test:

would the consumers of any one tree or aggregate fit elsewhere (07 section 9)? A place fails as what-if drains
it: each consumer takes the first candidate elsewhere, one after the other. The test is a loop over the same
mover (:mod:`placement.placing.mover`), which undoes each failure. Two things make 10,000 places cheap, 1.5 s
for 20,000 consumers of eight sizes: the mover remembers first candidates, and the outcome for a list of
consumers is reused for all places with an equal list, unless one of them went to the very place that fails.
Places with members of groups are each tried: about 1 ms each, with 10,000 hosts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from placement.db import tree_rows
from placement.db.database import Database, Snapshot
from placement.db.statements import MOST
from placement.db.tree_rows import HeldBy
from placement.extensions.questions.affected import (
    AffectedConsumer,
    batch_trees,
    list_consumers,
    put_pools_last,
    read_members,
    read_others,
)
from placement.objects.picture import Picture
from placement.placing.members import Members
from placement.placing.mover import CutShort, KeptOut, Leaving, MovedTo, Mover, OutOfReach, Stayed
from placement.placing.packing import roots_by_aggregate
from placement.search.cloud import Cloud
from placement.search.tally import Stopped
from placement.search.work import Work, WorkEnded

MOST_NAMED = 100
"""The most homeless consumers of one place that are named."""


class FailureDomain(NamedTuple):
    """A tree, or the trees of an aggregate, which is unnamed."""

    uuid: str
    name: str | None
    roots: list[int]


class Homeless(NamedTuple):
    """A homeless consumer: the resources that it would lose, and what ended the search for another place."""

    consumer: AffectedConsumer
    stopped: Stopped | KeptOut | OutOfReach


class Loss(NamedTuple):
    """A place that must not fail: how many consumers it has, how many are homeless, and the first ones."""

    place: FailureDomain
    consumers: int
    homeless: int
    named: list[Homeless]


@dataclass(slots=True)
class Survival:
    """The numbers of places, of tried places, and of places that may fail; ``losses``: the worst others.

    ``avoided``: the number of trees that do not take anything from a failed place.
    """

    places: int
    avoided: int = 0
    tried: int = 0
    survivable: int = 0
    losses: list[Loss] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all places were tried."""
        return self.tried == self.places


def survival(
    db: Database,
    picture: Picture,
    *,
    by_aggregate: bool,
    top: int,
    avoid: frozenset[str],
    work: Work,
) -> Survival:
    """Try for each tree, or aggregate, whether its consumers fit elsewhere if it fails. Nothing is written.

    :param top: the most losses to report, most homeless first.
    :param avoid: traits; a tree whose root has one is not a destination, but can fail like any other.
    :param work: the time budget; placements are bounded for each place.
    """
    cloud = picture.copy_cloud()
    # The order is by age, since the order in memory differs between processes.
    age = cloud.ids.__getitem__
    if by_aggregate:
        places = [
            FailureDomain(uuid, None, sorted(roots, key=age))
            for uuid, roots in sorted(roots_by_aggregate(cloud).items())
        ]
    else:
        trees = put_pools_last(cloud, sorted(cloud.forest.roots.tolist(), key=age))
        places = [
            FailureDomain(str(cloud.uuids[root]), cloud.names[root], [root]) for root in trees
        ]
    found = Survival(len(places), len(cloud.list_avoided(avoid)))
    failures = _Failures(cloud, avoid, work)
    for batch in batch_trees(cloud, places, lambda place: place.roots, MOST):
        try:
            holdings = _read_holdings(db, cloud, batch, work, shares=failures.mover.reach.shares)
        except WorkEnded:
            return found
        failures.mover.members = holdings.members
        for place in batch:
            if not work.check_time():
                return found
            _try(failures, cloud, place, holdings.list_affected(place), found)
        found.losses.sort(key=lambda loss: (-loss.homeless, loss.place.name or loss.place.uuid))
        del found.losses[top:]
    return found


# -- what fails ----------------------------------------------------------------------------------


class Affected(NamedTuple):
    """A consumer with its amounts in each tree of a place, by provider id.

    ``stays``: the ids of its providers elsewhere.
    """

    consumer: AffectedConsumer
    parts: list[Mapping[int, Mapping[str, int]]]
    stays: Sequence[int]


class _Holdings(NamedTuple):
    """The holdings of consumers in a tree, oldest first; ``used``: all providers of some consumers."""

    held: Mapping[int, Sequence[AffectedConsumer]]
    members: Members
    used: Mapping[str | None, Collection[int]]

    def list_affected(self, place: FailureDomain) -> list[Affected]:
        """Return the consumers of a place, in the order of its trees."""
        found: dict[str | None, Affected] = {}
        for root in place.roots:
            for consumer in self.held.get(root, ()):
                first = found.setdefault(consumer.uuid, Affected(consumer, [], []))
                first.parts.append(consumer.held)
        if not self.used:
            return list(found.values())
        return [
            each._replace(stays=sorted(set(self.used.get(uuid, ())).difference(*each.parts)))
            for uuid, each in found.items()
        ]


def _read_holdings(
    db: Database, cloud: Cloud, places: Sequence[FailureDomain], work: Work, *, shares: bool
) -> _Holdings:
    """Return the holdings of consumers in the trees of some places.

    :param shares: whether holdings elsewhere are needed too.
    :raises WorkEnded: the time ended
    """
    roots = np.array(sorted({root for place in places for root in place.roots}))
    ids = sorted(cloud.ids[cloud.forest.trees(roots)[0]].tolist())

    def read(tx: Snapshot) -> tuple[list[HeldBy], Members, dict[str | None, set[int]]]:
        rows = tree_rows.allocations(tx, ids)
        used = _read_used(tx, cloud, rows, work) if shares else {}
        return rows, read_members(tx, rows), used

    rows, members, used = db.snapshot(read)
    rows_of: dict[int, list[HeldBy]] = {}
    for row in rows:
        rows_of.setdefault(int(cloud.roots[cloud.index_of[row.provider_id]]), []).append(row)
    held = {root: list_consumers(rows) for root, rows in rows_of.items()}
    return _Holdings(held, members, used)


def _read_used(
    tx: Snapshot, cloud: Cloud, rows: Sequence[HeldBy], work: Work
) -> dict[str | None, set[int]]:
    """Return all providers that the consumers of these rows use."""
    used: dict[str | None, set[int]] = {}
    for row in [*rows, *read_others(tx, rows, work)]:
        # The copy of the cloud lacks a provider that was created after it.
        if row.provider_id in cloud.index_of:
            used.setdefault(row.consumer_uuid, set()).add(row.provider_id)
    return used


def _try(
    failures: "_Failures",
    cloud: Cloud,
    place: FailureDomain,
    affected: Sequence[Affected],
    found: Survival,
) -> None:
    """Let a place fail, and note the outcome; a place with an incomplete search counts as not tried."""
    index_of = cloud.index_of
    leaving = [
        failures.mover.leave(
            each.consumer.uuid,
            [{index_of[id_]: amounts for id_, amounts in part.items()} for part in each.parts],
            [index_of[id_] for id_ in each.stays],
        )
        for each in affected
    ]
    stopped = failures.fail(place.roots, leaving)
    if stopped is None:
        return
    found.tried += 1
    if not stopped:
        found.survivable += 1
        return
    named = []
    for number, why in sorted(stopped.items())[:MOST_NAMED]:
        # A tree can be in several places, and each has its own list of losses.
        lost = {
            str(cloud.uuids[index_of[id_]]): dict(amounts)
            for part in affected[number].parts
            for id_, amounts in part.items()
        }
        kept_out_by = why.groups if isinstance(why, KeptOut) else ()
        alone = replace(affected[number].consumer, lost=lost, kept_out_by=kept_out_by)
        named.append(Homeless(alone, why))
    found.losses.append(Loss(place, len(affected), len(stopped), named))


# -- failing -------------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """The consumers without a place, by number in the list; the roots of the trees that took the others."""

    stopped: dict[int, Stopped | KeptOut | OutOfReach]
    taken: set[int]


class _Failures:
    """A loop that lets domains fail, one after the other, on a mover that undoes each.

    ``_outcomes``: the outcome for a list of consumers while nothing is closed, by the list's digest.
    """

    def __init__(self, cloud: Cloud, avoid: frozenset[str], work: Work) -> None:
        self.mover = Mover(cloud, avoid=avoid)
        # A list is used, since one number of it is read at a time.
        self._roots = cloud.roots.tolist()
        self._work = work
        self._outcomes: dict[bytes, _Outcome] = {}

    def fail(
        self, closed: Sequence[int], leaving: Sequence[Leaving]
    ) -> dict[int, Stopped | KeptOut | OutOfReach] | None:
        """Return the consumers without a place when these trees are closed; None if a bound was reached."""
        # Time is bounded for all together, placements for each domain: one hard domain must not use up those
        # of others.
        work = Work(remaining_s=self._work.remaining_s, reserve_s=self._work.reserve_s)
        if not self.mover.look_ahead(leaving, work):
            return None
        if any(self.mover.members.list_groups(each.consumer_uuid) for each in leaving):
            # The outcome for members depends on the places of the others in their groups, so it cannot be
            # reused.
            outcome = self._close_and_undo(closed, leaving, work)
        else:
            outcome = self._recall(leaving, work)
            if outcome is not None and not outcome.taken.isdisjoint(closed):
                outcome = self._close_and_undo(closed, leaving, work)
        return None if outcome is None else outcome.stopped

    def _recall(self, leaving: Sequence[Leaving], work: Work) -> _Outcome | None:
        """Return the outcome for consumers while nothing is closed, which is the same for equal lists."""
        # Without sharing providers the parts alone decide, and are shorter.
        held = [each[1:] if self.mover.reach.shares else each.parts for each in leaving]
        # Digests are stored, since the lists themselves are as large as the ledger.
        digest = blake2b(repr(held).encode(), digest_size=16).digest()
        if digest not in self._outcomes:
            outcome = self._close_and_undo([], leaving, work)
            if outcome is None:
                return None
            self._outcomes[digest] = outcome
        return self._outcomes[digest]

    def _close_and_undo(
        self, closed: Sequence[int], leaving: Sequence[Leaving], work: Work
    ) -> _Outcome | None:
        """Move the consumers of closing trees elsewhere, and undo it; None if a bound was reached."""
        outcome = _Outcome({}, set())
        self.mover.close(closed)
        try:
            for number, destination in self.mover.move(leaving, work):
                match destination:
                    case MovedTo(given):
                        outcome.taken.update([self._roots[index] for index in given])
                    case Stayed(why):
                        outcome.stopped[number] = why
                    case CutShort():
                        return None
        finally:
            self.mover.undo()
        return outcome

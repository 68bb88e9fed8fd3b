"""The places of a consumer's part, given its other parts (specification 07 section 4.2). Pure.

A consumer is one thing: its host must reach its shared storage before and after a move. What-if, survival and
plans use this module, so that they agree on what a move is.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from placement.search.cloud import SHARING_TRAIT, Cloud
from placement.search.index_set import Mask


class KeptParts(NamedTuple):
    """The holdings of a consumer outside the moving part.

    ``hosts``: the roots of the trees in which it uses a provider that does not share. ``pools``: the sharing
    providers that it uses.
    """

    hosts: frozenset[int] = frozenset()
    pools: frozenset[int] = frozenset()

    @classmethod
    def from_providers(cls, cloud: Cloud, providers: Iterable[int]) -> "KeptParts":
        """Return the kept parts of a consumer that keeps these providers."""
        hosts, pools = set[int](), set[int]()
        for index in providers:
            if SHARING_TRAIT in cloud.traits[index]:
                pools.add(index)
            else:
                hosts.add(int(cloud.roots[index]))
        return cls(frozenset(hosts), frozenset(pools))


class PartMove(NamedTuple):
    """The move of a part of a consumer from one tree to providers of another tree."""

    source: Sequence[int]
    destination: Sequence[int]


@dataclass(slots=True)
class Reach:
    """The possible places of parts on one cloud, whose sharing providers and aggregates must not change.

    ``shares``: whether any provider shares. If none does, every part may go anywhere, at no cost.
    """

    cloud: Cloud
    shares: bool = field(init=False)
    _reaching: dict[frozenset[int], Mask | None] = field(init=False, default_factory=dict)
    _reached: dict[frozenset[tuple[int, ...]], Mask] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.shares = self.cloud.has_trait(SHARING_TRAIT)

    def is_pool(self, part: Iterable[int]) -> bool:
        """Return whether all of these providers share."""
        return self.shares and all(SHARING_TRAIT in self.cloud.traits[index] for index in part)

    def add(self, kept: KeptParts, taken: Collection[int], *, is_pool: bool) -> KeptParts:
        """Return the kept parts with the destination of another part added.

        :param is_pool: whether that part comes from sharing providers alone; otherwise it is a host in any
            place.
        """
        if not is_pool:
            return kept._replace(hosts=kept.hosts.union(int(self.cloud.roots[i]) for i in taken))
        more = KeptParts.from_providers(self.cloud, taken)
        return KeptParts(kept.hosts or more.hosts, kept.pools | more.pools)

    def mark_allowed(self, part: Iterable[int], kept: KeptParts) -> Mask | None:
        """Mark the possible providers of a part, all in one tree; None if it may go anywhere.

        A part on a host moves to trees that reach all sharing providers that the consumer keeps. A part that
        is only on sharing providers moves to sharing providers that all hosts of the consumer reach, or joins
        the consumer in the tree of one of these hosts; if the consumer keeps no host, the part is the host.

        :param part: the providers that the consumer uses in the tree that it leaves.
        """
        return self._mark(self.is_pool(part), kept)

    def _mark(self, is_pool: bool, kept: KeptParts) -> Mask | None:
        apart = self.mark_apart(kept, is_pool=is_pool)
        if apart is None or not is_pool or not kept.hosts:
            return apart
        own = np.zeros(self.cloud.size, np.bool_)
        own[list(kept.hosts)] = True
        return apart | self._mark_trees(own)

    def mark_apart(self, kept: KeptParts, *, is_pool: bool) -> Mask | None:
        """Mark the possible providers of a part that does not join a host; None if it may go anywhere.

        Equal answers are one object.

        :param is_pool: whether the part is on sharing providers alone.
        """
        if not self.shares:
            return None
        if is_pool and kept.hosts:
            return self.mark_pools_of(kept.hosts)
        return self.mark_trees_in_reach_of(kept.pools)

    def admits(self, moves: Sequence[PartMove], stays: Iterable[int]) -> bool:
        """Return whether all parts of one consumer may make these moves at once.

        :param stays: the providers that the consumer uses in the trees that it does not leave.
        """
        parts = [(self.is_pool(move.source), move.destination) for move in moves]
        return self.admits_parts(parts, KeptParts.from_providers(self.cloud, stays))

    def admits_parts(self, parts: Sequence[tuple[bool, Collection[int]]], kept: KeptParts) -> bool:
        """Return the same as :meth:`admits`, for parts with a known kind."""
        # Hosts are checked first: a pool that joins one of them counts as a part of the host.
        ordered = sorted(parts, key=lambda part: part[0])
        for part in ordered:
            others = kept
            for other in ordered:
                if other is not part:
                    others = self.add(others, other[1], is_pool=other[0])
            allowed = self._mark(part[0], others)
            if allowed is not None and not allowed[list(part[1])].all():
                return False
        return True

    # -- the same object for equal questions: 10,000 hosts have some ten pools ---------------------

    def mark_trees_in_reach_of(self, pools: frozenset[int]) -> Mask | None:
        """Mark the providers of the trees that reach each of these sharing providers; None: all trees."""
        if pools not in self._reaching:
            allowed = None
            for pool in sorted(pools):
                alone = np.zeros(self.cloud.size, np.bool_)
                alone[pool] = True
                reaching = self.mark_trees_that_reach(alone)
                allowed = reaching if allowed is None else allowed & reaching
            self._reaching[pools] = allowed
        return self._reaching[pools]

    def mark_pools_of(self, hosts: frozenset[int]) -> Mask:
        """Mark the sharing providers that each of these trees, at least one, reaches."""
        # Trees with equal aggregates reach the same providers, and a pool can serve thousands of hosts.
        sets = frozenset(self.cloud.sharing.away(host) for host in hosts)
        if sets not in self._reached:
            common = set.intersection(*map(set, sets))
            reached = np.zeros(self.cloud.size, np.bool_)
            reached[list(common)] = True
            self._reached[sets] = reached
        return self._reached[sets]

    # -- afresh each time --------------------------------------------------------------------------

    def mark_trees_that_reach(self, pools: Mask) -> Mask:
        """Mark the providers of all trees that reach one of these sharing providers, or have it."""
        roots = self.cloud.sharing.mark_reached(pools)
        roots[self.cloud.roots[pools]] = True
        return self._mark_trees(roots)

    def _mark_trees(self, roots: Mask) -> Mask:
        """Mark all providers of the trees with marked roots."""
        # A free slot has the root -1.
        return np.where(self.cloud.roots >= 0, roots[self.cloud.roots], False)

"""The two walks over the anchors: mixed, and depth-first up to a bound (specification 04 section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from placement.search.candidate import Candidate, Combination
from placement.search.index_set import Indexes, Mask
from placement.search.streams import Stream, StreamMaker

CHUNK = 256
"""Anchors turned into streams at once, at least."""


class Turn(NamedTuple):
    """Anchors in the order in which they take their turns, as parallel columns.

    ``single``: the anchor has exactly one candidate, and ``provider`` alone serves it.
    """

    anchor: Indexes
    single: Mask
    provider: Indexes

    def and_then(self, more: Turn) -> Turn:
        """Return these turns, then more of them."""
        return Turn(
            np.concatenate([self.anchor, more.anchor]),
            np.concatenate([self.single, more.single]),
            np.concatenate([self.provider, more.provider]),
        )


class Walk:
    """Candidates of all anchors, each distinct one once."""

    def __init__(
        self,
        turns: Iterable[Turn],
        maker: StreamMaker,
        pattern: Combination,
        limit: int | None,
    ) -> None:
        """Take the turns part by part, no more of them than are needed."""
        self._parts = turns
        self._maker = maker
        self._pattern = pattern
        self._limit = limit

    def mixed(self) -> Iterator[Candidate]:
        """Yield round-robin: a first candidate of every anchor, then a second, and so on."""
        waiting: list[Stream] = []
        for turn in self._turns():
            if isinstance(turn, Candidate):
                yield turn
            else:
                candidate = turn.next()
                if candidate is not None:
                    waiting.append(turn)
                    yield candidate
        while waiting:
            again: list[Stream] = []
            for stream in waiting:
                candidate = stream.next()
                if candidate is not None:
                    again.append(stream)
                    yield candidate
            waiting = again

    def depth_first(self, bound: int) -> Iterator[Candidate]:
        """Yield what is left of working off anchor by anchor up to the bound, trees mixed.

        First each anchor's share is counted, as far as the bound reaches, then the shares are
        dealt out round-robin. Where candidates may repeat between anchors counting means
        generating, which the bound limits.
        """
        waiting: list[Iterator[Candidate]] = []
        left = bound
        for turn in self._turns():
            if left <= 0:
                break
            share, candidates = _share(turn, left)
            left -= share
            if share:
                waiting.append(candidates)
        while waiting:
            again: list[Iterator[Candidate]] = []
            for candidates in waiting:
                candidate = next(candidates, None)
                if candidate is not None:
                    again.append(candidates)
                    yield candidate
            waiting = again

    def _turns(self) -> Iterator[Candidate | Stream]:
        """Yield each anchor's only candidate, or its stream."""
        for part in self._parts:
            streams = self._streams(part.anchor[~part.single])
            for single, provider in zip(part.single.tolist(), part.provider.tolist(), strict=True):
                yield Candidate(self._pattern, (provider,)) if single else next(streams)

    def _streams(self, anchors: Indexes) -> Iterator[Stream]:
        """Yield the streams of these anchors, made in chunks."""
        chunk = max(CHUNK, 2 * min(self._limit or len(anchors), len(anchors)))
        for made in range(0, len(anchors), chunk):
            yield from self._maker.build(anchors[made : made + chunk])


def _share(turn: Candidate | Stream, most: int) -> tuple[int, Iterator[Candidate]]:
    """Return how many candidates an anchor contributes, at most ``most``, and these."""
    if isinstance(turn, Candidate):
        return 1, iter((turn,))
    if turn.seen is None:
        share = turn.kind.solutions.count_up_to(most)
        return share, _first(turn, share)
    found = list(_first(turn, most))
    return len(found), iter(found)


def _first(stream: Stream, count: int) -> Iterator[Candidate]:
    for _ in range(count):
        candidate = stream.next()
        if candidate is None:
            return
        yield candidate

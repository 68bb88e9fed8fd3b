"""The result of a search, compact: provider indexes and shared pieces (04 sections 4.2 and 5.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from placement.search.cloud import Cloud
from placement.search.index_set import Indexes
from placement.search.tally import Tally


@dataclass(frozen=True, slots=True, eq=False)
class CandidateShape:
    """The common part of alike candidates: everything but the serving providers.

    ``amounts``: amounts by class, for each provider with allocations. ``served``: (suffix, number of
    providers) for each group in query order. Equal shapes of one search are one object.
    """

    amounts: tuple[Mapping[str, int], ...]
    served: tuple[tuple[str, int], ...]


class Combination(NamedTuple):
    """A shape with positions for providers; alike candidates of alike trees share one object.

    ``taking``: the position for each of ``shape.amounts``. ``serving``: the positions for each of
    ``shape.served``, one group after another.
    """

    shape: CandidateShape
    taking: tuple[int, ...]
    serving: tuple[int, ...]


@dataclass(slots=True)
class Candidate:
    """One allocation request: provider indexes for the combination's positions, perhaps not for all."""

    combination: Combination
    members: Sequence[int]

    @property
    def allocations(self) -> dict[int, Mapping[str, int]]:
        """Amounts by class by provider index."""
        shape, taking, _ = self.combination
        return {
            self.members[place]: amounts
            for place, amounts in zip(taking, shape.amounts, strict=True)
        }

    @property
    def mappings(self) -> dict[str, tuple[int, ...]]:
        """Provider indexes by suffix of the group."""
        shape, _, serving = self.combination
        providers = iter([self.members[place] for place in serving])
        return {suffix: tuple(islice(providers, count)) for suffix, count in shape.served}


def takers(candidates: Iterable[Candidate]) -> Indexes:
    """Return the providers that occur in any ``allocations``, each once, ascending."""
    used = {c.members[place] for c in candidates for place in c.combination.taking}
    return np.array(sorted(used), np.int32)


@dataclass(slots=True)
class SearchResult:
    """The answer of a search. Indexes are valid only while the cloud does not change.

    If ``uniform`` is set, each of these providers takes, alone, what ``pattern`` says at its position 0;
    otherwise the candidates are in ``mixed``. ``complete`` is False if a bound of the work stopped the
    search; ``work`` counts the placements tried; ``stuck`` names, if nothing was found, the groups that were
    hardest to place. ``before_cut``: the providers of the candidates before ``limit`` was applied, only for
    requests with ``one_provider_per_tree`` (section 6.3).
    """

    tally: Tally
    uniform: Indexes | None = None
    pattern: Combination | None = None
    mixed: list[Candidate] = field(default_factory=list)
    before_cut: Indexes | None = None
    complete: bool = True
    work: int = 0
    stuck: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.mixed) if self.uniform is None else len(self.uniform)

    def __iter__(self) -> Iterator[Candidate]:
        if self.uniform is None or self.pattern is None:
            yield from self.mixed
            return
        for provider in self.uniform.tolist():
            yield Candidate(self.pattern, (provider,))

    def first(self, count: int) -> SearchResult:
        """Return the result with at most this many candidates."""
        uniform = None if self.uniform is None else self.uniform[:count]
        return replace(self, uniform=uniform, mixed=self.mixed[:count])

    def takers(self) -> Indexes:
        """Return the providers that occur in any ``allocations``, each once, ascending."""
        if self.uniform is not None:
            return np.sort(self.uniform)
        return takers(self.mixed)

    def trees(self, cloud: Cloud) -> Indexes:
        """Return the roots of all trees in ``allocations``, each once, ascending."""
        takers = self.takers()
        return np.unique(cloud.roots[takers]) if cloud.forest.nested else takers

    def find_summarised(self, cloud: Cloud) -> Indexes:
        """Return the providers that the summaries show before 1.29, each once (section 4.3)."""
        takers = self.takers()
        if self.before_cut is None:
            return takers
        return self.before_cut[np.isin(cloud.roots[self.before_cut], cloud.roots[takers])]


class SizeLimit:
    """The total size that the candidates of one answer may have; a search stops when it is used up.

    :param size_of: the size of each candidate of a shape, in the unit of ``most``.
    """

    def __init__(self, most: int, size_of: Callable[[CandidateShape], int]) -> None:
        self.most = most
        self.used_up = False
        """Whether candidates were left out."""
        self._left = most
        self._size_of = size_of
        self._sizes: dict[CandidateShape, int] = {}

    def fitting(self, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        """Yield candidates until the next one does not fit."""
        for candidate in candidates:
            self._left -= self._size(candidate.combination.shape)
            if self._left < 0:
                self.used_up = True
                return
            yield candidate

    def fitting_alike(self, shape: CandidateShape, count: int) -> int:
        """Return how many of ``count`` candidates of one shape fit."""
        fit = min(count, self._left // self._size(shape))
        self.used_up |= fit < count
        return fit

    def measure(self, result: SearchResult) -> int:
        """Return the sum of the sizes of the candidates of a result."""
        if result.uniform is not None and result.pattern is not None:
            return len(result) * self._size(result.pattern.shape)
        return sum(self._size(candidate.combination.shape) for candidate in result.mixed)

    def _size(self, shape: CandidateShape) -> int:
        size = self._sizes.get(shape)
        if size is None:
            size = self._sizes[shape] = self._size_of(shape)
        return size

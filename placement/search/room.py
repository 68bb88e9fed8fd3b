"""How much of an answer there is room for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placement.search.candidate import Candidate, SearchResult, Shape


class Room:
    """What the candidates of one answer may take up together; a search stops when it is used up.

    :param most: the sum of the sizes, in whatever ``size_of`` measures.
    :param size_of: the size of each candidate of a shape.
    """

    def __init__(self, most: int, size_of: Callable[[Shape], int]) -> None:
        self.most = most
        self.used_up = False
        """Whether candidates were left out."""
        self._left = most
        self._size_of = size_of
        self._sizes: dict[Shape, int] = {}

    def fitting(self, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        """Yield candidates until the next one does not fit."""
        for candidate in candidates:
            self._left -= self._size(candidate.combination.shape)
            if self._left < 0:
                self.used_up = True
                return
            yield candidate

    def fitting_alike(self, shape: Shape, count: int) -> int:
        """Return how many of ``count`` candidates of one shape fit."""
        fit = min(count, self._left // self._size(shape))
        self.used_up |= fit < count
        return fit

    def taken_by(self, result: SearchResult) -> int:
        """Return the sum of the sizes of the candidates of a result."""
        if result.uniform is not None and result.pattern is not None:
            return len(result) * self._size(result.pattern.shape)
        return sum(self._size(candidate.combination.shape) for candidate in result.mixed)

    def _size(self, shape: Shape) -> int:
        size = self._sizes.get(shape)
        if size is None:
            size = self._sizes[shape] = self._size_of(shape)
        return size

"""Ask both sides every question, and count the differences."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from placement.client.comparison import survey
from placement.client.comparison.meaning import SideAnswer, describe_difference, describe_refusal
from placement.client.comparison.question import ComparedQuestion, QuestionKind
from placement.client.comparison.searches import generate_searches
from placement.client.comparison.side import Side
from placement.client.comparison.survey import Inhabitants
from placement.client.pool import asking_threads

SECOND_LOOKS = 2
"""The number of repetitions of a question with different answers: the cloud may have changed in between."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A question with different answers, in words, and the command that asks each side."""

    question: ComparedQuestion
    words: str
    curl_old: str
    curl_new: str


class NothingCompared(Exception):
    """One side cannot be asked, or neither side has any object."""


@contextmanager
def _reading(asked: str) -> Iterator[None]:
    """Name the request where its answer is not a document of Placement."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NothingCompared(f"{asked} is not answered as by a Placement service: {error!r}") from error


@dataclass(slots=True)
class KindResult:
    """The results of the questions of one kind; times in seconds, by side.

    ``refused``: the equal answers in which both sides refused, so that nothing was compared.
    """

    asked: int = 0
    equal: int = 0
    refused: int = 0
    errors: int = 0
    differences: list[Difference] = field(default_factory=list)
    old_s: list[float] = field(default_factory=list)
    new_s: list[float] = field(default_factory=list)

    @property
    def compared_nothing(self) -> bool:
        """Return whether neither side answered a question of this kind."""
        return self.asked == self.refused + self.errors

    def medians_ms(self) -> tuple[float, float]:
        """Return the median time of the old and of the new side in milliseconds."""
        return 1000 * statistics.median(self.old_s), 1000 * statistics.median(self.new_s)


@dataclass(slots=True)
class Comparison:
    """Two sides and the differences found between them.

    :param at_once: the number of questions asked at the same time.
    """

    old: Side
    new: Side
    at_once: int = 4
    results: dict[QuestionKind, KindResult] = field(default_factory=dict)
    known: Inhabitants = field(default_factory=Inhabitants)

    def run(
        self,
        from_log: Iterable[ComparedQuestion] = (),
        searches: int = 0,
        seed: int = 0,
        progress: Callable[[int], Any] = lambda number: None,
        announce: Callable[[int], Any] = lambda number: None,
    ) -> None:
        """Ask all questions; report each round to ``announce`` and each answer to ``progress``.

        :raises NothingCompared: a side refuses the root or the list of providers, or both lists are empty
        """
        self._require_services()
        with asking_threads(self.at_once) as pool:
            for questions in self._list_rounds(from_log, searches, seed):
                listed = list(dict.fromkeys(questions))
                announce(len(listed))
                for question, old, new in pool.map(self._ask, listed):
                    self._count(question, old, new)
                    progress(1)

    def _require_services(self) -> None:
        """Ask both sides two questions that every service of a cloud answers with something.

        Two services that both refuse everything would look alike.
        """
        found = 0
        for side in (self.old, self.new):
            for question, member in survey.FIRST:
                answer = side.ask(question)
                there = f"{side.name}: GET {question.path}"
                if answer.status != 200:
                    raise NothingCompared(f"{there}: {answer.trouble or describe_refusal(answer)}")
                with _reading(there):
                    number = len(answer.body[member])
            found += number
        if not found:
            raise NothingCompared("Neither side has a resource provider")

    def _list_rounds(
        self, from_log: Iterable[ComparedQuestion], searches: int, seed: int
    ) -> Iterator[Iterable[ComparedQuestion]]:
        yield from survey.ask_in_rounds(self.known)
        yield from_log
        yield generate_searches(self.known, searches, seed)

    def _ask(self, question: ComparedQuestion) -> tuple[ComparedQuestion, SideAnswer, SideAnswer]:
        old, new = self.old.ask(question), self.new.ask(question)
        with _reading(f"GET {question.path}"):
            for _ in range(SECOND_LOOKS):
                if describe_difference(question, old, new) is None:
                    break
                old, new = self.old.ask(question), self.new.ask(question)
            return question, old, new

    def _count(self, question: ComparedQuestion, old: SideAnswer, new: SideAnswer) -> None:
        for side, answer in ((self.old, old), (self.new, new)):
            if answer.status == 200:
                with _reading(f"{side.name}: GET {question.path}"):
                    self.known.learn(question, answer.body)
        result = self.results.setdefault(question.kind, KindResult())
        result.asked += 1
        result.old_s.append(old.seconds)
        result.new_s.append(new.seconds)
        words = describe_difference(question, old, new)
        if old.trouble or new.trouble:
            result.errors += 1
        if words is None:
            result.equal += 1
            result.refused += old.status >= 400
        else:
            curls = self.old.curl(question), self.new.curl(question)
            result.differences.append(Difference(question, words, *curls))

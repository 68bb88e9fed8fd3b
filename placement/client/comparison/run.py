"""Ask both sides every question, and count what they answer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from placement.client.comparison import survey
from placement.client.comparison.meaning import Answer, difference
from placement.client.comparison.question import Kind, Question
from placement.client.comparison.searches import made
from placement.client.comparison.side import Side
from placement.client.comparison.survey import Inhabitants

SECOND_LOOKS = 2
"""How often a difference is looked at again: the cloud may have changed between the two answers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A question that the two sides answer differently, in words, with a command for each side."""

    question: Question
    words: str
    curl_old: str
    curl_new: str


@dataclass(slots=True)
class Tally:
    """What became of the questions of one kind; times in seconds, by side."""

    asked: int = 0
    equal: int = 0
    errors: int = 0
    differences: list[Difference] = field(default_factory=list)
    old_s: list[float] = field(default_factory=list)
    new_s: list[float] = field(default_factory=list)

    def medians_ms(self) -> tuple[float, float]:
        """Return the median time of the old and of the new side in milliseconds."""
        return 1000 * statistics.median(self.old_s), 1000 * statistics.median(self.new_s)


Progress = Callable[[int], Any]


@dataclass(slots=True)
class Comparison:
    """Two sides and what has been found between them.

    :param at_once: how many questions are under way at a time.
    :param progress: told the number of questions answered, and at the start of a round of how many.
    """

    old: Side
    new: Side
    at_once: int = 4
    tallies: dict[Kind, Tally] = field(default_factory=dict)
    known: Inhabitants = field(default_factory=Inhabitants)

    def run(
        self,
        from_log: Iterable[Question] = (),
        searches: int = 0,
        seed: int = 0,
        progress: Progress = lambda number: None,
        announce: Progress = lambda number: None,
    ) -> None:
        """Ask everything; ``announce`` is told how many questions come next, ``progress`` of each."""
        with ThreadPoolExecutor(self.at_once) as pool:
            for questions in self._rounds(from_log, searches, seed):
                listed = list(dict.fromkeys(questions))
                announce(len(listed))
                for question, old, new in pool.map(self._ask, listed):
                    self._count(question, old, new)
                    progress(1)

    def _rounds(
        self, from_log: Iterable[Question], searches: int, seed: int
    ) -> Iterator[Iterable[Question]]:
        yield from survey.rounds(self.known)
        yield from_log
        yield made(self.known, searches, seed)

    def _ask(self, question: Question) -> tuple[Question, Answer, Answer]:
        old, new = self.old.ask(question), self.new.ask(question)
        for _ in range(SECOND_LOOKS):
            if difference(question, old, new) is None:
                break
            old, new = self.old.ask(question), self.new.ask(question)
        return question, old, new

    def _count(self, question: Question, old: Answer, new: Answer) -> None:
        for answer in (old, new):
            if answer.status == 200:
                self.known.learn(question, answer.body)
        tally = self.tallies.setdefault(question.kind, Tally())
        tally.asked += 1
        tally.old_s.append(old.seconds)
        tally.new_s.append(new.seconds)
        words = difference(question, old, new)
        if old.trouble or new.trouble:
            tally.errors += 1
        if words is None:
            tally.equal += 1
        else:
            curls = self.old.curl(question), self.new.curl(question)
            tally.differences.append(Difference(question, words, *curls))

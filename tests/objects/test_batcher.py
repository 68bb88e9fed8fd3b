"""What waits is answered together, and nothing waits for long (placement.objects.batcher)."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from placement import errors
from placement.objects import batcher
from placement.objects.batcher import Batcher, Participant
from tests.support.processes import PATIENCE, wait_until

HANGS_S = 30.0 * PATIENCE


Answers = Sequence[str | type[errors.PlacementError] | None]


class Meeting:
    """Questions that are numbers; a first one is being answered until ``first_may_end``."""

    def __init__(self, answer_all: Callable[[Sequence[int]], Answers | None]) -> None:
        self.first_may_end = threading.Event()
        self.asked_together: list[Sequence[int]] = []
        self._answer_all = answer_all
        self._threads = ThreadPoolExecutor(8)
        self.batcher = Batcher[int, str]()
        self.first = self.ask(0, self._answer_first)

    def ask(self, number: int, alone: Callable[[], str] | None = None) -> Future[str]:
        """Ask in a thread of its own, and return when it waits or has its answer."""
        waiting = self.batcher._waiting
        found = self._threads.submit(self.answer, number, alone or (lambda: f"{number} alone"))
        wait_until(
            "the question is there",
            lambda: found.done() or self._is_answered_first(number) or number in _numbers(waiting),
        )
        return found

    def lead(self, number: int, alone: Callable[[], str]) -> Future[str]:
        """Ask in a thread of its own while nobody asks, and return when it is being answered."""
        found = self._threads.submit(self.answer, number, alone)
        wait_until("the question is being answered", lambda: self.batcher._is_busy)
        return found

    def answer(self, number: int, alone: Callable[[], str]) -> str:
        """Answer a question in its turn, as claims do."""
        with self.batcher.take_turn(number) as mine:
            if len(mine.led) > 1:
                answers = self._all([each.question for each in mine.led])
                if answers is not None:
                    mine.tell(answers)
            answer = mine.result()
            return alone() if answer is None else answer

    def _is_answered_first(self, number: int) -> bool:
        return number == 0 and self.batcher._is_busy

    def _answer_first(self) -> str:
        assert self.first_may_end.wait(HANGS_S)
        return "first"

    def _all(self, numbers: Sequence[int]) -> Answers | None:
        self.asked_together.append(numbers)
        return self._answer_all(numbers)


def _numbers(waiting: Sequence[batcher.Participant[int, str]]) -> list[int]:
    return [each.question for each in tuple(waiting)]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes alone because the machine is busy."""
    monkeypatch.setattr(batcher, "PATIENCE_S", HANGS_S)


def answered(found: Sequence[Future[str]]) -> list[str]:
    return [each.result(HANGS_S) for each in found]


def test_what_waits_is_answered_together() -> None:
    meeting = Meeting(lambda numbers: [f"{number} of {len(numbers)}" for number in numbers])
    waiting = [meeting.ask(number) for number in (1, 2, 3)]

    meeting.first_may_end.set()

    assert answered([meeting.first, *waiting]) == ["first", "1 of 3", "2 of 3", "3 of 3"]
    assert meeting.asked_together == [[1, 2, 3]]
    assert meeting.ask(4).result(HANGS_S) == "4 alone"


def test_what_cannot_be_answered_together_is_answered_alone() -> None:
    meeting = Meeting(lambda numbers: None)
    waiting = [meeting.ask(number) for number in (1, 2)]

    meeting.first_may_end.set()

    assert answered(waiting) == ["1 alone", "2 alone"]
    assert meeting.ask(3).result(HANGS_S) == "3 alone"


def test_each_question_has_an_answer_of_its_own() -> None:
    """One learns an error, the next is answered alone, and the last is answered."""
    meeting = Meeting(lambda numbers: [errors.OutcomeUnknown, None, "3 of 3"])
    refused, *others = [meeting.ask(number) for number in (1, 2, 3)]

    meeting.first_may_end.set()

    with pytest.raises(errors.OutcomeUnknown):
        refused.result(HANGS_S)
    assert answered(others) == ["2 alone", "3 of 3"]
    assert meeting.ask(4).result(HANGS_S) == "4 alone"


def test_a_fault_of_the_thread_that_answers_leaves_the_others_alone() -> None:
    def fail(numbers: Sequence[int]) -> Sequence[str]:
        raise ZeroDivisionError

    meeting = Meeting(fail)
    first, second = [meeting.ask(number) for number in (1, 2)]

    meeting.first_may_end.set()

    with pytest.raises(ZeroDivisionError):
        first.result(HANGS_S)
    assert second.result(HANGS_S) == "2 alone"
    assert meeting.ask(3).result(HANGS_S) == "3 alone"


@pytest.mark.parametrize(
    ("error", "answer", "logged"),
    [
        (errors.OutcomeUnknown(), errors.OutcomeUnknown, False),
        (errors.DatabaseBusy(), "alone", False),
        (ZeroDivisionError(), "alone", True),
    ],
)
def test_an_error_of_all_is_the_answer_to_none_but_an_unknown_outcome(
    error: Exception, answer: object, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours must show in the log, although no client learns it."""
    led = [Participant[int, str](number) for number in (1, 2)]
    led[0].led = led

    def fail(numbers: Sequence[int]) -> Sequence[str]:
        raise error

    led[0].answer_together(fail, alone="alone")

    assert [each.answer for each in led] == [answer] * 2
    assert all(each.woken.is_set() for each in led)
    assert ("one by one" in caplog.text) == logged


class Ended(BaseException):
    """What ends a thread from outside."""


@pytest.mark.parametrize("leads", [False, True])
def test_nobody_waits_for_a_thread_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    """The thread of the first that waits ends while it waits, or just when it has become the leader."""
    meeting = Meeting(lambda numbers: [f"{number} of {len(numbers)}" for number in numbers])
    wait = Batcher._wait_for_answer
    may_end = threading.Event()

    def end(self: Batcher[int, str], mine: batcher.Participant[int, str]) -> None:
        if mine.question != 1:
            wait(self, mine)
            return
        if leads:
            wait(self, mine)
            assert mine.led
        else:
            assert may_end.wait(HANGS_S)
        raise Ended

    monkeypatch.setattr(Batcher, "_wait_for_answer", end)
    ending, *others = [meeting.ask(number) for number in (1, 2, 3)]
    may_end.set()
    if not leads:
        with pytest.raises(Ended):
            ending.result(HANGS_S)
    meeting.first_may_end.set()

    if leads:
        with pytest.raises(Ended):
            ending.result(HANGS_S)
    assert answered(others) == ["2 of 2", "3 of 2"]
    assert meeting.ask(4).result(HANGS_S) == "4 alone"


def test_nothing_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is being answered may wait for a lock."""
    meeting = Meeting(lambda numbers: None)
    waits = meeting.ask(1)
    monkeypatch.setattr(batcher, "PATIENCE_S", 0.0)

    assert meeting.ask(2).result(HANGS_S) == "2 alone"

    # Neither who waits already nor who comes later waits for the same answer.
    assert waits.result(HANGS_S) == "1 alone"
    monkeypatch.setattr(batcher, "PATIENCE_S", HANGS_S)
    assert meeting.ask(3).result(HANGS_S) == "3 alone"
    assert not meeting.first.done()

    meeting.first_may_end.set()
    assert meeting.first.result(HANGS_S) == "first"
    assert meeting.asked_together == []


def test_what_follows_a_long_answer_is_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Meeting(lambda numbers: [f"{number} of {len(numbers)}" for number in numbers])
    monkeypatch.setattr(batcher, "PATIENCE_S", 0.0)
    assert meeting.ask(1).result(HANGS_S) == "1 alone"
    monkeypatch.setattr(batcher, "PATIENCE_S", HANGS_S)
    meeting.first_may_end.set()
    meeting.first.result(HANGS_S)
    second_may_end = threading.Event()

    def wait() -> str:
        assert second_may_end.wait(HANGS_S)
        return "second"

    second = meeting.lead(2, wait)
    waiting = [meeting.ask(number) for number in (3, 4)]
    second_may_end.set()

    assert answered([second, *waiting]) == ["second", "3 of 2", "4 of 2"]


@pytest.mark.parametrize("gathers", [False, True])
def test_after_several_answers_as_many_questions_are_gathered(
    monkeypatch: pytest.MonkeyPatch, gathers: bool
) -> None:
    """The first that comes then waits for the others, which were answered with it, but not for long."""
    monkeypatch.setattr(batcher, "GATHER_SHARE", 10.0**9)
    monkeypatch.setattr(batcher, "MOST_GATHER_S", HANGS_S if gathers else 0.0)
    meeting = Meeting(lambda numbers: [f"{number} of {len(numbers)}" for number in numbers])
    waiting = [meeting.ask(number) for number in (1, 2)]
    meeting.first_may_end.set()
    assert answered(waiting) == ["1 of 2", "2 of 2"]
    wait_until("the turn is over", lambda: not meeting.batcher._is_busy)

    third = meeting.lead(3, lambda: "3 alone") if gathers else meeting.ask(3)
    fourth = meeting.ask(4)

    assert answered([third, fourth]) == (
        ["3 of 2", "4 of 2"] if gathers else ["3 alone", "4 alone"]
    )


def test_a_fault_of_the_first_lets_the_others_go_on() -> None:
    meeting = Meeting(lambda numbers: [f"{number} of {len(numbers)}" for number in numbers])
    meeting.first_may_end.set()
    meeting.first.result(HANGS_S)

    with pytest.raises(ZeroDivisionError):
        meeting.answer(1, lambda: str(1 // 0))

    assert meeting.ask(2).result(HANGS_S) == "2 alone"

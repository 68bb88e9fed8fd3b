"""The checker finds what it is for: broken histories are refused, right ones are not."""

import itertools
import math
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import checker, registers
from tests.support.checker import NotLinearizable, Operation, check
from tests.support.effort import examples

HELD = frozenset({("host", "VCPU", 1)})


def operation(called: float, returned: float, effect: checker.Effect) -> Operation:
    return Operation(called, returned, effect, f"{called} to {returned}")


def write(called: float, returned: float, sent: int | None) -> Operation:
    return operation(called, returned, registers.wrote(sent, HELD))


def read(called: float, returned: float, generation: int | None) -> Operation:
    shown = None if generation is None else (generation, HELD)
    return operation(called, returned, registers.seen(shown))


RIGHT = {
    "one after the other": [write(0, 1, None), read(2, 3, 1), write(4, 5, 1), read(6, 7, 2)],
    "a read beside a write sees what was": [write(0, 1, None), write(2, 9, 1), read(3, 4, 1)],
    "or what will be": [write(0, 1, None), write(2, 9, 1), read(3, 4, 2)],
    "the later of two that overlap was first": [write(0, 9, 1), write(1, 8, None)],
    "no answer, and it took place": [write(0, math.inf, None), read(5, 6, 1)],
    "no answer, and it never did": [write(0, math.inf, None), read(5, 6, None)],
    "no answer, and it took place late": [
        write(0, math.inf, None),
        read(5, 6, None),
        read(7, 8, 1),
    ],
    "who was refused had an old generation": [
        write(0, 1, None),
        write(2, 3, 1),
        operation(2, 4, registers.refused(1)),
    ],
}
BROKEN = {
    "two win with one generation": [write(0, 1, None), write(2, 9, 1), write(3, 8, 1)],
    "an acknowledged write is gone": [write(0, 1, None), write(2, 3, 1), read(4, 5, 1)],
    "a read goes back": [write(0, 1, None), write(2, 9, 1), read(3, 4, 2), read(5, 6, 1)],
    "a read sees what was not yet sent": [read(0, 1, 1), write(2, 3, None)],
    "a generation moves by two": [write(0, 1, None), write(2, 3, 1), read(4, 5, 3)],
    "a right generation is refused": [write(0, 1, None), operation(2, 3, registers.refused(1))],
    "gone and not": [
        write(0, 1, None),
        operation(2, 3, registers.removed()),
        operation(4, 5, registers.removed()),
    ],
    "no answer, and it took place twice": [
        write(0, 1, None),
        write(2, math.inf, 1),
        read(5, 6, 3),
    ],
    "an inventory that nobody wrote": [
        operation(0, 1, registers.created()),
        operation(2, 3, registers.added("VCPU", 4, 1)),
        operation(4, 5, registers.shown(1, frozenset({("VCPU", 8)}))),
    ],
    "the same traits are a step": [
        operation(0, 1, registers.created()),
        operation(2, 3, registers.characterised(0, frozenset({"A"}), 1)),
        operation(4, 5, registers.characterised(1, frozenset({"A"}), 2)),
    ],
    "a claim moves nothing": [
        operation(0, 1, registers.created()),
        operation(2, 3, registers.stepped(1)),
        operation(4, 5, registers.seen_at(0)),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history_is_taken(name: str) -> None:
    check(RIGHT[name], None)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_history_is_refused(name: str) -> None:
    with pytest.raises(NotLinearizable):
        check(BROKEN[name], None)


def some_order_explains(history: Sequence[Operation]) -> bool:
    """The definition, by trying everything: slow, and with nothing to get wrong."""
    lost = [each for each in history if each.returned == math.inf]
    kept = [each for each in history if each.returned != math.inf]
    return any(
        explains(order)
        for count in range(len(lost) + 1)
        for happened in itertools.combinations(lost, count)
        for order in itertools.permutations([*kept, *happened])
    )


def explains(order: Sequence[Operation]) -> bool:
    """Nobody stands before one that had returned when it began, and every answer fits."""
    if any(a.called > b.returned for a, b in itertools.combinations(order, 2)):
        return False
    states = {None}
    for each in order:
        states = {after for state in states for after in each.effect(state)}
    return bool(states)


effects = st.one_of(
    st.sampled_from([None, 1, 2]).map(lambda sent: registers.wrote(sent, HELD)),
    st.sampled_from([None, 1, 2]).map(registers.refused),
    st.sampled_from([None, 1, 2, 3]).map(
        lambda generation: registers.seen(None if generation is None else (generation, HELD))
    ),
    st.builds(registers.removed),
)
operations = st.builds(
    lambda called, lasts, effect: operation(called, called + lasts, effect),
    st.integers(0, 9),
    st.sampled_from([1, 2, 4, 8, math.inf]),
    effects,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(operations, max_size=5))
def test_it_says_what_trying_every_order_says(history: list[Operation]) -> None:
    try:
        check(history, None)
        found = True
    except NotLinearizable:
        found = False
    assert found == some_order_explains(history)


class Register:
    """A generation that is compared and set, with or without the lock that makes it one."""

    def __init__(self, locked: bool) -> None:
        self._generation: int | None = None
        self._lock = threading.Lock() if locked else None

    def write(self, sent: int | None) -> bool:
        """Compare and set; without the lock others come between the two."""
        if self._lock:
            with self._lock:
                return self._compare_and_set(sent)
        return self._compare_and_set(sent)

    def _compare_and_set(self, sent: int | None) -> bool:
        right = self._generation == sent
        time.sleep(0.0002)
        if right:
            self._generation = (sent or 0) + 1
        return right

    def read(self) -> int | None:
        """Return the generation."""
        return self._generation


def played(register: Register, seed: int) -> list[Operation]:
    """Return what four threads saw that read and write."""
    history: list[Operation] = []

    def work(number: int) -> None:
        chance, known = random.Random(f"{seed}/{number}"), None
        for _ in range(25):
            called = time.monotonic()
            if chance.random() < 0.5:
                known = register.read()
                effect = registers.seen_at(known) if known else registers.absent()
            else:
                won = register.write(known)
                effect = registers.wrote(known, HELD) if won else registers.refused(known)
            history.append(operation(called, time.monotonic(), effect))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    return history


def test_a_register_without_its_lock_is_found_out() -> None:
    """Real threads: with the lock every history is right, without it some is not."""
    for seed in range(5):
        check(played(Register(locked=True), seed), None)
    with pytest.raises(NotLinearizable):
        for seed in range(50):
            check(played(Register(locked=False), seed), None)


def test_many_operations_of_unknown_outcome_do_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "CONFIGURATIONS", 1000)
    unknown = [operation(0, math.inf, registers.stepped(1, 2)) for _ in range(30)]
    made = operation(0, 1, registers.created())
    with pytest.raises((checker.Undecided, NotLinearizable)):
        check([made, *unknown, operation(2, 3, registers.seen_at(999))], None)

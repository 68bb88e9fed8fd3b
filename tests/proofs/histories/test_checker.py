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

from tests.support import checker, registers, whole
from tests.support.checker import NotLinearizable, Operation, check
from tests.support.effort import examples
from tests.support.whole import Ask, Effects, Rule, Told

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


HOST, OTHER = "host", "other"
ONE, TWO = Ask("one", {"VCPU": 2}), Ask("two", {"VCPU": 2})
LATE = math.inf


def of_all(called: float, returned: float, *ways: Effects, rule: Rule | None = None) -> Operation:
    told = Told(ways or [{}], [rule] if rule else [])
    return Operation(called, returned, told.together, f"{called} to {returned}")


def granted(*asked: Ask, on: str = HOST, hold: registers.Hold | None = None) -> Effects:
    """Return what a claim says that was granted to new consumers."""
    consumers = {
        ask.consumer: registers.claimed(None, ask.on(on), hold, ask.grouped) for ask in asked
    }
    return consumers | {on: registers.stepped(1)}


def holds(ask: Ask, generation: int = 1) -> Effects:
    return {ask.consumer: registers.seen((generation, ask.on(HOST)))}


def has_nothing(ask: Ask) -> Effects:
    return {ask.consumer: registers.absent()}


def host(name: str, total: int = 4) -> list[Operation]:
    return [
        of_all(-4, -3, {name: registers.created()}),
        of_all(-2, -1, {name: registers.stocked(0, frozenset({("VCPU", total)}), 1)}),
    ]


UNTIL = (10.0, 10.5)
HELD_ONE = [
    *host(HOST),
    of_all(0, 1, granted(ONE, hold=UNTIL)),
    of_all(UNTIL[0], LATE, {"one": registers.ended(UNTIL)}),
]
"""A consumer that is held until 10: afterwards its hold may end, which nobody sends."""
CONFIRMED = of_all(4, 5, {"one": registers.confirmed(1, 2)})
GANG = [*host(HOST), of_all(0, 9, granted(ONE, TWO))]
NOBODY_KNOWS = [
    *host(HOST),
    *host(OTHER),
    of_all(0, LATE, granted(ONE, TWO), granted(ONE, TWO, on=OTHER)),
]
APART = Ask("one", {"VCPU": 1}, grouped=True), Ask("two", {"VCPU": 1}, grouped=True)
ALL_RIGHT = {
    "a gang is seen, and nobody of it before": [
        *GANG,
        of_all(1, 2, has_nothing(ONE)),
        of_all(3, 4, has_nothing(TWO)),
        of_all(5, 6, holds(TWO)),
        of_all(7, 8, holds(ONE)),
    ],
    "no answer, and the gang is there": [*NOBODY_KNOWS, of_all(2, 3, holds(ONE) | holds(TWO))],
    "no answer, and it is not": [*NOBODY_KNOWS, of_all(2, 3, has_nothing(ONE) | has_nothing(TWO))],
    "a hold ends": [*HELD_ONE, of_all(8, 9, holds(ONE)), of_all(12, 13, has_nothing(ONE))],
    "a hold is over, and nobody needs its room": [*HELD_ONE, of_all(12, 13, holds(ONE))],
    "a confirmed hold does not end": [*HELD_ONE, CONFIRMED, of_all(12, 13, holds(ONE, 2))],
    "refused beside a hold that is not over": [
        *HELD_ONE,
        of_all(9, 10, rule=whole.no_place([Ask("two", {"VCPU": 3})], 9)),
    ],
    "refused as the first member is on the only host": [
        *host(HOST),
        of_all(0, 1, granted(APART[0]), rule=whole.keeps_apart),
        of_all(2, 3, rule=whole.no_place(APART[1:], 2)),
    ],
    "a later query is granted as the earlier one has no place any more": [
        *host(HOST),
        of_all(0, 9, granted(ONE)),
        of_all(1, 8, granted(TWO), rule=whole.no_place([Ask("two", {"VCPU": 3})])),
    ],
    "confirmation is refused after the end": [
        *HELD_ONE,
        of_all(11, 12, rule=whole.not_confirmable({"one": 1}, 12, generation=False)),
    ],
}
ALL_BROKEN = {
    "a gang is half visible": [*GANG, of_all(1, 2, holds(ONE)), of_all(3, 4, has_nothing(TWO))],
    "a gang is half visible to one reading": [*GANG, of_all(1, 2, holds(ONE) | has_nothing(TWO))],
    "no answer, and half of the gang is there": [
        *NOBODY_KNOWS,
        of_all(2, 3, holds(ONE)),
        of_all(4, 5, has_nothing(TWO)),
    ],
    "no answer, and the gang is there, and gone": [
        *NOBODY_KNOWS,
        of_all(2, 3, holds(ONE)),
        of_all(4, 5, has_nothing(ONE)),
    ],
    "a refused claim leaves something": [
        *host(HOST, 1),
        of_all(0, 1, rule=whole.no_place([ONE], 0)),
        of_all(2, 3, holds(ONE)),
    ],
    "a hold ends early": [*HELD_ONE, of_all(8, 9, has_nothing(ONE))],
    "a hold ends after its confirmation": [*HELD_ONE, CONFIRMED, of_all(12, 13, has_nothing(ONE))],
    "a hold ends after it was overwritten": [
        *HELD_ONE,
        of_all(4, 5, {"one": registers.wrote(1, HELD), HOST: registers.stepped(1)}),
        of_all(12, 13, has_nothing(ONE)),
    ],
    "a hold ends and is confirmed": [
        *HELD_ONE,
        of_all(12, 13, has_nothing(ONE)),
        of_all(14, 15, {"one": registers.confirmed(1, 2)}),
    ],
    "a hold is confirmed twice": [
        *HELD_ONE,
        CONFIRMED,
        of_all(6, 7, {"one": registers.confirmed(registers.ANY, 3)}),
    ],
    "a hold is confirmed when it is over": [
        *HELD_ONE,
        of_all(11, 12, {"one": registers.confirmed(1, 2)}, rule=whole.in_time(["one"], 11)),
    ],
    "confirmation is refused before the end": [
        *HELD_ONE,
        of_all(4, 5, rule=whole.not_confirmable({"one": 1}, 5, generation=False)),
    ],
    "a generation is skipped": [*HELD_ONE, of_all(4, 5, {"one": registers.confirmed(1, 3)})],
    "a claim is granted twice": [
        *host(HOST),
        of_all(0, 9, granted(ONE)),
        of_all(1, 8, granted(ONE)),
    ],
    "a claim is seen to be there twice": [
        *GANG,
        of_all(10, 11, {HOST: registers.seen_at(3)}),
    ],
    "a provider is filled twice": [
        *host(HOST, 3),
        of_all(0, 9, granted(ONE)),
        of_all(1, 8, granted(TWO)),
    ],
    "nothing is held, and there is no room": [
        *host(HOST),
        of_all(0, 1, rule=whole.no_place([ONE], 0)),
    ],
    "a later query is granted, and the earlier one had a place all the time": [
        *host(HOST),
        of_all(0, 1, granted(ONE)),
        of_all(1, 8, granted(TWO), rule=whole.no_place([Ask("two", {"VCPU": 2})])),
    ],
    "a claim is refused for the sake of a hold that is over": [
        *HELD_ONE,
        of_all(11, 12, rule=whole.no_place([Ask("two", {"VCPU": 3})], 11)),
    ],
    "a plain write is refused for the sake of a hold that is over": [
        *HELD_ONE,
        of_all(11, 12, rule=whole.too_much({"two": frozenset({(HOST, "VCPU", 3)})}, 11)),
    ],
    "two of a group are on one host": [
        *host(HOST),
        of_all(0, 1, granted(APART[0]), rule=whole.keeps_apart),
        of_all(2, 3, granted(APART[1]), rule=whole.keeps_apart),
    ],
}
NAMES = (HOST, OTHER, "one", "two")


@pytest.mark.parametrize("name", ALL_RIGHT)
def test_a_right_history_of_all_is_taken(name: str) -> None:
    check(ALL_RIGHT[name], whole.start(NAMES))


@pytest.mark.parametrize("name", ALL_BROKEN)
def test_a_broken_history_of_all_is_refused(name: str) -> None:
    with pytest.raises(NotLinearizable):
        check(ALL_BROKEN[name], whole.start(NAMES))


@pytest.mark.parametrize("name", ALL_BROKEN)
def test_what_breaks_a_history_of_all_is_its_end(name: str) -> None:
    """Each would be right without the operation that came last."""
    last = max(
        (each for each in ALL_BROKEN[name] if each.returned != LATE), key=lambda each: each.called
    )
    check([each for each in ALL_BROKEN[name] if each is not last], whole.start(NAMES))


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
    st.builds(lambda: registers.claimed(None, HELD, UNTIL)),
    st.builds(lambda: registers.confirmed(registers.ANY, None)),
    st.builds(lambda: registers.ended(UNTIL)),
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

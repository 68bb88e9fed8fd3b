"""The checker finds what it is for: broken histories are refused, right ones are not."""

import itertools
import json
import math
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proofs.histories import checker, model
from tests.proofs.histories.campaign import History
from tests.proofs.histories.checker import Effect, NotLinearizable, Operation, check
from tests.proofs.year.player import Asked
from tests.support.bodies import entry, stock
from tests.support.client import Answer
from tests.support.effort import examples


def wrote(sent: int | None) -> Effect:
    """A generation was compared and set."""
    return lambda now: [(sent or 0) + 1] if now == sent else []


def refused_with(sent: int | None) -> Effect:
    """The generation that was sent was not the present one."""
    return lambda now: [now] if now != sent else []


def seen(generation: int | None) -> Effect:
    """It was shown."""
    return lambda now: [now] if now == generation else []


def removed() -> Effect:
    """It was there and is gone."""
    return lambda now: [] if now is None else [None]


def operation(called: float, returned: float, effect: Effect) -> Operation:
    return Operation(called, returned, effect, f"{called} to {returned}")


def write(called: float, returned: float, sent: int | None) -> Operation:
    return operation(called, returned, wrote(sent))


def read(called: float, returned: float, generation: int | None) -> Operation:
    return operation(called, returned, seen(generation))


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
        operation(2, 4, refused_with(1)),
    ],
}
BROKEN = {
    "two win with one generation": [write(0, 1, None), write(2, 9, 1), write(3, 8, 1)],
    "an acknowledged write is gone": [write(0, 1, None), write(2, 3, 1), read(4, 5, 1)],
    "a read goes back": [write(0, 1, None), write(2, 9, 1), read(3, 4, 2), read(5, 6, 1)],
    "a read sees what was not yet sent": [read(0, 1, 1), write(2, 3, None)],
    "a generation moves by two": [write(0, 1, None), write(2, 3, 1), read(4, 5, 3)],
    "a right generation is refused": [write(0, 1, None), operation(2, 3, refused_with(1))],
    "gone and not": [
        write(0, 1, None),
        operation(2, 3, removed()),
        operation(4, 5, removed()),
    ],
    "no answer, and it took place twice": [
        write(0, 1, None),
        write(2, math.inf, 1),
        read(5, 6, 3),
    ],
}


HOST, OTHER = (f"1000000{n}-0000-4000-8000-000000000000" for n in (1, 2))
ONE, TWO = (f"5000000{n}-0000-4000-8000-000000000000" for n in (1, 2))
LATE = math.inf
START = 1_700_000_000.0
"""When the clock of these histories was 0."""
END = 10
"""When the hold is over."""


def shown(moment: float) -> str:
    """Return a time as answers have it."""
    return datetime.fromtimestamp(START + moment, UTC).isoformat().replace("+00:00", "Z")


def sent(
    called: float, returned: float, asked: Asked, status: int, document: Any = None, **error: Any
) -> Operation:
    """Return a request with its answer."""
    document = {"errors": [{"code": "", **error}]} if error else document
    answer = Answer(status, "" if document is None else json.dumps(document))
    effect = model.took_place(asked, answer, (START + called) * 1000, (START + returned) * 1000)
    return Operation(called, returned, effect, str(asked))


def host(name: str, total: int = 4) -> list[Operation]:
    inventory = stock(0, {"VCPU": total})
    return [
        sent(-4, -3, Asked("POST", "/resource_providers", {"name": name, "uuid": name}), 200),
        sent(-2, -1, Asked("PUT", f"/resource_providers/{name}/inventories", inventory), 200),
    ]


def claims(
    *consumers: str, amounts: Sequence[int] = (2,), grouped: bool = False, hold: bool = False
) -> Asked:
    queries = [f"resources=VCPU:{amount}" for amount in amounts]
    entry = {"consumer_generation": None, "project_id": "p", "user_id": "u", "consumer_type": "T"}
    entry |= {"queries": queries} if len(queries) > 1 else {"query": queries[0]}
    entry |= {"groups": ["group"]} if grouped else {}
    body: dict[str, Any] = {"claims": [{"consumer_uuid": each, **entry} for each in consumers]}
    body |= {"groups": {"group": {"rule": "apart"}}} if grouped else {}
    return Asked("POST", "/-/claims", body | ({"hold_s": END} if hold else {}))


def granted(
    called: float, returned: float, *consumers: str, chosen: int | None = None, **how: Any
) -> Operation:
    place = {
        "consumer_generation": 1,
        "root_provider_uuid": HOST,
        "allocations": {HOST: {"resources": {"VCPU": 2}}},
        "mappings": {"": [HOST]},
        **({} if chosen is None else {"chosen": chosen}),
    }
    document: dict[str, Any] = {"claims": [{"consumer_uuid": each, **place} for each in consumers]}
    document |= {} if chosen is None else {"exact": True}
    document |= {"hold": {"expires_at": shown(END)}} if how.get("hold") else {}
    return sent(called, returned, claims(*consumers, **how), 200, document)


def refused(called: float, returned: float, consumer: str, amount: int, **how: Any) -> Operation:
    why = {"reason": "no_candidate", "code": "placement.no_candidate", "exact": True, "explanation": [1]}
    why |= {"claim": {"number": 0, "consumer_uuid": consumer}, "groups": []}
    return sent(called, returned, claims(consumer, amounts=[amount], **how), 409, **why)


def holds(called: float, returned: float, consumer: str, generation: int = 1, at: int = 1) -> Operation:
    document = {
        "allocations": {HOST: {"generation": at + 1, "resources": {"VCPU": 2}}},
        **{"project_id": "p", "user_id": "u", "consumer_type": "T", "consumer_generation": generation},
    }
    return sent(called, returned, Asked("GET", f"/allocations/{consumer}"), 200, document)


def has_nothing(called: float, returned: float, consumer: str) -> Operation:
    return sent(called, returned, Asked("GET", f"/allocations/{consumer}"), 200, {"allocations": {}})


def confirms(called: float, returned: float, after: int | None = 2, given: int = 1) -> Operation:
    one = {"consumer_uuid": ONE, "consumer_generation": given}
    asked = Asked("POST", "/-/claims/confirm", {"consumers": [one]})
    if after is None:
        return sent(called, returned, asked, 409, code="placement.hold_expired")
    return sent(called, returned, asked, 200, {"consumers": [one | {"consumer_generation": after}]})


def writes(
    called: float, returned: float, amount: int, generation: int | None = None, of: str = TWO, why: str = ""
) -> Operation:
    more = {"project_id": "p", "user_id": "u", "consumer_type": "T"}
    body = entry({HOST: {"VCPU": amount}}, generation, **more)
    asked = Asked("PUT", f"/allocations/{of}", body)
    return sent(called, returned, asked, 409, reason=why) if why else sent(called, returned, asked, 204)


OVER = Operation(END, LATE, model.ended(ONE, round((START + END) * 1000)), "the hold is over")
HELD_ONE = [*host(HOST), granted(0, 1, ONE, hold=True), OVER]
"""A consumer that is held until 10: afterwards its hold may end, which nobody sends."""
GANG = [*host(HOST), granted(0, 9, ONE, TWO)]
ALL_RIGHT = {
    "a gang is seen, and nobody of it before": [
        *GANG, has_nothing(1, 2, ONE), has_nothing(3, 4, TWO), holds(5, 6, TWO), holds(7, 8, ONE),
    ],
    "a hold ends": [*HELD_ONE, holds(8, 9, ONE), has_nothing(12, 13, ONE)],
    "a hold is over, and nobody needs its room": [*HELD_ONE, holds(12, 13, ONE)],
    "a confirmed hold does not end": [*HELD_ONE, confirms(4, 5), holds(12, 13, ONE, 2)],
    "refused beside a hold that is not over": [*HELD_ONE, refused(8, 9, TWO, 3)],
    "refused as the first member is on the only host": [
        *host(HOST), granted(0, 1, ONE, grouped=True), refused(2, 3, TWO, 1, grouped=True),
    ],
    "a later query is granted as the earlier one has no place any more": [
        *host(HOST), granted(0, 9, ONE), granted(1, 8, TWO, amounts=(3, 2), chosen=1),
    ],
    "confirmation is refused after the end": [*HELD_ONE, confirms(11, 12, None)],
    "two claims at once are one step": [
        *host(HOST), granted(0, 9, ONE), granted(1, 8, TWO), holds(10, 11, ONE),
    ],
}  # fmt: skip
ALL_BROKEN = {
    "a gang is half visible": [*GANG, holds(1, 2, ONE), has_nothing(3, 4, TWO)],
    "a refused claim leaves something": [*host(HOST, 1), refused(0, 1, ONE, 2), holds(2, 3, ONE)],
    "a hold ends early": [*HELD_ONE, has_nothing(8, 9, ONE)],
    "a hold ends after its confirmation": [*HELD_ONE, confirms(4, 5), has_nothing(12, 13, ONE)],
    "a hold ends after it was overwritten": [
        *HELD_ONE, writes(4, 5, 2, generation=1, of=ONE), has_nothing(12, 13, ONE),
    ],
    "a hold ends and is confirmed": [*HELD_ONE, has_nothing(12, 13, ONE), confirms(14, 15)],
    "a hold is confirmed twice": [*HELD_ONE, confirms(4, 5), confirms(6, 7, 3, 2)],
    "a hold is confirmed when it is over": [*HELD_ONE, confirms(11, 12)],
    "confirmation is refused before the end": [*HELD_ONE, confirms(4, 5, None)],
    "a generation is skipped": [*HELD_ONE, confirms(4, 5, 3)],
    "a claim is granted twice": [*host(HOST), granted(0, 9, ONE), granted(1, 8, ONE)],
    "a claim moves nothing": [*GANG, holds(10, 11, ONE, at=0)],
    "a claim is seen to be there twice": [*GANG, holds(10, 11, ONE, at=2)],
    "a provider is filled twice": [*host(HOST, 3), granted(0, 9, ONE), granted(1, 8, TWO)],
    "nothing is held, and there is no room": [*host(HOST), refused(0, 1, ONE, 2)],
    "no room, but on another host": [*host(HOST, 1), *host(OTHER), refused(0, 1, ONE, 2)],
    "a later query is granted, and the earlier one had a place all the time": [
        *host(HOST), granted(0, 1, ONE), granted(2, 8, TWO, amounts=(1, 2), chosen=1),
    ],
    "a claim is refused for the sake of a hold that is over": [*HELD_ONE, refused(11, 12, TWO, 3)],
    "a plain write is refused for the sake of a hold that is over": [
        *HELD_ONE, writes(11, 12, 3, why="capacity_exceeded"),
    ],
    "two of a group are on one host": [
        *host(HOST), granted(0, 1, ONE, grouped=True), granted(2, 3, TWO, grouped=True),
    ],
    "an acknowledged write is gone": [*host(HOST), writes(0, 1, 2), has_nothing(2, 3, TWO)],
    "a right generation is refused": [
        *host(HOST), writes(0, 1, 2, why="consumer_generation"),
    ],
}  # fmt: skip


def check_all(history: Sequence[Operation]) -> None:
    check(history, model.state_of(model.Cloud()))


@pytest.mark.parametrize("name", ALL_RIGHT)
def test_a_right_history_of_all_is_taken(name: str) -> None:
    check_all(ALL_RIGHT[name])


@pytest.mark.parametrize("name", ALL_BROKEN)
def test_a_broken_history_of_all_is_refused(name: str) -> None:
    with pytest.raises(NotLinearizable):
        check_all(ALL_BROKEN[name])


@pytest.mark.parametrize("name", ALL_BROKEN)
def test_what_breaks_a_history_of_all_is_its_end(name: str) -> None:
    """Each would be right without the operation that came last."""
    last = max((each for each in ALL_BROKEN[name] if each.returned != LATE), key=lambda each: each.called)
    check_all([each for each in ALL_BROKEN[name] if each is not last])


def test_an_error_of_the_service_is_told() -> None:
    history = History()

    history.note(Asked("GET", "/"), Answer(500, '{"errors": [{}]}'), 0.0, 1.0)

    assert len(history.violations) == 1


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
    st.sampled_from([None, 1, 2]).map(wrote),
    st.sampled_from([None, 1, 2]).map(refused_with),
    st.sampled_from([None, 1, 2, 3]).map(seen),
    st.builds(removed),
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
                effect = seen(known)
            else:
                won = register.write(known)
                effect = wrote(known) if won else refused_with(known)
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
    unknown = [operation(0, math.inf, lambda now: [now + 1, now + 2]) for _ in range(30)]
    with pytest.raises((checker.Undecided, NotLinearizable)):
        check([*unknown, operation(2, 3, seen(999))], 0)

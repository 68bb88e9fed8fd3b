"""Every message of every write fails in turn with every error; the answer and the state are right.

PROMISE 4 to 7. Each request is recorded, then repeated once for each of its messages (those around
transactions included) and each error of the database, which is raised before the message, before each
further statement in it, after it, and at every attempt. That is the long mode. Otherwise requests share:

* before each message of each request one error of each meaning, on ``MAIN_ROUTES``;
* each error once before each text of a message;
* inside a message, after it and at every attempt, each error once for each kind of statement.

What must come out is said by ``expected`` alone.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.promise.injection import FAULTS, Fault, Injection, Texts, injected, recorded
from tests.promise.scenes import REQUESTS, Scene
from tests.promise.stage import Rows, Stage, stage
from tests.support.databases import MAIN_ROUTES, ROUTES
from tests.support.effort import LONG, in_one_process

TOGETHER = ("postgresql", "pymysql", "mysqlclient")
"""By these several statements are one message."""

BEGIN = ("BEGIN", "START TRANSACTION")
TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE) (\w+)")


@dataclass(frozen=True)
class Clean:
    """What a request does undisturbed: messages, answer, state before and after."""

    messages: list[Texts]
    status: int
    before: str
    after: str


# What one request has tried others leave out, so one process tries all of a route.
@pytest.fixture(scope="module", params=in_one_process("errors", *ROUTES))
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    # Formatting the tracebacks of all these errors takes longer than the requests.
    logging.disable()
    try:
        # What fails at every attempt fails three times.
        with stage(request.param, players=1, attempts=3) as made:
            yield made
    finally:
        logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def tried(place: Stage) -> set[Any]:
    """Return the injections of earlier requests that are not repeated for later ones."""
    return set()


def expected(injection: Injection, clean: Clean) -> tuple[int, str]:
    """Return the status and the state that are right."""
    fault, texts = injection.fault, injection.texts
    if texts == ("ROLLBACK",):
        return clean.status, clean.before
    if fault.meaning == "refused":
        return 503, clean.before
    if fault.meaning == "fatal":
        return 500, clean.before
    if fault.meaning == "gone" and texts[-1] == "COMMIT":
        return 503, clean.after if injection.is_after else clean.before
    # Also where the next attempt does without this message, as that of an everyday claim does.
    if not injection.always or injection.struck == 1:
        return clean.status, clean.after
    begins = next(
        n for n, message in enumerate(clean.messages) if any(each.startswith(BEGIN) for each in message)
    )
    if fault.meaning == "gone" or clean.messages.index(texts) < begins:
        # Before the transaction there is only reading.
        return 503, clean.before
    return 409, clean.before


def undisturbed(place: Stage, scene: Scene, rows: Rows) -> Clean:
    """Send the request once as it is."""
    place.put_back(rows)
    before = place.picture()
    with recorded(place.players[0].db) as messages:
        answer = scene.orders[0].send(place.players[0])
    place.assert_sound()
    after = place.picture()
    # What a request has done can be seen in the picture.
    assert (answer.status_int < 300) == (after != before)
    return Clean(list(messages), answer.status_int, before, after)


def injections(place: Stage, clean: Clean, tried: set[Any]) -> Iterator[Injection]:
    """Yield everything that can go wrong, but for what was tried."""
    for number, texts in enumerate(clean.messages):
        meanings = set()
        for fault in FAULTS[place.kind]:
            is_told = place.route in MAIN_ROUTES and fault.meaning not in meanings
            if is_told or _is_new(tried, fault, texts):
                yield Injection(fault, number, texts)
            meanings.add(fault.meaning)
        for injection in _rarer(place.kind, number, texts):
            reached = texts[-1] if injection.is_after else texts[injection.at]
            key = (injection.is_after, injection.at > 0, injection.always, statement_kind(reached))
            if _is_new(tried, injection.fault, key):
                yield injection


def _is_new(tried: set[Any], fault: Fault, key: Any) -> bool:
    """Note what is tried; say whether it is to be: in the long mode also again."""
    size = len(tried)
    tried.add((fault.name, key))
    return LONG or len(tried) > size


def statement_kind(text: str) -> tuple[str, str]:
    """Return the verb and the table of a statement."""
    table = TABLE.search(text)
    return text.split()[0], table.group(1) if table else ""


def _rarer(kind: str, number: int, texts: Texts) -> Iterator[Injection]:
    """Yield what goes wrong inside a message, after it, and at every attempt."""
    size = len(texts)
    for fault in FAULTS[kind]:
        # Only a lost connection hides that a COMMIT took effect.
        last = size - (texts[-1] == "COMMIT" and fault.meaning != "gone")
        for at in range(1, last + 1):
            yield Injection(fault, number, texts, at)
    for fault in _lasting(kind):
        for at in range(size):
            yield Injection(fault, number, texts, at, always=True)


def _lasting(kind: str) -> list[Fault]:
    """Return the faults that are also tried at every attempt: one conflict, and the lost connection."""
    faults = FAULTS[kind]
    return [faults[0], *(fault for fault in faults if fault.meaning == "gone")]


@pytest.mark.parametrize("scene", REQUESTS, ids=lambda scene: scene.name.replace(" ", "-"))
def test_each_message_fails_with_each_error(
    place: Stage, tried: set[Any], scene: Scene, record_property: Any
) -> None:
    rows = place.prepare(scene.before)
    clean = undisturbed(place, scene, rows)
    assert (place.route in TOGETHER) == any(len(texts) > 1 for texts in clean.messages)
    count, state = 0, clean.after
    for injection in injections(place, clean, tried):
        if state != clean.before:
            place.put_back(rows)
        with injected(place, place.players[0].db, injection):
            answer = scene.orders[0].send(place.players[0])
        status, right = expected(injection, clean)
        state = place.picture()
        said = f"{scene.name} on {place.route}, {injection}: {answer.text}"
        assert injection.struck, said
        assert answer.status_int == status, said
        assert state == right, said
        count += 1
    record_property("runs", count)
    statements = sum(map(len, clean.messages))
    print(
        f"{scene.name} on {place.route}: {count} faults in {statements} statements, "
        f"{len(clean.messages)} messages"
    )

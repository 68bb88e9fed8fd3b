"""Every message of every write fails in turn with every error; the answer and the state are right.

PROMISE 4 to 7. Each request is recorded, then repeated once for each of its messages (those around
transactions included) and each error of the database, which is raised before the message, before each
further statement in it, after it, and at every attempt. That is the long mode. Otherwise requests share:

* before each message of each plain request one error of each meaning, where it is tried on ``MAIN_ROUTES``;
* before each text of a message one error of each meaning, and each error once for each kind of statement;
* inside a message, after it and at every attempt, each error once for each kind of statement.

Each request is tried on SQLite, on one of the servers' main routes and on one of the others.

What must come out is said by ``expected`` alone.
"""

import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import webob

from placement.db import deadlines, freshness
from placement.db.database import Database
from placement.db.transport import Message
from placement.web import search_bounds
from tests.proofs.promise.claim_scenes import AT_ONCE, REQUESTS_OF_CLAIMS
from tests.proofs.promise.injection import (
    BEGIN,
    FAULTS,
    Fault,
    Injection,
    Texts,
    injected,
    recorded,
    texts_of,
)
from tests.proofs.promise.scenes import REQUESTS, SHARED, Scene, take_turns
from tests.proofs.promise.solo import Solo, pin
from tests.proofs.promise.stage import Order, Stage, stage
from tests.support.databases import KINDS, MAIN_ROUTES, MAIN_SERVERS, ROUTES
from tests.support.effort import LONG, ONLY_IN_LONG_MODE, in_one_process
from tests.support.recorder import Hook, observed

TOGETHER = ("postgresql", "pymysql", "mysqlclient")
"""By these several statements are one message."""

ENDS = ("COMMIT", "ROLLBACK")
AFTERWARDS = [deadlines.limit_lock_wait(kind, 1).after for kind in KINDS]
"""What follows the COMMIT of a shared transaction: an error costs the connection, and no request."""
LOOKS = 100
"""At the time, after which a search is over: the clock goes on with each look."""
TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE) (\w+)")


Outcome = tuple[int, str]
"""Status and state."""


Part = Literal["reading", "writing", "expiry", "tidying"]
"""Of a request: it reads; writes what is asked for; removes holds that are over; removes groups that have
ended, when all that was asked for is done."""


@dataclass(frozen=True)
class Clean:
    """What a request does undisturbed.

    ``states``: the state before each message, and in the end. ``parts``: of each message. ``while_held``:
    what comes of it as long as holds that are over stay.
    """

    messages: list[Texts]
    states: list[str]
    parts: list[Part]
    status: int
    while_held: Outcome

    @property
    def before(self) -> str:
        """The state before the request."""
        return self.states[0]

    @property
    def after(self) -> str:
        """The state after it."""
        return self.states[-1]

    @property
    def after_expiry(self) -> str:
        """The state when the holds that are over are removed."""
        last = max(number for number, part in enumerate(self.parts) if part == "expiry")
        return self.states[last + 1]


def parts_of(
    messages: Sequence[Texts], states: Sequence[str], expiry: Collection[int]
) -> list[Part]:
    """Return which part of the request each message is.

    :param expiry: the numbers of those that remove holds.
    """
    parts: list[Part] = ["reading"] * len(messages)
    differ = [_differing(*states[n : n + 2]) for n in range(len(messages))]
    for number in {number for each in _transactions(messages) for number in each}:
        parts[number] = "writing"
    for number in expiry:
        parts[number] = "expiry"
    done = [
        n for n, (part, tables) in enumerate(zip(parts, differ, strict=True))
        if part == "writing" and tables - {"consumer_groups"}
    ]
    for number in range(done[-1] + 1, len(messages)) if done else ():
        parts[number] = "tidying"
    return parts


def _transactions(messages: Sequence[Texts]) -> Iterator[range]:
    """Yield the numbers of the messages of each transaction that writes."""
    begun = None
    for number, texts in enumerate(messages):
        if any(text in BEGIN for text in texts):
            begun = number
        if texts[-1] in ENDS and begun is not None:
            yield range(begun, number + 1)
            begun = None


def _differing(before: str, after: str) -> set[str]:
    """Return the tables in which two states differ."""
    if before == after:
        return set()
    old, new = json.loads(before), json.loads(after)
    return {table for table in old if old[table] != new[table]}


# What one request has tried others leave out, so one process tries all of a route.
@pytest.fixture(scope="module", params=in_one_process("errors", *ROUTES))
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage_for_errors(request.param) as made:
        yield made


@contextmanager
def stage_for_errors(route: str, **options: Any) -> Iterator[Stage]:
    """Run a service for one client, in which everything may fail.

    :param options: as :func:`stage` takes them.
    """
    # Formatting the tracebacks of all these errors takes longer than the requests.
    logging.disable()
    try:
        # What fails at every attempt fails three times.
        with stage(route, players=1, attempts=3, **options) as made:
            made.players[0].conf.set_override("search_deadline", LOOKS, group="api")
            yield made
    finally:
        logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def tried(place: Stage) -> set[Any]:
    """Return the injections of earlier requests that are not repeated for later ones."""
    return set()


def expected(injection: Injection, clean: Clean, *, is_claim: bool) -> set[Outcome]:
    """Return the statuses that are right, with their states: one, but for a claim that is refused anyway.

    :param is_claim: places are chosen again after each conflict, those of a plan that is held too.
    """
    fault, texts = injection.fault, injection.texts
    number = clean.messages.index(texts) if injection.always else injection.number
    before, part = clean.states[number], clean.parts[number]
    done = {(clean.status, clean.after)}
    if texts == ("ROLLBACK",) or (part == "expiry" and before == clean.after_expiry):
        return done
    is_cut_off = fault.meaning == "gone" and texts[-1] == "COMMIT" and part != "reading"
    # A later attempt may do without this message: that of an everyday claim does, and so does one that has
    # asked anew what the cloud is like.
    lasts = injection.always and not injection.began_again
    if fault.meaning in ("conflict", "gone") and not is_cut_off and not lasts:
        return done
    if fault.meaning == "replica" and part in ("writing", "tidying") and not lasts:
        # Another server may take writes: the first time it is looked for, but not by what only reads. What
        # has ended can stay for the moment.
        return done | ({(clean.status, before)} if part == "tidying" else set())
    if is_cut_off and injection.is_after:
        return {(503, clean.states[number + 1])} if part == "writing" else done
    if part == "tidying":
        return {(clean.status, before)}
    if fault.meaning == "fatal":
        return {(500, before)}
    if part == "expiry":
        # What a search could not remove, a claim tries to once more before it is refused.
        return {clean.while_held} | done
    if fault.meaning != "conflict" or part == "reading":
        return {(503, before)}
    if not is_claim:
        return {(409, before)}
    return {(503, before)} | (done if clean.status >= 400 else set())


def undisturbed(place: Stage, scene: Scene, solo: Solo) -> Clean:
    """Send the request once as it is, and once while the holds that are over in it are not."""
    solo.begin(over=False)
    (answer,) = solo.send()
    while_held = answer.status_int, place.picture()
    solo.begin()
    messages, states, expiry = list[Texts](), list[str](), set[int]()
    remove_expired = freshness.remove_expired

    def noted(db: Database) -> Any:
        begun = len(messages)
        try:
            return remove_expired(db)
        finally:
            expiry.update(range(begun, len(messages)))

    def note(_connection: Any, message: Message) -> None:
        messages.append(texts_of(message))
        # What others see changes with a COMMIT alone.
        is_new = not states or messages[-2][-1] == "COMMIT"
        states.append(place.picture() if is_new else states[-1])

    with (
        pytest.MonkeyPatch.context() as patched,
        observed(place.players[0].db, Hook(note)),
    ):
        patched.setattr(freshness, "remove_expired", noted)
        (answer,) = solo.send()
    place.assert_sound()
    assert_told(place, answer)
    states.append(place.picture())
    if scene.wins is not None:
        assert (answer.status_int < 300) == bool(scene.wins), answer.text
    if not scene.over:
        # What a request has done can be seen in the picture.
        assert (answer.status_int < 300) == (states[-1] != states[0])
    parts = parts_of(messages, states, expiry)
    return Clean(messages, states, parts, answer.status_int, while_held)


def assert_told(place: Stage, answer: webob.Response) -> None:
    """What the answer says of consumers is what is stored."""
    shown = answer.json if answer.status_int == 200 else {}
    for told in (*shown.get("claims", ()), *shown.get("consumers", ())):
        read = Order("GET", f"/allocations/{told['consumer_uuid']}").send(place.players[0]).json
        assert read["consumer_generation"] == told["consumer_generation"]
        held = {uuid: {"resources": kept["resources"]} for uuid, kept in read["allocations"].items()}
        assert held == told.get("allocations", held)


def injections(
    place: Stage, messages: Sequence[Texts], parts: Sequence[Part], tried: set[Any], *, is_short: bool
) -> Iterator[Injection]:
    """Yield everything that can go wrong, but for what was tried.

    :param is_short: the request is one of those in which each message is told apart.
    """
    for number, (texts, part) in enumerate(zip(messages, parts, strict=True)):
        meanings = set()
        kinds = tuple(map(statement_kind, texts))
        for fault in FAULTS[place.kind]:
            # What has the same meaning is told apart by the code of the driver's error alone.
            is_first = fault.meaning not in meanings
            is_told = is_short and place.route in MAIN_ROUTES and is_first
            if is_told or _is_new(tried, fault, (part, texts if is_first else kinds)):
                yield Injection(fault, number, texts)
            meanings.add(fault.meaning)
        for injection in _rarer(place.kind, number, texts):
            reached = texts[-1] if injection.is_after else texts[injection.at]
            where = (injection.is_after, injection.at > 0, injection.always)
            if _is_new(tried, injection.fault, (part, *where, statement_kind(reached))):
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


def _named(scene: Scene) -> str:
    return scene.name.replace(" ", "-")


def _leave_for_another_route(place: Stage, scenes: Sequence[Scene], scene: Scene) -> None:
    """Skip a scene but on SQLite, and on one main and one other route of the servers, which take turns."""
    others = [route for route in ROUTES if route not in MAIN_ROUTES]
    chosen = ("sqlite", take_turns(MAIN_SERVERS, scenes, scene), take_turns(others, scenes, scene))
    if place.route not in chosen and not LONG:
        pytest.skip(ONLY_IN_LONG_MODE)


SCENES = (*REQUESTS, *REQUESTS_OF_CLAIMS)


@pytest.mark.parametrize("scene", SCENES, ids=_named)
def test_each_message_fails_with_each_error(
    place: Stage,
    tried: set[Any],
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    _leave_for_another_route(place, SCENES, scene)
    pin(monkeypatch, scene)
    monkeypatch.setattr(search_bounds, "monotonic", itertools.count().__next__)
    solo = Solo(place, scene)
    clean = undisturbed(place, scene, solo)
    assert (place.route in TOGETHER) == any(len(texts) > 1 for texts in clean.messages)
    count, state = 0, clean.after
    is_short, is_claim = scene in REQUESTS, scene.orders[0].path in ("/-/claims", "/-/plans")
    for injection in injections(place, clean.messages, clean.parts, tried, is_short=is_short):
        if state != clean.before or solo.looks:
            solo.begin()
        with injected(place, place.players[0].db, injection):
            (answer,) = solo.send()
        right = expected(injection, clean, is_claim=is_claim)
        state = place.picture()
        said = f"{scene.name} on {place.route}, {injection}: {answer.text}"
        assert injection.struck, said
        assert answer.status_int in dict(right), said
        assert (answer.status_int, state) in right, said
        count += 1
    record_property("runs", count)
    statements = sum(map(len, clean.messages))
    print(
        f"{scene.name} on {place.route}: {count} faults in {statements} statements, "
        f"{len(clean.messages)} messages"
    )


@pytest.mark.parametrize("scene", (*AT_ONCE, *SHARED), ids=_named)
def test_each_message_of_what_comes_at_once_fails_with_each_error(
    place: Stage,
    tried: set[Any],
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    """Each answer says what has become of its own request, and an error is that of one request."""
    _leave_for_another_route(place, (*AT_ONCE, *SHARED), scene)
    pin(monkeypatch, scene)
    monkeypatch.setattr(search_bounds, "monotonic", itertools.count().__next__)
    solo = Solo(place, scene)
    solo.begin()
    with recorded(place.players[0].db) as messages:
        assert all(answer.status_int < 300 for answer in solo.send())
    clean = list(messages)
    after = [_stored(place, order) for order in scene.orders]
    solo.begin()
    before = [_stored(place, order) for order in scene.orders]
    writing = {number for each in _transactions(clean) for number in each}
    parts: list[Part] = ["writing" if n in writing else "reading" for n in range(len(clean))]
    count = 0
    for injection in injections(place, clean, parts, tried, is_short=False):
        solo.begin()
        with injected(place, place.players[0].db, injection):
            answers = solo.send()
        said = f"{scene.name} on {place.route}, {injection}: {[each.text for each in answers]}"
        assert injection.struck, said
        fault, statuses = injection.fault, [answer.status_int for answer in answers]
        is_cut_off = fault.meaning == "gone" and injection.texts[-1] == "COMMIT"
        held = [_stored(place, order) for order in scene.orders]
        for status, stored, old, new in zip(statuses, held, before, after, strict=True):
            assert stored == (new if status < 300 else old) or (
                is_cut_off and status == 503 and stored == new
            ), said
        # Only an unknown outcome is that of several.
        told = Counter(statuses)
        # After an error of a shared transaction each request is sent alone, and is not struck again.
        assert told[500] <= (fault.meaning == "fatal" and injection.texts not in AFTERWARDS), said
        is_lasting = fault.meaning == "fatal" and (injection.always or not injection.number)
        assert told[500] or not is_lasting, said
        assert told[503] <= (len(statuses) if injection.always or is_cut_off else 1), said
        if fault.meaning in ("conflict", "gone") and not (injection.always or is_cut_off):
            assert max(told) < 300, said
        place.assert_sound()
        count += 1
    record_property("runs", count)
    print(f"{scene.name} on {place.route}: {count} faults in {len(clean)} messages")


def _stored(place: Stage, order: Order) -> Any:
    """Return what the first consumer of an order holds: the amounts by provider."""
    uuid = order.path.removeprefix("/allocations").strip("/")
    if order.path == "/-/claims":
        uuid = order.body["claims"][0]["consumer_uuid"]
    elif order.method == "POST":
        uuid = next(iter(order.body))
    shown = Order("GET", f"/allocations/{uuid}").send(place.players[0]).json["allocations"]
    return {provider: held["resources"] for provider, held in shown.items()}

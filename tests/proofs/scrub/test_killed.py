"""A scrub that fails or is killed at any message goes on, and the request that takes it along is answered.

Everything that is wrong before is mended by the next stretch, once the lease of a dead worker is over.
"""

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import select, update

from placement.db import models, scrub
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.objects import scrubber
from placement.objects.scrubber import Scrubber
from tests.proofs.promise.injection import FAULTS, Injection, injected, recorded
from tests.proofs.promise.scenes import HELD
from tests.proofs.promise.stage import Order, Rows, Stage, stage
from tests.proofs.scrub.rounds import DAMAGES
from tests.support.databases import MAIN_ROUTES
from tests.support.effort import LONG, in_one_process
from tests.support.recorder import Hook, observed

ASK = Order("GET", "/")
WRONG = ("counters", "contents")


@pytest.fixture(scope="module", params=in_one_process("killed", *MAIN_ROUTES))
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Scrubber, "is_due", lambda _: True)
        patched.setattr(scrubber, "PAUSES_S", (0.0, 600.0))
        patched.setattr(scrubber, "ROUND_S", 0.0)
        # All of this cloud is one stretch, however busy the machine is.
        patched.setattr(scrubber, "STRETCH_S", 600.0)
        with stage(request.param, 1, attempts=3, placement_database__scrub_share=50) as made:
            # The first look makes the row.
            assert ASK.send(made.players[0]).text
            yield made


@pytest.fixture
def rows(place: Stage) -> Rows:
    """The state in which everything is wrong that a stretch can mend."""
    return place.prepare((*HELD, *(DAMAGES[name] for name in WRONG)))


def begin(place: Stage, rows: Rows) -> None:
    """Put the state back, and let a stretch be due that is the first of a round."""
    place.put_back(rows)
    first = {"due_at": 0, "stage": "", "position": 0, "rounds": 0}
    place.db.write(lambda tx: tx.change(update(models.scrub).values(first)))


def mend(place: Stage) -> str:
    """Let a stretch be due, take it along, and return the state."""
    place.db.write(lambda tx: tx.change(update(models.scrub).values(due_at=0)))
    assert ASK.send(place.players[0]).text
    place.assert_sound()
    assert place.db.read(lambda reader: reader.value(select(models.scrub.c.rounds)))
    return place.picture()


def test_each_message_fails(
    place: Stage, rows: Rows, record_property: Callable[[str, object], None]
) -> None:
    """The answer is that of the request; what was not mended is mended by the next stretch.

    With each error in the long mode, else each second message with one.
    """
    begin(place, rows)
    right = mend(place)
    begin(place, rows)
    with recorded(place.players[0].db) as messages:
        assert ASK.send(place.players[0]).text
    clean, tried = list(messages), 0
    faults = FAULTS[place.kind]
    for number, texts in enumerate(clean):
        for fault in faults if LONG else [faults[number % len(faults)]] if number % 2 else []:
            begin(place, rows)
            with injected(place, place.players[0].db, Injection(fault, number, texts)):
                answer = ASK.send(place.players[0])
                assert (answer.status_int, bool(answer.text)) == (200, True)
            assert mend(place) == right, (number, fault)
            tried += 1
    record_property("runs", tried)
    print(f"{tried} faults in {len(clean)} messages on {place.route}")


def test_a_worker_killed_at_each_message_is_followed(place: Stage, rows: Rows) -> None:
    """Not before its lease is over, unless it had given the stretch back."""
    begin(place, rows)
    right = mend(place)
    begin(place, rows)
    with recorded(place.players[0].db) as messages:
        assert ASK.send(place.players[0]).text
    url = place.db.engine.url
    for number in range(0, len(messages), 1 if LONG else 7):
        begin(place, rows)
        child = os.fork()
        if not child:
            die_at(Database(make_engine(url)), number)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        assert mend(place) == right, number


def die_at(db: Database, number: int) -> None:
    """Take a stretch along, and be killed before the message with this number."""
    sent = iter(range(number))

    def count(_connection: object, _message: object) -> None:
        if next(sent, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        with observed(db, Hook(count)):
            Scrubber(db, 50).go_on()
    finally:
        os._exit(1)


def test_a_stretch_that_is_taken_is_not_taken_again(place: Stage, rows: Rows) -> None:
    begin(place, rows)
    now = int(place.db.read(lambda reader: reader.value(select(scrub.scrub_rows.NOW))))
    place.db.write(lambda tx: tx.change(update(models.scrub).values(due_at=now + 25_000)))
    before = place.picture()
    assert ASK.send(place.players[0]).text
    assert place.picture() == before


def test_a_stretch_has_a_part_however_slow_the_database_is(
    place: Stage, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time may be over when it has been taken; it goes on all the same."""
    monkeypatch.setattr(scrubber, "STRETCH_S", 0.0)
    begin(place, rows)
    for _ in scrub.STAGES:
        place.db.write(lambda tx: tx.change(update(models.scrub).values(due_at=0)))
        assert ASK.send(place.players[0]).text
    assert place.db.read(lambda reader: reader.value(select(models.scrub.c.rounds)))

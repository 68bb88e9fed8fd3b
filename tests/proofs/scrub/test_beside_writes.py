"""A round of the scrub is one more player beside every kind of write: nothing is torn or mended wrongly.

PROMISE 1, 3, 4, 6 and 7. The turns are messages (``tests/proofs/promise``). Afterwards the answer and all
tables are those of the write before the round, after it or between two of its stages, so no write is refused
for it, and a search by either process is that of a new one.
"""

import json
import math
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import func, select

from placement.db import models, scrub
from placement.extensions.claims import groups, shortcuts
from placement.objects import picture
from tests.proofs.promise.claim_scenes import REQUESTS_OF_CLAIMS
from tests.proofs.promise.scenes import REQUESTS, Scene
from tests.proofs.promise.scheduler import interleavings
from tests.proofs.promise.solo import AlwaysFirst
from tests.proofs.promise.stage import Stage, stage
from tests.proofs.promise.test_interleavings import Theatre
from tests.proofs.scrub.rounds import DAMAGES, Round, compare
from tests.support.databases import MAIN_ROUTES, ROUTES
from tests.support.effort import LONG, in_one_process
from tests.support.service import Service

SWITCHES = 2 if LONG else 1

MAIN_WRITES = {
    *("claim", "replace claim", "move claim", "release", "claims of many", "replace inventories"),
    *("traits", "aggregates", "reshape", "move provider", "create child", "delete provider in use"),
}
LOOK = ("GET", "/-/trees")

SCENES = [
    Scene(
        f"{request.name} beside {wrong}".replace(" ", "-"),
        (*request.before, damage),
        (*request.orders, Round()),
    )
    for request in (*REQUESTS, *(REQUESTS_OF_CLAIMS if LONG else ()))
    if LONG or request.name in MAIN_WRITES
    if not (request.over or request.bare or request.unseen)
    for wrong, damage in DAMAGES.items()
]


@pytest.fixture(scope="module", params=in_one_process("beside", *(ROUTES if LONG else MAIN_ROUTES)))
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage(request.param, players=2) as made, pytest.MonkeyPatch.context() as patched:
        patched.setattr(groups, "DRAW", AlwaysFirst())
        patched.setattr(shortcuts, "AGE_S", 0.0)
        # What is found by chance, because a minute is over, is not found by the scrub.
        patched.setattr(picture, "COMPARE_EVERY_S", math.inf)
        patched.setattr(made, "picture", partial(picture_without_revisions, made))
        yield made


def picture_without_revisions(place: Stage) -> str:
    """Return the state: each transaction of a round moves the revision if it mends something."""
    state = json.loads(Stage.picture(place))
    for row in state["resource_providers"]:
        del row["revision"]
    return json.dumps(state)


class Beside(Theatre):
    """A write and a round, whose stages are transactions of their own."""

    def __init__(self, place: Stage, scene: Scene) -> None:
        super().__init__(place, scene)
        write, _ = scene.orders
        for number in range(1, len(scrub.STAGES)):
            place.put_back(self.before)
            compare(place.db, scrub.STAGES[:number])
            answer = write.send(place.players[0])
            code = answer.json["errors"][0]["code"] if answer.status_int >= 400 else ""
            compare(place.db, scrub.STAGES[number:])
            place.assert_sound()
            self.serial.add((((answer.status_int, code), (204, "")), place.picture()))


CASES = [
    (route, scene)
    for number, scene in enumerate(SCENES)
    for place, route in enumerate(ROUTES if LONG else MAIN_ROUTES)
    # Some that differ in write, damage and route.
    if LONG or (number % 7, place) == (0, number // 7 % 3)
]


@pytest.mark.parametrize(
    ("place", "scene"), CASES, ids=lambda each: getattr(each, "name", each), indirect=["place"]
)
def test_a_round_beside_a_write(
    place: Stage, scene: Scene, record_property: Callable[[str, object], None]
) -> None:
    theatre = Beside(place, scene)

    for run in interleavings(theatre.play, SWITCHES):
        right = shown(new(place))
        assert [shown(player) for player in place.players] == [right] * 2, run.schedule
    record_property("runs", theatre.runs)
    print(f"{scene.name} on {place.route}: {theatre.runs} runs")


def new(place: Stage) -> Service:
    """Return a process that has read nothing yet."""
    return Service(place.players[0].conf, place.db)


def shown(service: Service) -> object:
    """Return what a search can see: everything."""
    return service.send(*LOOK).json


@pytest.mark.long
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: each.name.replace(" ", "-"))
def test_a_round_that_finds_nothing_changes_not_a_byte(place: Stage, request_: Scene) -> None:
    """All rows of all tables but its own are as before, times and revisions too."""
    place.put_back(place.prepare(request_.before))
    request_.orders[0].send(place.players[0])
    before = everything(place)

    healed, left = scrub.scrub_all(place.db)

    assert (dict(healed), left) == ({}, [])
    assert everything(place) == before


def everything(place: Stage) -> dict[str, object]:
    """Return all rows of the database but that of the scrub."""
    tables = (table for table in models.whole_metadata().sorted_tables if table is not models.scrub)
    return {
        table.name: place.db.read(lambda reader, table=table: sorted(map(repr, reader.rows(select(table)))))
        for table in tables
    }


def test_the_round_is_noted(place: Stage) -> None:
    """What a round changes is its own row."""
    rounds = select(func.coalesce(func.sum(models.scrub.c.rounds), 0))
    before = place.db.read(lambda reader: reader.value(rounds))
    scrub.scrub_all(place.db)
    assert place.db.read(lambda reader: reader.value(rounds)) == before + 1

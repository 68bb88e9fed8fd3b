"""Every interleaving of two writes with few switches does what one of the two orders does.

The turns are messages, as production sends them: several statements, or one each (``-alone``).

PROMISE 1, 3, 4 and 7. Of pairs all with at most ``PLACEMENT_SWITCHES`` are played: three in the long mode,
otherwise two, and one of pairs of claims decided here, which are the longest. Of triples all with at
most ``PLACEMENT_TRIPLE_SWITCHES`` are played: one in the long mode, otherwise none but those that the
database forces: their number grows with its power. Of triples and of pairs of claims a sample of those with
more is played: ``PLACEMENT_SEED`` repeats it, ``PLACEMENT_SAMPLES`` says how many.

What is compared: the answers, and the whole state afterwards. A failure prints the schedule;
``PLACEMENT_SCHEDULE=AABB... pytest -k '<scene> and <route>'`` plays it again.
"""

import itertools
import math
import os
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import or_, select, update

from placement.db import models, provider_rows, writes
from placement.db.change import Change
from placement.extensions.claims import groups, shortcuts
from placement.extensions.plans import holding
from tests.proofs.promise.claim_scenes import PAIRS_OF_CLAIMS, TRIPLES_OF_CLAIMS
from tests.proofs.promise.scenes import ANN, FREE, HOST, PAIRS, TRIPLES, Scene, claim, take_turns
from tests.proofs.promise.scheduler import (
    HANGS_S,
    Choose,
    Conductor,
    Run,
    as_written,
    at_turns,
    by_chance,
    interleavings,
)
from tests.proofs.promise.solo import HELD_FOR_MOVES, AlwaysFirst, prepared
from tests.proofs.promise.stage import Stage, stage
from tests.support.databases import MAIN_ROUTES, MAIN_SERVERS, ROUTES
from tests.support.effort import LONG, ONLY_IN_LONG_MODE, examples
from tests.support.processes import wait_until

SWITCHES = int(os.environ.get("PLACEMENT_SWITCHES", "3" if LONG else "2"))
SWITCHES_OF_CLAIMS = int(os.environ.get("PLACEMENT_SWITCHES", "3" if LONG else "1"))
TRIPLE_SWITCHES = int(os.environ.get("PLACEMENT_TRIPLE_SWITCHES", "1" if LONG else "0"))
SAMPLES = int(os.environ.get("PLACEMENT_SAMPLES", 60 if LONG else examples(20)))
SAMPLES_OF_CLAIMS = int(os.environ.get("PLACEMENT_SAMPLES", 60 if LONG else 3))
SCHEDULE = os.environ.get("PLACEMENT_SCHEDULE")
SEED = int(os.environ.get("PLACEMENT_SEED", "0")) or random.randrange(1, 2**31)

PLAYED = [route for route in ROUTES if route != "mysqlclient"]
"""By mysqlclient come the statements of PyMySQL in the same messages (tests/docs/test_statements.py)."""

ALONE = [route for route in PLAYED if route not in MAIN_ROUTES]

Outcome = tuple[tuple[tuple[int, str], ...], str]
Record = Callable[[str, object], None]


@pytest.fixture(scope="module", params=ROUTES)
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage(request.param, players=3) as made, pytest.MonkeyPatch.context() as patched:
        # The look for groups that have ended begins at the first: all of them are seen.
        patched.setattr(groups, "DRAW", AlwaysFirst())
        yield made


@pytest.fixture(autouse=True)
def fresh_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a picture is young enough to choose on must not depend on the clock: it never is."""
    monkeypatch.setattr(shortcuts, "AGE_S", 0.0)
    monkeypatch.setattr(holding, "draw_uuids", lambda count: list(HELD_FOR_MOVES[:count]))


class Theatre:
    """One scene on a stage: its serial outcomes, and runs that are held against them."""

    def __init__(self, place: Stage, scene: Scene) -> None:
        self.place = place
        self.scene = scene
        self.before = prepared(place, scene)
        self.serial = {self._in_turn(order) for order in self._orders()}
        self.runs = 0

    def _orders(self) -> Iterator[tuple[int, ...]]:
        return itertools.permutations(range(len(self.scene.orders)))

    def _in_turn(self, order: tuple[int, ...]) -> Outcome:
        self.place.put_back(self.before)
        answers: dict[int, tuple[int, str]] = {}
        for number in order:
            answer = self.scene.orders[number].send(self.place.players[number])
            code = answer.json["errors"][0]["code"] if answer.status_int >= 400 else ""
            answers[number] = (answer.status_int, code)
        self.place.assert_sound()
        return tuple(answers[n] for n in sorted(answers)), self.place.picture()

    def play(self, choose: Choose, first: int = 0) -> Run:
        """Play once and judge."""
        self.place.put_back(self.before)
        run = Conductor(self.place, self.scene.orders).run(choose, first)
        self.runs += 1
        said = f"{self.scene.name} on {self.place.route}, schedule {run.schedule}, seed {SEED}"
        outcome = run.answers, self.place.picture()
        # What a serial outcome says of the state was sound when it was made.
        assert outcome in self.serial, f"{said}: {outcome} is none of {self.serial}"
        if self.scene.wins is not None:
            won = sum(status < 300 for status, _ in run.answers)
            assert won == self.scene.wins, f"{said}: {run.answers}"
        return run


def _named(scene: Scene) -> str:
    return scene.name


def _leave_for_the_long_mode(place: Stage, routes: Sequence[str] = PLAYED) -> None:
    """Skip what other routes play; claims decided here are the longest, and fewer play them."""
    if place.route not in routes and not LONG:
        pytest.skip(ONLY_IN_LONG_MODE)


def _interleave(
    place: Stage, scene: Scene, switches: int, samples: int, record_property: Record
) -> None:
    """Play all interleavings with so many switches and some by chance, or the one that is asked for."""
    theatre = Theatre(place, scene)
    if SCHEDULE:
        theatre.play(as_written(SCHEDULE), "ABC".index(SCHEDULE[0]))
        return
    players = len(scene.orders)
    seen = {run.schedule for run in interleavings(theatre.play, switches, players)}
    chance = random.Random(f"{SEED} {scene.name}")
    for _ in range(samples):
        seen.add(theatre.play(by_chance(chance), chance.randrange(players)).schedule)
    record_property("runs", theatre.runs)
    print(
        f"{scene.name} on {place.route}: {theatre.runs} runs, {len(seen)} interleavings, seed {SEED}"
    )
    assert len(seen) >= players


@pytest.mark.parametrize("scene", PAIRS, ids=_named)
def test_a_pair(place: Stage, scene: Scene, record_property: Record) -> None:
    _leave_for_the_long_mode(place, [*MAIN_ROUTES, take_turns(ALONE, PAIRS, scene)])
    _interleave(place, scene, SWITCHES, 0, record_property)


@pytest.mark.parametrize("scene", PAIRS_OF_CLAIMS, ids=_named)
def test_a_pair_of_claims(place: Stage, scene: Scene, record_property: Record) -> None:
    """Every pair on SQLite and on one server, the next pair on the other."""
    _leave_for_the_long_mode(place, ["sqlite", take_turns(MAIN_SERVERS, PAIRS_OF_CLAIMS, scene)])
    _interleave(place, scene, SWITCHES_OF_CLAIMS, SAMPLES_OF_CLAIMS, record_property)


@pytest.mark.parametrize("scene", PAIRS_OF_CLAIMS, ids=_named)
def test_a_pair_on_old_pictures(
    place: Stage, scene: Scene, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    """Claims are chosen first on what the process saw in the run before, as long ago as that may be.

    What is chosen again then depends on no database: one is enough.
    """
    _leave_for_the_long_mode(place, ["postgresql"])
    monkeypatch.setattr(shortcuts, "AGE_S", math.inf)
    monkeypatch.setattr(shortcuts, "CALM_S", -math.inf)
    _interleave(place, scene, int(LONG), 2 * SAMPLES_OF_CLAIMS, record_property)


@pytest.mark.parametrize("scene", TRIPLES, ids=_named)
def test_a_triple(place: Stage, scene: Scene, record_property: Record) -> None:
    _leave_for_the_long_mode(place)
    _interleave(place, scene, TRIPLE_SWITCHES, SAMPLES, record_property)


@pytest.mark.parametrize("scene", TRIPLES_OF_CLAIMS, ids=_named)
def test_a_triple_of_claims(place: Stage, scene: Scene, record_property: Record) -> None:
    _leave_for_the_long_mode(place, MAIN_ROUTES)
    _interleave(place, scene, TRIPLE_SWITCHES, SAMPLES, record_property)


def _read_without_lock(tx: Any, uuids: Any, ids: Any = ()) -> Any:
    providers = models.resource_providers
    rows = tx.connection.execute(
        select(providers.c.id, providers.c.uuid, providers.c.generation).where(
            or_(providers.c.uuid.in_(list(uuids)), providers.c.id.in_(list(ids)))
        )
    )
    return {uuid: provider_rows.LockedProvider(id_, uuid, old) for id_, uuid, old in rows}


def _finish_blindly(tx: Any, change: Change) -> None:
    table = models.resource_providers
    columns = table.c
    for steps, providers in change.stepped.items():
        step = {
            "generation": columns.generation + steps,
            "own_generation": columns.own_generation + steps,
            "revision": columns.revision + 1,
        }
        ids = [id_ for id_, _ in providers]
        tx.connection.execute(update(table).where(table.c.id.in_(ids)).values(**step))
    tx.unfinished = ""


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "sqlite"])
def test_a_service_without_locks_is_found_out(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge can find against: without lock and comparison both writers of one generation win.

    The schedule that it prints shows the same again.
    """
    monkeypatch.setattr(provider_rows, "lock", _read_without_lock)
    monkeypatch.setattr(writes, "finish", _finish_blindly)
    scene = next(scene for scene in PAIRS if scene.name == "stock-stock")
    with stage(route, players=2) as place:
        theatre = Theatre(place, scene)
        with pytest.raises(AssertionError, match="is none of") as failure:
            list(interleavings(theatre.play, SWITCHES))
        found = re.search("schedule ([AB]+)", str(failure.value))
        assert found is not None
        with pytest.raises(AssertionError, match="is none of"):
            theatre.play(as_written(found.group(1)), "AB".index(found.group(1)[0]))


def test_a_run_ends_when_its_last_player_ends_without_another_turn() -> None:
    """Its last message waits for a lock of a stranger, and is answered."""
    with stage("postgresql", players=1) as place:
        place.put_back(place.prepare(FREE))
        held = threading.Event()
        conductor = Conductor(place, (claim(ANN, VCPU=1),))

        def hold(tx: Any) -> None:
            provider_rows.lock(tx, [HOST])
            held.set()
            wait_until("it is known to wait", lambda: conductor.states == ["blocked"])

        stranger = threading.Thread(target=place.db.write, args=(hold,))
        stranger.start()
        assert held.wait(HANGS_S)
        run = conductor.run(at_turns({}))
        stranger.join()

    assert run.answers == ((204, ""),)

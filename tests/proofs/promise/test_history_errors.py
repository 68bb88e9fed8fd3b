"""A fault at each statement leaves neither a row of the history without its write nor the reverse.

PROMISE 4 and 14. The engine is that of ``test_errors.py``, and the history is among the
tables of the state that it compares. Each request on one of the three databases in turn; the long mode tries
every request on each of them.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from placement.web import search_bounds
from tests.proofs.promise.claim_scenes import REQUESTS_OF_CLAIMS
from tests.proofs.promise.injection import injected
from tests.proofs.promise.scenes import REQUESTS, Scene, take_turns
from tests.proofs.promise.solo import Solo, pin
from tests.proofs.promise.stage import Stage
from tests.proofs.promise.test_errors import (
    SCENES,
    expected,
    injections,
    stage_for_errors,
    undisturbed,
)
from tests.proofs.year.ledger import require_whole
from tests.support.databases import MAIN_ROUTES
from tests.support.effort import LONG, ONLY_IN_LONG_MODE, in_one_process

LEAVES_NOTHING = {
    *("create trait", "delete trait", "create class", "ensure class", "rename class", "delete class"),
}
"""What is no part of the ledger."""

EACH_WAY = {
    *("create child", "move provider", "delete provider", "replace inventories", "traits", "aggregates"),
    *("claim", "replace claim", "empty claim", "claims of many", "reshape"),
}
"""Requests of CI: one for each way in which rows are left."""
OF_CLAIMS = {"gang", "confirm", "gang past a hold"}

TRIED = [
    scene
    for scene in SCENES
    if scene.name not in LEAVES_NOTHING and (LONG or scene.name in EACH_WAY | OF_CLAIMS)
]


@pytest.fixture(scope="module", params=in_one_process("replayed errors", *MAIN_ROUTES))
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage_for_errors(request.param, insight__history_days=30.0) as made:
        yield made


@pytest.fixture(scope="module")
def tried(place: Stage) -> set[Any]:
    return set()


def test_the_names_are_those_of_scenes() -> None:
    assert {scene.name for scene in REQUESTS} >= LEAVES_NOTHING | EACH_WAY
    assert {scene.name for scene in REQUESTS_OF_CLAIMS} >= OF_CLAIMS


@pytest.mark.parametrize("scene", TRIED, ids=lambda scene: scene.name.replace(" ", "-"))
def test_each_write_leaves_its_rows_whatever_fails(
    place: Stage, tried: set[Any], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.route != take_turns(MAIN_ROUTES, TRIED, scene) and not LONG:
        pytest.skip(ONLY_IN_LONG_MODE)
    pin(monkeypatch, scene)
    monkeypatch.setattr(search_bounds, "monotonic", itertools.count().__next__)
    solo = Solo(place, scene)
    clean = undisturbed(place, scene, solo)
    if not scene.bare:
        # Of a record that another service has left nothing is known.
        require_whole(place.db)
    assert (clean.after != clean.before) == (rows_of(clean.after) > rows_of(clean.before))
    state = clean.after
    is_claim = scene.orders[0].path == "/-/claims"
    for injection in injections(place, clean.messages, clean.parts, tried, is_short=False):
        if state != clean.before or solo.looks:
            solo.begin()
        with injected(place, place.players[0].db, injection):
            (answer,) = solo.send()
        state = place.picture()
        right = expected(injection, clean, is_claim=is_claim)
        assert (answer.status_int, state) in right, f"{scene.name}, {injection}: {answer.text}"


def rows_of(state: str) -> int:
    """Return how many rows the history has."""
    return len(json.loads(state)["history"])

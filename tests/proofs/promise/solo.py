"""The requests of one scene, sent again and again from the same state, with nobody else on the stage."""

import itertools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import webob

from placement.db import freshness, models
from placement.extensions.claims import expiry, groups, service, shortcuts
from placement.extensions.claims import tables as claims_tables
from placement.extensions.plans import holding
from placement.extensions.plans import service as plans_service
from placement.objects import batcher, picture
from tests.proofs.promise.scenes import Scene
from tests.proofs.promise.stage import Order, Rows, Stage
from tests.support.batches import waiting
from tests.support.processes import PATIENCE, wait_until
from tests.support.recorder import Hook, observed
from tests.support.service import Service

HANGS_S = 30.0 * PATIENCE
TICK_S = 0.25
"""Between two looks at the clock by what removes holds."""

GENERATION = 3
"""Of a record of a consumer that another service has left."""

HELD_FOR_MOVES = tuple(f"dddddddd-000{number}-4ddd-8ddd-dddddddddddd" for number in range(4))
"""The consumers that hold the destinations of a plan."""

LOOK = Order("GET", "/allocation_candidates?resources=VCPU:1")
"""What lets the picture of a process be that of the database."""


class AlwaysFirst:
    """Draws what is smallest: the look for groups that have ended begins at the first."""

    def random(self) -> float:
        return 0.0


class Forgetful(dict[Any, Any]):
    """Keeps nothing: what a process remembers of holds that it waited for in vain."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def prepared(place: Stage, scene: Scene) -> Rows:
    """Return the rows from which a scene begins; what the process has not seen is not among them."""
    rows = place.prepare(scene.before)
    if scene.bare:
        record = rows[models.consumers][0]
        # An id that no sequence has given, or will give.
        more = {"id": -record["id"], "uuid": scene.bare, "generation": GENERATION}
        rows = {**rows, models.consumers: [*rows[models.consumers], {**record, **more}]}
    if scene.over:
        for hold in rows[claims_tables.consumer_holds]:
            hold["expires_at"] = 1
    return rows


def pin(patched: pytest.MonkeyPatch, scene: Scene) -> None:
    """Take out of the service what may be otherwise each time: draws, and what depends on the clock."""
    patched.setattr(groups, "DRAW", AlwaysFirst())
    patched.setattr(service, "PAUSE_S", 0.0)
    patched.setattr(plans_service, "PAUSE_S", 0.0)
    patched.setattr(holding, "draw_uuids", lambda count: list(HELD_FOR_MOVES[:count]))
    patched.setattr(shortcuts, "AGE_S", 0.0 if scene.unseen is None else math.inf)
    patched.setattr(shortcuts, "CALM_S", -math.inf)
    patched.setattr(batcher, "PATIENCE_S", HANGS_S)
    patched.setattr(picture, "COMPARE_EVERY_S", math.inf)
    ticks = itertools.count(step=TICK_S)
    ticking = SimpleNamespace(monotonic=lambda: next(ticks))
    patched.setattr(freshness, "time", ticking)
    patched.setattr(expiry, "time", ticking)
    patched.setattr(expiry, "_left_behind", Forgetful())


class Solo:
    """One scene on a stage. That holds are over, and what the process has not seen, comes after its look.

    ``looks``: what the process has seen matters.
    """

    def __init__(self, place: Stage, scene: Scene) -> None:
        self._place, self._scene = place, scene
        self.looks = any(
            order.path.startswith("/-/") or order.method == "GET" for order in scene.orders
        )
        self._seen = prepared(place, replace(scene, over=False))
        self._rows = self._seen
        if scene.unseen:
            place.put_back(self._seen)
            self._rows = place.go_on(scene.unseen)

    def begin(self, *, over: bool = True) -> None:
        """Put the state before the scene back.

        :param over: holds are that are over in the scene.
        """
        self._place.put_back(self._seen)
        if self.looks:
            assert LOOK.send(self._player).status_int == 200
        if self._rows is not self._seen:
            self._place.put_back(self._rows)
        if self._scene.over and over:
            self._place.let_holds_end()

    def send(self) -> list[webob.Response]:
        """Send the orders; return the answers. What comes after the first arrives while that is placed."""
        first, *others = self._scene.orders
        if not others:
            return [first.send(self._player)]
        is_placed, may_go_on = threading.Event(), threading.Event()

        def hold(_connection: Any, _message: Any) -> None:
            is_placed.set()
            assert may_go_on.wait(HANGS_S)

        with (
            ThreadPoolExecutor(len(self._scene.orders)) as threads,
            observed(self._player.db, Hook(hold)),
        ):
            sent = [threads.submit(first.send, self._player)]
            assert is_placed.wait(HANGS_S)
            for number, order in enumerate(others, 1):
                sent.append(threads.submit(order.send, self._player))
                wait_until("it waits too", lambda number=number: waiting() == number)
            may_go_on.set()
            return [each.result(HANGS_S) for each in sent]

    @property
    def _player(self) -> Service:
        return self._place.players[0]

"""Each message of a write gets lost in turn, on its way or with its answer; answer and state are right.

PROMISE 5 and 7. :mod:`tests.promise.test_errors` does it statement by statement, as they travel for those who
listen; here nobody listens, and several statements are one message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.promise.injection import end
from tests.promise.scenes import ANN, HELD, HOLDER, TREE, Scene, claim, release, reshape, stock
from tests.promise.stage import Stage, stage
from tests.support.recorder import first_words

SCENES = (
    Scene("claim", HELD, (claim(ANN, VCPU=1),)),
    Scene("replace claim", HELD, (claim(HOLDER, generation=1, VCPU=4),)),
    Scene("release", HELD, (release(HOLDER),)),
    Scene("inventories", HELD, (stock(HELD[0].body["uuid"], 2, VCPU=8, MEMORY_MB=1),)),
    Scene("reshape", TREE, (reshape(2, 0, holder=(1, 2), ann=(None, 1)),)),
)


@dataclass
class Line:
    """What reaches the driver of a player, and the message that gets lost, if any."""

    place: Stage
    lost: int | None = None
    after: bool = False
    messages: list[list[str]] = field(default_factory=list)

    def carry(self, cursor: Any, text: str | bytes, parameters: Any, context: Any = None) -> None:
        """Run a message in the place of the dialect."""
        self.messages.append(first_words(text))
        strikes = len(self.messages) - 1 == self.lost
        if strikes and not self.after:
            end(self.place, cursor.connection)
        cursor.execute(text, parameters)
        if strikes and self.after:
            connection = cursor.connection
            cursor.close()
            end(self.place, connection)
            connection.cursor().execute("SELECT 1")


@contextmanager
def line(place: Stage, **lost: Any) -> Iterator[Line]:
    """Yield the line of the only player."""
    dialect: Any = place.players[0].db.engine.dialect
    run, made = dialect.do_execute, Line(place, **lost)
    dialect.do_execute = made.carry
    try:
        yield made
    finally:
        dialect.do_execute = run


@pytest.fixture(scope="module", params=["postgresql", "mysql"])
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage(request.param, players=1) as made:
        yield made


@pytest.mark.parametrize("after", [False, True], ids=["on its way", "with its answer"])
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_each_message_is_lost(place: Stage, scene: Scene, after: bool) -> None:
    """What is lost before COMMIT is done again; with COMMIT the outcome is unknown, and whole."""
    (order,), player = scene.orders, place.players[0]
    rows = place.prepare(scene.before)
    place.put_back(rows)
    before = place.picture()
    with line(place) as undisturbed:
        status = order.send(player).status_int
    clean = place.picture()
    assert status < 300
    assert clean != before
    assert undisturbed.messages[-1][-1:] == ["COMMIT"]
    assert len(undisturbed.messages) < sum(map(len, undisturbed.messages))

    for number, words in enumerate(undisturbed.messages):
        place.put_back(rows)
        with line(place, lost=number, after=after) as disturbed:
            answer = order.send(player)
        assert disturbed.messages[: number + 1] == undisturbed.messages[: number + 1]
        if words[-1] == "COMMIT":
            assert answer.status_int == 503, (words, answer.text)
            assert place.picture() == (clean if after else before)
        else:
            assert answer.status_int == status, (words, answer.text)
            assert place.picture() == clean
    place.assert_sound()

"""Clients of the year write the same consumers and providers: one order must explain all answers.

Each draws its requests from the year's table. The book that they share is what they believe, and what they
draw from; the model judges. Each round begins with an empty cloud and is checked when it is over.
"""

import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tests.extensions.claims.claims_orders import milliseconds
from tests.proofs.histories import checker, model
from tests.proofs.histories.checker import Operation
from tests.proofs.year.book import Book
from tests.proofs.year.consumer_requests import carry_out
from tests.proofs.year.player import Asked, Names, Player
from tests.proofs.year.requests import KIND
from tests.support import book as support
from tests.support.campaign import CampaignReport, rounds
from tests.support.client import VERSION, Answer, Client
from tests.support.racing import Arena, emptied

LINES = {
    **{"allocations": 12, "allocations of several": 6, "released": 2, "reshape": 3},
    **{"provider": 4, "provider deleted": 1, "stock": 4, "class added": 2, "class set": 1},
    **{"class dropped": 1, "stock dropped": 1, "traits": 2, "traits deleted": 1, "aggregates set": 2},
    **{"claims": 14, "confirmed": 3, "several confirmed": 6, "plan": 4},
    **{"one provider": 2, "inventories": 3, "usages": 2, "allocations on": 4, "allocations of": 3},
    **{"holds": 2, "group": 1, "candidates": 4},
}
"""What is drawn of the table of requests, and how often: all that the model knows."""
HOLD_S = 1
UNKNOWN = ("CUSTOM_FPGA", "CUSTOM_FAST")
"""What the model does not know."""


class FewNames(Names):
    """Three providers, one of them below another, and six consumers."""

    hosts = property(lambda self: self._uuids(1, 2))
    children = property(lambda self: self._uuids(2, 1))
    consumers = property(lambda self: self._uuids(5, 6))
    groups = property(lambda self: [f"group-{n}" for n in range(1)])


class Beliefs(Book):
    """A book of what all of them write: nothing in it is sure."""

    def knows(self, uuid: str) -> bool:
        """Return whether its state is sure."""
        return False


@dataclass
class History(support.Book):
    """What the clients did, as operations on the whole cloud."""

    operations: list[Operation] = field(default_factory=list)
    until: float = field(default_factory=lambda: time.monotonic() + 1.5 * HOLD_S)
    """When the first holds have been over for a while: nobody stops before."""
    epoch: float = field(default_factory=lambda: time.time() - time.monotonic())
    """What the clock of operations lacks to the one on the wall."""
    beliefs: Book = field(default_factory=Beliefs)
    ends: dict[str, float] = field(default_factory=dict)
    """When the last hold of each consumer is over."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, asked: Asked, answer: Answer, called: float, returned: float) -> None:
        """Add a request, with what its answer says; and the end of a hold that it has made."""
        if answer.status >= 500 and not answer.is_given_up:
            self.blame(f"{asked}: {answer}")
        if answer.status >= 500 or asked.path == "/-/plans":
            return
        to_ms = lambda moment: (moment + self.epoch) * 1000  # noqa: E731
        effect = model.took_place(asked, answer, to_ms(called), to_ms(returned))
        text = f"{called:.6f} to {returned:.6f}: {asked} {answer.status} {answer.text[:160]}"
        self._add(Operation(called, returned, effect, text))
        if asked.path == "/-/claims" and answer.status == 200 and "hold" in answer.json:
            end_ms = milliseconds(answer.json["hold"]["expires_at"])
            for each in answer.json["claims"]:
                effect = model.ended(each["consumer_uuid"], end_ms)
                earliest = (end_ms - model.CLOCKS_MS) / 1000 - self.epoch
                self.ends[each["consumer_uuid"]] = earliest
                self._add(Operation(earliest, math.inf, effect, "the hold is over"))

    def _add(self, operation: Operation) -> None:
        with self.lock:
            self.operations.append(operation)

    def judge(self) -> int:
        """Blame it if no order explains it; return how many configurations were tried."""
        try:
            return checker.check(self.operations, model.state_of(model.Cloud()))
        except (checker.NotLinearizable, checker.Undecided) as wrong:
            self.blame(str(wrong))
            return 0


class Noting:
    """The way of one client, which notes what it is answered."""

    def __init__(self, client: Client, history: History) -> None:
        self._client, self._history = client, history

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request."""
        called = time.monotonic()
        answer = self._client.send(asked.method, asked.path, asked.body, asked.version)
        self._history.note(asked, answer, called, time.monotonic())
        return answer


@dataclass
class HistoryReport(CampaignReport):
    """What came of the rounds."""

    rounds: int = 0
    operations: int = 0
    configurations: int = 0

    @property
    def tells(self) -> bool:
        """Whether claims were granted, holds confirmed, and steps of plans taken."""
        confirmed = self.counts["confirmed 200"] + self.counts["several confirmed 200"]
        return bool(confirmed and self.counts["claims 200"] and self.counts["step of a plan 204"])

    def notes(self) -> Iterator[str]:
        """Yield the figures of the checker."""
        yield f"{self.rounds} rounds, {self.operations} operations, {self.configurations} configurations"


def play(arena: Arena, seed: str, clients: int, requests: int) -> History:
    """Let clients loose on an empty cloud; return what they noted."""
    # What the service chooses is of this history then.
    emptied(arena)
    history = History()

    def work(client: Client, number: int) -> None:
        dice = random.Random(f"{seed}/{number}")
        player = Player("nova", Noting(client, history), history.beliefs, FewNames(), dice, exact=False)
        sent = 0
        while sent < requests or time.monotonic() < history.until:
            act(player, history, dice.choices([*LINES], [*LINES.values()])[0])
            sent += 1

    arena.race([partial(work, number=number) for number in range(clients)])
    look_at_everything(Noting(arena.clients(1)[0], history))
    arena.assert_sound()
    return history


def draw(player: Player, history: History, name: str) -> Asked | None:
    """Draw a request of a line of the table, as the model knows it; None if there is nothing to ask."""
    with history.lock:
        book = history.beliefs.copied()
        book.held = {uuid for uuid in book.held if history.ends.get(uuid, 0.0) > time.monotonic() - HOLD_S}
    asked = KIND[name].draw(Player(player.name, player.way, book, player.names, player.dice, exact=False))
    if asked is None or any(each in str(asked) for each in UNKNOWN):
        return None
    if asked.path == "/allocations":
        # That a consumer is not there, which is to have nothing, is read without a lock.
        for uuid, entry in [*asked.body.items()]:
            if not entry["allocations"] and entry["consumer_generation"] is None:
                del asked.body[uuid]
        return asked if asked.body else None
    if asked.path == "/-/plans":
        asked.body.pop("hold_s", None)
    elif asked.body and "hold_s" in asked.body:
        asked.body["hold_s"] = HOLD_S
    if name == "allocations" and asked.body["allocations"] and player.dice.random() < 0.1:
        body = {part: asked.body[part] for part in ("allocations", "project_id", "user_id")}
        # Without a generation.
        return replace(asked, body=body, version="1.12")
    return asked


def act(player: Player, history: History, name: str) -> None:
    """Send a request of a line of the table; steps of a plan follow it, beside everybody else's writes."""
    asked = draw(player, history, name)
    if asked is None:
        return
    answer = player.way.deliver(asked, player.token)
    history.count(f"{name} {answer.status}")
    if name == "plan" and answer.status == 200:
        for step in answer.json["steps"]:
            status = player.way.deliver(carry_out(step), player.token).status
            history.count(f"step of a plan {status}")
    elif answer.status < 300 and asked.version == VERSION:
        # Another one may have taken away what it believes to be there.
        with history.lock, suppress(KeyError):
            KIND[name].apply(player, asked, answer)


def look_at_everything(way: Noting) -> None:
    """What nobody has seen until now is seen."""
    names = FewNames()
    paths = [f"/resource_providers/{uuid}{part}" for uuid in names.providers for part in ("", "/allocations")]
    paths += [f"/allocations/{uuid}" for uuid in names.consumers]
    for path in (*paths, "/-/holds", f"/-/groups/{names.groups[0]}"):
        way.deliver(Asked("GET", path), "")


def run(arena: Arena, seconds: float, seed: int, *, clients: int, requests: int) -> HistoryReport:
    """Play and judge rounds until the time is over and all has happened; each must leave what is sound."""
    report = HistoryReport(f"histories on {arena.db.dialect}", seed)
    for number in rounds(report, seconds, lambda: report.tells):
        history = play(arena, f"{seed}/{number}", clients, requests)
        report.configurations += history.judge()
        report.rounds += 1
        report.operations += len(history.operations)
        report.counts += history.counts
        report.violations += history.violations
    return report

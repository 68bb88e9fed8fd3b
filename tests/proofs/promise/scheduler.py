"""Requests as threads, of which exactly one proceeds at a time, from message to message.

Every player has an engine of its own; an observer stops the thread before each of its messages (those with
COMMIT and ROLLBACK included) until the conductor gives it the next turn. The database says which messages
wait for a lock of another player. The turn of such a player ends; once the database has granted the lock, the
player goes on to its next message.

The schedule is the name of a run: one letter for each turn, that of the player. Where the order of two
messages cannot matter, one of the two orders is played: :func:`is_played_otherwise`.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import webob
from sqlalchemy import Connection

from placement.db.database import Database
from placement.db.transport import Message
from tests.proofs.promise.shared import Batch
from tests.proofs.promise.stage import Order, Stage, connection_id
from tests.support.processes import PATIENCE
from tests.support.recorder import Hook

LETTERS = "ABC"
HANGS_S = 30.0 * PATIENCE
PATIENCE_S = 0.002
"""After this the database is asked whether a statement waits for a lock; then each time after twice as long:
on a busy machine the questions themselves would keep the statement waiting."""
LONGEST_PATIENCE_S = 0.1

NO_TURN = ("BEGIN ISOLATION", "START TRANSACTION", "SET ", "PRAGMA ")
"""Statements that read and lock nothing: a message of these alone is no turn."""

FREES = ("COMMIT", "ROLLBACK")

Effect = Literal["reads", "writes", "commits"]
"""Of a message: it reads what is committed and waits for nothing; it writes or locks; it ends a transaction
that has written or locked."""

READS = re.compile(r"(SELECT|WITH|START TRANSACTION|BEGIN(?! IMMEDIATE)|SET |PRAGMA )")
LOCKS = re.compile(r"\b(INSERT|UPDATE|DELETE|SHARE|LOCK|REPLACE)\b")


class Hang(AssertionError):
    """The players wait for one another, and the database does not end it."""


@dataclass
class Player:
    """One request on its way. ``state``: waiting for its turn, playing, blocked, done."""

    number: int
    stage: Stage
    order: Order | Batch
    state: str = "playing"
    statement: str = ""
    effect: Effect = "reads"
    has_written: bool = False
    connection: int = 0
    answer: Any = None
    go: threading.Event = field(default_factory=threading.Event)

    @property
    def letter(self) -> str:
        """The player's name in a schedule."""
        return LETTERS[self.number]

    def comes_to(self, texts: Sequence[str]) -> None:
        """Note the effect of its next message."""
        self.effect = "reads"
        for text in texts:
            if text in FREES:
                self.effect = "commits" if self.has_written else self.effect
                self.has_written = False
            elif LOCKS.search(text) or not READS.match(text):
                self.has_written = True
                self.effect = "commits" if self.effect == "commits" else "writes"


Choose = Callable[[Sequence[Player], Player, int], Player]
"""Chooses one of the players that can go on; given: these, the last player, and the number of the turn."""


@dataclass(frozen=True)
class Choice:
    """A turn that others could have had as well.

    ``others``: their numbers. ``switch``: the player of the last turn could go on. If it waits or is done, a
    switch is forced.
    """

    turn: int
    others: tuple[int, ...]
    switch: bool


@dataclass(frozen=True)
class Turn:
    """A turn that was had. ``able``: the player could go on afterwards."""

    player: int
    effect: Effect
    able: bool = True


def touch(one: Effect, other: Effect) -> bool:
    """Say whether the order of two messages can matter: a plain read sees nothing but commits."""
    return "reads" not in (one, other) or "commits" in (one, other)


def is_played_otherwise(turns: Sequence[Turn], player: int, effect: Effect) -> bool:
    """Say whether a switch to a player leads to what another run does, with no more switches.

    It does if the player's next message could have come right after its last one, because none since
    touches it. It does if all that one other player has done since touches nothing before: it could have come
    earlier, without the switch back. The other run has fewer switches, or an earlier message, so no two runs
    stand for each other.

    :param effect: that of the player's next message.
    """
    mine = [number for number, turn in enumerate(turns) if turn.player == player]
    if not mine:
        return False
    before, since = turns[: mine[-1] + 1], turns[mine[-1] + 1 :]
    if before[-1].able and not any(touch(turn.effect, effect) for turn in since):
        return True
    return len({turn.player for turn in since}) == 1 and not any(
        touch(old.effect, new.effect) for old in before for new in since
    )


@dataclass
class Run:
    """What happened: the schedule, where another could have been chosen, the answers."""

    schedule: str
    choices: list[Choice]
    answers: tuple[tuple[int, str], ...]


class Conductor:
    """One run of some orders on a stage."""

    def __init__(self, stage: Stage, orders: Sequence[Order | Batch]) -> None:
        self._stage = stage
        self._changed = threading.Condition()
        self._players = [Player(n, stage, order) for n, order in enumerate(orders)]
        self._schedule = ""
        self._turns: list[Turn] = []
        self._choices: list[Choice] = []

    @property
    def states(self) -> list[str]:
        """What each player does now."""
        return [player.state for player in self._players]

    def run(self, choose: Choose, first: int = 0) -> Run:
        """Play to the end; ``choose`` decides wherever several players can go on."""
        hooks = [self._hook(player) for player in self._players]
        threads = [threading.Thread(target=self._play, args=(p,)) for p in self._players]
        try:
            for player, thread in zip(self._players, threads, strict=True):
                thread.start()
                self._await(player)
            self._conduct(choose, self._players[first])
        finally:
            for player, hook in zip(self._players, hooks, strict=True):
                self._database(player).observers.remove(hook)
                player.go.set()
            for thread in threads:
                thread.join(HANGS_S)
        return Run(self._schedule, self._choices, tuple(each for p in self._players for each in _outcomes(p)))

    def _conduct(self, choose: Choose, current: Player) -> None:
        while able := self._able():
            turn, switch = len(self._schedule), current in able
            current = choose(able, current if switch else able[0], turn)
            others = tuple(
                each.number
                for each in able
                if each is not current and not is_played_otherwise(self._turns, each.number, each.effect)
            )
            if others and turn:
                self._choices.append(Choice(turn, others, switch))
            self._turn(current)

    def _able(self) -> list[Player]:
        """Return the players that can go on, none once all are done.

        Where all wait for the database, wait with them. The last of them may end without another turn.
        """
        deadline = time.monotonic() + HANGS_S
        while any(player.state != "done" for player in self._players):
            able = [p for p in self._players if p.state == "waiting" and not self._locked_out(p)]
            if able:
                return able
            if time.monotonic() > deadline:
                states = [(p.letter, p.state, p.statement) for p in self._players]
                raise Hang(f"no player can go on after {self._schedule}: {states}")
            self._settle()
        return []

    def _locked_out(self, player: Player) -> bool:
        """SQLite has one writer; a second one would only poll."""
        others = (p for p in self._players if p is not player)
        return player.statement == "BEGIN IMMEDIATE" and any(
            p.state == "waiting" and p.connection < 0 for p in others
        )

    def _turn(self, player: Player) -> None:
        self._schedule += player.letter
        ends, effect = player.statement in FREES, player.effect
        with self._changed:
            player.state = "playing"
            player.go.set()
        self._await(player)
        self._turns.append(Turn(player.number, effect, able=player.state == "waiting"))
        if ends or player.state == "done":
            self._settle()

    def _await(self, player: Player) -> None:
        """Return when the player has come to its next message, or waits for a lock."""
        deadline, patience_s = time.monotonic() + HANGS_S, PATIENCE_S
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: player.state != "playing", patience_s):
                    return
            patience_s = min(2 * patience_s, LONGEST_PATIENCE_S)
            if player.connection in self._stage.blocked():
                with self._changed:
                    if player.state == "playing":
                        player.state = "blocked"
                        return
            if time.monotonic() > deadline:
                raise Hang(f"{player.letter} hangs after {self._schedule} in {player.statement}")

    def _settle(self) -> None:
        """Let the players that have got their lock come to their next message."""
        waiting = [player for player in self._players if player.state == "blocked"]
        if not waiting:
            return
        still = self._stage.blocked()
        for player in waiting:
            if player.connection not in still:
                with self._changed:
                    if player.state == "blocked":
                        player.state = "playing"
                self._await(player)

    def _database(self, player: Player) -> Database:
        return self._stage.players[player.number].db

    def _hook(self, player: Player) -> Hook:
        def stop(connection: Connection, sent: Message) -> None:
            texts = [each.text for each in sent.statements if not each.text.startswith(NO_TURN)]
            if not texts:
                return
            statement = texts[-1] if texts[-1] in FREES else texts[0]
            writes = player.statement == "BEGIN IMMEDIATE" or player.connection < 0
            with self._changed:
                player.statement = statement
                player.comes_to([each.text for each in sent.statements])
                player.connection = connection_id(self._stage.kind, connection)
                if self._stage.kind == "sqlite" and writes:
                    player.connection = -1
                player.go.clear()
                player.state = "waiting"
                self._changed.notify_all()
            player.go.wait(HANGS_S)

        def pass_on(_connection: Connection, sent: Message) -> None:
            if sent.statements[-1].text in FREES:
                player.connection = 0
                player.statement = ""

        hook = Hook(stop, pass_on)
        self._database(player).observers.append(hook)
        return hook

    def _play(self, player: Player) -> None:
        try:
            player.answer = player.order.send(self._stage.players[player.number])
        except BaseException as failure:
            player.answer = failure
        with self._changed:
            player.state = "done"
            self._changed.notify_all()


def _outcomes(player: Player) -> list[tuple[int, str]]:
    """Return status and code of each answer; raise what the player has raised instead."""
    if isinstance(player.answer, BaseException):
        raise AssertionError(f"{player.letter} did not answer") from player.answer
    answers = player.answer if isinstance(player.answer, list) else [player.answer]
    return [outcome_of(answer) for answer in answers]


def outcome_of(answer: webob.Response) -> tuple[int, str]:
    """Return status and code of an answer."""
    code = answer.json["errors"][0].get("code", "") if answer.status_int >= 400 else ""
    return answer.status_int, code


def at_turns(players: Mapping[int, int]) -> Choose:
    """Return the choice of the same player as before, but for these turns: player by turn."""

    def choose(able: Sequence[Player], current: Player, turn: int) -> Player:
        wanted = players.get(turn)
        return next((player for player in able if player.number == wanted), current)

    return choose


def by_chance(random: Any, often: float = 0.4) -> Choose:
    """Return the choice that switches so often, to a player by chance."""

    def choose(able: Sequence[Player], current: Player, _turn: int) -> Player:
        return random.choice(able) if random.random() < often else current

    return choose


def as_written(schedule: str) -> Choose:
    """Return the choice that repeats a schedule as far as the database lets it."""

    def choose(able: Sequence[Player], current: Player, turn: int) -> Player:
        wanted = schedule[turn : turn + 1]
        return next((player for player in able if player.letter == wanted), current)

    return choose


def interleavings(
    play: Callable[[Choose, int], Run], switches: int, players: int = 2
) -> Iterator[Run]:
    """Run everything that differs by at most so many switches; yield each run.

    A switch that the database forces, because the player waits or is done, is not counted. One that leads
    to what another run does is not made.
    """
    todo: list[tuple[int, dict[int, int], int]] = [(first, {}, 0) for first in range(players)]
    while todo:
        first, turns, done = todo.pop()
        run = play(at_turns(turns), first)
        yield run
        for choice in run.choices:
            if choice.turn <= max(turns, default=0) or done + choice.switch > switches:
                continue
            todo += [
                (first, {**turns, choice.turn: other}, done + choice.switch)
                for other in choice.others
            ]

"""Statements on ``scrub``: the progress of the comparison of derived values, and the time of its next part.

One row is shared by all workers. A worker takes the next stretch by moving ``due_at``, if no other worker has
moved it since it was read, to the time at which the stretch would be due again if that worker died. Times are
milliseconds since the epoch, by the clock of the database.
"""

from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    exists,
    literal,
    literal_column,
    select,
    update,
)

from placement.db import digests, models
from placement.db.clock import NOW
from placement.db.coexistence.state import UNDER_WAY
from placement.db.database import Access, Transaction
from placement.db.statements import CompiledStatement

_scrub = models.scrub
_ROW = 1


class ScrubProgress(NamedTuple):
    """The progress of a scrub: up to an id in a stage. ``ended_at``: end of the last whole round, or 0."""

    stage: str
    position: int
    due_at: int
    began_at: int
    ended_at: int
    rounds: int


class ScrubLook(NamedTuple):
    """The progress, the time of the database, and whether another service may write too."""

    progress: ScrubProgress
    now: int
    is_shared: bool


IS_OF_ANOTHER_MEASURE: ColumnElement[bool] = exists(
    select(literal(1)).select_from(_scrub).where(_scrub.c.measure != digests.MEASURE)
)
"""Digests were computed differently in the last round, so the stored ones are meaningless."""

_is_row = _scrub.c.id == literal_column(str(_ROW))
_LOOK = CompiledStatement(
    select(*(_scrub.c[name] for name in ScrubProgress._fields), NOW, UNDER_WAY).where(_is_row)
)


def read_progress(access: Access) -> ScrubLook | None:
    """Return the row; None if it does not exist yet. One statement."""
    rows = access.rows(_LOOK)
    if not rows:
        return None
    *progress, now, is_shared = rows[0]
    return ScrubLook(ScrubProgress._make(progress), now, bool(is_shared))


def insert_missing(tx: Transaction) -> None:
    """Insert the row if it is missing, as due."""
    row = {"stage": "", **dict.fromkeys((*ScrubProgress._fields[1:], "mendings"), 0)}
    tx.insert_missing(_scrub, [{"id": _ROW, **row}])


def forget(tx: Transaction) -> None:
    """Let the next worker begin with the first round. One statement."""
    tx.change(_FORGET)


_FORGET = CompiledStatement(delete(_scrub))


def take(tx: Transaction, seen_due_at: int, due_at: int) -> bool:
    """Take the due stretch; return whether this worker was the first. One statement."""
    return tx.change(_TAKE, {"seen": seen_due_at, "until": due_at}) == 1


_seen = _scrub.c.due_at == bindparam("seen")
_TAKE = CompiledStatement(update(_scrub).where(_is_row, _seen).values(due_at=bindparam("until")))


def give_back(tx: Transaction, taken_until: int, progress: ScrubProgress) -> bool:
    """Write the progress of a taken stretch; return whether it was still taken.

    One statement.
    """
    return tx.change(_GIVE_BACK, {"seen": taken_until, **progress._asdict()}) == 1


_GIVE_BACK = CompiledStatement(
    update(_scrub)
    .where(_is_row, _seen)
    .values({name: bindparam(name) for name in ScrubProgress._fields})
)


def note_round(tx: Transaction) -> None:
    """Record that everything has just been compared, independently of the workers. Two statements."""
    insert_missing(tx)
    tx.change(_NOTE_ROUND)


def note_measure(tx: Transaction) -> None:
    """Record at the end of a round that all digests are computed in this worker's way. One statement."""
    tx.change(_NOTE_MEASURE)


_NOTE_ROUND = CompiledStatement(
    update(_scrub)
    .where(_is_row)
    .values(ended_at=NOW, rounds=_scrub.c.rounds + 1, measure=digests.MEASURE)
)
_NOTE_MEASURE = CompiledStatement(update(_scrub).where(_is_row).values(measure=digests.MEASURE))


def step_mendings(tx: Transaction) -> None:
    """Exclude other transactions that make corrections until the end of this one. One statement."""
    # The row is written, not only locked, so that two nodes of a Galera cluster collide on it too.
    if not tx.change(_STEP_MENDINGS):
        insert_missing(tx)
        tx.change(_STEP_MENDINGS)


_STEP_MENDINGS = CompiledStatement(
    update(_scrub).where(_is_row).values(mendings=_scrub.c.mendings + 1)
)

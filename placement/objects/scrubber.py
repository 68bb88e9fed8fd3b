"""The schedule and the progress of a scrub: each request may compare one range, after its answer.

There is no background thread. A row of the database (:mod:`placement.db.scrub_rows`) has the progress and the
time of the next stretch. The worker that moves the row takes the next stretch, and a stretch whose worker has
died is due again. The pace follows from the allowed share of time: after a stretch of 20 ms with a share of
0.5 % the next one is due in 4 s. Until a stretch can be due, no statement is sent.
"""

import logging
import random
import threading
import time
from collections.abc import Callable

from sqlalchemy import exc

from placement import errors, telemetry
from placement.db import scrub, scrub_rows
from placement.db.database import Database, Transaction
from placement.db.scrub_rows import ScrubLook, ScrubProgress
from placement.printable import escape_unprintable
from placement.telemetry import Trace

LOG = logging.getLogger(__name__)

STRETCH_S = 0.05
"""The time after which a stretch begins no further part."""

ROUND_S = 10.0
"""The shortest time between the beginnings of two rounds: a small cloud takes one stretch."""

PAUSES_S = (0.1, 600.0)
"""The shortest and the longest time between two stretches."""

LEASE_S = 30.0
"""The time after which a range is due again because its worker has died."""

MOST_PATIENT_S = 30.0
"""The longest time between two checks of a worker that the ranges still advance."""

LONG_PART_S = 0.5
"""The time of a part above which the next part of its stage has half as many rows."""

THOROUGH_EVERY = 24
"""Once in this number of rounds, rows that should not exist are searched even if all sums agree."""


class Scrubber:
    """A worker's part in the scrub of one database, made with the application.

    :param share_percent: the share of one processor's time for all workers together; 0 switches the scrub
        off.
    :param record: called with the figures of a stretch.
    """

    def __init__(
        self,
        db: Database,
        share_percent: float,
        record: Callable[[Trace], object] = telemetry.drop,
    ) -> None:
        self._db = db
        self._share = share_percent / 100
        self._record = record
        self._one = threading.Lock()
        self._patience_s = 1.0
        # The first time is random, because the workers of a server start at once.
        self._next_read_s = time.monotonic() + random.uniform(1, 5)  # noqa: S311
        self._sizes = {stage.name: stage.size for stage in scrub.STAGES}
        self._told: set[str] = set()
        self._failed = False

    def is_due(self) -> bool:
        """Return whether a stretch may be due, without a query."""
        return bool(self._share) and time.monotonic() >= self._next_read_s

    def go_on(self) -> None:
        """Take the next stretch if it is due and not taken; database errors are caught."""
        if not self._share or not self._one.acquire(blocking=False):
            return
        trace = telemetry.begin()
        try:
            self._next_read_s = time.monotonic() + self._run_if_due()
            self._failed = False
        except (errors.PlacementError, exc.SQLAlchemyError) as error:
            self._next_read_s = time.monotonic() + MOST_PATIENT_S
            self._warn(error)
        finally:
            telemetry.end()
            self._one.release()
            self._record(trace)

    def _warn(self, error: Exception) -> None:
        # A locked row to correct is an expected reason. Any other is logged once: a read-only database would
        # otherwise be reported twice a minute.
        is_usual = self._failed or isinstance(error, errors.Conflict | errors.DatabaseBusy)
        LOG.log(
            logging.DEBUG if is_usual else logging.WARNING,
            "The scrub of the database could not go on, and will be tried again: %s",
            error,
        )
        self._failed = True

    def _run_if_due(self) -> float:
        """Read the row, and take the stretch if it is due; return the seconds until the next reading."""
        began_s = time.monotonic()
        look = self._db.read(scrub_rows.read_progress)
        if look is None:
            self._db.write(scrub_rows.insert_missing)
            return 0.0
        telemetry.SCRUB_ROUND_TIMESTAMP_SECONDS.set(min(look.progress.ended_at, look.now) // 1000)
        wait_s = (look.progress.due_at - look.now) / 1000
        # The exception is a clock that was set back.
        if 0 < wait_s <= PAUSES_S[1]:
            return self._stand_back(wait_s)
        until = look.now + int(1000 * LEASE_S)
        if not self._db.write(lambda tx: scrub_rows.take(tx, look.progress.due_at, until)):
            return self._stand_back(PAUSES_S[0])
        progress = self._take_stretch(look.progress)
        return self._give_back(look, progress, until, began_s)

    def _stand_back(self, wait_s: float) -> float:
        """Return a longer time at each call: other workers take the stretches, and reading costs too."""
        self._patience_s = min(2 * self._patience_s, MOST_PATIENT_S)
        return wait_s + random.uniform(0, self._patience_s)  # noqa: S311

    def _take_stretch(self, progress: ScrubProgress) -> ScrubProgress:
        """Compare part after part while there is time; return the progress."""
        options = scrub.ScrubOptions(thorough=progress.rounds % THOROUGH_EVERY == 0)
        stages = [each for each in scrub.STAGES if options.thorough or progress.rounds % each.every == 0]
        names = [stage.name for stage in stages]
        # Another release can have a stage that this one does not know; then the round begins again.
        number = names.index(progress.stage) if progress.stage in names else 0
        after = progress.position if progress.stage in names else -scrub.BEYOND
        end_s = time.monotonic() + STRETCH_S
        while number < len(names):
            stage, began_s = stages[number], time.monotonic()
            part = stage.go_on(self._db, after, self._sizes[stage.name], options)
            self._size(stage, time.monotonic() - began_s)
            self._note(stage, part)
            number, after = (number, part.last) if part.last is not None else (number + 1, -scrub.BEYOND)
            # The first part always runs, since on a slow database reading the row alone can use up the time.
            if time.monotonic() >= end_s:
                break
        if number == len(names):
            self._told.clear()
            return progress._replace(stage="", position=0, rounds=progress.rounds + 1)
        return progress._replace(stage=names[number], position=after)

    def _size(self, stage: scrub.Stage, seconds: float) -> None:
        """Make the next part smaller after a long one."""
        size = self._sizes[stage.name]
        # Only a long part makes the next one shorter: a small part can take as long, if the database reads a
        # whole table for either.
        if seconds > LONG_PART_S:
            self._sizes[stage.name] = max(stage.size // 16, size // 2)
        elif seconds < STRETCH_S / 2:
            self._sizes[stage.name] = min(2 * size, stage.size)

    def _note(self, stage: scrub.Stage, part: scrub.Part) -> None:
        telemetry.SCRUBBED.count(stage.name, number=part.rows)
        for what, number in part.healed.items():
            telemetry.HEALED.count(what, number=number)
        for found in part.left:
            if found.invariant.name not in self._told:
                self._told.add(found.invariant.name)
                LOG.warning(
                    "Not so, and not to be mended alone: %s (%d; %s). %s",
                    found.invariant.name,
                    found.count,
                    escape_unprintable("; ".join(found.examples)),
                    found.invariant.advice,
                )

    def _give_back(self, look: ScrubLook, progress: ScrubProgress, until: int, began_s: float) -> float:
        """Write the progress and the time of the next stretch; return the seconds until then."""
        took_s = time.monotonic() - began_s
        pause_s = max(PAUSES_S[0], min(took_s / self._share, PAUSES_S[1]))
        now = look.now + int(1000 * took_s)
        if progress.rounds != look.progress.rounds:
            # If the round began in the future, by a wrong clock, the elapsed time counts as 0.
            passed_s = max(0, now - progress.began_at) / 1000
            pause_s = max(pause_s, ROUND_S - passed_s)
            progress = progress._replace(ended_at=now, began_at=now + int(1000 * pause_s))
            telemetry.SCRUB_ROUND_TIMESTAMP_SECONDS.set(now // 1000)
        given = progress._replace(due_at=now + int(1000 * pause_s))
        ends_round = given.rounds != look.progress.rounds

        def work(tx: Transaction) -> None:
            if scrub_rows.give_back(tx, until, given) and ends_round:
                scrub_rows.note_measure(tx)

        self._db.write(work)
        self._patience_s = 1.0
        return pause_s

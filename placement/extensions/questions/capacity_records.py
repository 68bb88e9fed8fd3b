"""Records of how many more of a shape fitted, and the forecast from them (07 section 3.2)."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from placement.db.database import Database
from placement.extensions.questions import capacity_rows
from placement.extensions.questions.capacity_rows import DAY_MS, CapacityRecord
from placement.extensions.questions.questions import count_shapes
from placement.objects.picture import Picture
from placement.search.request import CandidateRequest
from placement.search.work import Work

MOST = 10_000
"""The most records of one answer: a year of one each hour."""

FORECAST_MS = 30 * DAY_MS
"""The time before the last record whose records determine the line."""

FAR_MS = 36_500 * DAY_MS
"""The farthest date that is shown: a hundred years from now."""


class Forecast(NamedTuple):
    """A straight line through the last ``records``.

    ``runs_out_at``: the time at which it reaches zero, not before the last record; None if never.
    """

    records: int
    per_day: float
    runs_out_at: int | None


def record(
    db: Database,
    picture: Picture,
    shapes: Mapping[str, CandidateRequest],
    avoid: frozenset[str],
    work_factor: int,
) -> dict[str, int | None]:
    """Count each shape and record it; a shape that was not counted completely is None, and not recorded."""
    found = count_shapes(
        picture, shapes, by_aggregate=False, avoid=avoid, work_factor=work_factor, work=Work()
    )
    counts = {
        name: packing.count if packing.complete else None for name, (packing, _, _) in found.items()
    }
    known = {name: count for name, count in counts.items() if count is not None}
    db.write(lambda tx: capacity_rows.add(tx, known))
    return counts


def read_records(db: Database, shape: str) -> list[CapacityRecord]:
    """Return the records of a shape, oldest first."""
    return db.read(lambda access: capacity_rows.newest(access, shape, MOST))


def draw_forecast(records: Sequence[CapacityRecord]) -> Forecast | None:
    """Return the least-squares line through the last 30 days; None without two different times."""
    since = records[-1].recorded_at - FORECAST_MS if records else 0
    last = [each for each in records if each.recorded_at >= since]
    if not last or last[0].recorded_at == last[-1].recorded_at:
        return None
    middle, height = (fmean(column) for column in zip(*last, strict=True))
    per_ms = sum((at - middle) * (count - height) for at, count in last) / sum(
        (at - middle) ** 2 for at, _ in last
    )
    left_ms = middle - height / per_ms - last[-1].recorded_at if per_ms < 0 else FAR_MS
    runs_out_at = None
    if left_ms < FAR_MS:
        # A line that was steep at first can be below zero long before the last record.
        runs_out_at = last[-1].recorded_at + max(round(left_ms), 0)
    return Forecast(len(last), per_ms * DAY_MS, runs_out_at)

"""Gauges of what operators ask again and again, made seldom (specification 07 section 6)."""

import logging
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

from oslo_config import cfg
from prometheus_client.core import GaugeMetricFamily

from placement import errors
from placement.db.database import Database
from placement.insight.kept_figures import Kept, KeptFigures
from placement.insight.questions import capacity_of_shapes
from placement.insight.shapes import Shapes
from placement.insight.survival import survival
from placement.objects.picture import Picture
from placement.search.work import Work
from placement.web.search_bounds import Countdown

LOG = logging.getLogger(__name__)

LEVELS = ("tree", "aggregate")

Source = Callable[[Picture], Iterator[GaugeMetricFamily]]


def sources(conf: cfg.ConfigOpts, database: Database, shapes: Shapes) -> list[Source]:
    """Return what the configuration asks for."""
    directory = conf.insight.metrics_directory
    shared = Path(directory) if directory else None
    found: list[Source] = []
    if shapes:
        counts = KeptFigures(shared, "shapes", conf.insight.shapes_interval)
        found.append(lambda picture: _capacity(conf, shapes, picture, counts))
    if conf.insight.survival_interval:
        shares = KeptFigures(shared, "survival", conf.insight.survival_interval)
        found.append(lambda picture: _survival(conf, database, picture, shares))
    return found


def _work(conf: cfg.ConfigOpts) -> Work:
    """Return what making the figures may cost. A client that hangs up does not end it."""
    return Work(remaining_s=Countdown(conf.api.search_deadline or inf, lambda: False).remaining_s)


def _made(make: Callable[[], Any]) -> Any:
    """Return new figures, None while the database cannot be reached: the other metrics are answered."""
    try:
        return make()
    except errors.Unavailable as error:
        LOG.warning("Metrics without new figures: %s", error)
        return None


def _age(name: str, what: str, kept: Kept) -> GaugeMetricFamily:
    text = f"Seconds since {what} was found out."
    return GaugeMetricFamily(f"placement_{name}_age_seconds", text, value=kept.age_s)


# -- shapes --------------------------------------------------------------------------------------


def _capacity(
    conf: cfg.ConfigOpts,
    shapes: Shapes,
    picture: Picture,
    kept_figures: KeptFigures,
) -> Iterator[GaugeMetricFamily]:
    kept = kept_figures.of(lambda: _made(lambda: shape_counts(conf, shapes, picture)))
    if kept is None:
        return
    counts = GaugeMetricFamily(
        "placement_capacity",
        "How many more of a shape fit in an aggregate; in the cloud where the aggregate is empty.",
        labels=["shape", "aggregate"],
    )
    complete = GaugeMetricFamily(
        "placement_capacity_complete",
        "1 if as many of the shape as fit were counted, 0 if counting was cut: there may be more.",
        labels=["shape"],
    )
    for name, shown in kept.figures.items():
        # The file of shapes may have changed since another process counted.
        if name in shapes:
            complete.add_metric([name], shown["complete"])
            for aggregate, count in shown["counts"].items():
                counts.add_metric([name, aggregate], count)
    yield from (counts, complete, _age("capacity", "how many more of each shape fit", kept))


def shape_counts(conf: cfg.ConfigOpts, shapes: Shapes, picture: Picture) -> dict[str, Any]:
    """Return for each shape its count by uuid of aggregate, under "" that of the cloud."""
    found = capacity_of_shapes(
        picture,
        shapes,
        by_aggregate=True,
        work_factor=conf.insight.work_factor,
        work=_work(conf),
    )
    return {
        name: {
            "complete": packing.complete,
            "counts": {"": packing.count, **{place.uuid: place.placements for place in places}},
        }
        for name, (packing, places) in found.items()
    }


# -- survival ------------------------------------------------------------------------------------


def _survival(
    conf: cfg.ConfigOpts, database: Database, picture: Picture, kept_figures: KeptFigures
) -> Iterator[GaugeMetricFamily]:
    kept = kept_figures.of(lambda: _made(lambda: _survivable(conf, database, picture)))
    if kept is None:
        return
    share = GaugeMetricFamily(
        "placement_survivable",
        "The share of trees, or aggregates, whose consumers would all fit elsewhere if it failed.",
        labels=["level"],
    )
    complete = GaugeMetricFamily(
        "placement_survival_complete",
        "1 if the share is of all trees, or aggregates, 0 if of those that were tried in time.",
        labels=["level"],
    )
    for level, survivable, tried, places in kept.figures:
        if tried or not places:
            share.add_metric([level], survivable / tried if tried else 1)
        complete.add_metric([level], tried == places)
    yield from (share, complete, _age("survival", "which may fail", kept))


def _survivable(
    conf: cfg.ConfigOpts, database: Database, picture: Picture
) -> list[tuple[str, int, int, int]]:
    work = _work(conf)
    figures = []
    for left, level in zip((2, 1), LEVELS, strict=True):
        with work.part(left) as part:
            by_aggregate = level == "aggregate"
            found = survival(database, picture, by_aggregate=by_aggregate, top=0, work=part)
        figures.append((level, found.survivable, found.tried, found.places))
    return figures

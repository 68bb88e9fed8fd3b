"""Gauges that answer operators' regular questions, computed seldom (specification 07 section 6)."""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from oslo_config import cfg
from prometheus_client.core import GaugeMetricFamily

from placement.db.database import Database
from placement.extensions.metrics.kept_figures import KeptFigures
from placement.extensions.questions.questions import count_shapes
from placement.extensions.questions.shapes import Shapes
from placement.extensions.questions.survival import survival
from placement.objects.picture import Picture
from placement.search.work import Work
from placement.web.search_bounds import Countdown

LEVELS = ("tree", "aggregate")

Source = Callable[[Picture], Iterator[GaugeMetricFamily]]


def list_sources(conf: cfg.ConfigOpts, database: Database, shapes: Shapes) -> list[Source]:
    """Return the sources that the configuration enables."""
    directory = Path(conf.insight.metrics_directory) if conf.insight.metrics_directory else None
    found: list[Source] = []
    if shapes:
        kept = KeptFigures(directory, "shapes", conf.insight.shapes_interval)
        count = partial(_count_shapes, conf, shapes)
        found.append(partial(_make_gauges, kept, count, partial(_show_counts, shapes)))
    if conf.insight.survival_interval:
        kept = KeptFigures(directory, "survival", conf.insight.survival_interval)
        try_all = partial(_count_survivable, conf, database)
        found.append(partial(_make_gauges, kept, try_all, _show_shares))
    return found


def _make_gauges(
    kept: KeptFigures,
    make: Callable[[Picture], Any],
    show: Callable[[Any, float], Iterator[GaugeMetricFamily]],
    picture: Picture,
) -> Iterator[GaugeMetricFamily]:
    figures = kept.read_or_make(partial(make, picture))
    return iter(()) if figures is None else show(*figures)


def _allow_work(conf: cfg.ConfigOpts) -> Work:
    """Return the budget for computing the figures. A client that hangs up does not end the work."""
    return Work(remaining_s=Countdown(conf.api.search_deadline or inf, lambda: False).remaining_s)


# -- shapes --------------------------------------------------------------------------------------


def _count_shapes(conf: cfg.ConfigOpts, shapes: Shapes, picture: Picture) -> dict[str, Any]:
    """Return for each shape its count by uuid of aggregate; "" stands for the whole cloud."""
    found = count_shapes(
        picture,
        shapes,
        by_aggregate=True,
        avoid=frozenset(conf.insight.avoid),
        work_factor=conf.insight.work_factor,
        work=_allow_work(conf),
    )
    return {
        name: {
            "complete": packing.complete,
            "avoided": avoided.trees,
            "counts": {"": packing.count, **{place.uuid: place.placements for place in places}},
        }
        for name, (packing, places, avoided) in found.items()
    }


def _show_counts(
    shapes: Shapes, figures: dict[str, Any], age_s: float
) -> Iterator[GaugeMetricFamily]:
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
    avoided = GaugeMetricFamily(
        "placement_capacity_avoided_trees",
        "Trees that were left out when a shape was counted, since they take nothing new.",
        labels=["shape"],
    )
    for name, shown in figures.items():
        # The file of shapes may have changed since another process counted.
        if name in shapes:
            complete.add_metric([name], shown["complete"])
            avoided.add_metric([name], shown["avoided"])
            for aggregate, count in shown["counts"].items():
                counts.add_metric([name, aggregate], count)
    yield counts
    yield complete
    yield avoided
    yield GaugeMetricFamily(
        "placement_capacity_age_seconds",
        "Seconds since how many more of each shape fit was found out.",
        value=age_s,
    )


# -- survival ------------------------------------------------------------------------------------


def _count_survivable(
    conf: cfg.ConfigOpts, database: Database, picture: Picture
) -> list[tuple[str, int, int, int]]:
    """Return for each level its name, and how many places can fail, were tried, and exist."""
    work, avoid = _allow_work(conf), frozenset[str](conf.insight.avoid)
    figures = []
    for left, level in zip((2, 1), LEVELS, strict=True):
        with work.part(left) as part:
            by_aggregate = level == "aggregate"
            found = survival(
                database, picture, by_aggregate=by_aggregate, top=0, avoid=avoid, work=part
            )
        figures.append((level, found.survivable, found.tried, found.places))
    return figures


def _show_shares(
    figures: list[tuple[str, int, int, int]], age_s: float
) -> Iterator[GaugeMetricFamily]:
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
    for level, survivable, tried, places in figures:
        if tried or not places:
            share.add_metric([level], survivable / tried if tried else 1)
        complete.add_metric([level], tried == places)
    yield share
    yield complete
    yield GaugeMetricFamily(
        "placement_survival_age_seconds", "Seconds since these shares were computed.", value=age_s
    )

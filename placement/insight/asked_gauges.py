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
from placement.handlers.search_bounds import Countdown
from placement.insight.kept_figures import Kept, KeptFigures
from placement.insight.survival import survival
from placement.objects.picture import Picture
from placement.search.work import Work

LOG = logging.getLogger(__name__)

LEVELS = ("tree", "aggregate")

Source = Callable[[Picture], Iterator[GaugeMetricFamily]]


def sources(conf: cfg.ConfigOpts, database: Database) -> list[Source]:
    """Return what the configuration asks for."""
    directory = conf.insight.metrics_directory
    shared = Path(directory) if directory else None
    found: list[Source] = []
    if conf.insight.survival_interval:
        kept = KeptFigures(shared, "survival", conf.insight.survival_interval)
        found.append(lambda picture: _survival(conf, database, picture, kept))
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

"""The metrics of one application. The library of Prometheus is loaded when they begin."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from oslo_config import cfg

from placement.db.database import Database
from placement.extensions.questions.shapes import Shapes

if TYPE_CHECKING:
    from placement.extensions.metrics.metrics import Metrics


def begin_metrics(
    conf: cfg.ConfigOpts, database: Database, writes: Collection[tuple[str, str]], shapes: Shapes
) -> "Metrics":
    """Return what is counted of this service.

    :param writes: method and template of the routes that write, which are shown before they count.
    """
    from placement.extensions.metrics import consumer_gauges, provider_gauges
    from placement.extensions.metrics.asked_gauges import list_sources
    from placement.extensions.metrics.metrics import LongList, metrics_in

    metrics = metrics_in(conf.insight.metrics_directory, tuple(writes))
    metrics.watch_pool(database)
    long_lists: list[LongList] = []
    if conf.insight.metrics_per_provider:
        long_lists.append(provider_gauges.write_gauges)
    if conf.insight.metrics_per_consumer:
        long_lists.append(lambda _: consumer_gauges.write_gauges(database))
    metrics.show_also(list_sources(conf, database, shapes), long_lists)
    return metrics

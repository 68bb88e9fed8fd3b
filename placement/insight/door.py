"""The door of the wing: what the rest of the house may use of it. No other module of it is imported outside.

The library of the metrics, and what only a command needs, is loaded when it is asked for.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from oslo_config import cfg

from placement.db.database import Database
from placement.insight import handlers as handlers
from placement.insight import links, shapes
from placement.insight.lookout import Lookout as Lookout
from placement.insight.shapes import Shapes as Shapes
from placement.objects.picture import Picture
from placement.web.worker_threads import count_threads

if TYPE_CHECKING:
    from placement.insight.metrics import Metrics as Metrics


def read_shapes(conf: cfg.ConfigOpts) -> Shapes:
    """Return the named requests of ``[insight]/shapes_file``, none without a file.

    :raises NotConfigured: with a sentence for each fault in the file.
    """
    return shapes.read(conf)


def check_links(conf: cfg.ConfigOpts) -> None:
    """Check the URL templates of the explorer.

    :raises NotConfigured: with a sentence for each fault.
    """
    links.read(conf)


def begin_metrics(
    conf: cfg.ConfigOpts, database: Database, writes: Collection[tuple[str, str]], shapes: Shapes
) -> "Metrics":
    """Return what is counted of this service.

    :param writes: method and template of the routes that write, which are shown before they count.
    """
    from placement.insight import consumer_gauges, provider_gauges
    from placement.insight.asked_gauges import list_sources
    from placement.insight.metrics import LongList, metrics_in

    metrics = metrics_in(conf.insight.metrics_directory, tuple(writes))
    metrics.watch_pool(database)
    long_lists: list[LongList] = []
    if conf.insight.metrics_per_provider:
        long_lists.append(provider_gauges.write_gauges)
    if conf.insight.metrics_per_consumer:
        long_lists.append(lambda _: consumer_gauges.write_gauges(database))
    metrics.show_also(list_sources(conf, database, shapes), long_lists)
    return metrics


def begin_lookout(conf: cfg.ConfigOpts, database: Database) -> Lookout:
    """Return where requests wait for a change: as many as the option says, or a quarter of the threads."""
    most = conf.insight.waiting
    return Lookout(database, count_threads() // 4 if most is None else most)


def record_capacity(
    conf: cfg.ConfigOpts, database: Database, shapes: Shapes
) -> dict[str, int | None]:
    """Count each shape and record it; one that could not be counted to the end is None, and not recorded."""
    from placement.insight import capacity_records

    picture = Picture(database, conf.placement_database.finish_after)
    avoid = frozenset(conf.insight.avoid)
    return capacity_records.record(database, picture, shapes, avoid, conf.insight.work_factor)

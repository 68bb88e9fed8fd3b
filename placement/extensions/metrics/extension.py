"""The metrics of one application. The library of Prometheus is loaded when the metrics begin."""

from functools import partial
from typing import Any

from placement.extension import Extension, Service
from placement.extensions.metrics.routes import ROUTES


def _begin(service: Service) -> Any:
    """Return the object that shows the metrics, part by part."""
    from placement.extensions.metrics import consumer_gauges, provider_gauges
    from placement.extensions.metrics.asked_gauges import list_sources
    from placement.extensions.metrics.metrics import LongList, metrics_in

    conf, database = service.conf, service.database
    metrics = metrics_in(conf.insight.metrics_directory, tuple(service.written))
    metrics.watch_pool(database)
    long_lists: list[LongList] = []
    if conf.insight.metrics_per_provider:
        long_lists.append(provider_gauges.write_gauges)
    if conf.insight.metrics_per_consumer:
        long_lists.append(lambda _: consumer_gauges.write_gauges(database))
    metrics.show_also(list_sources(conf, database, service.begin("questions")), long_lists)
    service.request_watchers.append(metrics.record)
    service.work_watchers.append(metrics.record_work)
    return partial(metrics.exposition, service.picture)


EXTENSION = Extension(routes=ROUTES, begin=_begin)

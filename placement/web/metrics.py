"""What the service does, counted for Prometheus (specification 07 section 6).

The one room that knows its library. Requests are recorded when they end, from what was noted on the way
(:mod:`placement.telemetry`). Values of labels are bounded: lines of the URL page, constants, names of
classes that exist.
"""

import functools
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import prometheus_client as prometheus
from prometheus_client import multiprocess, values
from prometheus_client.core import Metric
from sqlalchemy.pool import QueuePool

from placement.db import driver_errors
from placement.db.database import Database
from placement.objects.picture import Picture
from placement.search.tally import Stop
from placement.telemetry import Trace
from placement.web.cloud_gauges import CloudGauges
from placement.web.observation import method_of
from placement.web.request_log import Environ
from placement.web.shared_values import SharedHistogram, SharedValue, SharedValues

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
CANDIDATES = (0, 1, 10, 100, 1000, 10_000)
OPERATION = ("method", "route")


class _Children(dict[tuple[str, ...], Any]):
    """The series of a metric by the values of its labels; the library's own look-up takes longer."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> Any:
        child = self._metric.labels(*labels)
        if isinstance(child, prometheus.Histogram) and isinstance(child._sum, SharedValue):
            child = SharedHistogram(child)
        self[labels] = child
        return child

    def at_zero(self, series: Iterable[tuple[str, ...]]) -> "_Children":
        """Let series be there before they count: what begins at 1 has never increased."""
        for labels in series:
            self[labels]
        return self


class Metrics:
    """The numbers of this process, or of all processes that share ``directory``.

    :param writes: method and route of everything that writes.
    """

    def __init__(self, directory: Path | None, writes: Sequence[tuple[str, str]]) -> None:
        self._directory = directory
        self._shared: SharedValues | None = None
        if directory is None:
            values.ValueClass = values.MutexValue
        else:
            self._shared = SharedValues(directory, self._forget_gauges)
            values.ValueClass = self._shared.make
        prometheus.disable_created_metrics()
        self._registry = prometheus.CollectorRegistry()
        self._cloud = CloudGauges()
        self._database: Database | None = None
        self._process: int
        self._shown_in_use: int
        self._shown_picture: tuple[int, int]
        self._forget_states()
        self._make_request_metrics(writes)
        self._make_search_metrics()
        self._make_database_metrics()

    def _make_request_metrics(self, writes: Sequence[tuple[str, str]]) -> None:
        self._requests = self._histogram(
            "placement_request_seconds",
            "Seconds that requests took, by route of the API.",
            (*OPERATION, "status"),
        )
        self._attempts = self._counter(
            "placement_write_attempts", "Transactions that write, repeated ones too.", OPERATION
        )
        self._repeats = self._counter(
            "placement_repeats", "Transactions begun again, by cause.", (*OPERATION, "cause")
        )
        self._refusals = self._counter(
            "placement_contention_refusals",
            "Writes refused because they kept losing against others.",
            OPERATION,
        ).at_zero(writes)
        self._conflicts = self._counter(
            "placement_conflicts", "Answers of status 409, by error.", (*OPERATION, "error")
        )
        self._held = self._histogram(
            "placement_providers_held_seconds",
            "Seconds for which transactions kept providers locked.",
            OPERATION,
        )

    def _make_search_metrics(self) -> None:
        self._stages = self._histogram(
            "placement_search_stage_seconds",
            "Seconds of searches for candidates, by stage.",
            ("stage",),
        )
        self._candidates = self._histogram(
            "placement_search_candidates", "Candidates that searches found.", (), CANDIDATES
        )
        self._empty = self._counter(
            "placement_searches_empty",
            "Searches that found nothing, by what ended them.",
            ("stopped",),
        ).at_zero((stop.value,) for stop in Stop)
        self._cut = self._counter(
            "placement_searches_cut", "Searches cut short, by the bound.", ("bound",)
        ).at_zero((bound,) for bound in ("work", "candidates", "bytes"))
        self._refreshes = self._counter(
            "placement_picture_refreshes", "Times the picture was brought up to date.", ("kind",)
        ).at_zero((kind,) for kind in ("nothing", "part", "whole"))
        self._read = self._counter(
            "placement_picture_providers_read", "Resource providers read for the picture.", ()
        )

    def _make_database_metrics(self) -> None:
        self._errors = self._counter(
            "placement_database_errors", "Errors of the database, by kind.", ("kind",)
        ).at_zero((kind,) for kind in driver_errors.KINDS)
        self._waits = self._counter(
            "placement_pool_waits", "Times a connection took more than a millisecond.", ()
        )
        self._wait_seconds = self._counter(
            "placement_pool_wait_seconds", "Seconds that these waits took.", ()
        )

    # -- gauges, made when there is something to say: one that nobody set would say 0 ------------

    @functools.cached_property
    def _providers(self) -> Any:
        return self._gauge("placement_picture_providers", "Resource providers in the picture.")

    @functools.cached_property
    def _checked(self) -> Any:
        name = "placement_picture_checked_timestamp_seconds"
        return self._gauge(name, "When the picture was last known to be up to date.")

    @functools.cached_property
    def _memory(self) -> Any:
        name = "placement_picture_memory_bytes"
        return self._gauge(name, "Bytes that the picture takes, estimated when metrics are read.")

    @functools.cached_property
    def _pool_size(self) -> Any:
        name = "placement_pool_size"
        return self._gauge(name, "Connections to the database that are kept.", "livesum")

    @functools.cached_property
    def _in_use(self) -> Any:
        name = "placement_pool_in_use"
        return self._gauge(name, "Connections to the database in use.", "livesum")

    @functools.cached_property
    def _foreign(self) -> Any:
        name = "placement_foreign_writes"
        text = "Writes of another service to this database that were not made up for."
        return self._gauge(name, text, "livemostrecent")

    def _histogram(
        self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float] = SECONDS
    ) -> Any:
        made = prometheus.Histogram(name, text, labels, registry=self._registry, buckets=buckets)
        return _Children(made) if labels else made

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Any:
        made = prometheus.Counter(name, text, labels, registry=self._registry)
        return _Children(made) if labels else made

    def _gauge(self, name: str, text: str, mode: Any = "liveall") -> Any:
        return prometheus.Gauge(name, text, registry=self._registry, multiprocess_mode=mode)

    # -- recording -------------------------------------------------------------------------------

    def record(self, environ: Environ, trace: Trace, seconds: float) -> None:
        """Count a request that has ended."""
        if self._process != os.getpid():
            self._begin_as_child()
        method = method_of(environ)
        self._requests[method, trace.route, trace.status].observe(seconds)
        if self._database is not None and len(self._database.in_use) != self._shown_in_use:
            self._record_pool(self._database)
        # Most requests have nothing more to say; asking them for each thing takes a sixth of all this.
        if trace.eventful:
            self._record_events((method, trace.route), trace)

    def _record_events(self, operation: tuple[str, str], trace: Trace) -> None:
        if trace.attempts:
            self._attempts[operation].inc(trace.attempts)
        for held_s in trace.held_s:
            self._held[operation].observe(held_s)
        if trace.found is not None:
            self._record_search(trace)
        for kind, read, providers in trace.refreshes:
            self._refreshes[kind,].inc()
            if read:
                self._read.inc(read)
            self._record_picture(providers)
        if trace.waits:
            self._waits.inc(trace.waits)
            self._wait_seconds.inc(trace.waited_s)
        if trace.status >= "409":
            self._record_failure(operation, trace)
        for cause in trace.repeats:
            self._repeats[*operation, cause].inc()
        for kind in trace.database_errors:
            self._errors[kind,].inc()
        if trace.foreign_writes is not None:
            self._foreign.set(trace.foreign_writes)

    def _record_search(self, trace: Trace) -> None:
        found = trace.found
        assert found is not None
        for stage, seconds in trace.stages.items():
            self._stages[stage,].observe(seconds)
        self._candidates.observe(found.candidates)
        if found.stopped is not None:
            self._empty[found.stopped,].inc()
        for bound in found.cut:
            self._cut[bound,].inc()

    def _record_failure(self, operation: tuple[str, str], trace: Trace) -> None:
        if trace.gave_up:
            self._refusals[operation].inc(trace.gave_up)
        if trace.conflict is not None:
            self._conflicts[*operation, trace.conflict].inc()

    def watch_pool(self, database: Database) -> None:
        """Count the connections of this database that are in use; one in memory has no pool."""
        if isinstance(database.engine.pool, QueuePool):
            self._database = database

    def _record_pool(self, database: Database) -> None:
        """Look who else has a connection at this moment; the last to end sees that nobody has."""
        self._shown_in_use = len(database.in_use)
        pool = database.engine.pool
        assert isinstance(pool, QueuePool)
        self._pool_size.set(pool.size())
        self._in_use.set(self._shown_in_use)

    def _record_picture(self, providers: int) -> None:
        """Say what there is in it; the time in whole seconds, since searches are many."""
        state = providers, int(time.time())
        if state != self._shown_picture:
            self._shown_picture = state
            self._providers.set(providers)
            self._checked.set(state[1])

    def _begin_as_child(self) -> None:
        if self._shared is not None:
            self._shared.reopen()
        self._forget_states()

    def _forget_states(self) -> None:
        """Show all gauges at the next occasion; those of a forked child are not set yet."""
        self._process = os.getpid()
        self._shown_in_use = -1
        self._shown_picture = (-1, 0)

    # -- showing ---------------------------------------------------------------------------------

    def exposition(self, picture: Picture) -> bytes:
        """Return everything in Prometheus' text format."""
        if self._process != os.getpid():
            self._begin_as_child()
        cloud = self._cloud.of(picture)
        if cloud.memory is not None:
            self._memory.set(cloud.memory)
        shown = self._registry
        if self._shared is not None:
            for number in self._shared.slots.abandoned():
                self._forget_gauges(number)
            shown = prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(shown, str(self._directory))
        return prometheus.generate_latest(shown) + prometheus.generate_latest(
            _Ready(cloud.families)
        )

    def _forget_gauges(self, number: int) -> None:
        """Drop what a process that is no more said of itself; what it counted stays."""
        multiprocess.mark_process_dead(number, str(self._directory))


class _Ready(prometheus.CollectorRegistry):
    """Metrics that are there already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics_in(directory: str | None, writes: tuple[tuple[str, str], ...]) -> Metrics:
    """Return new metrics of this process, or those that it has in the directory already."""
    return _shared(directory, writes) if directory else Metrics(None, writes)


@functools.cache
def _shared(directory: str, writes: tuple[tuple[str, str], ...]) -> Metrics:
    # Two of one process would write over one another.
    return Metrics(Path(directory), writes)

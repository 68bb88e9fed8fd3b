"""The counters of the service for Prometheus (specification 07 section 6).

Requests are recorded when they end, from notes made on the way (:mod:`placement.telemetry`). Values of labels
are bounded: lines of the URL page, constants, names of classes that exist.
"""

import fcntl
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prometheus_client as prometheus
from prometheus_client import multiprocess, values
from sqlalchemy.pool import QueuePool

from placement import telemetry
from placement.db.database import Database
from placement.extensions.metrics.asked_gauges import Source
from placement.extensions.metrics.cloud_gauges import CloudGauges
from placement.objects.picture import Picture
from placement.search.tally import Stop
from placement.telemetry import Figure, Gauge, Histogram, Trace
from placement.web.observation import name_method
from placement.web.request_log import Environ

OPERATION = ("method", "route")
NO_OPERATION = ("other", "none")

LongList = Callable[[Picture], Iterator[bytes]]
"""A function that writes gauges with more series than should be in memory at once, part by part."""


class Metrics:
    """The numbers of this process, or of all processes that share ``directory``.

    :param writes: method and route of everything that writes.
    """

    def __init__(self, directory: Path | None, writes: Sequence[tuple[str, str]]) -> None:
        self._directory = directory
        self._slots: ProcessSlots | None = None
        if directory is None:
            values.ValueClass = values.MutexValue
        else:
            self._slots = ProcessSlots(directory, self._forget_gauges)
            # The library reads the directory from an environment variable, at each new series.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
            values.ValueClass = values.MultiProcessValue(self._slots.mine)
        prometheus.disable_created_metrics()
        self._registry = prometheus.CollectorRegistry()
        self._families = {
            figure: self._make(figure, writes if figure.by_operation else ((),))
            for figure in telemetry.list_figures()
            if figure.text and not isinstance(figure, Gauge)
        }
        for operation in writes:
            self._families[telemetry.CONTENTION_REFUSALS].labels(*operation)
        for stop in Stop:
            self._families[telemetry.SEARCHES_EMPTY].labels(stop.value)
        self._gauges: dict[Gauge, prometheus.Gauge] = {}
        self._making = threading.Lock()
        self._cloud = CloudGauges()
        self._database: Database | None = None
        self._sources: list[Source] = []
        self._long_lists: list[LongList] = []

    def _make(self, figure: Figure, operations: Sequence[tuple[str, ...]]) -> Any:
        """Make a metric that shows each known label from the start, for each of the operations."""
        name, registry = f"placement_{figure.name}", self._registry
        labels = figure.labels(OPERATION, figure.label)
        made: Any = (
            prometheus.Histogram(
                name, figure.text, labels, registry=registry, buckets=figure.buckets
            )
            if isinstance(figure, Histogram)
            else prometheus.Counter(name, figure.text, labels, registry=registry)
        )
        for operation, label in product(operations, figure.at_zero):
            made.labels(*operation, label)
        return made

    def _series(self, figure: Figure, operation: tuple[str, str], label: str) -> Any:
        family, labels = self._families[figure], figure.labels(operation, label)
        return family.labels(*labels) if labels else family

    def _show(self, gauge: Gauge, value: float) -> None:
        """Set a gauge, and make it first if necessary; made earlier, it would show 0."""
        if gauge not in self._gauges:
            with self._making:
                if gauge not in self._gauges:
                    self._gauges[gauge] = prometheus.Gauge(
                        f"placement_{gauge.name}",
                        gauge.text,
                        registry=self._registry,
                        multiprocess_mode=gauge.mode,
                    )
        self._gauges[gauge].set(value)

    # -- recording -------------------------------------------------------------------------------

    def record(self, environ: Environ, trace: Trace, seconds: float) -> None:
        """Count a request that has ended."""
        operation = name_method(environ), trace.route
        self._series(telemetry.REQUEST_SECONDS, operation, trace.status).observe(seconds)
        if self._database is not None:
            # The gauge is the number of connections in use at the end of the request.
            pool = self._database.engine.pool
            assert isinstance(pool, QueuePool)
            self._show(telemetry.POOL_SIZE, pool.size())
            self._show(telemetry.POOL_IN_USE, len(self._database.in_use))
        self._record(operation, trace)

    def record_work(self, trace: Trace) -> None:
        """Count the work that a process did by itself after a request."""
        self._record(NO_OPERATION, trace)

    def _record(self, operation: tuple[str, str], trace: Trace) -> None:
        for (counter, label), number in trace.counts.items():
            if counter.text:
                self._series(counter, operation, label).inc(number)
        names = {histogram.name for histogram, _ in trace.values}
        for (histogram, label), noted in trace.values.items():
            if not histogram.only_with or histogram.only_with in names:
                series = self._series(histogram, operation, label)
                for value in noted:
                    series.observe(value)
        for gauge, level in trace.levels.items():
            self._show(gauge, level)

    def watch_pool(self, database: Database) -> None:
        """Count the connections of this database that are in use; one in memory has no pool."""
        if isinstance(database.engine.pool, QueuePool):
            self._database = database

    def show_also(self, sources: list[Source], long_lists: list[LongList]) -> None:
        """Add sources of gauges, shown while the picture can be read, and then the long lists."""
        self._sources, self._long_lists = sources, long_lists

    # -- showing ---------------------------------------------------------------------------------

    def exposition(self, picture: Picture) -> Iterator[bytes]:
        """Return everything in Prometheus' text format; long lists are written as they are read."""
        return chain([self._of_service(picture)], *(write(picture) for write in self._long_lists))

    def _of_service(self, picture: Picture) -> bytes:
        cloud = self._cloud.read(picture)
        if cloud.memory is not None:
            self._show(telemetry.PICTURE_MEMORY_BYTES, cloud.memory)
        shown = self._registry
        if self._slots is not None:
            for number in self._slots.find_abandoned():
                self._forget_gauges(number)
            shown = prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(shown, str(self._directory))
        families = list(cloud.families)
        if cloud.memory is not None:
            families += (family for source in self._sources for family in source(picture))
        # The library asks a registry for nothing else.
        of_cloud: Any = SimpleNamespace(collect=lambda: families)
        return prometheus.generate_latest(shown) + prometheus.generate_latest(of_cloud)

    def _forget_gauges(self, number: int) -> None:
        """Drop the gauges of a process that has ended; its counters stay."""
        multiprocess.mark_process_dead(number, str(self._directory))


class ProcessSlots:
    """Numbers from 0 in one directory; two living processes never have the same.

    A number is a lock on a file, which the kernel releases when the process ends. The next process continues
    the files of a dead one: there are at most as many files as processes at once, and counters never fall.

    :param taken: called with each number that this process takes.
    """

    def __init__(self, directory: Path, taken: Callable[[int], object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._taken = taken
        self._number = -1
        self._owner = -1

    def mine(self) -> int:
        """Return the number of this process; after a fork the child takes its own number."""
        # The process id is compared at each call, because uWSGI forks without Python's hooks.
        if self._owner != os.getpid():
            # The file stays open, because the lock lasts as long as the open file.
            numbers = (each for each in itertools.count() if self._lock(each) is not None)
            self._number, self._owner = next(numbers), os.getpid()
            self._taken(self._number)
        return self._number

    def find_abandoned(self) -> list[int]:
        """Return the numbers that no process has at the moment."""
        numbers = map(int, (path.stem for path in self._directory.glob("*.lock")))
        # The own file is left out, because closing a second descriptor of it would release the lock of this
        # process.
        return [each for each in numbers if each != self.mine() and not self._is_locked(each)]

    def _is_locked(self, number: int) -> bool:
        file = self._lock(number)
        if file is not None:
            os.close(file)
        return file is None

    def _lock(self, number: int) -> int | None:
        """Lock the number without waiting; return its open file, or None if another process has it."""
        file = os.open(
            self._directory / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return None
        return file


def metrics_in(directory: str | None, writes: tuple[tuple[str, str], ...]) -> Metrics:
    """Return new metrics of this process, or its existing ones in the directory."""
    return _open(directory, writes) if directory else Metrics(None, writes)


@functools.cache
def _open(directory: str, writes: tuple[tuple[str, str], ...]) -> Metrics:
    # Two metrics objects of one process would overwrite each other.
    return Metrics(Path(directory), writes)

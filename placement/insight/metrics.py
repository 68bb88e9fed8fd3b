"""What the service does, counted for Prometheus (specification 07 section 6).

Requests are recorded when they end, from what was noted on the way (:mod:`placement.telemetry`). Values
of labels are bounded: lines of the URL page, constants, names of classes that exist.
"""

import fcntl
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import prometheus_client as prometheus
from prometheus_client import multiprocess, values
from sqlalchemy.pool import QueuePool

from placement import errors
from placement.db import driver_errors
from placement.db.database import Database
from placement.insight import provider_gauges
from placement.insight.asked_gauges import Source
from placement.insight.cloud_gauges import CloudGauges
from placement.objects.picture import Picture
from placement.search.cloud import Cloud
from placement.search.tally import Stop
from placement.telemetry import Found, Trace
from placement.web.observation import method_of
from placement.web.request_log import Environ

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
CANDIDATES = (0, 1, 10, 100, 1000, 10_000)
OPERATION = ("method", "route")


class Family(NamedTuple):
    """A counter, or with ``buckets`` a histogram; ``at_zero``: series that are shown before they count."""

    name: str
    text: str
    labels: Sequence[str] = ()
    buckets: Sequence[float] = ()
    at_zero: Iterable[str] = ()


FAMILIES = (
    Family(
        "request_seconds",
        "Seconds that requests took, by route of the API.",
        (*OPERATION, "status"),
        SECONDS,
    ),
    Family("write_attempts", "Transactions that write, repeated ones too.", OPERATION),
    Family("repeats", "Transactions begun again, by cause.", (*OPERATION, "cause")),
    Family(
        "contention_refusals", "Writes refused because they kept losing against others.", OPERATION
    ),
    Family("conflicts", "Answers of status 409, by error.", (*OPERATION, "error")),
    Family(
        "providers_held_seconds",
        "Seconds for which transactions kept providers locked.",
        OPERATION,
        SECONDS,
    ),
    Family(
        "search_stage_seconds",
        "Seconds of searches for candidates, by stage.",
        ("stage",),
        SECONDS,
    ),
    Family("search_candidates", "Candidates that searches found.", (), CANDIDATES),
    Family(
        "searches_empty",
        "Searches that found nothing, by what ended them.",
        ("stopped",),
        at_zero=tuple(stop.value for stop in Stop),
    ),
    Family(
        "searches_cut",
        "Searches cut short, by the bound.",
        ("bound",),
        at_zero=("deadline", "work", "candidates", "bytes"),
    ),
    Family("search_deadlines", "Requests whose searches the deadline ended.", OPERATION),
    Family(
        "claims",
        "Consumers for which the service chose a place, or refused to.",
        ("outcome",),
        at_zero=("granted", "refused"),
    ),
    Family("claim_retries", "Times such claims were chosen again, because others were faster."),
    Family(
        "holds",
        "Consumers that were held, confirmed, or removed because their hold was over.",
        ("outcome",),
        at_zero=("held", "confirmed", "expired"),
    ),
    Family(
        "picture_refreshes",
        "Times the picture was brought up to date.",
        ("kind",),
        at_zero=("nothing", "part", "whole"),
    ),
    Family("picture_providers_read", "Resource providers read for the picture."),
    Family(
        "database_errors",
        "Errors of the database, by kind.",
        ("kind",),
        at_zero=driver_errors.KINDS,
    ),
    Family("pool_waits", "Times a connection took more than a millisecond."),
    Family("pool_wait_seconds", "Seconds that these waits took."),
)

GAUGES: dict[str, tuple[str, Any]] = {
    "picture_providers": ("Resource providers in the picture.", "liveall"),
    "picture_checked_timestamp_seconds": (
        "When the picture was last known to be up to date.",
        "liveall",
    ),
    "picture_memory_bytes": (
        "Bytes that the picture takes, estimated when metrics are read.",
        "liveall",
    ),
    "pool_size": ("Connections to the database that are kept.", "livesum"),
    "pool_in_use": ("Connections to the database in use.", "livesum"),
    "foreign_writes": (
        "Writes of another service to this database that were not made up for.",
        "livemostrecent",
    ),
}
"""With the way in which those of several processes become one."""


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
            # The library reads the directory from its variable, at each new series.
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
            values.ValueClass = values.MultiProcessValue(self._slots.mine)
        prometheus.disable_created_metrics()
        self._registry = prometheus.CollectorRegistry()
        self._families = {family.name: self._made(family) for family in FAMILIES}
        for operation in writes:
            self._series("contention_refusals", *operation)
        self._gauges: dict[str, prometheus.Gauge] = {}
        self._making = threading.Lock()
        self._cloud = CloudGauges()
        self._database: Database | None = None
        self._sources: list[Source] = []
        self._per_provider = False

    def _made(self, family: Family) -> Any:
        name, registry = f"placement_{family.name}", self._registry
        made: Any = (
            prometheus.Histogram(
                name, family.text, family.labels, registry=registry, buckets=family.buckets
            )
            if family.buckets
            else prometheus.Counter(name, family.text, family.labels, registry=registry)
        )
        for label in family.at_zero:
            made.labels(label)
        return made

    def _series(self, name: str, *labels: str) -> Any:
        family = self._families[name]
        return family.labels(*labels) if labels else family

    def _show(self, name: str, value: float) -> None:
        """Set a gauge, made when it is first set: before that it would show 0."""
        if name not in self._gauges:
            with self._making:
                if name not in self._gauges:
                    text, mode = GAUGES[name]
                    self._gauges[name] = prometheus.Gauge(
                        f"placement_{name}", text, registry=self._registry, multiprocess_mode=mode
                    )
        self._gauges[name].set(value)

    # -- recording -------------------------------------------------------------------------------

    def record(self, environ: Environ, trace: Trace, seconds: float) -> None:
        """Count a request that has ended."""
        operation = method_of(environ), trace.route
        self._series("request_seconds", *operation, trace.status).observe(seconds)
        if self._database is not None:
            self._record_pool(self._database)
        self._record_events(operation, trace)

    def _record_events(self, operation: tuple[str, str], trace: Trace) -> None:
        if trace.attempts:
            self._series("write_attempts", *operation).inc(trace.attempts)
        for held_s in trace.held_s:
            self._series("providers_held_seconds", *operation).observe(held_s)
        if trace.found is not None:
            self._record_search(trace, trace.found)
        for kind, read, providers in trace.refreshes:
            self._series("picture_refreshes", kind).inc()
            if read:
                self._series("picture_providers_read").inc(read)
            self._show("picture_providers", providers)
            self._show("picture_checked_timestamp_seconds", int(time.time()))
        if trace.waits:
            self._series("pool_waits").inc(trace.waits)
            self._series("pool_wait_seconds").inc(trace.waited_s)
        if trace.deadlines:
            self._series("search_deadlines", *operation).inc(trace.deadlines)
        self._record_claims(trace)
        if trace.gave_up:
            self._series("contention_refusals", *operation).inc(trace.gave_up)
        if trace.conflict is not None:
            self._series("conflicts", *operation, trace.conflict).inc()
        for cause in trace.repeats:
            self._series("repeats", *operation, cause).inc()
        for kind in trace.database_errors:
            self._series("database_errors", kind).inc()
        if trace.foreign_writes is not None:
            self._show("foreign_writes", trace.foreign_writes)

    def _record_claims(self, trace: Trace) -> None:
        for count, family, *outcome in (
            (trace.claims_granted, "claims", "granted"),
            (trace.claims_refused, "claims", "refused"),
            (trace.claim_retries, "claim_retries"),
            (trace.holds_begun, "holds", "held"),
            (trace.holds_confirmed, "holds", "confirmed"),
            (trace.holds_expired, "holds", "expired"),
        ):
            if count:
                self._series(family, *outcome).inc(count)

    def _record_search(self, trace: Trace, found: Found) -> None:
        for stage, seconds in trace.stages.items():
            self._series("search_stage_seconds", stage).observe(seconds)
        self._series("search_candidates").observe(found.candidates)
        if found.stopped is not None:
            self._series("searches_empty", found.stopped).inc()
        for bound in found.cut:
            self._series("searches_cut", bound).inc()

    def watch_pool(self, database: Database) -> None:
        """Count the connections of this database that are in use; one in memory has no pool."""
        if isinstance(database.engine.pool, QueuePool):
            self._database = database

    def show_also(self, sources: list[Source], *, per_provider: bool) -> None:
        """Show the gauges of these while the picture can be read, and perhaps those of each provider."""
        self._sources, self._per_provider = sources, per_provider

    def _record_pool(self, database: Database) -> None:
        """Show how many connections are in use at this moment, as the request ends."""
        pool = database.engine.pool
        assert isinstance(pool, QueuePool)
        self._show("pool_size", pool.size())
        self._show("pool_in_use", len(database.in_use))

    # -- showing ---------------------------------------------------------------------------------

    def exposition(self, picture: Picture) -> Iterator[bytes]:
        """Return everything in Prometheus' text format; what each provider has is written as it is read."""
        parts = iter([self._of_service(picture)])
        if not self._per_provider:
            return parts
        try:
            cloud = picture.read(Cloud.snapshot)
        except errors.Unavailable:
            return chain(parts, [provider_gauges.up(0)])
        return chain(parts, provider_gauges.exposition(cloud))

    def _of_service(self, picture: Picture) -> bytes:
        cloud = self._cloud.of(picture)
        if cloud.memory is not None:
            self._show("picture_memory_bytes", cloud.memory)
        shown = self._registry
        if self._slots is not None:
            for number in self._slots.abandoned():
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
    the files of a dead one: they are never more than processes at once, and counters never fall.

    :param taken: called with each number that this process takes.
    """

    def __init__(self, directory: Path, taken: Callable[[int], object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._taken = taken
        self._number = -1
        self._owner = -1

    def mine(self) -> int:
        """Return the number of this process; after a fork the child takes one of its own."""
        # Compared at each call: uWSGI forks without telling Python.
        if self._owner != os.getpid():
            self._number = self._take()
            self._owner = os.getpid()
        return self._number

    def abandoned(self) -> list[int]:
        """Return the numbers that no process has at the moment."""
        numbers = map(int, (path.stem for path in self._directory.glob("*.lock")))
        # To close a second descriptor of its own file would release the lock of this process.
        return [each for each in numbers if each != self.mine() and not self._is_locked(each)]

    def _take(self) -> int:
        for number in itertools.count():
            file = self._locked(number)
            if file is not None:
                # Never closed: the lock lasts for as long as the process does.
                self._taken(number)
                return number
        raise AssertionError("numbers never end")

    def _is_locked(self, number: int) -> bool:
        file = self._locked(number)
        if file is not None:
            os.close(file)
        return file is None

    def _locked(self, number: int) -> int | None:
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
    """Return new metrics of this process, or those that it has in the directory already."""
    return _shared(directory, writes) if directory else Metrics(None, writes)


@functools.cache
def _shared(directory: str, writes: tuple[tuple[str, str], ...]) -> Metrics:
    # Two of one process would write over one another.
    return Metrics(Path(directory), writes)

"""The figures of a request while it is served, each declared once: here, or in an extension (07 section 6).

Modules of every layer note figures in the trace of the thread, or nowhere if it has none.
:mod:`placement.web.observation` begins a trace. The metrics and the log line of slow requests are made from
the trace and from the declarations of figures.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter, time
from typing import Literal

from placement import installed

# -- kinds of figures ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure:
    """The declaration of a figure.

    :param name: the name of the metric, after ``placement_``.
    :param text: the metric's help; an empty text means no metric.
    :param label: the name of its label, whose values are few regardless of clients.
    :param by_operation: whether method and route are labels too.
    :param at_zero: labels that are shown from the start; for a figure by operation, for each write.
    :param in_log: whether the line of a slow request shows it.
    """

    name: str
    text: str = ""
    label: str = ""
    by_operation: bool = False
    at_zero: Sequence[str] = ()
    in_log: bool = False

    def labels(self, operation: tuple[str, str], label: str) -> tuple[str, ...]:
        """Return the names, or the values, of the labels that the figure has."""
        own = (label,) if self.label else ()
        return operation + own if self.by_operation else own


class Counter(Figure):
    """A number that only grows."""

    def count(self, label: str = "", *, number: float = 1) -> None:
        """Add to the number."""
        if (trace := _current.trace) is not None:
            key = self, label
            trace.counts[key] = trace.counts.get(key, 0) + number


@dataclass(frozen=True, eq=False, kw_only=True)
class Histogram(Figure):
    """Values, counted by size.

    :param only_with: count only if the request also has a value for the figure of this name.
    """

    buckets: Sequence[float]
    only_with: str = ""

    def observe(self, value: float, label: str = "") -> None:
        """Note a value."""
        if (trace := _current.trace) is not None:
            trace.values.setdefault((self, label), []).append(value)


Mode = Literal["liveall", "livesum", "livemostrecent"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Gauge(Figure):
    """A present number.

    :param mode: how ``prometheus_client`` combines the numbers of several processes.
    """

    mode: Mode

    def set(self, value: float) -> None:
        """Note the number."""
        if (trace := _current.trace) is not None:
            trace.levels[self] = value


# -- the figures, as the metrics show them -------------------------------------------------------

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)

REQUEST_SECONDS = Histogram(
    name="request_seconds",
    text="Seconds that requests took, by route of the API.",
    by_operation=True,
    label="status",
    buckets=SECONDS,
)
WRITE_ATTEMPTS = Counter(
    name="write_attempts",
    text="Transactions that write, repeated ones too.",
    by_operation=True,
)
STATEMENTS = Counter(name="statements", in_log=True)
REPEATS = Counter(
    name="repeats",
    text="Transactions begun again, by cause.",
    by_operation=True,
    label="cause",
    at_zero=("conflict", "disconnect", "stale"),
    in_log=True,
)
CONTENTION_REFUSALS = Counter(
    name="contention_refusals",
    text="Writes refused because they kept losing against others.",
    by_operation=True,
)
CONFLICTS = Counter(
    name="conflicts",
    text="Answers of status 409, by error.",
    by_operation=True,
    label="error",
)
PROVIDERS_HELD_SECONDS = Histogram(
    name="providers_held_seconds",
    text="Seconds for which transactions kept providers locked.",
    by_operation=True,
    buckets=SECONDS,
)
SEARCH_STAGE_SECONDS = Histogram(
    name="search_stage_seconds",
    text="Seconds of searches for candidates, by stage.",
    label="stage",
    buckets=SECONDS,
    # An unknown name, or a client that hangs up, ends a search early and would make stages look short.
    only_with="search_candidates",
    in_log=True,
)
SEARCH_CANDIDATES = Histogram(
    name="search_candidates",
    text="Candidates that searches found.",
    buckets=(0, 1, 10, 100, 1000, 10_000),
)
SEARCHES_EMPTY = Counter(
    name="searches_empty",
    text="Searches that found nothing, by what ended them.",
    label="stopped",
)
SEARCHES_CUT = Counter(
    name="searches_cut",
    text="Searches cut short, by the bound.",
    label="bound",
    at_zero=("deadline", "work", "candidates", "bytes"),
)
SEARCH_DEADLINES = Counter(
    name="search_deadlines",
    text="Requests whose searches the deadline ended.",
    by_operation=True,
)
_OF_REQUESTS = tuple(each for each in vars().values() if isinstance(each, Figure))

HOLDS = Counter(
    name="holds",
    text="Consumers that were held, confirmed, or removed because their hold was over.",
    label="outcome",
    at_zero=("held", "confirmed", "expired"),
)
PICTURE_REFRESHES = Counter(
    name="picture_refreshes",
    text="Times the picture was brought up to date.",
    label="kind",
    at_zero=("nothing", "part", "whole"),
)
PICTURE_PROVIDERS_READ = Counter(
    name="picture_providers_read",
    text="Resource providers read for the picture.",
)
SCRUBBED = Counter(
    name="scrubbed",
    text="Rows that the scrub has compared with what is derived of them, by stage.",
    label="stage",
    at_zero=("providers", "owners", "others"),
)
HEALED = Counter(
    name="healed",
    text="Faults of the database that were corrected, by kind.",
    label="what",
    at_zero=("usage", "contents", "owners", "rows"),
)
DATABASE_ERRORS = Counter(
    name="database_errors",
    text="Errors of the database, by kind.",
    label="kind",
    at_zero=("conflict", "disconnect", "read_only", "pool_timeout", "outcome_unknown", "other"),
)
POOL_WAITS = Counter(
    name="pool_waits",
    text="Times a connection took more than a millisecond.",
)
POOL_WAIT_SECONDS = Counter(
    name="pool_wait_seconds",
    text="Seconds that these waits took.",
)
PICTURE_PROVIDERS = Gauge(
    name="picture_providers",
    text="Resource providers in the picture.",
    mode="liveall",
)
PICTURE_CHECKED_TIMESTAMP_SECONDS = Gauge(
    name="picture_checked_timestamp_seconds",
    text="When the picture was last known to be up to date.",
    mode="liveall",
)
PICTURE_MEMORY_BYTES = Gauge(
    name="picture_memory_bytes",
    text="Bytes that the picture takes, estimated when metrics are read.",
    mode="liveall",
)
POOL_SIZE = Gauge(
    name="pool_size",
    text="Connections to the database that are kept.",
    mode="livesum",
)
POOL_IN_USE = Gauge(
    name="pool_in_use",
    text="Connections to the database in use.",
    mode="livesum",
)
SCRUB_ROUND_TIMESTAMP_SECONDS = Gauge(
    name="scrub_round_timestamp_seconds",
    text="When the last whole round of the scrub ended, 0 before the first.",
    mode="livemostrecent",
)
FOREIGN_WRITES = Gauge(
    name="foreign_writes",
    text="Writes of another service to this database that were not made up for.",
    mode="livemostrecent",
)

_OF_CORE = tuple(each for each in vars().values() if isinstance(each, Figure))


@cache
def list_figures() -> tuple[Figure, ...]:
    """Return all figures in the order of the metrics: requests, extensions, process."""
    modules = installed.find_modules("figures").values()
    others = [figure for module in modules for figure in module.FIGURES]
    return tuple(dict.fromkeys([*_OF_REQUESTS, *others, *_OF_CORE]))


# -- the trace of a request ----------------------------------------------------------------------


class Trace:
    """The figures of one request, by figure and label; "" for a figure without labels."""

    def __init__(self) -> None:
        self.route = "none"
        self.status = "500"
        self.counts: dict[tuple[Counter, str], float] = {}
        self.values: dict[tuple[Histogram, str], list[float]] = {}
        self.levels: dict[Gauge, float] = {}
        self.locked_since_s: float | None = None
        self.stage_since_s = 0.0
        self.idle_s = 0.0

    def counts_by_label(self, counter: Counter) -> dict[str, float]:
        """Return what was counted, by label."""
        return {label: number for (each, label), number in self.counts.items() if each is counter}


class _Current(threading.local):
    trace: Trace | None = None


_current = _Current()


def begin() -> Trace:
    """Begin a trace of this thread, and return it."""
    trace = _current.trace = Trace()
    return trace


def end() -> None:
    """End the trace of this thread."""
    _current.trace = None


def drop(trace: Trace) -> None:
    """Discard a trace."""


def current() -> Trace:
    """Return the trace of this thread, or one that is dropped."""
    return _current.trace or Trace()


# -- noting what takes more than a line ----------------------------------------------------------

WAITED_S = 0.001
"""Shorter waits for a connection are not counted."""


def note_search() -> None:
    """Note that a search begins."""
    if (trace := _current.trace) is not None:
        trace.stage_since_s = perf_counter()


def note_stage(stage: str) -> None:
    """Note that a stage of a search has ended, and that the next begins."""
    if (trace := _current.trace) is not None:
        now_s = perf_counter()
        # A search that begins again has its stages twice, and is still one search.
        seconds = trace.values.setdefault((SEARCH_STAGE_SECONDS, stage), [0.0])
        seconds[0] += now_s - trace.stage_since_s
        trace.stage_since_s = now_s


def note_lock() -> None:
    """Note that the transaction has locked providers."""
    if (trace := _current.trace) is not None and trace.locked_since_s is None:
        trace.locked_since_s = perf_counter()


def note_unlock() -> None:
    """Note that the transaction has ended and released its locks."""
    if (trace := _current.trace) is not None and trace.locked_since_s is not None:
        PROVIDERS_HELD_SECONDS.observe(perf_counter() - trace.locked_since_s)
        trace.locked_since_s = None


def note_wait(seconds: float) -> None:
    """Note how long it took to get a connection, if that is long enough to count."""
    if seconds > WAITED_S:
        POOL_WAITS.count()
        POOL_WAIT_SECONDS.count(number=seconds)


def note_idle(seconds: float) -> None:
    """Note for how long the request waited at its client's wish, which does not count as slow."""
    if (trace := _current.trace) is not None:
        trace.idle_s += seconds


def note_refresh(kind: str, read: int, providers: int) -> None:
    """Note the refresh of the picture, the number of providers read, and their total."""
    PICTURE_REFRESHES.count(kind)
    if read:
        PICTURE_PROVIDERS_READ.count(number=read)
    PICTURE_PROVIDERS.set(providers)
    PICTURE_CHECKED_TIMESTAMP_SECONDS.set(int(time()))

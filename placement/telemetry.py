"""What happens while a request is served, for metrics and the log of slow requests (07 section 6).

Modules of every floor note it in the :class:`Trace` of the thread; :mod:`placement.web.observation` begins
one and reads it at the end.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType

WAITED_S = 0.001
"""Shorter waits for a connection are not counted."""


@dataclass(slots=True)
class Found:
    """The outcome of a search for candidates.

    :param candidates: the number in the answer.
    :param stopped: the constant that names what ended a search that found nothing, else None.
    :param cut: the bounds that cut the answer short: deadline, work, candidates, bytes.
    """

    candidates: int
    stopped: str | None
    cut: tuple[str, ...]


class Trace:
    """What was noted of one request.

    ``stages``: seconds by stage of a search: freshness, filter, combine, render. ``refreshes``: how the
    picture was refreshed (nothing, part or whole), how many providers were read for it, and how many it has.
    ``repeats``: why transactions were repeated. ``held_s``: seconds for which each transaction kept providers
    locked. ``waits``: for a connection. ``conflict``: the class of the error that was answered with 409.
    ``database_errors``: of ``driver_errors.KINDS``. ``gave_up``: writes refused after too many conflicts.
    ``foreign_writes``: those of another service that are not counted in yet. ``deadlines``: searches that
    ``[api]/search_deadline`` ended. ``claims_granted``, ``claims_refused``: consumers of claims decided here;
    ``claim_retries``: times they were chosen again. ``holds_begun``, ``holds_confirmed``, ``holds_expired``:
    consumers that were held, kept, and removed.
    """

    route = "none"
    status = "500"
    statements = 0
    attempts = 0
    gave_up = 0
    deadlines = 0
    claims_granted = 0
    claims_refused = 0
    claim_retries = 0
    holds_begun = 0
    holds_confirmed = 0
    holds_expired = 0
    waits = 0
    waited_s = 0.0
    stages: Mapping[str, float] = MappingProxyType({})
    repeats: tuple[str, ...] = ()
    held_s: tuple[float, ...] = ()
    database_errors: tuple[str, ...] = ()
    refreshes: tuple[tuple[str, int, int], ...] = ()
    found: Found | None = None
    conflict: str | None = None
    foreign_writes: int | None = None
    held_since: float | None = None
    stage_since = 0.0


class _Current(threading.local):
    trace: Trace | None = None


_current = _Current()


def begin() -> Trace:
    """Begin to note what this thread does, and return the trace."""
    trace = _current.trace = Trace()
    return trace


def end() -> None:
    """Stop noting."""
    _current.trace = None


def current() -> Trace:
    """Return the trace of this thread, or one that is dropped."""
    return _current.trace or Trace()


def stages_begin() -> None:
    """Note that a search begins."""
    if (trace := _current.trace) is not None:
        trace.stage_since = perf_counter()


def passed(stage: str) -> None:
    """Note that a stage of a search has ended, and that the next begins."""
    if (trace := _current.trace) is not None:
        now = perf_counter()
        taken = trace.stages.get(stage, 0.0) + now - trace.stage_since
        trace.stages = {**trace.stages, stage: taken}
        trace.stage_since = now


def holds_providers() -> None:
    """Note that the transaction has locked providers."""
    if (trace := _current.trace) is not None and trace.held_since is None:
        trace.held_since = perf_counter()


def transaction_ended() -> None:
    """Note that the transaction has released its locks."""
    if (trace := _current.trace) is not None and trace.held_since is not None:
        trace.held_s += (perf_counter() - trace.held_since,)
        trace.held_since = None


def waited_for_connection(seconds: float) -> None:
    """Note how long it took to get a connection, if that is long enough to count."""
    if seconds > WAITED_S:
        trace = current()
        trace.waits += 1
        trace.waited_s += seconds

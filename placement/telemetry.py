"""What happens while a request is served, noted on the way for whoever wants to know (specification 07
section 6).

Rooms of every floor call the functions below; each is one line there. They do nothing unless somebody
watches the request: the layer of :mod:`placement.web.observation`, which is there if metrics or the
line of slow requests are wanted, begins a :class:`Trace` for its thread and reads it at the end.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType

WAITED_S = 0.001
"""Who gets a connection faster has not waited for one."""


@dataclass(slots=True)
class Found:
    """What a search for candidates came to.

    :param candidates: how many the answer has.
    :param stopped: the constant that names what ended a search that found nothing, else None.
    :param cut: the bounds that cut the answer short: work, candidates, bytes.
    """

    candidates: int
    stopped: str | None
    cut: tuple[str, ...]


class Trace:
    """What was noted of one request; most requests have little to note, and one costs nothing to make.

    ``eventful``: whether more is noted than what every request has: route, status and statements.
    ``stages``: seconds by stage of a search, freshness, filter, combine, render. ``refreshes``: how
    the picture was brought up to date, nothing, part or whole; how many providers were read for it,
    and how many it has. ``repeats``: why transactions were begun again. ``held_s``: for how long each
    transaction kept providers locked. ``waits``: how often it waited for a connection, altogether
    ``waited_s``. ``conflict``: the class of the error that was answered with 409.
    """

    route = "none"
    status = "500"
    statements = 0
    eventful = False
    attempts = 0
    gave_up = 0
    waits = 0
    waited_s = 0.0
    stages: Mapping[str, float] = MappingProxyType({})
    repeats: Sequence[str] = ()
    held_s: Sequence[float] = ()
    database_errors: Sequence[str] = ()
    refreshes: Sequence[tuple[str, int, int]] = ()
    found: Found | None = None
    conflict: str | None = None
    foreign_writes: int | None = None
    held_since: float | None = None
    stage_since = 0.0


class _Current(threading.local):
    trace: Trace | None = None


_current = _Current()


def begin() -> Trace:
    """Watch what this thread does from here on, and return where it is noted."""
    trace = _current.trace = Trace()
    return trace


def end() -> None:
    """Watch no longer."""
    _current.trace = None


def routed(template: str) -> None:
    """Note which line of the URL page serves the request."""
    if (trace := _current.trace) is not None:
        trace.route = template or "/"


def answered(status: str) -> None:
    """Note the status line of the answer."""
    if (trace := _current.trace) is not None:
        trace.status = status[:3]


def ran_statement() -> None:
    """Note a statement that is sent to the database."""
    if (trace := _current.trace) is not None:
        trace.statements += 1


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


def searched(candidates: int, stopped: str | None, *, cut: tuple[str, ...]) -> None:
    """Note what a search came to, as in :class:`Found`."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.found = Found(candidates, stopped, cut)


def refreshed(kind: str, read: int, providers: int) -> None:
    """Note how the picture was brought up to date, as in :class:`Trace`."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.refreshes = (*trace.refreshes, (kind, read, providers))


def attempted() -> None:
    """Note that a transaction that writes begins, for the first time or again."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.attempts += 1


def repeats(cause: str) -> None:
    """Note why a transaction is about to be begun again."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.repeats = (*trace.repeats, cause)


def gave_up() -> None:
    """Note that a write is refused because it kept losing against others."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.gave_up += 1


def holds_providers() -> None:
    """Note that the transaction has locked providers."""
    if (trace := _current.trace) is not None and trace.held_since is None:
        trace.held_since = perf_counter()


def transaction_ended() -> None:
    """Note that what the transaction had locked is free again."""
    if (trace := _current.trace) is not None and trace.held_since is not None:
        trace.held_s = (*trace.held_s, perf_counter() - trace.held_since)
        trace.held_since = None


def waited_for_connection(seconds: float) -> None:
    """Note how long it took to get a connection, unless it was there."""
    if seconds > WAITED_S and (trace := _current.trace) is not None:
        trace.eventful = True
        trace.waits += 1
        trace.waited_s += seconds


def database_failed(kind: str) -> None:
    """Note an error of the database, as one of :data:`placement.db.driver_errors.KINDS`."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.database_errors = (*trace.database_errors, kind)


def conflicted(error: str) -> None:
    """Note the class of the error that is answered with 409."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.conflict = error


def foreign_writes_seen(number: int) -> None:
    """Note how many writes of another service this one has not made up for."""
    if (trace := _current.trace) is not None:
        trace.eventful = True
        trace.foreign_writes = number

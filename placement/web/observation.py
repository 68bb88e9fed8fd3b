"""Layer 1b watches requests for metrics and the log line of slow ones (specification 07 section 6)."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any
from urllib.parse import unquote_plus

from placement import telemetry
from placement.web.request_log import Environ, WSGIApp

# Operators filter on this name.
LOG = logging.getLogger("placement.web.slow_requests")

# Parameters are names of the API and, in group suffixes, chosen by the client; both are short.
PARAMETER = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
# The pattern matches names of classes and traits, amounts, limits and strategies, but no uuid and no name of
# a provider.
NAMES_AND_AMOUNTS = {
    "resources": re.compile(r"[A-Z0-9_]+:[0-9]{1,10}(,[A-Z0-9_]+:[0-9]{1,10})*\Z"),
    "required": re.compile(r"(in:)?!?[A-Z0-9_]+(,!?[A-Z0-9_]+)*\Z"),
    "root_required": re.compile(r"!?[A-Z0-9_]+(,!?[A-Z0-9_]+)*\Z"),
    "group_policy": re.compile(r"(none|isolate)\Z"),
    "limit": re.compile(r"[0-9]{1,18}\Z"),
}
LONGEST_SHAPE = 1000
HIDDEN = "…"

Watcher = Callable[[Environ, telemetry.Trace, float], None]
"""A watcher that is called after each request with its environ, its trace, and its seconds."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def name_method(environ: Environ) -> str:
    """Return the method of the request, or "other" for an unknown method."""
    # The method is a label of the metrics: a client that invents methods would make a new series with each.
    method: str = environ.get("REQUEST_METHOD", "")
    return method if method in METHODS else "other"


def observe_requests(application: WSGIApp, watchers: Sequence[Watcher]) -> WSGIApp:
    """Return ``application`` with watchers; ``application`` itself if there are none."""
    if not watchers:
        return application

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        trace = telemetry.begin()
        began = perf_counter()
        try:
            return application(environ, start_response)
        finally:
            # This also runs after an error: the request has used its time, and the thread serves other
            # requests next, whose figures must not enter this trace.
            seconds = perf_counter() - began - trace.idle_s
            telemetry.end()
            for tell in watchers:
                tell(environ, trace, seconds)

    return serve


def make_slow_request_watcher(threshold_s: float) -> Watcher:
    """Return the watcher that writes the line."""

    def tell(environ: Environ, trace: telemetry.Trace, seconds: float) -> None:
        if seconds > threshold_s:
            query = environ.get("QUERY_STRING", "")
            LOG.warning(
                "Slow request: %s %s %s took %.3f s, status %s; %s",
                environ.get("openstack.request_id", "-"),
                name_method(environ),
                trace.route + (f"?{hide_values(query)}" if query else ""),
                seconds,
                trace.status,
                ", ".join(_list_figures(trace)),
            )

    return tell


def _list_figures(trace: telemetry.Trace) -> Iterator[str]:
    """Yield the figures of a trace for a slow line: seconds first, then counts, with their labels."""
    for (histogram, label), seconds in trace.values.items():
        if histogram.in_log:
            yield f"{label} {sum(seconds):.3f} s"
    for counter in telemetry.list_figures():
        if isinstance(counter, telemetry.Counter) and counter.in_log:
            counted = trace.counts_by_label(counter)
            causes = f" ({', '.join(sorted(counted))})" if counter.label and counted else ""
            yield f"{sum(counted.values())} {counter.name}{causes}"


def hide_values(query: str) -> str:
    """Return the query with values that are names or amounts; other values are hidden."""
    shown = []
    # A query can have 64 KiB, of which 1000 characters are shown: the rest is not worth parsing.
    for item in query[: 10 * LONGEST_SHAPE].split("&"):
        name, _, value = item.partition("=")
        if not PARAMETER.match(name):
            # The client made up this name, which can have any length.
            shown.append(HIDDEN)
            continue
        # Values are decoded before matching: an escaped uuid or line feed would otherwise look harmless.
        plain = unquote_plus(value)
        patterns = (p for word, p in NAMES_AND_AMOUNTS.items() if _is_parameter(name, word))
        pattern = next(patterns, None)
        shown.append(f"{name}={plain if pattern and pattern.match(plain) else HIDDEN}")
    text = "&".join(shown)
    return text if len(text) <= LONGEST_SHAPE else text[:LONGEST_SHAPE] + HIDDEN


def _is_parameter(name: str, word: str) -> bool:
    """Return whether the parameter is this one, or its form for a group, with a suffix."""
    rest = name.removeprefix(word)
    return name == word or (name.startswith(word) and word != "limit" and rest[0] in "_0123456789")

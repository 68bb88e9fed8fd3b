"""Layer 1b: watch requests for metrics and for the line of slow ones (specification 07 section 6).

It stands where time that a client waits begins, inside the health check, which is asked too often to
be of interest.
"""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from placement import telemetry
from placement.web.request_log import Environ, WSGIApp

Watcher = Callable[[Environ, telemetry.Trace, float], None]
"""Told of each request: its environ, what was noted of it, and the seconds that it took."""


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def method_of(environ: Environ) -> str:
    """Return the method of the request, "other" for what a client has made up."""
    method: str = environ.get("REQUEST_METHOD", "")
    return method if method in METHODS else "other"


def observed(application: WSGIApp, watchers: Sequence[Watcher]) -> WSGIApp:
    """Return ``application`` with watchers; ``application`` itself if there are none.

    What an answer still does after it was begun is not seen: the bodies of this service are whole.
    """
    if not watchers:
        return application

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        trace = telemetry.begin()
        began = perf_counter()
        try:
            return application(environ, start_response)
        finally:
            seconds = perf_counter() - began
            telemetry.end()
            for tell in watchers:
                tell(environ, trace, seconds)

    return serve

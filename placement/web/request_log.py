"""Layer 2 adds request ids, the Accept default and two log lines (specification 01 section 12)."""

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from oslo_context.context import RequestContext, generate_request_id

from placement import telemetry

# Operators filter on this name (specification 06 section 5).
LOG = logging.getLogger("placement.requestlog")

GLOBAL_ID = re.compile(r"req-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}\Z")
UNSAFE = re.compile(r"[^\x21\x23-\x7e]")

Environ = dict[str, Any]
WSGIApp = Callable[[Environ, Any], Iterable[bytes]]


def log_requests(application: WSGIApp) -> WSGIApp:
    """Return ``application`` with a request id and a log line for each response."""

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        request_id = _identify(environ)
        if environ.get("HTTP_ACCEPT", "") in ("", "*/*"):
            environ["HTTP_ACCEPT"] = "application/json"
        # The address is quoted too, since a proxy's header may have set it.
        who, method = (
            UNSAFE.sub(_escape, environ.get(name) or "-")
            for name in ("REMOTE_ADDR", "REQUEST_METHOD")
        )
        what = f'{who} "{method} {uri(environ)}"'
        LOG.debug("Starting request: %s", what)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            headers.append(("x-openstack-request-id", request_id))
            telemetry.current().status = status[:3]
            if LOG.isEnabledFor(logging.INFO):
                lengths = (value for name, value in headers if name.lower() == "content-length")
                LOG.info(
                    "%s status: %s len: %s microversion: %s",
                    what,
                    status.split(" ", 1)[0],
                    next(lengths, "-"),
                    environ.get("placement.microversion", "-"),
                )
            return start_response(status, headers, exc_info)

        return application(environ, start)

    return serve


def _identify(environ: Environ) -> str:
    """Set the ids of the request, and a new context for the thread."""
    request_id: str = generate_request_id()
    environ["openstack.request_id"] = request_id
    claimed = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
    global_id = claimed if GLOBAL_ID.match(claimed) else None
    if global_id:
        environ["openstack.global_request_id"] = global_id
    # oslo.log takes the ids in log lines from the last context of the thread.
    RequestContext(request_id=request_id, global_request_id=global_id)
    return request_id


def uri(environ: Environ) -> str:
    """Return prefix, path and query as one word, which cannot begin a new log line."""
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    shown = quote(path.encode("latin-1", "replace"), safe="/:@!$&'()*+,;=~{}%")
    query = environ.get("QUERY_STRING")
    return f"{shown}?{UNSAFE.sub(_escape, query)}" if query else shown


def _escape(match: re.Match[str]) -> str:
    return quote(match.group().encode("latin-1", "replace"))

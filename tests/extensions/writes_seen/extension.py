"""The extension of the example."""

from placement.extensions.writes_seen.watchers import COUNTER, WriteCounter
from webob import Response

from placement.extension import Extension, Service
from placement.web.dispatch import shows
from placement.web.request import Request
from placement.web.response import json_response


def count_writes(request: Request) -> Response:
    """Say how many writes this process has finished."""
    return json_response(request, {"finished": request.begun["writes_seen"].finished})


def _begin(service: Service) -> WriteCounter:
    return COUNTER


EXTENSION = Extension(
    routes={"/-/writes-seen": {"GET": shows(count_writes, "writes:count")}}, begin=_begin
)

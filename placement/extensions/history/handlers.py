"""The handler of ``/-/history`` (specification 07 section 11)."""

from typing import Any

from webob import Response

from placement.extensions.history import history, schemas
from placement.web.request import Request
from placement.web.response import json_response


def list_history(request: Request) -> Response:
    """GET /-/history"""
    given = request.read_query_once(schemas.HISTORY)
    limit = int(given.get("limit", schemas.DEFAULT_WRITES))
    found = history.read_writes(request.db, given, limit)
    writes = [_render_write(each) for each in found.writes]
    return json_response(request, {"writes": writes, "next": found.next})


def _render_write(written: history.Written) -> dict[str, Any]:
    return {
        "at": written.at,
        "by": {"user_id": written.user, "project_id": written.project},
        "request_id": written.request_id,
        "global_request_id": written.global_request_id,
        "method": written.method,
        "route": written.route,
        "consumer_uuid": written.consumer_uuid,
        "provider_uuid": written.provider_uuid,
        "name": written.name,
        "generation": {"before": written.generations[0], "after": written.generations[1]},
        "before": written.before,
        "after": written.after,
    }

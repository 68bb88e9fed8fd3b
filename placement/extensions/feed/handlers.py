"""The handler of ``/-/changes`` (specification 07 section 8)."""

from typing import Any

from webob import Response

from placement.extensions.feed import feed, figures, schemas
from placement.web.hang_up import make_detector
from placement.web.request import Request
from placement.web.response import json_response
from placement.web.stopping import bound_wait, is_told_to_stop


def list_changes(request: Request) -> Response:
    """GET /-/changes"""
    given = request.read_query_once(schemas.CHANGES)
    since = feed.Token.parse(given["since"]) if "since" in given else None
    limit = int(given.get("limit", schemas.DEFAULT_CHANGED_TREES))
    asked_s = int(given.get("wait_s", 0)) if request.environ["wsgi.multithread"] else 0
    wait_s = bound_wait(asked_s)
    try:
        found = feed.read_changes(request.db, since, limit)
        # A process with one thread cannot serve other requests while one waits.
        if since is not None and wait_s and not found.trees:
            has_hung_up = make_detector(request.environ)

            def ends_early() -> bool:
                return is_told_to_stop() or has_hung_up()

            if request.begun["feed"].wait(found.next, wait_s, ends_early):
                found = feed.read_changes(request.db, since, limit)
    except feed.TokenTooOld:
        figures.CHANGES.count("too_old")
        raise
    figures.CHANGES.count("changed" if found.trees else "nothing")
    return json_response(request, _render_changes(found))


def _render_changes(found: feed.FeedPage) -> dict[str, Any]:
    trees = [
        {
            "root": tree.root_uuid,
            "name": tree.name,
            "changed": "usage" if tree.usage_alone else "stock",
            "gone": tree.name is None,
        }
        for tree in found.trees
    ]
    return {"next": found.next.show(), "trees": trees, "complete": found.complete}

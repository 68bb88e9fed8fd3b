"""/-/metrics (specification 07 section 6)."""

from webob import Response

from placement.schemas import metrics as schemas
from placement.web.request import Request

# Of Prometheus' text format: this module is there without its library.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def show_metrics(request: Request) -> Response:
    """GET /-/metrics"""
    request.read_query(schemas.SHOW)
    assert request.metrics is not None, "the route is there only with the metrics"
    body = request.metrics.exposition(request.picture)
    headers = [("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(body)))]
    return Response(
        status=200, headerlist=[*headers, ("Cache-Control", "no-cache")], app_iter=[body]
    )

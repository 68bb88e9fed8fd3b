"""The handler of ``/-/metrics`` (specification 07 section 6)."""

from webob import Response

from placement.schemas.questions import NOTHING
from placement.web.request import Request

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format. Its library is loaded only where the metrics are made."""


def show_metrics(request: Request) -> Response:
    """GET /-/metrics"""
    request.read_query(NOTHING)
    show = request.begun["metrics"]
    headers = [("Content-Type", METRICS_TYPE), ("Cache-Control", "no-cache")]
    insight = request.conf.insight
    if insight.metrics_per_provider or insight.metrics_per_consumer:
        return Response(status=200, headerlist=headers, app_iter=show())
    body = b"".join(show())
    headers.append(("Content-Length", str(len(body))))
    return Response(status=200, headerlist=headers, app_iter=[body])

"""The routes of the metrics: see :mod:`placement.routes`."""

from placement.extensions.metrics import handlers
from placement.web.dispatch import Actions, acts

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/metrics": {"GET": acts(handlers.show_metrics, "insight:metrics", public="metrics")},
}

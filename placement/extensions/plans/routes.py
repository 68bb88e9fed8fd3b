"""The routes of plans: see :mod:`placement.routes`."""

from placement.extensions.plans import handlers
from placement.web.dispatch import Actions, takes

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/plans": {"POST": takes(handlers.make_plan, "insight:plans")},
}

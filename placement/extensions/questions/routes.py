"""The routes of questions: see :mod:`placement.routes`."""

from placement.extensions.questions import handlers
from placement.web.dispatch import Actions, shows, takes

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/capacity": {"GET": shows(handlers.show_capacity, "insight:capacity", since=10)},
    "/-/capacity/history": {"GET": shows(handlers.show_capacity_history, "insight:capacity")},
    "/-/explain": {"GET": shows(handlers.explain_candidates, "insight:explain", since=10)},
    "/-/survival": {"GET": shows(handlers.show_survival, "insight:survival")},
    "/-/what-if": {"POST": takes(handlers.ask_what_if, "insight:what_if", since=10)},
}

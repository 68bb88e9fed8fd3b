"""The routes of the history: see :mod:`placement.routes`."""

from placement.extensions.history import handlers
from placement.web.dispatch import Actions, shows

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/history": {"GET": shows(handlers.list_history, "insight:history")},
}

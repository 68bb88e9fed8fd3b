"""The routes of the feed: see :mod:`placement.routes`."""

from placement.extensions.feed import handlers
from placement.web.dispatch import Actions, shows

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/changes": {"GET": shows(handlers.list_changes, "insight:changes")},
}

"""The routes of the explorer: see :mod:`placement.routes`."""

from placement.extensions.explorer import handlers
from placement.web.dispatch import Actions, acts, shows

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/links": {"GET": shows(handlers.show_links, "insight:trees")},
    "/-/explorer": {"GET": acts(handlers.lead_to_page, None)},
    "/-/explorer/": {"GET": acts(handlers.show_file, None)},
    "/-/explorer/{path:.+}": {"GET": acts(handlers.show_file, None)},
}
"""Static files, which contain no data and need no rule (specification 07 section 7), and the links."""

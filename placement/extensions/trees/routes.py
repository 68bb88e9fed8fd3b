"""The routes of whole trees: see :mod:`placement.routes`."""

from placement.extensions.trees import handlers
from placement.web.dispatch import Actions, shows

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/trees": {"GET": shows(handlers.list_trees, "insight:trees")},
    "/-/trees/{uuid}": {"GET": shows(handlers.show_tree, "insight:trees")},
}

"""The URL page in parts: what every part of the documentation and the tests reads of it."""

from placement.extension import find_extensions
from placement.routes import ROUTES as ROUTES
from placement.web.dispatch import Actions

_BY_EXTENSION = {name: dict(each.routes) for name, each in find_extensions().items()}

CLAIMS = _BY_EXTENSION["claims"]
EXPLORER = _BY_EXTENSION["explorer"]
INSIGHT: dict[str, dict[str, Actions]] = dict(
    sorted(
        (path, methods)
        for name, routes in _BY_EXTENSION.items()
        if name not in ("claims", "explorer")
        for path, methods in routes.items()
    )
)
"""What operators ask beside the compatible API, in the order of the paths."""

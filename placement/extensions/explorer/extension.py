"""The web page."""

from placement.extension import Extension, Service
from placement.extensions.explorer import links
from placement.extensions.explorer.routes import ROUTES


def _begin(service: Service) -> None:
    """Refuse to start with templates that are not URLs."""
    links.read(service.conf)


EXTENSION = Extension(routes=ROUTES, check_options=links.read, begin=_begin)

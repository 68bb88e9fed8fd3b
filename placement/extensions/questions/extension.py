"""Questions, and the named requests about which they may be asked."""

from placement.extension import Extension, Service
from placement.extensions.questions import shapes
from placement.extensions.questions.routes import ROUTES
from placement.extensions.questions.shapes import Shapes


def _begin(service: Service) -> Shapes:
    return shapes.read(service.conf)


EXTENSION = Extension(routes=ROUTES, check_options=shapes.read, begin=_begin)

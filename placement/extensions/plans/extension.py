"""The extension for plans."""

from placement.extension import Extension, Service
from placement.extensions.plans.planning.solver import load_solver
from placement.extensions.plans.routes import ROUTES


def _begin(_service: Service) -> None:
    """Load the solver here, outside the deadline of the first plan."""
    load_solver()


EXTENSION = Extension(routes=ROUTES, begin=_begin)

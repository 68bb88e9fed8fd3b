"""The feed, and where requests wait for a change."""

from placement.extension import Extension, Service
from placement.extensions.feed.lookout import Lookout
from placement.extensions.feed.routes import ROUTES
from placement.web.worker_threads import count_threads


def _begin(service: Service) -> Lookout:
    """Make the lookout; as many requests can wait as the option says, or a quarter of the threads."""
    most = service.conf.insight.waiting
    return Lookout(service.database, count_threads() // 4 if most is None else most)


EXTENSION = Extension(routes=ROUTES, begin=_begin)

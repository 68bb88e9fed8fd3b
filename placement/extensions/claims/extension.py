"""The extension for claims with chosen places."""

from oslo_config import cfg

from placement.extension import Extension, is_insight_on
from placement.extensions.claims.routes import ROUTES


def _is_on(conf: cfg.ConfigOpts) -> bool:
    return is_insight_on(conf) and bool(conf.insight.claims)


EXTENSION = Extension(routes=ROUTES, writes=True, is_on=_is_on)

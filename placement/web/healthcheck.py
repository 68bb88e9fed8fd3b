"""The health check of oslo.middleware, which here also asks the database; off unless configured.

It stands outside all layers of contract 01: whoever asks has no token, and asks often. What it does
not answer (another path, a client that may not ask) goes on as if it were not there.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any

from oslo_config import cfg
from oslo_middleware import healthcheck
from oslo_middleware.healthcheck import opts, pluginbase
from sqlalchemy import select
from stevedore.extension import Extension

from placement import errors
from placement.conf.healthcheck import GROUP, OPTIONS
from placement.db.api import Database
from placement.web.request_log import Environ, WSGIApp

NOT_SET = (cfg.Locations.opt_default, cfg.Locations.set_default)


def with_health_check(application: WSGIApp, conf: cfg.ConfigOpts, database: Database) -> WSGIApp:
    """Return ``application`` with the check at ``[healthcheck]/path`` before it.

    ``application`` itself if no option of ``[healthcheck]`` is set. Cost of a check: one statement.
    """
    conf.register_opts(opts.HEALTHCHECK_OPTS, group=GROUP)
    options = (*OPTIONS, *opts.HEALTHCHECK_OPTS)
    places = (conf.get_location(option.dest, GROUP) for option in options)
    if all(place is None or place.location in NOT_SET for place in places):
        return application
    check = _HealthCheck(application, conf, database)
    path = conf.healthcheck.path

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        asked = check if environ.get("PATH_INFO") == path else application
        answer: Iterable[bytes] = asked(environ, start_response)
        return answer

    return serve


class _HealthCheck(healthcheck.Healthcheck):
    """The library's check; the database is asked besides the configured ``backends``."""

    def __init__(self, application: WSGIApp, conf: cfg.ConfigOpts, database: Database) -> None:
        super().__init__(application, conf)
        backend = _DatabaseBackend(conf, database)
        origin = EntryPoint("database", f"{__name__}:_DatabaseBackend", self.NAMESPACE)
        self._backends.extensions.append(Extension("database", origin, type(backend), backend))


class _DatabaseBackend(pluginbase.HealthcheckBaseExtension):
    """Says whether the database answers."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        super().__init__(conf, {})
        self._database = database

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        """Ask the database for nothing in particular."""
        try:
            self._database.read(lambda tx: tx.execute(select(1)))
        except errors.Unavailable as error:
            return pluginbase.HealthcheckResult(available=False, reason=str(error))
        return pluginbase.HealthcheckResult(available=True, reason="OK")

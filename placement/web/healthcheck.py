"""The health check of oslo.middleware, outside all layers of specification 01; it asks the database too."""

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from importlib.metadata import entry_points
from typing import Any

from oslo_config import cfg
from oslo_middleware import base, healthcheck
from oslo_middleware.healthcheck import opts, pluginbase

from placement import errors
from placement.advice import NotConfigured
from placement.conf.options import HEALTHCHECK
from placement.db.coexistence import state
from placement.db.database import Database
from placement.web.request_log import Environ, WSGIApp

GROUP = "healthcheck"
BACKEND = "placement_database"

PATIENCE_S = 2.0
"""How long a check waits for the database. Load balancers wait only a little longer for the check."""

NOT_SET = (cfg.Locations.opt_default, cfg.Locations.set_default)


def with_health_check(application: WSGIApp, conf: cfg.ConfigOpts, database: Database) -> WSGIApp:
    """Return ``application`` with the check before it, or itself if no option of ``[healthcheck]`` is set."""
    _Options(conf).register_opts(opts.HEALTHCHECK_OPTS, GROUP)
    options = (*HEALTHCHECK, *opts.HEALTHCHECK_OPTS)
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


class _Options:
    """Options to which the library adds its own, without the ``path`` of releases up to 6."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def register_opts(self, options: Iterable[cfg.Opt], group: str) -> None:
        """Register the options whose names are not taken."""
        new = [option for option in options if option.dest not in self._conf[group]]
        self._conf.register_opts(new, group=group)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conf, name)


class _Settings(base.ConfigurableMiddleware):
    """A mixin that passes the configuration to the back ends, with values that are not options.

    The library accepts either options, or a dictionary with the options of the whole process. The mixin is
    between the library's class and its base class.
    """

    def __init__(self, application: WSGIApp, conf: dict[str, Any]) -> None:
        super().__init__(application, conf["options"])
        self.oslo_conf: Any = _Options(conf["options"])
        self.conf = conf


class _HealthCheck(healthcheck.Healthcheck, _Settings):
    """The library's check, with the database in addition to the configured ``backends``."""

    def __init__(self, application: WSGIApp, conf: cfg.ConfigOpts, database: Database) -> None:
        # The library skips a missing back end, and would call the service healthy.
        if not entry_points(group=self.NAMESPACE, name=BACKEND):
            raise NotConfigured(
                f"[{GROUP}]: the back end {BACKEND!r} is not installed; install this version of"
                " Placement with pip"
            )
        backends = list(dict.fromkeys((*conf.healthcheck.backends, BACKEND)))
        settings = {"options": conf, "backends": backends, "database": DatabaseCheck(database)}
        super().__init__(application, settings)


class DatabaseCheck:
    """A check that pings the database in its own thread, once for all checks that wait."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._asked: Future[pluginbase.HealthcheckResult] | None = None

    def answer(self) -> pluginbase.HealthcheckResult:
        """Return whether the database answers, and a sentence on faults or remarks."""
        with self._lock:
            asked = self._asked
            if asked is None or asked.done():
                asked = self._asked = Future()
                threading.Thread(target=self._ask, args=(asked,), daemon=True).start()
        try:
            return asked.result(PATIENCE_S)
        except TimeoutError:
            silent = f"The database has not answered for {PATIENCE_S:.0f} seconds."
            return pluginbase.HealthcheckResult(available=False, reason=silent)

    def _ask(self, asked: "Future[pluginbase.HealthcheckResult]") -> None:
        try:
            self._database.ping()
            remark = self._database.read(state.describe)
        except errors.Unavailable as error:
            asked.set_result(pluginbase.HealthcheckResult(available=False, reason=str(error)))
        except BaseException as error:
            asked.set_exception(error)
        else:
            reason = f"OK. {remark}" if remark else "OK"
            asked.set_result(pluginbase.HealthcheckResult(available=True, reason=reason))


class DatabaseBackend(pluginbase.HealthcheckBaseExtension):
    """The back end ``placement_database`` of setup.cfg, which reports whether the database answers."""

    def healthcheck(self, server_port: int) -> pluginbase.HealthcheckResult:
        """Ask the database, for no longer than ``PATIENCE_S``."""
        database: DatabaseCheck = self.conf["database"]
        return database.answer()

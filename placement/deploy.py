"""The application from a filled configuration: start-up and pipeline (06 sections 1 and 2, 01 section 1)."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_context.context import RequestContext, get_current
from oslo_middleware import cors, http_proxy_to_wsgi
from webob import Response

from placement import conf as configuration
from placement import db_api, errors, profiling, telemetry
from placement.db import schema, standard_names
from placement.db.database import Database
from placement.extensions.explorer import links
from placement.extensions.feed.lookout import begin_lookout
from placement.extensions.history.extension import watch_writes
from placement.extensions.history.trimmer import Trimmer
from placement.extensions.metrics.extension import begin_metrics
from placement.extensions.plans.planning.solver import load_solver
from placement.extensions.questions.shapes import Shapes
from placement.extensions.questions.shapes import read as read_shapes
from placement.objects.picture import Picture
from placement.objects.scrubber import Scrubber
from placement.objects.trait import EveryTrait
from placement.routes import CLAIMS, EXPLORER, INSIGHT, ROUTES
from placement.web import error_responses, microversion
from placement.web.after_answer import with_work_after
from placement.web.auth import authenticate_callers, open_to_all
from placement.web.authorization import Authorizer
from placement.web.dispatch import Actions, Dispatcher
from placement.web.healthcheck import with_health_check
from placement.web.observation import Watcher, make_slow_request_watcher, observe_requests
from placement.web.request import Request
from placement.web.request_log import Environ, WSGIApp, log_requests
from placement.web.unread_body import with_rest_read

if TYPE_CHECKING:
    from placement.extensions.metrics.metrics import Metrics

LOG = logging.getLogger(__name__)

Serve = Callable[[Request], Response]


def loadapp(
    config: cfg.ConfigOpts, project_name: str | None = None, *, database: Database | None = None
) -> Callable[..., Any]:
    """Return a new WSGI application; steps 5 to 9 of the start-up.

    :param config: if it was never called, only what was set on it counts, and no file is read.
    :param project_name: ignored; older callers give it.
    :param database: the process's (:func:`placement.db_api.configure`) if not given.
    :raises placement.db.schema.SchemaError: the schema is absent, too old or too new.
    """
    configuration.require_read(config)
    database = database or db_api.database(config)
    profiling.set_up(config, database)
    watch_writes(config, database)
    picture = Picture(database, config.placement_database.finish_after)
    application = profiling.trace_requests(pipeline(config, database, picture), config)
    update_database(config, database)
    return application


def update_database(config: cfg.ConfigOpts, database: Database) -> None:
    """Bring schema (if ``sync_on_startup``) and standard names up to date, once per process."""
    if not database.synchronised:
        db_api.when_reachable(config, database, partial(_update_database, config, database))
        database.synchronised = True


def _update_database(config: cfg.ConfigOpts, database: Database) -> None:
    if config.placement_database.sync_on_startup:
        _upgrade(config, database)
    schema.require_usable(database)
    standard_names.synchronise(database)


def _upgrade(config: cfg.ConfigOpts, database: Database) -> None:
    # A large table, and another process that upgrades already, are waited for without a deadline. SQLite
    # has none, and may be in the memory of this one.
    is_file = database.dialect == "sqlite"
    patient = database if is_file else db_api.open_database(config, patient=True)
    try:
        schema.sync(
            patient,
            progress=lambda revision: LOG.info("Upgraded the database schema to %s", revision),
        )
    finally:
        if patient is not database:
            patient.dispose()


def pipeline(conf: cfg.ConfigOpts, database: Database, picture: Picture) -> WSGIApp:
    """Return the WSGI application; a layer that is switched off is not there at all."""
    insight = conf.insight
    routes = _choose_routes(conf)
    if insight.enabled:
        links.read(conf)
        # The solver is loaded here, outside the deadline of the first plan.
        load_solver()
    shapes = read_shapes(conf) if insight.enabled else {}
    metrics = _begin_metrics(conf, database, routes, shapes) if insight.enabled else None
    serve = _negotiate_versions(Dispatcher(Authorizer(conf), routes, insight.public))
    application = _identify_callers(serve, conf, database, picture, metrics, shapes)
    application = authenticate_callers(application, conf)
    application = _with_cors(application, conf)
    application = log_requests(application)
    application = _behind_proxy(application, conf)
    watchers: list[Watcher] = [metrics.record] if metrics is not None else []
    if conf.api.slow_request_s:
        watchers.append(make_slow_request_watcher(conf.api.slow_request_s))
    application = observe_requests(application, watchers)
    application = with_health_check(application, conf, database)
    # The web server in front passes on at most twice the largest body.
    application = with_rest_read(application, 2 * conf.placement.max_request_body_size)
    application = _with_scrub(_with_request_line(application), conf, database, metrics)
    return _with_trimming(application, conf, database)


def _with_trimming(application: WSGIApp, conf: cfg.ConfigOpts, database: Database) -> WSGIApp:
    if not conf.insight.history_days:
        return application
    trimmer = Trimmer(database, conf.insight.history_days)
    return with_work_after(application, trimmer.is_due, trimmer.go_on, "trimming of the history")


def _with_scrub(
    application: WSGIApp, conf: cfg.ConfigOpts, database: Database, metrics: "Metrics | None"
) -> WSGIApp:
    share = conf.placement_database.scrub_share
    if not share:
        return application
    scrubber = Scrubber(database, share, metrics.record_work if metrics is not None else telemetry.drop)
    return with_work_after(application, scrubber.is_due, scrubber.go_on, "scrub")


def _choose_routes(conf: cfg.ConfigOpts) -> Mapping[str, dict[str, Actions]]:
    if not conf.insight.enabled:
        return ROUTES
    return ROUTES | INSIGHT | EXPLORER | (CLAIMS if conf.insight.claims else {})


def _begin_metrics(
    conf: cfg.ConfigOpts, database: Database, routes: Collection[str], shapes: Shapes
) -> "Metrics":
    writes = [
        (method, template)
        for template, methods in (ROUTES | CLAIMS).items()
        for method in methods
        if method != "GET" and template in routes
    ]
    return begin_metrics(conf, database, writes, shapes)


def _behind_proxy(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Layer 1: believe the forwarding headers of a proxy."""
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    enabled = conf.oslo_middleware.enable_proxy_headers_parsing
    return http_proxy_to_wsgi.HTTPProxyToWSGI(application, conf) if enabled else application


def _with_cors(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Layer 3: let scripts of other origins in; pre-flights need no token."""
    conf.register_opts(cors.CORS_OPTS, group="cors")
    return cors.CORS(application, conf) if conf.cors.allowed_origin else application


def _with_request_line(application: WSGIApp) -> WSGIApp:
    """Refuse a request without method or path: uWSGI does not check the request line."""

    def refuse(environ: Environ, start_response: Any) -> Iterable[bytes]:
        refusal = error_responses.error_response(environ, errors.MalformedRequest.of("line"))
        return refusal(environ, start_response)

    logged_refusal = log_requests(refuse)

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") and "PATH_INFO" in environ:
            return application(environ, start_response)
        return logged_refusal(environ | {"REQUEST_METHOD": "-"}, start_response)

    return respond


def _identify_callers(
    serve: Serve,
    conf: cfg.ConfigOpts,
    database: Database,
    picture: Picture,
    metrics: "Metrics | None",
    shapes: Shapes,
) -> WSGIApp:
    """Layer 5: make the request, with what it works on; open paths need no user."""
    is_open = open_to_all(conf)
    traits = EveryTrait(database)
    shown = None if metrics is None else partial(metrics.exposition, picture)
    lookout = begin_lookout(conf, database)

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if is_open(environ.get("PATH_INFO", "")):
            # Identity headers of open paths are not checked; the log's context has none.
            context = get_current() or RequestContext()
        else:
            context = RequestContext.from_environ(environ)
            if context.user_id is None:
                error = error_responses.Unauthorized(detail="The request names no user.")
                return error_responses.error_response(environ, error)(environ, start_response)
        request = Request(environ)
        request.conf, request.context = conf, context
        request.db, request.picture, request.metrics = database, picture, shown
        request.traits, request.shapes = traits, shapes
        request.wait_for_change = lookout.wait
        return serve(request)(environ, start_response)

    return respond


def _negotiate_versions(serve: Serve) -> Serve:
    """Layers 6 to 8: find the microversion, name it in each answer given under it, word each error."""

    def respond(request: Request) -> Response:
        environ = request.environ
        headers: list[tuple[str, str]] = []
        try:
            version = environ["placement.microversion"] = microversion.read_version(environ)
            request.version = version
            headers = [
                (microversion.HEADER, f"placement {version}"),
                ("vary", microversion.HEADER),
            ]
            # The check comes after the version is known: the refusal is worded and marked for it.
            _check_announcement(environ)
            response = serve(request)
        except errors.PlacementError as error:
            response = error_responses.answer_expected(environ, error)
        except Exception as error:
            return error_responses.answer_unexpected(environ, error)
        response.headerlist += headers
        return response

    return respond


def _check_announcement(environ: Environ) -> None:
    """Refuse a body that does not announce its length and its type, on every path."""
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise errors.MalformedRequest.of("content-length") from None
    if length > 0 and not environ.get("CONTENT_TYPE"):
        raise errors.MalformedRequest.of("content-type")

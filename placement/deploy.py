"""The application from an already filled configuration: start-up, and the pipeline from the outside in.

Specification 06 sections 1 and 2; 01 section 1.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi
from webob import Response

from placement import db_api, errors, profiling
from placement.context import RequestContext
from placement.db import schema, standard_names
from placement.db.database import Database
from placement.objects.picture import Picture
from placement.objects.trait import EveryTrait
from placement.routes import EXPLORER, INSIGHT, ROUTES, Dispatcher
from placement.web import error_responses, microversion, slow_requests
from placement.web.auth import authenticated, open_to_all
from placement.web.authorization import Authorizer
from placement.web.healthcheck import with_health_check
from placement.web.observation import Watcher, observed
from placement.web.request import Request
from placement.web.request_log import Environ, WSGIApp, logged

if TYPE_CHECKING:
    from placement.web.metrics import Metrics

LOG = logging.getLogger(__name__)

LONGEST_LENGTH = 18
"""Digits of a Content-Length that is worth being looked at."""

Serve = Callable[[Request], Response]


class MalformedRequestLine(errors.BadRequest):
    """The request has no method or no path."""

    text = "The request line cannot be understood."


class MissingContentType(errors.BadRequest):
    """There is a body, and nobody says what it is."""

    text = "content-type header required when content-length > 0"


class MalformedContentLength(errors.BadRequest):
    """The announced length is no number."""

    text = "content-length header must be an integer"


def loadapp(
    config: cfg.ConfigOpts, project_name: str | None = None, *, database: Database | None = None
) -> Callable[..., Any]:
    """Return a new WSGI application; steps 5 to 9 of the start-up.

    :param project_name: ignored; older callers give it.
    :param database: what the application works on; the process's database
        (:func:`placement.db_api.configure`) if not given.
    :raises placement.db.schema.SchemaError: the schema is absent, too old or too new.
    """
    database = database or db_api.database(config)
    profiling.set_up(config, database)
    application = profiling.traced(pipeline(config, database, Picture(database)), config)
    update_database(config, database)
    return application


def update_database(config: cfg.ConfigOpts, database: Database) -> None:
    """Bring schema (if ``sync_on_startup``) and standard names up to date, once per process."""
    if database.synchronised:
        return
    db_api.wait_until_reachable(config, database)
    if config.placement_database.sync_on_startup:
        _upgrade(config, database)
    schema.require_head(database)
    standard_names.synchronise(database)
    database.synchronised = True


def _upgrade(config: cfg.ConfigOpts, database: Database) -> None:
    # A large table, and another process that upgrades already, are waited for without a deadline. SQLite
    # has none, and may be in the memory of this one.
    is_file = database.dialect == "sqlite"
    patient = database if is_file else db_api.open_database(config, patient=True)
    schema.sync(
        patient,
        progress=lambda revision: LOG.info("Upgraded the database schema to %s", revision),
    )
    if patient is not database:
        patient.dispose()


def pipeline(conf: cfg.ConfigOpts, database: Database, picture: Picture) -> WSGIApp:
    """Return the WSGI application; a layer that is switched off is not there at all."""
    insight = conf.insight
    routes = ROUTES | INSIGHT | EXPLORER if insight.enabled else ROUTES
    metrics = _metrics(conf, database) if insight.enabled else None
    serve = _content_guarded(Dispatcher(Authorizer(conf), routes, insight.public))
    serve = _negotiated(serve)
    serve = error_responses.guarded(serve)
    application = _identified(serve, conf, database, picture, metrics)
    application = authenticated(application, conf)
    application = _with_cors(application, conf)
    application = logged(application)
    application = _behind_proxy(application, conf)
    application = observed(application, _watchers(conf, metrics))
    application = with_health_check(application, conf, database)
    application = _with_body_read(application, conf.placement.max_request_body_size)
    return _with_request_line(application)


def _metrics(conf: cfg.ConfigOpts, database: Database) -> "Metrics":
    # Its library is loaded only where it is wanted.
    from placement.web.metrics import metrics_in

    writes = [
        (method, template)
        for template, methods in ROUTES.items()
        for method in methods
        if method != "GET"
    ]
    metrics = metrics_in(conf.insight.metrics_directory, tuple(writes))
    metrics.watch_pool(database)
    return metrics


def _watchers(conf: cfg.ConfigOpts, metrics: "Metrics | None") -> list[Watcher]:
    watchers: list[Watcher] = [metrics.record] if metrics is not None else []
    if conf.api.slow_request_s:
        watchers.append(slow_requests.watcher(conf.api.slow_request_s))
    return watchers


def _behind_proxy(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Layer 1: believe the forwarding headers of a proxy."""
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    if not conf.oslo_middleware.enable_proxy_headers_parsing:
        return application
    proxied: WSGIApp = http_proxy_to_wsgi.HTTPProxyToWSGI(application, conf)
    return proxied


def _with_cors(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Layer 3: let scripts of other origins in; pre-flights need no token."""
    conf.register_opts(cors.CORS_OPTS, group="cors")
    if not conf.cors.allowed_origin:
        return application
    shared: WSGIApp = cors.CORS(application, conf)
    return shared


def _with_request_line(application: WSGIApp) -> WSGIApp:
    """Refuse what a server that checks no request line (uWSGI) could make nothing of; no layer below
    can do without a method."""

    def refuse(environ: Environ, start_response: Any) -> Iterable[bytes]:
        return error_responses.error_response(environ, MalformedRequestLine())(
            environ, start_response
        )

    logged_refusal = logged(refuse)

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") and "PATH_INFO" in environ:
            return application(environ, start_response)
        return logged_refusal(environ | {"REQUEST_METHOD": "-"}, start_response)

    return respond


def _with_body_read(application: WSGIApp, largest: int) -> WSGIApp:
    """Read what nobody has read of a body, as that of a refused request.

    Otherwise uWSGI hangs up on a web server that still sends it; Apache then answers 503 instead of
    what was said here. More than twice ``largest`` no web server lets through.
    """

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        answer = application(environ, start_response)
        announced = environ.get("CONTENT_LENGTH")
        if announced and announced.isdecimal() and len(announced) <= LONGEST_LENGTH:
            # Each web server has errors of its own for a body that cannot be read.
            with suppress(Exception):
                environ["wsgi.input"].read(min(int(announced), 2 * largest))
        return answer

    return respond


def _identified(
    serve: Serve,
    conf: cfg.ConfigOpts,
    database: Database,
    picture: Picture,
    metrics: "Metrics | None",
) -> WSGIApp:
    """Layer 5: make the request, with what it works on; nobody is asked for a name where all may."""
    is_open = open_to_all(conf)
    traits = EveryTrait(database)

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if is_open(environ.get("PATH_INFO", "")):
            # Nobody has checked what identity headers may say here.
            context = RequestContext.anonymous(environ)
        else:
            context = RequestContext.of_request(environ)
            if context.user_id is None:
                error = error_responses.Unauthorized(detail="The request names no user.")
                return error_responses.error_response(environ, error)(environ, start_response)
        request = Request(environ)
        request.conf, request.context = conf, context
        request.db, request.picture, request.metrics = database, picture, metrics
        request.traits = traits
        return serve(request)(environ, start_response)

    return respond


def _negotiated(serve: Serve) -> Serve:
    """Layer 7: find the microversion, and name it in every answer given under it."""

    def respond(request: Request) -> Response:
        request.version = microversion.requested(request.environ)
        request.environ["placement.microversion"] = request.version
        try:
            response = serve(request)
        except errors.PlacementError as error:
            response = error_responses.expected(request.environ, error)
        response.headerlist += [
            (microversion.HEADER, f"placement {request.version}"),
            ("vary", microversion.HEADER),
        ]
        return response

    return respond


def _content_guarded(serve: Serve) -> Serve:
    """Layer 8: a body must announce its length and its type, on every path."""

    def respond(request: Request) -> Response:
        length = request.environ.get("CONTENT_LENGTH")
        if length and _integer(length) > 0 and not request.environ.get("CONTENT_TYPE"):
            raise MissingContentType()
        return serve(request)

    return respond


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise MalformedContentLength() from None

"""The factory of the application: start-up and pipeline (06 sections 1 and 2, 01 section 1)."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext, get_current
from oslo_middleware import cors, http_proxy_to_wsgi
from webob import Response

from placement import conf as configuration
from placement import db_api, errors, profiling, telemetry
from placement.db import schema, standard_names
from placement.db.database import Database
from placement.extension import Chore, Extension, Service, find_extensions
from placement.objects.picture import Picture
from placement.objects.scrubber import Scrubber
from placement.objects.trait import EveryTrait
from placement.routes import ROUTES
from placement.web import error_responses, microversion
from placement.web.after_answer import with_work_after
from placement.web.auth import authenticate_callers, open_to_all
from placement.web.authorization import Authorizer
from placement.web.dispatch import Actions, Dispatcher
from placement.web.healthcheck import with_health_check
from placement.web.observation import make_slow_request_watcher, observe_requests
from placement.web.request import Request
from placement.web.request_log import Environ, WSGIApp, log_requests
from placement.web.unread_body import with_rest_read

LOG = logging.getLogger(__name__)

Serve = Callable[[Request], Response]


def loadapp(
    config: cfg.ConfigOpts, project_name: str | None = None, *, database: Database | None = None
) -> Callable[..., Any]:
    """Return a new WSGI application; steps 5 to 9 of the start-up.

    :param config: if it was never called, only values set on it count, and no file is read.
    :param project_name: ignored; older callers give it.
    :param database: by default the process's (:func:`placement.db_api.configure`).
    :raises placement.db.schema.SchemaError: the schema is absent, too old or too new.
    """
    configuration.require_read(config)
    database = database or db_api.database(config)
    profiling.set_up(config, database)
    db_api.watch_writes(config, database)
    picture = Picture(database, config.placement_database.finish_after)
    application = profiling.trace_requests(pipeline(config, database, picture), config)
    # No layer has to expect a request without method or path, nor do those of libraries.
    application = _with_request_line(application)
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
    # This waits without a deadline for a large table, and for another process that already upgrades. SQLite
    # has no deadline, and an in-memory database belongs to this process.
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
    """Return the WSGI application; a layer that is switched off is left out."""
    # Extensions begin here, before the first request and its deadline.
    on = {name: each for name, each in find_extensions().items() if each.is_on(conf)}
    routes = _join_routes(on)
    service = Service(conf, database, picture, _list_writes(on))
    begun = {name: service.begin(name) for name in on}
    serve = _negotiate_versions(Dispatcher(Authorizer(conf), routes, conf.insight.public))
    application = _identify_callers(serve, conf, database, picture, begun)
    application = authenticate_callers(application, conf)
    application = _with_cors(application, conf)
    application = log_requests(application)
    application = _behind_proxy(application, conf)
    watchers = [*service.request_watchers]
    if conf.api.slow_request_s:
        watchers.append(make_slow_request_watcher(conf.api.slow_request_s))
    application = observe_requests(application, watchers)
    application = with_health_check(application, conf, database)
    # The web server in front passes on at most twice the largest body.
    application = with_rest_read(application, 2 * conf.placement.max_request_body_size)
    for chore in _list_chores(conf, database, service):
        application = with_work_after(application, *chore)
    return application


def _list_chores(conf: cfg.ConfigOpts, database: Database, service: Service) -> Iterator[Chore]:
    if share := conf.placement_database.scrub_share:
        scrubber = Scrubber(database, share, partial(_tell, service.work_watchers))
        yield Chore(scrubber.is_due, scrubber.go_on, "scrub")
    for each in find_extensions().values():
        yield from each.list_chores(conf, database)


def _tell(watchers: Collection[Callable[[telemetry.Trace], None]], trace: telemetry.Trace) -> None:
    for watcher in watchers:
        watcher(trace)


def _join_routes(on: Mapping[str, Extension]) -> Mapping[str, dict[str, Actions]]:
    routes = dict(ROUTES)
    for each in on.values():
        routes |= each.routes
    return routes


def _list_writes(on: Mapping[str, Extension]) -> list[tuple[str, str]]:
    """Return the methods and templates of the requests that write allocations or their objects."""
    tables = [ROUTES, *(each.routes for each in on.values() if each.writes)]
    return [
        (method, template)
        for table in tables
        for template, methods in table.items()
        for method in methods
        if method != "GET"
    ]


def _behind_proxy(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Add layer 1, which trusts the forwarding headers of a proxy."""
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    enabled = conf.oslo_middleware.enable_proxy_headers_parsing
    return http_proxy_to_wsgi.HTTPProxyToWSGI(application, conf) if enabled else application


def _with_cors(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Add layer 3, which admits scripts of other origins; pre-flights need no token."""
    conf.register_opts(cors.CORS_OPTS, group="cors")
    return cors.CORS(application, conf) if conf.cors.allowed_origin else application


def _with_request_line(application: WSGIApp) -> WSGIApp:
    """Refuse a request without method or path: uWSGI does not check the request line."""

    def refuse(environ: Environ, start_response: Any) -> Iterable[bytes]:
        refusal = error_responses.error_response(environ, errors.MalformedRequest.for_rule("line"))
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
    begun: Mapping[str, Any],
) -> WSGIApp:
    """Add layer 5, which makes the request object; open paths need no user."""
    is_open = open_to_all(conf)
    traits = EveryTrait(database)

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if is_open(environ.get("PATH_INFO", "")):
            # Identity headers of open paths are not checked, so the log's context leaves them out.
            context = get_current() or RequestContext()
        else:
            context = RequestContext.from_environ(environ)
            if context.user_id is None:
                error = error_responses.Unauthorized(detail="The request names no user.")
                return error_responses.error_response(environ, error)(environ, start_response)
        request = Request(environ)
        request.conf, request.context = conf, context
        request.db, request.picture, request.traits = database, picture, traits
        request.begun = begun
        return serve(request)(environ, start_response)

    return respond


def _negotiate_versions(serve: Serve) -> Serve:
    """Add layers 6 to 8, which find the microversion, name it in each answer, and word each error."""

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
            # The check follows the version, since the refusal is worded and marked for that version.
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
        raise errors.MalformedRequest.for_rule("content-length") from None
    if length > 0 and not environ.get("CONTENT_TYPE"):
        raise errors.MalformedRequest.for_rule("content-type")

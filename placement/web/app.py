"""The pipeline, from the outside in (contract 01 section 1)."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_middleware import cors, http_proxy_to_wsgi
from webob import Response

from placement import errors
from placement.context import RequestContext
from placement.db.api import Database
from placement.web import faults, microversion
from placement.web.auth import OPEN_PATHS, authenticated
from placement.web.authorization import Authorizer
from placement.web.dispatch import Dispatcher
from placement.web.healthcheck import with_health_check
from placement.web.request import Request
from placement.web.request_log import Environ, WSGIApp, logged

Serve = Callable[[Request], Response]


def build(conf: cfg.ConfigOpts, database: Database) -> WSGIApp:
    """Return the WSGI application; a layer that is switched off is not there at all."""
    serve = _content_guarded(Dispatcher(Authorizer(conf)))
    serve = _negotiated(serve)
    serve = faults.guarded(serve)
    application = _identified(serve, conf, database)
    application = authenticated(application, conf)
    application = _with_cors(application, conf)
    application = logged(application)
    application = _behind_proxy(application, conf)
    return with_health_check(application, conf, database)


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


def _identified(serve: Serve, conf: cfg.ConfigOpts, database: Database) -> WSGIApp:
    """Layer 5: make the request, with its context; nobody is asked for a name at the root."""

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") in OPEN_PATHS:
            # Nobody has checked what identity headers may say here.
            context = RequestContext.anonymous(environ)
        else:
            context = RequestContext.of_request(environ)
            if context.user_id is None:
                error = faults.Unauthorized(detail="The request names no user.")
                return faults.error_response(environ, error)(environ, start_response)
        request = Request(environ)
        request.conf, request.db, request.context = conf, database, context
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
            response = faults.expected(request.environ, error)
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
            raise errors.BadRequest(detail="content-type header required when content-length > 0")
        return serve(request)

    return respond


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.BadRequest(detail="content-length header must be an integer") from None

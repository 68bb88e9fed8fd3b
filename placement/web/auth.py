"""Layer 4: who is asking. keystone, or noauth2 for tests and trials (contract 01 section 13)."""

from collections.abc import Callable, Iterable
from typing import Any

from keystonemiddleware import auth_token
from oslo_config import cfg

from placement.web.faults import Unauthorized, error_response
from placement.web.request_log import Environ, WSGIApp

# Also the routes of the root document. The same string decides here and in the dispatcher, so that
# no spelling of another path passes here and reaches more than the root there.
OPEN_PATHS = frozenset({"", "/"})


def authenticated(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Return ``application`` behind the configured strategy; the root stays open."""
    filtered = STRATEGIES[conf.api.auth_strategy](application, conf)

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO", "") in OPEN_PATHS:
            return application(environ, start_response)
        return filtered(environ, start_response)

    return serve


def _keystone(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Validate tokens with the identity service; identity headers of the client are removed."""
    protocol: WSGIApp = auth_token.AuthProtocol(application, {"oslo_config_config": conf})
    return protocol


def _noauth2(application: WSGIApp, _conf: cfg.ConfigOpts) -> WSGIApp:
    """Believe the token, which is ``<user>[:<project>]``."""

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token is None:
            response = error_response(environ, Unauthorized(detail="Missing X-Auth-Token header."))
            return response(environ, start_response)
        user, _, project = token.partition(":")
        environ["HTTP_X_USER_ID"] = user
        if "HTTP_X_ROLES" not in environ:
            environ["HTTP_X_ROLES"] = "admin" if user == "admin" else ""
        if not environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"):
            environ["HTTP_X_TENANT_ID"] = project or user
        return application(environ, start_response)

    return serve


STRATEGIES: dict[str, Callable[[WSGIApp, cfg.ConfigOpts], WSGIApp]] = {
    "keystone": _keystone,
    "noauth2": _noauth2,
}

"""Layer 4 identifies the caller: keystone, or noauth2 for tests and trials (specification 01 section 13)."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from keystoneauth1 import loading
from keystoneauth1.exceptions import AuthPluginException
from keystonemiddleware import auth_token
from oslo_config import cfg

from placement import errors
from placement.advice import NotConfigured
from placement.conf import library_defaults, unknown
from placement.web.error_responses import Unauthorized, error_response
from placement.web.identity_gate import GatedIdentity, IdentityGate, IdentityUnavailable
from placement.web.microversion import read_version
from placement.web.request_log import Environ, WSGIApp
from placement.web.token_cache import TokenCache
from placement.web.worker_threads import count_threads

LOG = logging.getLogger(__name__)

# The same string decides here and in the dispatcher, so no spelling of another path can use the root's
# exemption.
OPEN_PATHS = frozenset({"", "/"})

TOKENS = "placement.tokens"
"""The name of the cache of tokens in the environment of a request."""

LONGEST_S = 86_400
"""The longest time to wait for the identity service."""

PUBLIC_PATHS = {"metrics": "/-/metrics", "explorer": "/-/explorer"}
"""The prefixes of the paths that a word of ``[insight]/public`` opens."""


def open_to_all(conf: cfg.ConfigOpts) -> Callable[[str], bool]:
    """Return the predicate of paths that are served without a token."""
    public = conf.insight.public if conf.insight.enabled else ()
    beginnings = tuple(PUBLIC_PATHS[word] for word in public)
    return lambda path: path in OPEN_PATHS or path.startswith(beginnings)


def require_way_to_log_in(conf: cfg.ConfigOpts) -> None:
    """Raise ``NotConfigured`` if the service could not ask the identity service about any token."""
    if conf.api.auth_strategy != "keystone":
        return
    library_defaults.set_for_identity(conf)
    with _explain_plugin():
        loading.register_auth_conf_options(conf, "keystone_authtoken")
        group = conf.keystone_authtoken.auth_section or "keystone_authtoken"
        loading.register_auth_conf_options(conf, group)
    if not conf[group].auth_type:
        hint = unknown.find_misplaced(conf, group, "auth_type")
        raise NotConfigured(
            f"[{group}]/auth_type is not set, so that no token could be validated. "
            f"{f'{hint} ' if hint else ''}Set it and what "
            "it needs: auth_type = password, with auth_url, username, password, project_name, "
            "user_domain_name and project_domain_name. (For a trial without an identity service: "
            "[api]/auth_strategy = noauth2.)"
        )
    seconds = conf.keystone_authtoken.http_connect_timeout
    if seconds is not None and not 1 <= seconds <= LONGEST_S:
        raise NotConfigured(
            f"[keystone_authtoken]/http_connect_timeout = {seconds}: the identity service would answer no "
            f"question within it. Set a number of seconds from 1 to {LONGEST_S}."
        )


@contextmanager
def _explain_plugin() -> Iterator[None]:
    """Raise ``NotConfigured`` for a section with a missing plugin, or with too few options for it."""
    try:
        yield
    except AuthPluginException as error:
        what = " ".join(str(error).split()).rstrip(".")
        raise NotConfigured(f"[keystone_authtoken] cannot be used: {what}.") from error


def authenticate_callers(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Return ``application`` behind the configured strategy; the root stays open."""
    filtered = STRATEGIES[conf.api.auth_strategy](application, conf)
    is_open = open_to_all(conf)

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if is_open(environ.get("PATH_INFO", "")):
            return application(environ, start_response)
        return filtered(environ, start_response)

    return serve


class _Protocol(auth_token.AuthProtocol):
    """The middleware, with at most half of the threads asking."""

    def _create_identity_server(self) -> GatedIdentity:
        gate = IdentityGate(max(1, count_threads() // 2))
        return GatedIdentity(super()._create_identity_server(), gate)


def _ask_keystone(application: WSGIApp, conf: cfg.ConfigOpts) -> WSGIApp:
    """Validate tokens with the identity service; log an error of the middleware on one line."""

    def let_in(environ: Environ, start_response: Any) -> Iterable[bytes]:
        environ["placement.let_in"] = True
        return application(environ, start_response)

    library_defaults.set_for_identity(conf)
    given = conf.keystone_authtoken
    # An operator's own cache comes first.
    own = {} if given.memcached_servers or given.cache else {"cache": TOKENS}
    tokens = TokenCache()
    with _explain_plugin():
        protocol = _Protocol(let_in, {"oslo_config_config": conf, **own})

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        def begin(status: str, *rest: Any) -> Any:
            if status.startswith("503") and "placement.let_in" not in environ:
                # The middleware's own answer, which does not say that the client can try again.
                raise IdentityUnavailable
            return start_response(status, *rest)

        environ[TOKENS] = tokens
        try:
            answer: Iterable[bytes] = protocol(environ, begin)
            return answer
        except Exception as error:
            if "placement.let_in" in environ:
                raise
            if not isinstance(error, IdentityUnavailable):
                cause = " ".join(f"{type(error).__name__}: {error}".split())
                LOG.error("No token can be validated with the identity service: %s", cause)
            with suppress(errors.PlacementError):
                # The layer that reads it comes later. Clients since 1.23 read a code.
                environ["placement.microversion"] = read_version(environ)
            response = error_response(environ, IdentityUnavailable())
            return response(environ, start_response)

    return serve


def _believe_token(application: WSGIApp, _conf: cfg.ConfigOpts) -> WSGIApp:
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
    "keystone": _ask_keystone,
    "noauth2": _believe_token,
}

"""The whole HTTP interface in this process, for offline use of the database (specification 05 part B)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import requests
from keystoneauth1 import adapter, session
from oslo_config import cfg
from wsgi_intercept import interceptor

from placement import deploy
from placement.web.request_log import WSGIApp

PREFIX = "/placement"
DEFAULT_TOKEN = "admin"  # noqa: S105  the user that noauth2 trusts, not a secret
DEFAULT_ROLES = "admin,service"


def _identify_callers(application: WSGIApp) -> WSGIApp:
    """Let a request without a token act as ``admin`` with the role ``service``, which the reshaper needs."""

    def respond(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "HTTP_X_AUTH_TOKEN" not in environ:
            environ["HTTP_X_AUTH_TOKEN"] = DEFAULT_TOKEN
            environ.setdefault("HTTP_X_ROLES", DEFAULT_ROLES)
        return application(environ, start_response)

    return respond


@contextlib.contextmanager
def PlacementDirect(  # The name is published; it was a class earlier.
    conf: cfg.ConfigOpts, latest_microversion: bool = False
) -> Iterator[adapter.Adapter]:
    """Context manager that yields a keystoneauth1 adapter for the service in this process.

    ``conf`` has the placement options registered and names the database, which is set up if this process has
    not done so. The default microversion is 1.0, or the newest with ``latest_microversion``; one given with a
    call always wins. The manager sets ``[api]/auth_strategy`` to ``noauth2`` on ``conf``.
    """
    conf.set_override("auth_strategy", "noauth2", group="api")
    application = _identify_callers(deploy.loadapp(conf))
    served = interceptor.RequestsInterceptor(
        lambda: application, host=str(uuid.uuid4()), prefix=PREFIX
    )
    # The session is closed first, because a pooled connection would still reach the service.
    with served as url, requests.Session() as transport:
        # Neither a proxy nor a password may be used for the random host.
        transport.trust_env = False
        yield adapter.Adapter(
            session.Session(auth=None, session=transport),
            service_type="placement",
            endpoint_override=url,
            default_microversion="latest" if latest_microversion else None,
            raise_exc=False,
        )

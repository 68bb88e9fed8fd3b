"""The whole HTTP interface in this process: no running service and no sockets.

For offline use against the database (specification 05 part B).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import requests
from keystoneauth1 import adapter, session
from oslo_config import cfg
from wsgi_intercept import interceptor

from placement import deploy

PREFIX = "/placement"
DEFAULT_TOKEN = "admin"  # noqa: S105  the user that noauth2 trusts, not a secret
DEFAULT_ROLES = "admin,service"


class _Identity:
    """WSGI middleware: a caller that says nothing about itself acts as ``admin``.

    It then holds the role ``service`` too, which the reshaper needs: offline reshaping is what
    this client is for. A caller with a token or roles of its own gets plain noauth2.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if "HTTP_X_AUTH_TOKEN" not in environ:
            environ["HTTP_X_AUTH_TOKEN"] = DEFAULT_TOKEN
            environ.setdefault("HTTP_X_ROLES", DEFAULT_ROLES)
        return self._application(environ, start_response)


class PlacementDirect:
    """Context manager that yields a keystoneauth1 adapter for the service in this process.

    ``conf`` has the placement options registered and names the database, which is set up if
    this process has not done so. The default microversion is 1.0, or the newest with
    ``latest_microversion``; one given with a call always wins. Sets ``[api]/auth_strategy`` to
    ``noauth2`` on ``conf``.
    """

    def __init__(self, conf: cfg.ConfigOpts, latest_microversion: bool = False) -> None:
        self._conf = conf
        self._microversion = "latest" if latest_microversion else None
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> adapter.Adapter:
        self._conf.set_override("auth_strategy", "noauth2", group="api")
        application = _Identity(deploy.loadapp(self._conf))
        with contextlib.ExitStack() as exits:
            url = exits.enter_context(
                interceptor.RequestsInterceptor(
                    lambda: application, host=str(uuid.uuid4()), prefix=PREFIX
                )
            )
            # Closed first on the way out: a pooled connection would still reach the service.
            transport = exits.enter_context(requests.Session())
            transport.trust_env = False  # no proxy, and no password for the random host
            self._exits = exits.pop_all()
        return adapter.Adapter(
            session.Session(auth=None, session=transport),
            service_type="placement",
            endpoint_override=url,
            default_microversion=self._microversion,
            raise_exc=False,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._exits.close()

"""The identity of the caller, which the authentication layer wrote into the request."""

from typing import Any

from oslo_context import context


class RequestContext(context.RequestContext):
    """User, project, roles and scope of one request (specification 01 section 13.3).

    Also the source of the ids in log lines: oslo.log reads the context that the
    current thread made last.
    """

    @classmethod
    def anonymous(cls, environ: dict[str, Any]) -> "RequestContext":
        """Return a context with the ids of the request and no identity."""
        return cls(**_ids(environ))

    @classmethod
    def of_request(cls, environ: dict[str, Any]) -> "RequestContext":
        """Return the context of a WSGI environment with its identity headers."""
        made: RequestContext = cls.from_environ(environ, **_ids(environ))
        return made


def _ids(environ: dict[str, Any]) -> dict[str, Any]:
    names = ("request_id", "global_request_id")
    return {name: environ.get(f"openstack.{name}") for name in names}

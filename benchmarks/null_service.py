"""A WSGI application that does nothing: what is measured against it is client and web server.

Answers carry as many bytes as the real ones: the path says how many (``/1100000``).
"""

from collections.abc import Callable, Iterable
from typing import Any

VERSIONS = b'{"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": "1.39"}]}'
_bodies: dict[str, bytes] = {"/": VERSIONS}


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer GET with so many bytes, everything else with 204."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if environ["REQUEST_METHOD"] != "GET":
        start_response("204 No Content", [])
        return []
    path = environ["PATH_INFO"]
    body = _bodies.get(path)
    if body is None:
        body = _bodies[path] = b"x" * int(path.strip("/"))
    start_response(
        "200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    )
    return [body]

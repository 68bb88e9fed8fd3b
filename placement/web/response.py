"""Successful responses: JSON bytes, cache headers, links (specification 01 sections 3.4, 10 and 11)."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import format_datetime
from types import EllipsisType
from typing import Any
from urllib.parse import quote

import orjson
from webob import Response

from placement.printable import find_newest, in_utc
from placement.web.request import Request

CACHE_HEADERS_SINCE = (1, 15)
SEPARATORS_OF_PATHS = "/:@!$&'()*+,;=~"


def json_response(
    request: Request,
    body: Any,
    *,
    status: int = 200,
    last_modified: datetime | EllipsisType | None = ...,
    location: str | None = None,
) -> Response:
    """Return a response with a JSON body.

    :param body: a dict for orjson, or ready bytes, or a list of pieces.
    :param last_modified: the time in UTC for the cache headers since 1.15; None sends ``cache-control``
        alone.
    :param location: a path from :func:`link`, sent as an absolute URL.
    """
    if not isinstance(body, list):
        body = [body if isinstance(body, bytes) else orjson.dumps(body)]
    pieces: list[bytes] = body
    length = sum(map(len, pieces))
    headers = [("Content-Type", "application/json"), ("Content-Length", str(length))]
    headers += _cache_headers(request, last_modified) + _location(request, location)
    return Response(status=status, headerlist=headers, app_iter=pieces)


def shown_response(
    request: Request, body: Any, *, last_modified: datetime | EllipsisType | None = ...
) -> Response:
    """Return JSON that clients read repeatedly, tagged with the checksum of its bytes.

    The answer is 304 if the client has it. A date would not suffice: it has only seconds, and a list that
    lost a member keeps its date.
    """
    response = json_response(request, body, last_modified=last_modified)
    if request.version < CACHE_HEADERS_SINCE:
        return response
    checksum = hashlib.sha256()
    for piece in response.app_iter:
        checksum.update(piece)
    tag = checksum.hexdigest()
    response.headerlist.append(("ETag", f'"{tag}"'))
    if tag not in request.known_tags():
        return response
    kept = [each for each in response.headerlist if not each[0].startswith("Content-")]
    return Response(status=304, headerlist=kept, app_iter=[])


def tagged_response(request: Request, body: Any, tag: str) -> Response:
    """Return a JSON body with a strong tag, or 304 if the body is None because the client has it."""
    headers = [("ETag", f'"{tag}"'), ("Cache-Control", "no-cache")]
    if body is None:
        return Response(status=304, headerlist=headers, app_iter=[])
    response = json_response(request, body)
    response.headerlist += headers
    return response


def empty_response(
    request: Request,
    *,
    status: int = 204,
    last_modified: datetime | EllipsisType | None = ...,
    location: str | None = None,
) -> Response:
    """Return a response without body and without Content-Type."""
    headers = [] if status == 204 else [("Content-Length", "0")]
    headers += _cache_headers(request, last_modified) + _location(request, location)
    return Response(status=status, headerlist=headers, app_iter=[])


def newest(moments: Iterable[datetime | None]) -> datetime:
    """Return the newest known time, or now, since rows may lack their time."""
    return find_newest(moments) or now()


def now() -> datetime:
    """Return the present time, for objects that do not record their changes."""
    return datetime.now(UTC)


def link(request: Request, path: str) -> str:
    """Return ``path`` under the mount prefix, which is the form of links in bodies."""
    return request.environ.get("SCRIPT_NAME", "") + path


def _cache_headers(
    request: Request, last_modified: datetime | EllipsisType | None
) -> list[tuple[str, str]]:
    if last_modified is ... or request.version < CACHE_HEADERS_SINCE:
        return []
    headers = [("Cache-Control", "no-cache")]
    if last_modified is not None:
        headers.append(("Last-Modified", format_datetime(in_utc(last_modified), usegmt=True)))
    return headers


def _location(request: Request, path: str | None) -> list[tuple[str, str]]:
    """Return an absolute URL, quoted against line breaks and against other hosts in a proxy's prefix."""
    if path is None:
        return []
    if request.environ.get("HTTP_HOST", "").partition(":")[0] == "":
        # A Host header without a name would make a URL without one, so the server's own name is used.
        request.environ.pop("HTTP_HOST", None)
    scheme, _, host = request.host_url.partition("://")
    scheme = "https" if scheme == "https" else "http"
    target = f"{quote(host, safe=':[]%@')}/{quote(path.lstrip('/'), safe=SEPARATORS_OF_PATHS)}"
    return [("Location", f"{scheme}://{target}")]

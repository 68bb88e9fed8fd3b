"""Errors become responses here and nowhere else (specification 01 section 9)."""

import html
import logging
import re
from functools import lru_cache
from typing import Any

import orjson
from webob import Response
from webob.acceptparse import create_accept_header
from webob.exc import status_map

from placement import errors, telemetry
from placement.web import microversion

# Operators filter on this name (specification 06 section 5).
LOG = logging.getLogger("placement.fault_wrap")

CODES_SINCE = (1, 23)
MARKUP = re.compile(r"<[^>]*>")
DATABASE_LIBRARIES = frozenset(
    {"sqlalchemy", "psycopg2", "psycopg", "MySQLdb", "pymysql", "sqlite3"}
)

# WebOb's texts are used, except for the title of one status and the sentences of three.
TITLES = {414: "Request URI Too Long"}
SENTENCES = {
    401: "This server could not verify that you are authorized to access the document.",
    406: "The resource could not be generated that was acceptable to your browser.",
    415: "The request media type is not supported by this server.",
}


class NotFoundHere(errors.NotFound):
    """The path does not exist at this microversion."""


class MethodNotAllowed(errors.PlacementError):
    """The path exists, but does not have this method.

    ``allow``: the declared methods joined by comma and space, or None for an answer without the header.
    """

    reason = "method_not_allowed"
    status = 405
    allow: str | None = None


class Unauthorized(errors.PlacementError):
    """The request does not identify a caller."""

    reason = "unauthorized"
    status = 401
    text = "{detail}"
    detail: str


class NotAcceptable(errors.PlacementError):
    """The client does not accept any available media type."""

    reason = "not_acceptable"
    status = 406
    text = "Only application/json is provided"


class UnsupportedMediaType(errors.PlacementError):
    """The body has a type that this service does not read."""

    reason = "unsupported_media_type"
    status = 415
    text = "The media type {given} is not supported, use application/json"
    given: str | None


def answer_expected(environ: dict[str, Any], error: errors.PlacementError) -> Response:
    """Return the response of a declared error; log its internal cause."""
    if error.status >= 500:
        LOG.error("%s: %s", type(error).__name__, error, exc_info=error.__cause__)
    if error.status == 409:
        telemetry.CONFLICTS.count(type(error).__name__)
    return error_response(environ, error)


class _Unexpected(errors.PlacementError):
    text = "{detail}"
    detail: str


def answer_unexpected(environ: dict[str, Any], error: Exception) -> Response:
    """Return 500 for an undeclared error, without SQL or its parameters; log its traceback."""
    LOG.exception("Placement API unexpected error: %s", error)
    detail = str(error)
    if type(error).__module__.split(".")[0] in DATABASE_LIBRARIES:
        detail = f"Unexpected database error: {type(error).__name__}"
    return error_response(environ, _Unexpected(detail=detail))


def error_response(environ: dict[str, Any], error: errors.PlacementError) -> Response:
    """Return the error as a document of the media type that the request's Accept prefers."""
    media_type = _choose_media_type(environ.get("HTTP_ACCEPT", "application/json"))
    title = TITLES.get(error.status) or status_map[error.status].title
    general = SENTENCES.get(error.status) or status_map[error.status].explanation
    if error.status == 405:
        # Every server ensures that a method is a token of letters; other parts are not checked.
        method = _flatten(environ["REQUEST_METHOD"])
        general = f"The method {method} is not allowed for this resource."
    message = _flatten(str(error))
    if media_type == "application/json":
        body = orjson.dumps(
            {"errors": [_make_document(environ, error, title, f"{general}\n\n {message}  ")]}
        )
    elif media_type == "text/html":
        body = _render_page(error.status, title, general, message).encode()
    else:
        body = f"{error.status} {title}\n\n{general}\n\n {message}  ".encode()
    charset = "" if media_type == "application/json" else "; charset=UTF-8"
    headers = [("Content-Type", media_type + charset), ("Content-Length", str(len(body)))]
    if isinstance(error, MethodNotAllowed) and error.allow:
        headers.append(("Allow", error.allow))
    if isinstance(error, errors.Unavailable) and error.retry_after_s is not None:
        headers.append(("Retry-After", str(error.retry_after_s)))
    return Response(status=f"{error.status} {title}", headerlist=headers, app_iter=[body])


def _make_document(
    environ: dict[str, Any], error: errors.PlacementError, title: str, detail: str
) -> dict[str, Any]:
    document = {"status": error.status, "title": title, "detail": detail}
    unacceptable = isinstance(error, microversion.UnacceptableVersion)
    if unacceptable or environ.get("placement.microversion", microversion.MINIMUM) >= CODES_SINCE:
        document["code"] = error.code
        document["reason"], document["retry"] = error.reason, error.retry
        document |= error.details
        if error.near:
            document["near"] = error.near
    if unacceptable:
        document["max_version"] = str(microversion.MAXIMUM)
        document["min_version"] = str(microversion.MINIMUM)
    document |= error.more()
    document["request_id"] = environ.get("openstack.request_id", "")
    return document


def _flatten(text: str) -> str:
    """Return the text without markup and line breaks: clients show the last line of a detail."""
    line = MARKUP.sub("", text).replace("\n", " ").replace("\r", "")
    # Text that cannot be encoded as UTF-8 (lone surrogates) would turn the error into another error.
    return line.encode("utf-8", "replace").decode()


def _render_page(status: int, title: str, general: str, message: str) -> str:
    heading = f"{status} {title}"
    return (
        f"<html>\n <head>\n  <title>{heading}</title>\n </head>\n <body>\n"
        f"  <h1>{heading}</h1>\n  {html.escape(general)}<br /><br />\n"
        f" {html.escape(message)}\n </body>\n</html>"
    )


@lru_cache(maxsize=256)
def _choose_media_type(accept: str) -> str:
    """Return the best of HTML and JSON, HTML at equal quality, plain text if neither is accepted."""
    offers = create_accept_header(accept).acceptable_offers(["text/html", "application/json"])
    return offers[0][0] if offers else "text/plain"


@lru_cache(maxsize=256)
def admits_json(accept: str) -> bool:
    """Return whether ``application/json`` is acceptable; a malformed header admits everything."""
    return bool(create_accept_header(accept).acceptable_offers(["application/json"]))

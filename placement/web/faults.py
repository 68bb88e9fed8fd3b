"""Errors become responses here and nowhere else (contract 01 section 9)."""

import html
import logging
import re
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import orjson
from webob import Response
from webob.acceptparse import create_accept_header

from placement import errors
from placement.web import microversion
from placement.web.request import Request

# The name that operators filter on (contract 06 section 5).
LOG = logging.getLogger("placement.fault_wrap")

CODES_SINCE = (1, 23)
MARKUP = re.compile(r"<[^>]*>")
DATABASE_LIBRARIES = frozenset(
    {"sqlalchemy", "psycopg2", "psycopg", "MySQLdb", "pymysql", "sqlite3"}
)

TITLES = {413: "Request Entity Too Large", 414: "Request URI Too Long"}
SENTENCES = {
    400: "The server could not comply with the request since it is either malformed or otherwise "
    "incorrect.",
    401: "This server could not verify that you are authorized to access the document.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    406: "The resource could not be generated that was acceptable to your browser.",
    409: "There was a conflict when trying to complete your request.",
    413: "The body of your request was too large for this server.",
    414: "The request URI was too long for this server.",
    415: "The request media type is not supported by this server.",
    500: "The server has either erred or is incapable of performing the requested operation.",
    503: "The server is currently unavailable. Please try again at a later time.",
}


class NotFoundHere(errors.NotFound):
    """No such path, or not at this microversion."""

    text = ""


class MethodNotAllowed(errors.PlacementError):
    """The path is known, the method is not declared for it.

    Values: ``method``; ``allow``, the declared methods joined by comma and space, or None for an
    answer without the header.
    """

    status = 405
    text = ""


class Unauthorized(errors.PlacementError):
    """Nobody knows who is asking."""

    status = 401
    text = "{detail}"


class NotAcceptable(errors.PlacementError):
    """The client takes none of the media types there are."""

    status = 406
    text = "Only application/json is provided"


class UnsupportedMediaType(errors.PlacementError):
    """The body is of a type this service does not read."""

    status = 415
    text = "The media type {given} is not supported, use application/json"


def guarded(serve: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Return ``serve`` with every exception turned into a response.

    An expected one (:class:`placement.errors.PlacementError`) says its status itself; any other is
    logged with its traceback and answered 500.
    """

    def respond(request: Request) -> Response:
        try:
            return serve(request)
        except errors.PlacementError as error:
            return expected(request.environ, error)
        except Exception as error:
            LOG.exception("Placement API unexpected error: %s", error)
            return error_response(request.environ, _Unexpected(detail=_harmless_text(error)))

    return respond


def expected(environ: dict[str, Any], error: errors.PlacementError) -> Response:
    """Return the response of a declared error; what went wrong inside is logged."""
    if error.status >= 500:
        LOG.error("%s: %s", type(error).__name__, error, exc_info=error.__cause__)
    return error_response(environ, error)


class _Unexpected(errors.PlacementError):
    status = 500


def _harmless_text(error: Exception) -> str:
    """Return the text of an exception unless it may hold SQL or its parameters."""
    if type(error).__module__.split(".")[0] in DATABASE_LIBRARIES:
        return f"Unexpected database error: {type(error).__name__}"
    return str(error)


def error_response(environ: dict[str, Any], error: errors.PlacementError) -> Response:
    """Return the error as a document of the media type that the request's Accept prefers."""
    media_type = _media_type(environ.get("HTTP_ACCEPT", "application/json"))
    title = TITLES.get(error.status) or HTTPStatus(error.status).phrase
    general, message = _sentence(environ, error), _one_line(str(error))
    if media_type == "application/json":
        body = orjson.dumps(
            {"errors": [_document(environ, error, title, f"{general}\n\n {message}  ")]}
        )
    elif media_type == "text/html":
        body = _html(error.status, title, general, message).encode()
    else:
        body = f"{error.status} {title}\n\n{general}\n\n {message}  ".encode()
    charset = "" if media_type == "application/json" else "; charset=UTF-8"
    headers = [("Content-Type", media_type + charset), ("Content-Length", str(len(body)))]
    if error.values.get("allow"):
        headers.append(("Allow", error.values["allow"]))
    return Response(status=f"{error.status} {title}", headerlist=headers, app_iter=[body])


def _document(
    environ: dict[str, Any], error: errors.PlacementError, title: str, detail: str
) -> dict[str, Any]:
    document = {"status": error.status, "title": title, "detail": detail}
    if environ.get("placement.microversion", microversion.MINIMUM) >= CODES_SINCE:
        document["code"] = error.code
    if isinstance(error, microversion.UnacceptableVersion):
        document["max_version"] = str(microversion.MAXIMUM)
        document["min_version"] = str(microversion.MINIMUM)
    document["request_id"] = environ.get("openstack.request_id", "")
    return document


def _sentence(environ: dict[str, Any], error: errors.PlacementError) -> str:
    if error.status == 405:
        # A method is a token of letters to every server; elsewhere nothing is promised.
        method = _one_line(environ["REQUEST_METHOD"])
        return f"The method {method} is not allowed for this resource."
    return SENTENCES.get(error.status, HTTPStatus(error.status).description)


def _one_line(text: str) -> str:
    """Return the text without markup and line breaks: clients show the last line of a detail."""
    line = MARKUP.sub("", text).replace("\n", " ").replace("\r", "")
    # What cannot be encoded as UTF-8 (lone surrogates) would make an error of the error.
    return line.encode("utf-8", "replace").decode()


def _html(status: int, title: str, general: str, message: str) -> str:
    heading = f"{status} {title}"
    return (
        f"<html>\n <head>\n  <title>{heading}</title>\n </head>\n <body>\n"
        f"  <h1>{heading}</h1>\n  {html.escape(general)}<br /><br />\n"
        f" {html.escape(message)}\n </body>\n</html>"
    )


@lru_cache(maxsize=256)
def _media_type(accept: str) -> str:
    """Return the best of HTML and JSON, HTML at equal quality, plain text if neither will do."""
    offers = create_accept_header(accept).acceptable_offers(["text/html", "application/json"])
    return offers[0][0] if offers else "text/plain"


@lru_cache(maxsize=256)
def admits_json(accept: str) -> bool:
    """``application/json`` is acceptable; a header that cannot be parsed admits everything."""
    return bool(create_accept_header(accept).acceptable_offers(["application/json"]))

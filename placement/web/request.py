"""A request as handlers see it: version, caller, path variables, and validated input."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import orjson
import webob
from oslo_config import cfg
from webob.multidict import MultiDict

from placement import errors
from placement.context import RequestContext
from placement.db.database import Database
from placement.objects.picture import Picture
from placement.objects.trait import EveryTrait
from placement.web.microversion import MINIMUM, Version
from placement.web.validation import Schema

if TYPE_CHECKING:
    from placement.web.metrics import Metrics

# orjson turns integers beyond 64 bits into floats; the json module keeps them exact.
LONG_NUMBER = re.compile(rb"[0-9]{19}")
# An even number of backslashes before it are a text that holds backslashes and "u0000".
NUL_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class MalformedBody(errors.BadRequest):
    """The body is no JSON document."""

    text = "Malformed JSON: {detail}"
    detail: str


class InvalidBody(errors.BadRequest):
    """The body is JSON but not what the operation takes."""

    text = "JSON does not validate: {detail}"
    detail: str


class InvalidQuery(errors.BadRequest):
    """The query string cannot be decoded, or holds what the operation does not take."""

    text = "Invalid query string parameters: {detail}"
    detail: str


class IncompleteBody(errors.BadRequest):
    """The client went away, or fell silent, before its body was sent."""

    text = "The request body did not arrive whole: {detail}"
    detail: str


class BodyTooLarge(errors.PlacementError):
    """The body has more bytes than ``[placement]/max_request_body_size``."""

    reason = "body_too_large"
    status = 413
    text = "The request body is larger than {limit} bytes, the most this service takes."
    limit: int


class QueryTooLong(errors.PlacementError):
    """The query string has more characters than ``[placement]/max_query_string_length``."""

    reason = "query_too_long"
    status = 414
    text = "The query string is longer than {limit} characters, the most this service takes."
    limit: int


class Request(webob.BaseRequest):
    """One request, after authentication and microversion negotiation.

    ``path_args`` holds the variables of the route (``uuid``, ``resource_class``, ``name``,
    ``consumer_uuid``); a character that no name may contain arrives in them as ``?``.
    """

    version: Version = MINIMUM
    db: Database
    picture: Picture
    traits: EveryTrait
    conf: cfg.ConfigOpts
    context: RequestContext
    metrics: "Metrics | None"
    path_args: dict[str, str]

    def read_json(self, schema: Schema) -> Any:
        """Return the body as Python values, valid under ``schema``.

        Integral floats (``10.0``, an integer to JSON Schema) stay floats.

        :raises MalformedBody: 400
        :raises InvalidBody: 400
        :raises IncompleteBody: 400
        :raises BodyTooLarge: 413
        """
        body = _parse(self.read_body())
        failure = schema.failure(body)
        if failure is not None:
            raise InvalidBody(detail=failure)
        return body

    def read_body(self) -> bytes:
        """Return the bytes of the body, as many as were announced and are allowed."""
        limit = self.conf.placement.max_request_body_size
        announced = self.environ.get("CONTENT_LENGTH")
        if announced:
            length = int(announced)
        elif self.environ.get("wsgi.input_terminated"):
            length = limit + 1
        else:
            length = 0
        body = self._read(length) if 0 < length <= limit + 1 else b""
        if length > limit and (announced or len(body) > limit):
            raise BodyTooLarge(limit=limit)
        if announced and len(body) < length:
            raise IncompleteBody(detail=f"{len(body)} of {length} bytes")
        return body

    def _read(self, length: int) -> bytes:
        try:
            body: bytes = self.environ["wsgi.input"].read(length)
        except Exception as error:
            # uWSGI and mod_wsgi hand the body on while it comes in and raise OSError; gunicorn has
            # errors of its own for a chunk that is none.
            raise IncompleteBody(detail=str(error)) from None
        return body

    def read_query(self, schema: Schema) -> MultiDict:
        """Return all parameters of the query string in order.

        The schema has seen an object of the last value of each name.

        :raises InvalidQuery: 400
        :raises QueryTooLong: 414
        """
        pairs = _pairs(self._query_items())
        return self._checked(schema, pairs)

    def read_query_in_body(self, schema: Schema, text: str) -> MultiDict:
        """Return all parameters of a query string that came as a value of a JSON body.

        :raises InvalidQuery: 400
        :raises QueryTooLong: 414
        """
        return self._checked(schema, _pairs(self._items(text)))

    def _checked(self, schema: Schema, pairs: list[tuple[str, str]]) -> MultiDict:
        self.check_query(schema, dict(pairs))
        return MultiDict(pairs)

    def check_query(self, schema: Schema, values: Mapping[str, str]) -> None:
        """Refuse values that ``read_query`` has not shown to the schema: not the last of their name.

        :raises InvalidQuery: 400
        """
        failure = schema.failure(dict(values))
        if failure is not None:
            raise InvalidQuery(detail=failure)

    def known_tags(self) -> frozenset[str]:
        """Return the tags of ``If-None-Match``, without quotes and marks of weakness."""
        header = self.environ.get("HTTP_IF_NONE_MATCH", "")
        tags = (item.strip().removeprefix("W/").strip('"') for item in header.split(","))
        return frozenset(tag for tag in tags if tag)

    def query_value(self, name: str) -> str | None:
        """Return the last value of a parameter that can be decoded; nothing else is looked at.

        :raises QueryTooLong: 414
        """
        value = None
        for item in self._query_items():
            with suppress(ValueError):
                given, text = _pair(item)
                value = text if given == name else value
        return value

    def _query_items(self) -> list[str]:
        return self._items(self.environ.get("QUERY_STRING", ""))

    def _items(self, query: str) -> list[str]:
        limit = self.conf.placement.max_query_string_length
        if len(query) > limit:
            raise QueryTooLong(limit=limit)
        return [item for item in re.split("[&;]", query) if item]


def _pairs(items: list[str]) -> list[tuple[str, str]]:
    try:
        return [_pair(item) for item in items]
    except ValueError as error:
        raise InvalidQuery(detail=str(error)) from None


def _pair(item: str) -> tuple[str, str]:
    name, _, value = item.partition("=")
    return _decoded(name), _decoded(value)


def _decoded(text: str) -> str:
    """Undo the encoding of a form: ``+`` is a space, percent-decoding gives UTF-8.

    :raises ValueError: the bytes are no UTF-8, or hold the NUL that no database column takes.
    """
    raw = unquote_to_bytes(text.replace("+", " ").encode("latin-1"))
    if b"\0" in raw:
        raise ValueError("NUL characters are not allowed")
    return raw.decode("utf-8")


def _parse(body: bytes) -> Any:
    """Return the values of a JSON text (specification 01 section 7.3).

    orjson refuses what would hurt later: NaN, lone surrogates, invalid UTF-8, endless nesting.
    """
    try:
        values = orjson.loads(body)
        if LONG_NUMBER.search(body):
            values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(detail=str(error)) from None
    if b"\\u0000" in body and NUL_ESCAPE.search(body):
        raise MalformedBody(detail="NUL characters are not allowed")
    return values

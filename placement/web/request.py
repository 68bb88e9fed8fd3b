"""A request as handlers see it: version, caller, path variables, and validated input."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson
import webob
from oslo_config import cfg
from webob.multidict import MultiDict

from placement import errors
from placement.context import RequestContext
from placement.db.api import Database
from placement.web.microversion import MINIMUM, Version
from placement.web.validation import Schema

# orjson turns integers beyond 64 bits into floats; the json module keeps them exact.
LONG_NUMBER = re.compile(rb"[0-9]{19}")
NUL_ESCAPE = b"\\u0000"


class MalformedBody(errors.BadRequest):
    """The body is no JSON document."""

    text = "Malformed JSON: {detail}"


class InvalidBody(errors.BadRequest):
    """The body is JSON but not what the operation takes."""

    text = "JSON does not validate: {detail}"


class InvalidQuery(errors.BadRequest):
    """The query string cannot be decoded, or holds what the operation does not take."""

    text = "Invalid query string parameters: {detail}"


class BodyTooLarge(errors.PlacementError):
    """The body has more bytes than ``[placement]/max_request_body_size``."""

    status = 413
    text = "The request body is larger than {limit} bytes, the most this service takes."


class QueryTooLong(errors.PlacementError):
    """The query string has more characters than ``[placement]/max_query_string_length``."""

    status = 414
    text = "The query string is longer than {limit} characters, the most this service takes."


class Request(webob.BaseRequest):
    """One request, after authentication and microversion negotiation.

    ``path_args`` holds the variables of the route (``uuid``, ``resource_class``, ``name``,
    ``consumer_uuid``); a character that no name may contain arrives in them as ``?``.
    """

    version: Version = MINIMUM
    db: Database
    conf: cfg.ConfigOpts
    context: RequestContext
    path_args: dict[str, str]

    def read_json(self, schema: Schema) -> Any:
        """Return the body as Python values, valid under ``schema``.

        Integral floats (``10.0``, an integer to JSON Schema) stay floats.

        :raises MalformedBody: 400
        :raises InvalidBody: 400
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
        body = self.environ["wsgi.input"].read(length) if 0 < length <= limit + 1 else b""
        if length > limit and (announced or len(body) > limit):
            raise BodyTooLarge(limit=limit)
        return body

    def read_query(self, schema: Schema) -> MultiDict:
        """Return all parameters of the query string in order.

        The schema has seen an object of the last value of each name.

        :raises InvalidQuery: 400
        :raises QueryTooLong: 414
        """
        pairs = self._query_pairs()
        failure = schema.failure(dict(pairs))
        if failure is not None:
            raise InvalidQuery(detail=failure)
        return MultiDict(pairs)

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

    def _query_pairs(self) -> list[tuple[str, str]]:
        try:
            return [_pair(item) for item in self._query_items()]
        except ValueError as error:
            raise InvalidQuery(detail=str(error)) from None

    def _query_items(self) -> list[str]:
        query = self.environ.get("QUERY_STRING", "")
        limit = self.conf.placement.max_query_string_length
        if len(query) > limit:
            raise QueryTooLong(limit=limit)
        return [item for item in re.split("[&;]", query) if item]


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
    """Return the values of a JSON text (contract 01 section 7.3).

    orjson refuses what would hurt later: NaN, lone surrogates, invalid UTF-8, endless nesting.
    """
    try:
        values = orjson.loads(body)
        if LONG_NUMBER.search(body):
            values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedBody(detail=str(error)) from None
    if NUL_ESCAPE in body and _any_text(values, lambda text: "\0" in text):
        raise MalformedBody(detail="NUL characters are not allowed")
    return values


def _any_text(values: Any, holds: Callable[[str], bool]) -> bool:
    """Some string in the tree, member names included, satisfies ``holds``."""
    todo = [values]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            if holds(value):
                return True
        elif isinstance(value, dict):
            todo.extend(value)
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return False

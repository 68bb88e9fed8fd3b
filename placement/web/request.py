"""A request as handlers see it: version, caller, path variables, and validated input."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson
import webob
from oslo_config import cfg
from oslo_context.context import RequestContext
from webob.multidict import MultiDict

from placement import errors
from placement.db.database import Database
from placement.errors import BadRequest, MalformedRequest
from placement.objects import resource_provider
from placement.objects.picture import Picture
from placement.objects.trait import EveryTrait
from placement.web.microversion import MINIMUM, Version
from placement.web.near_names import find_near
from placement.web.validation import Failure, Schema

# orjson turns integers beyond 64 bits into floats; the json module keeps them exact.
LONG_NUMBER = re.compile(rb"[0-9]{19}")
# After an even number of backslashes, "u0000" is plain text.
NUL_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


LARGE_BYTES = 100_000
"""The size from which on a body is not judged as a whole (:meth:`Schema.failure`)."""


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


class QueryNotPassedOn(errors.PlacementError):
    """The web server has dropped the query string, as uWSGI does if it does not fit its buffer."""

    reason = "query_too_long"
    status = 414
    text = "The query string is longer than the web server passes on."


class Request(webob.BaseRequest):
    """One request, after authentication and negotiation; ``path_args``: the variables of the route."""

    version: Version = MINIMUM
    db: Database
    picture: Picture
    traits: EveryTrait
    conf: cfg.ConfigOpts
    context: RequestContext
    begun: Mapping[str, Any]
    """The objects that the extensions have made for this application, by name."""
    route: str = ""
    """The template of the path, as the URL page has it."""
    authorize: Callable[[str], None]
    """A function that refuses a caller whom a further rule, named without ``placement:``, does not admit
    (403).
    """
    path_args: dict[str, str]
    _body: bytes | None = None

    def read_json(self, schema: Schema) -> Any:
        """Return the body as Python values, valid under ``schema``; 10.0 counts as an integer."""
        text = self.read_body()
        body = _parse(text)
        if failure := schema.failure(body, is_large=len(text) > LARGE_BYTES):
            place = {"field": failure.field, "keyword": failure.keyword}
            raise MalformedRequest.for_rule("body", detail=failure, **place)
        return body

    def read_provider_body(self, schema: Schema) -> Any:
        """Return a valid body about a provider; a missing provider is reported before a bad body."""
        try:
            return self.read_json(schema)
        except BadRequest:
            resource_provider.show(self.db, self.path_args["uuid"])
            raise

    def read_body(self) -> bytes:
        """Return the bytes of the body, within the announced and allowed length; also a second time."""
        if self._body is not None:
            return self._body
        limit = self.conf.placement.max_request_body_size
        announced = self.environ.get("CONTENT_LENGTH")
        if announced:
            length = int(announced)
        elif self.environ.get("wsgi.input_terminated"):
            # A chunked body has an unknown length: reading one byte more than allowed reveals a body that is
            # too long.
            length = limit + 1
        elif self.environ.get("HTTP_TRANSFER_ENCODING"):
            # uWSGI passes on no chunks by itself.
            detail = "the server passes on no body without a content-length"
            raise MalformedRequest.for_rule("incomplete", detail=detail)
        else:
            length = 0
        body = self._read(length) if 0 < length <= limit + 1 else b""
        if length > limit and (announced or len(body) > limit):
            raise BodyTooLarge(limit=limit)
        if announced and len(body) < length:
            raise MalformedRequest.for_rule("incomplete", detail=f"{len(body)} of {length} bytes")
        self._body = body
        return body

    def _read(self, length: int) -> bytes:
        try:
            body: bytes = self.environ["wsgi.input"].read(length)
        except Exception as error:
            # uWSGI and mod_wsgi pass the body on while it arrives and raise OSError; gunicorn has its own
            # errors for a malformed chunk.
            raise MalformedRequest.for_rule("incomplete", detail=str(error)) from None
        return body

    def read_query(self, schema: Schema, text: str | None = None) -> MultiDict:
        """Return all parameters of the query string, or of one in a body, in order.

        The schema has checked an object with the last value of each name.
        """
        items = self._split_query(text)
        try:
            pairs = [_split_pair(item) for item in items]
        except ValueError as error:
            raise MalformedRequest.for_rule("query", detail=str(error)) from None
        self.check_query(schema, dict(pairs))
        return MultiDict(pairs)

    def read_query_once(self, schema: Schema) -> MultiDict:
        """Return all parameters of a query string, each at most once.

        :raises MalformedRequest: a parameter is repeated.
        """
        given = self.read_query(schema)
        refuse_repeated(given, given)
        return given

    def check_query(self, schema: Schema, values: Mapping[str, str]) -> None:
        """Refuse values of a query that are not valid under ``schema``."""
        if failure := schema.failure(dict(values)):
            field = failure.field.removeprefix("/") if failure.field else None
            unknown = self._find_unknown(schema, failure, values)
            if failure.keyword == "additionalProperties" or unknown is not None:
                name = unknown if unknown is not None else field or ""
                raise self._refuse_parameter(schema, failure, name)
            raise MalformedRequest.for_rule("query", detail=failure, field=field, keyword=failure.keyword)

    def _find_unknown(
        self, schema: Schema, failure: Failure, values: Mapping[str, str]
    ) -> str | None:
        """Return a parameter that does not exist where one is missing: it may be that one, misspelt.

        Elsewhere the service answers as OpenStack Placement does: what is missing is refused first.
        """
        if failure.keyword != "required" or not self.route.startswith("/-/"):
            return None
        return next((name for name in values if name not in schema.list_members()), None)

    def _refuse_parameter(self, schema: Schema, failure: Failure, name: str) -> MalformedRequest:
        """Return the error about a parameter that the schema does not know."""
        known = schema.list_members()
        detail: str = failure
        # Other routes use the words of the OpenStack service.
        if self.route.startswith("/-/"):
            there_are = f"There are: {', '.join(known)}" if known else "There are none"
            detail = f"there is no parameter {name!r}. {there_are}"
        refused = MalformedRequest.for_rule(
            "parameter", detail=detail, field=name, keyword="additionalProperties"
        )
        vars(refused)["near"] = find_near(name, known)
        return refused

    def known_tags(self) -> frozenset[str]:
        """Return the tags of ``If-None-Match``, without quotes and marks of weakness."""
        header = self.environ.get("HTTP_IF_NONE_MATCH", "")
        tags = (item.strip().removeprefix("W/").strip('"') for item in header.split(","))
        return frozenset(tag for tag in tags if tag)

    def query_value(self, name: str) -> str | None:
        """Return the last value of a parameter that can be decoded; nothing else is checked."""
        value = None
        for item in self._split_query():
            with suppress(ValueError):
                given, text = _split_pair(item)
                value = text if given == name else value
        return value

    def _split_query(self, text: str | None = None) -> list[str]:
        query = self.environ.get("QUERY_STRING", "") if text is None else text
        limit = self.conf.placement.max_query_string_length
        if len(query) > limit:
            raise QueryTooLong(limit=limit)
        if text is None and not query and self.environ.get("REQUEST_URI", "").partition("?")[2]:
            raise QueryNotPassedOn()
        return [item for item in re.split("[&;]", query) if item]


def refuse_repeated(given: MultiDict, names: Collection[str]) -> None:
    """Refuse a query that repeats one of these parameters, since the value would be ambiguous.

    :raises MalformedRequest:

    a parameter is repeated
    """
    for name in given:
        if name in names and len(given.getall(name)) > 1:
            raise MalformedRequest.for_rule("query", detail=f"'{name}' is given twice", field=name)


def _split_pair(item: str) -> tuple[str, str]:
    name, _, value = item.partition("=")
    return _decode(name), _decode(value)


def _decode(text: str) -> str:
    """Undo the encoding of a form: ``+`` is a space, percent-decoding gives UTF-8.

    :raises ValueError: the bytes are not UTF-8, or contain a NUL, which no database column accepts.
    """
    raw = unquote_to_bytes(text.replace("+", " ").encode("latin-1"))
    if b"\0" in raw:
        raise ValueError("NUL characters are not allowed")
    return raw.decode("utf-8")


def _parse(body: bytes) -> Any:
    """Return the values of a JSON text (specification 01 section 7.3)."""
    try:
        values = orjson.loads(body)
        if LONG_NUMBER.search(body):
            values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest.for_rule("json", detail=str(error)) from None
    if b"\\u0000" in body and NUL_ESCAPE.search(body):
        raise MalformedRequest.for_rule("json", detail="NUL characters are not allowed")
    return values

"""Specification 01 sections 7.3 and 8.3, and the bounds: what handlers read."""

import io
from typing import Any

import pytest
from oslo_config import cfg

from placement.errors import MalformedRequest
from placement.web.request import BodyTooLarge, QueryNotPassedOn, QueryTooLong, Request
from placement.web.validation import Schema
from tests.support.service import configure

ANY = Schema({})
QUERY = Schema(
    {"properties": {"a": {"pattern": "^[a-z ü]*$"}, "b": {}}, "additionalProperties": False}
)


@pytest.fixture(scope="module")
def conf() -> cfg.ConfigOpts:
    return configure(placement__max_request_body_size=2000, placement__max_query_string_length=1024)


def request(conf: cfg.ConfigOpts, body: bytes = b"", **environ: Any) -> Request:
    made = Request(
        {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body), "QUERY_STRING": ""}
        | environ
    )
    made.conf = conf
    return made


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} x",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b'{"a": NaN, "b": 12345678901234567890123}',
        b"'a'",
        b'"\\ud800"',
        b'{"a": "x\\u0000"}',
        b'{"\\u0000": 1}',
        b'{"a": "\\\\\\u0000"}',
        b"[" * 1900,
        b"[" * 900 + b"]" * 900 + b"]",
        '"ü"'.encode("utf-16"),
    ],
)
def test_malformed_bodies(conf: cfg.ConfigOpts, body: bytes) -> None:
    with pytest.raises(MalformedRequest, match=r"^Malformed JSON: "):
        request(conf, body).read_json(ANY)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"10.0", 10.0),
        (b"12345678901234567890123", 12345678901234567890123),
        (b"-12345678901234567890123", -12345678901234567890123),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"\\\\\\\\u0000"', "\\\\u0000"),
        ('"ü\\u00fc\U0001f434"'.encode(), "üü\U0001f434"),
    ],
)
def test_bodies(conf: cfg.ConfigOpts, body: bytes, values: Any) -> None:
    assert request(conf, body).read_json(ANY) == values


def test_numbers_of_thousands_of_digits_are_malformed(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(MalformedRequest):
        big = configure(placement__max_request_body_size=10000)
        request(big, b"9" * 9000).read_json(ANY)


def test_numbers_beyond_floats_are_no_integers(conf: cfg.ConfigOpts) -> None:
    """Whatever the parser makes of them, nothing infinite reaches a handler as an integer."""
    with pytest.raises(MalformedRequest):
        request(conf, b"1e999").read_json(Schema({"type": "integer"}))


def test_body_that_does_not_validate(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(
        MalformedRequest, match=r"^JSON does not validate: 1 is not of type 'string'"
    ):
        request(conf, b"1").read_json(Schema({"type": "string"}))


@pytest.mark.parametrize("size", [2001, 10**9])
def test_announced_body_beyond_the_bound_is_not_read(conf: cfg.ConfigOpts, size: int) -> None:
    unread = io.BytesIO(b"x" * 4000)
    with pytest.raises(BodyTooLarge, match="2000"):
        request(conf, CONTENT_LENGTH=str(size), **{"wsgi.input": unread}).read_json(ANY)
    assert unread.tell() <= 2001


def test_chunked_body(conf: cfg.ConfigOpts) -> None:
    chunked = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    assert request(conf, b"[1]", **chunked).read_json(ANY) == [1]
    with pytest.raises(BodyTooLarge):
        request(conf, b"1" * 2001, **chunked).read_json(ANY)


def test_chunks_that_the_server_does_not_pass_on_are_named(conf: cfg.ConfigOpts) -> None:
    """uWSGI leaves them to the application; the body seemed to be empty."""
    chunked = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    with pytest.raises(MalformedRequest, match="no body without a content-length"):
        request(conf, b"", **chunked).read_json(ANY)


def test_body_as_long_as_the_bound(conf: cfg.ConfigOpts) -> None:
    assert request(conf, b'"' + b"x" * 1998 + b'"').read_json(ANY) == "x" * 1998


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        ("", []),
        ("a=1&a=x", [("a", "1"), ("a", "x")]),
        ("a=x;b=y", [("a", "x"), ("b", "y")]),
        ("a=x+y%20z", [("a", "x y z")]),
        ("a=%C3%BC", [("a", "ü")]),
        ("a=\xc3\xbc", [("a", "ü")]),
        ("a", [("a", "")]),
        ("&&a=&", [("a", "")]),
        ("b=1%2B1&b=%26", [("b", "1+1"), ("b", "&")]),
        ("b=a=b", [("b", "a=b")]),
        ("b=%zz", [("b", "%zz")]),
    ],
)
def test_queries(conf: cfg.ConfigOpts, query: str, pairs: list[tuple[str, str]]) -> None:
    assert list(request(conf, QUERY_STRING=query).read_query(QUERY).items()) == pairs


@pytest.mark.parametrize("query", ["a=%ff", "%ff=a", "a=\xff", "a=%00", "a=X", "c=1", "=1", "A=a"])
def test_invalid_queries(conf: cfg.ConfigOpts, query: str) -> None:
    with pytest.raises(MalformedRequest, match=r"^Invalid query string parameters: "):
        request(conf, QUERY_STRING=query).read_query(QUERY)


def test_earlier_values_of_a_name_are_not_validated(conf: cfg.ConfigOpts) -> None:
    values = request(conf, QUERY_STRING="a=X&a=x").read_query(QUERY)
    assert values.getall("a") == ["X", "x"]


def test_long_queries_are_refused(conf: cfg.ConfigOpts) -> None:
    request(conf, QUERY_STRING="a=" + "x" * 1022).read_query(QUERY)
    with pytest.raises(QueryTooLong, match="1024"):
        request(conf, QUERY_STRING="a=" + "x" * 1023).read_query(QUERY)


@pytest.mark.parametrize("error", [OSError("client closed connection"), TimeoutError("silent")])
def test_body_that_breaks_off_names_it(conf: cfg.ConfigOpts, error: OSError) -> None:
    """What uWSGI and mod_wsgi raise."""

    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise error

    sent = request(conf, b"", **{"wsgi.input": Broken(), "CONTENT_LENGTH": "10"})
    with pytest.raises(MalformedRequest, match=f"did not arrive whole: {error}"):
        sent.read_body()


def test_body_that_is_shorter_than_announced(conf: cfg.ConfigOpts) -> None:
    """Also where what came is a document of its own."""
    with pytest.raises(MalformedRequest, match="2 of 10 bytes"):
        request(conf, b"{}", CONTENT_LENGTH="10").read_body()


def test_a_query_that_the_server_has_dropped_is_refused(conf: cfg.ConfigOpts) -> None:
    """Without it the answer would be that of another question."""
    dropped = request(conf, REQUEST_URI="/traits?name=in:A,B")
    for read in (lambda: dropped.read_query(QUERY), lambda: dropped.query_value("a")):
        with pytest.raises(QueryNotPassedOn):
            read()


@pytest.mark.parametrize("uri", ["/traits", "/traits?", "", "/traits%3Fname"])
def test_an_empty_query_is_none(conf: cfg.ConfigOpts, uri: str) -> None:
    assert not request(conf, REQUEST_URI=uri).read_query(QUERY)

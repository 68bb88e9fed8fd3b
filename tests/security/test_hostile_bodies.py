"""Every request under ``/-/`` with something odd in every place: a wrong type, too much, too deep.

The requests are those of the URL page, and what fits them is what the OpenAPI document says. Each place is
tried in a body that is taken otherwise, if there is one.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from placement.db import invariants
from tests.security.test_bounds import nested, send
from tests.security.test_http_fuzz import ODD, check
from tests.support.described import (
    REQUESTS,
    SOMEBODY,
    Described,
    places,
    renamed,
    replaced,
    variants,
    without,
)
from tests.support.service import Service, running
from tests.support.world import World

TEXTS = [*ODD, "\ud800", "x" * 256, "..", "a/b", "a\r\nb: c", SOMEBODY.upper(), "resources=VCPU:0"]
NUMBERS = [0, -1, 86_401, 2**31, 2**64, 10**400, 1.5, 1e300, True]
TREES: list[Any] = [
    None,
    [],
    {},
    [[]],
    [None],
    {"": {}},
    [{}] * 1001,
    dict.fromkeys(map(str, range(1001))),
]
NAMES = ["", "\0", "\ud800", "x" * 256, "a"]
"""Of members."""
VALUES = [*TEXTS, *NUMBERS, *TREES]
SEGMENTS = [*TEXTS, "%", "%00", "\x7f", SOMEBODY, "x" * 60_000]
LONGEST = 20_000
"""Bytes of an answer to what is odd and small."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A host, of which the requests name the uuid."""
    with running(insight__enabled=True) as made:
        World(made).host(SOMEBODY, VCPU=10**6)
        yield made


def taking(service: Service, request: Described, body: Any, context: object) -> bool:
    """Send a body, or text; see that the answer is a proper one, and say whether it was taken."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    path = request.template.replace("{consumer_uuid}", SOMEBODY)
    response = send(service, request.method, path, data)
    if response.status_int != 413:
        check(response, (str(request), context))
    assert len(response.body) < LONGEST
    if response.status_int < 400:
        service.request("DELETE", f"/allocations/{SOMEBODY}")
    return response.status_int < 400


@pytest.mark.parametrize("request_", [each for each in REQUESTS if each.body], ids=str)
def test_every_place_of_a_body(service: Service, request_: Described) -> None:
    """Each value in each place, each member under each name, twice, and left out."""
    assert request_.body is not None
    whole = variants(request_.body)
    fewer = [without(body, place) for body in whole for place in places(body) if place]
    taken = [body for body in [*whole, *fewer] if taking(service, request_, body, body)]
    tried = set()
    for body in [*taken, *whole]:
        for place in places(body):
            schema = tuple(step if isinstance(step, str) else "item" for step in place)
            if schema in tried:
                continue
            tried.add(schema)
            for odd in VALUES:
                taking(service, request_, replaced(body, place, odd), (place, odd))
            for odd in NAMES if schema and schema[-1] != "item" else ():
                taking(service, request_, renamed(body, place, odd), (place, odd))
        doubled = json.dumps(body).replace("{", '{"claims": 1, "claims": 2, "query": 3, ')
        taking(service, request_, doubled.encode(), doubled)
    assert invariants.violations(service.db) == []


@pytest.mark.parametrize("request_", [each for each in REQUESTS if each.body], ids=str)
@pytest.mark.parametrize(
    "text",
    [
        nested(100_000, "[", "]"),
        b"9" * 2**20,
        b"NaN",
        b"1e999",
        b"{",
        b"",
        b"\0",
        b"\xff",
        b'"\\ud800"',
        b" " * (2**23 + 1),
    ],
    ids=range(10),
)
def test_what_is_no_body(service: Service, request_: Described, text: bytes) -> None:
    assert not taking(service, request_, text, text[:20])


@pytest.mark.parametrize("request_", [each for each in REQUESTS if not each.body], ids=str)
def test_every_parameter_and_variable(service: Service, request_: Described) -> None:
    """Each odd text for each of them, and a query of a name that nobody knows."""
    segments = SEGMENTS if request_.variables else [""]
    pairs = [("x", "1"), *((name, text) for name in request_.parameters for text in SEGMENTS)]
    queries = ["", *(f"{quote(n)}={quote(v.encode(errors='surrogatepass'))}" for n, v in pairs)]
    requests = [(segment, "") for segment in segments] + [(segments[0], query) for query in queries]
    for segment, query in requests:
        path = request_.template
        for variable in request_.variables:
            path = path.replace(variable, segment)
        raw = path.replace("?", "%3F").encode(errors="surrogatepass").decode("latin-1")
        response = send(service, request_.method, f"{raw}?{query}")
        assert response.status_int < 500, (raw, query)
        if response.status_int >= 400 and not request_.is_open:
            [error] = response.json["errors"]
            assert error["status"] == response.status_int
            assert len(response.body) < 130_000

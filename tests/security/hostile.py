"""Hostile requests, drawn by chance, as the bytes that go over the wire."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

from placement.routes import ROUTES
from tests.security.test_hostile_bodies import VALUES
from tests.security.test_http_fuzz import (
    ACCEPTS,
    MEMBERS,
    NAMES,
    NUMBERS,
    ODD,
    PARAMETERS,
    QUERY_VALUES,
    UUIDS,
)
from tests.support.described import REQUESTS, Described, places, replaced, variants

BESIDE = {(each.method, each.template): each for each in REQUESTS}
"""What is served under ``/-/``."""
EVERY = [
    *((method, path) for path in ROUTES if path not in ("", "/") for method in ROUTES[path]),
    *BESIDE,
]
METHODS = ("GET", "POST", "PUT", "DELETE")
ODD_METHODS = ("HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "PROPFIND", "X" * 300, "-")
ODD_PATHS = (
    "//", "/./", "/../", "/%2e%2e/", "/%00", "/%ff%fe", "/%0d%0aX:%20y", "/traits/", "/TRAITS", "*",
    "/resource_providers/%2F", "/;a=b", "/traits/CUSTOM_A%0a", "/" + "x" * 9000, "http://evil/traits",
)  # fmt: skip
VERSIONS = ("latest", *(f"1.{minor}" for minor in range(40)))
ODD_VERSIONS = ("1.40", "2.0", "LATEST", "1." + "9" * 4000, "-1.0", "pony", "1.39\t", "\xff")
ODD_HEADERS = (
    "X-Forwarded-Host: evil", "X-Forwarded-Prefix: /%0d%0a", "Forwarded: host=evil;proto=x", "Host: evil",
    "Content-Type: text/html", "Content-Encoding: gzip", "Range: bytes=0-1", "Upgrade: h2c",
    "X-HTTP-Method-Override: DELETE", "X-Original-URL: /reshaper", "Connection: Content-Length",
    "OpenStack-System-Scope: all", "X-Service-Roles: admin", "X-Identity-Status: Confirmed",
    "Expect: 100-continue", "Expect: x", "Cookie: a=b", "If-None-Match: *", "X: " + "y" * 9000, "X : y",
    "Transfer-Encoding: identity", "Accept-Encoding: x", "X-Openstack-Request-Id: req-x",
)  # fmt: skip
HIDDEN = b"DELETE %s/resource_providers/%s HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n\r\n"


@dataclass(frozen=True)
class Hostile:
    """One request.

    ``may_succeed``: its sender is somebody, and no rule of the policy file is in the way.
    ``whole``: it is a request to its end, so that an answer is due.
    """

    data: bytes
    may_succeed: bool
    whole: bool
    must_succeed: bool = False


class Attacker:
    """Draws requests; the same seed draws the same ones.

    :param prefix: the path under which the service is mounted.
    :param victim: uuid of a provider that no request names openly, and some hide a request for.
    :param closed: templates of routes that the policy file closes, with their methods.
    """

    def __init__(self, seed: int, prefix: str, victim: str, closed: set[tuple[str, str]]) -> None:
        self._random = Random(seed)
        self._prefix, self._victim, self._closed = prefix, victim, closed

    def draw(self) -> Hostile:
        """Return the next request; one in five is harmless, and notices what others have broken."""
        pick = self._random
        if pick.random() < 0.2:
            return self._harmless()
        method, template = pick.choice(EVERY)
        beside = BESIDE.get((method, template))
        if pick.random() < 0.3:
            method = pick.choice(METHODS + ODD_METHODS)
        path = self._prefix + self._filled(template)
        odd = pick.random() < 0.1
        if odd:
            path = self._prefix + pick.choice(ODD_PATHS)
        if pick.random() < 0.4:
            own = beside.parameters if beside else ()
            path += "?" + "&".join(self._parameter(own) for _ in range(pick.randint(1, 6)))
        admin = pick.random() < 0.8
        headers = ["Host: h", *self._identity(admin), *self._version()]
        if pick.random() < 0.3:
            headers.append("Accept: " + pick.choice(ACCEPTS))
        headers += pick.sample(ODD_HEADERS, pick.choice((0, 0, 0, 1, 2)))
        body = self._body(beside) if pick.random() < 0.7 else b""
        framing, sent, whole = self._framed(body)
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *headers, *framing, "Connection: close"])
        data = head.encode("latin-1", "replace") + b"\r\n\r\n" + sent
        # An odd path may be the root to a web server, which is open to all.
        is_open = odd or (beside is not None and beside.is_open)
        open_to_him = is_open or (admin and (method, template) not in self._closed)
        return Hostile(data, open_to_him, whole)

    def _harmless(self) -> Hostile:
        path = self._random.choice(
            ("/resource_classes", "/resource_providers", "/traits/HW_CPU_X86_VMX")
        )
        head = (
            f"GET {self._prefix}{path} HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n"
            "OpenStack-API-Version: placement latest\r\nConnection: close\r\n\r\n"
        )
        return Hostile(head.encode(), may_succeed=True, whole=True, must_succeed=True)

    def _filled(self, template: str) -> str:
        def value(variable: re.Match[str]) -> str:
            usual = UUIDS if variable[1].endswith("uuid") else NAMES
            return quote(self._random.choice(usual * 2 + ODD), safe="")

        return re.sub(r"{(\w+)[^}]*}", value, template)

    def _parameter(self, own: Sequence[str]) -> str:
        """Return a parameter, one of those that the request has half of the time."""
        name = self._random.choice([*own] if own and self._random.random() < 0.5 else PARAMETERS)
        value = self._random.choice(QUERY_VALUES + ODD)
        if self._random.random() < 0.8:
            return f"{quote(name)}={quote(value)}"
        return self._random.choice(("%", "%ff=1", "a=%00", "=", "&&", f"{name}=%zz", ";", "[]=1"))

    def _identity(self, admin: bool) -> list[str]:
        if admin:
            return ["X-Auth-Token: admin", "X-Roles: admin,service"]
        return self._random.choice(
            (
                [],
                ["X-Auth-Token: somebody"],
                ["X-Auth-Token: somebody", "X-Roles: member"],
                ["X-User-Id: admin", "X-Roles: admin"],
                ["X-Auth-Token: admin", "X-Roles: "],
                ["X-Auth-Token: admin", "OpenStack-System-Scope: all"],
                ["X_Auth_Token: admin"],
                ["Authorization: Basic YWRtaW46YWRtaW4="],
            )
        )

    def _version(self) -> list[str]:
        kind = self._random.random()
        one = (
            "latest"
            if kind < 0.3
            else self._random.choice(VERSIONS if kind < 0.95 else ODD_VERSIONS)
        )
        return [f"OpenStack-API-Version: placement {one}"]

    def _body(self, beside: Described | None) -> bytes:
        pick = self._random
        kind = pick.random()
        if beside is not None and beside.body is not None and pick.random() < 0.7:
            body = pick.choice(variants(beside.body))
            if kind < 0.7:
                body = replaced(body, pick.choice([*places(body)]), pick.choice(VALUES))
            return json.dumps(body).encode()
        if kind < 0.7:
            return json.dumps(self._tree(4)).encode()
        if kind < 0.8:
            return HIDDEN % (self._prefix.encode(), self._victim.encode())
        if kind < 0.9:
            elements = json.dumps([self._tree(1)] * pick.choice((1, 100, 3000)))
            return f'{{"{pick.choice(MEMBERS)}": {elements}}}'.encode()
        return pick.choice((b"[" * 5000, b"\xff\xfe" * 50, b'"\\u0000"', b"9" * 9000, b"{", b"\0"))

    def _tree(self, depth: int) -> Any:
        pick = self._random
        if depth == 0 or pick.random() < 0.3:
            return pick.choice(UUIDS + NAMES + ODD + NUMBERS)
        if pick.random() < 0.2:
            return [self._tree(depth - 1) for _ in range(pick.randint(0, 3))]
        names = pick.choices(MEMBERS * 3 + UUIDS + NAMES, k=pick.randint(0, 5))
        return {name: self._tree(depth - 1) for name in names}

    def _framed(self, body: bytes) -> tuple[list[str], bytes, bool]:
        """Return headers, what is sent after them, and whether the request has an end."""
        kind, length = self._random.random(), len(body)
        announced = [f"Content-Length: {length}"]
        typed = ["Content-Type: application/json"]
        if kind < 0.8:
            return typed + announced, body, True
        if kind < 0.85:
            chunk = f"{length:x}\r\n".encode() + body + b"\r\n" if body else b""
            return [*typed, "Transfer-Encoding: chunked"], chunk + b"0\r\n\r\n", True
        return self._random.choice(
            [
                (announced, body, True),
                ([*typed, f"Content-Length: {length + 100}"], body, False),
                ([*typed, *announced, "Transfer-Encoding: chunked"], b"0\r\n\r\n" + body, True),
                ([*typed, *announced, f"Content-Length: {length + 1}"], body + b"x", True),
                ([*typed, f"Content-Length: +{length}"], body, True),
                ([*typed, "Content-Length: -1"], body, True),
                ([*typed, "Content-Length: " + "9" * 5000], body, True),
                ([*typed, "Transfer-Encoding: chunked"], b"zz\r\n" + body, True),
                ([*typed, "Transfer-Encoding: xchunked"], body, True),
                ([*typed, "Transfer-Encoding: chunked"], b"5\r\n" + body, False),
            ]
        )

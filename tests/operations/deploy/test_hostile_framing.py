"""Headers that are too large or none, bodies in chunks and requests in one breath, to each web server.

Whatever the server makes of them: no answer is an error of the service, others are served, no log
holds a traceback, and the processes do not grow with what they are sent.
"""

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.operations.deploy.test_hostile_clients import check, connected, status
from tests.support import deployment
from tests.support.deployment import Site
from tests.support.effort import in_one_process
from tests.support.processes import public_folder

pytestmark = pytest.mark.deploy

GET = b"GET %s/traits HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n"
POST = (
    b"POST %s/resource_providers HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)
HEADERS = {
    "one of 70,000 bytes": b"X: " + b"y" * 70_000,
    "50 of 7,000 bytes": b"\r\n".join(b"X-%d: " % n + b"y" * 7000 for n in range(50)),
    "2,000 of them": b"\r\n".join(b"X-%d: y" % n for n in range(2000)),
    "no colon": b"X-Nothing",
    "a blank before the colon": b"X-Roles : admin",
    "folded": b"X: a\r\n b",
    "a NUL": b"X: a\0b",
    "a bare line feed": b"X: a\nX-Roles: admin",
    "a bare carriage return": b"X: a\rb",
    "no name": b": x",
    "not ASCII": b"X-\xff: \xfe",
    "two hosts": b"Host: other",
    "a name of 9,000 bytes": b"X" * 9000 + b": y",
}
CHUNKS = {
    "no number": b"zz\r\nabc\r\n0\r\n\r\n",
    "negative": b"-5\r\nabcde\r\n0\r\n\r\n",
    "beyond 64 bits": b"ffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "almost 64 bits": b"7fffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "longer than it says": b"2\r\nabcdef\r\n0\r\n\r\n",
    "empty line": b"\r\n\r\n",
    "an extension of 9,000 bytes": b"2;x=" + b"y" * 9000 + b"\r\n{}\r\n0\r\n\r\n",
    "3,000 of a byte": b"1\r\n \r\n" * 3000 + b"0\r\n\r\n",
    "a trailer": b"2\r\n{}\r\n0\r\nX-Roles: admin\r\n\r\n",
}
SAID_BY_APACHE = {("apache+uwsgi", "50 of 7,000 bytes")}
"""500 of mod_proxy_uwsgi itself: its protocol has room for 64 KiB of headers. The service never sees it."""

HIDDEN = b"DELETE %s/traits/CUSTOM_A HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n\r\n"
UNCLEAR = {
    "a length and chunks": b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
    "a length with a sign": b"Content-Length: +0\r\n\r\n",
    "a length below zero": b"Content-Length: -1\r\n\r\n",
    "a length beyond all numbers": b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n",
    "no coding": b"Transfer-Encoding: identity\r\n\r\n",
    "chunks in a number of its own": b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
}
CLAIMS = {
    "nothing": b"",
    "a user and roles": b"X-User-Id: admin\r\nX-Roles: admin\r\nX-Identity-Status: Confirmed\r\n",
    "a scope": b"OpenStack-System-Scope: all\r\nX-Service-Roles: admin\r\n",
    "a password": b"Authorization: Basic YWRtaW46YWRtaW4=\r\n",
    "a token by another name": b"X_Auth_Token: admin\r\n",
}
TAKES_UNDERSCORES = {("uwsgi", "a token by another name")}
"""By itself it takes them for dashes in names of headers: that is the token then. Front ends drop such."""
SERVERS_OWN = frozenset({501, 505})
"""What a web server says of a transfer coding or a version of HTTP that it does not know."""

GROWTH_KB = 96 * 1024
UPLOADS = 12
UPLOAD = 12 << 20
"""Bytes: more than ``max_request_body_size``."""


@pytest.fixture(scope="module", params=in_one_process("framing", *deployment.SERVERS))
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, Site, list[Path]]]:
    """Each server with the configuration that we ship, and the logs of the service."""
    with public_folder("placement-framing-") as folder:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        with deployment.serving(request.param, folder, environment) as (site, logs):
            yield request.param, site, logs


def answered(site: Site, data: bytes, end: bool = True) -> int:
    """Send it and return the status of the answer, 0 for none."""
    with connected(site) as connection:
        # Who has refused need not read on.
        with contextlib.suppress(OSError):
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
        return status(connection)


def test_headers(place: tuple[str, Site, list[Path]]) -> None:
    """Too many, too large, malformed: refused, overlooked, or the connection is closed."""
    server, site, logs = place
    for name, header in HEADERS.items():
        data = GET % site.prefix.encode() + header + b"\r\nConnection: close\r\n\r\n"
        found = answered(site, data)
        assert found < 500 or (server, name) in SAID_BY_APACHE, (name, found)
    check(site, logs)


def test_chunks(place: tuple[str, Site, list[Path]]) -> None:
    """A chunk that is none is the client's fault: 400, where the server hands it to the service."""
    server, site, logs = place
    found = {
        name: answered(site, POST % site.prefix.encode() + sent) for name, sent in CHUNKS.items()
    }

    wrong = {name: code for name, code in found.items() if code >= 500 and code not in SERVERS_OWN}
    assert not wrong
    assert not {code for code in found.values() if 200 <= code < 300}
    if server == "gunicorn":
        # It raises errors of its own while the service reads.
        assert found["no number"] == 400
    check(site, logs)


def test_no_request_hides_in_another(place: tuple[str, Site, list[Path]]) -> None:
    """Where it is unclear where a request ends, what follows it is no request."""
    _, site, logs = place
    assert site.send("PUT", "/traits/CUSTOM_A").status in (201, 204)
    head, hidden = (text % site.prefix.encode() for text in (POST.partition(b"Transfer")[0], HIDDEN))
    for name, framing in UNCLEAR.items():
        found = answered(site, head + b"Connection: close\r\n" + framing + hidden)
        assert found < 500 or found in SERVERS_OWN, (name, found)
        assert site.send("GET", "/traits/CUSTOM_A").status == 204, name
    check(site, logs)


def test_nobody_gets_in_without_a_token(place: tuple[str, Site, list[Path]]) -> None:
    """Whatever else a request claims to be of."""
    server, site, logs = place
    for name, claim in CLAIMS.items():
        request = GET.replace(b"X-Auth-Token: admin\r\n", claim) % site.prefix.encode()
        found = answered(site, request + b"Connection: close\r\n\r\n", end=False)
        assert found in (400, 401) or (server, name) in TAKES_UNDERSCORES, (name, found)
    check(site, logs)


def test_requests_in_one_breath(place: tuple[str, Site, list[Path]]) -> None:
    """Each is answered in its turn, or the connection ends; none is taken for a part of another."""
    _, site, logs = place
    good = GET % site.prefix.encode() + b"OpenStack-API-Version: placement 1.39\r\n"
    unknown = good.replace(b"/traits", b"/traits/CUSTOM_NOBODY")
    with connected(site) as connection:
        connection.sendall(good + b"\r\n" + unknown + b"\r\n" + good + b"Connection: close\r\n\r\n")
        found = list(_statuses(connection))
    assert found == [200, 404, 200][: len(found)]
    check(site, logs)


def _statuses(connection: socket.socket) -> Iterator[int]:
    """Yield the statuses of the answers on a connection until it ends.

    Who closes it while there is more to be read resets it, which may take answers along.
    """
    with contextlib.suppress(ConnectionResetError), connection.makefile("rb") as stream:
        while line := stream.readline():
            yield int(line.split()[1])
            headers = http.client.parse_headers(stream)
            if headers["Transfer-Encoding"] == "chunked":
                while size := int(stream.readline(), 16):
                    stream.read(size + 2)
                stream.readline()
            else:
                stream.read(int(headers["Content-Length"] or 0))


def test_uploads_without_a_length_do_not_fill_the_memory(
    place: tuple[str, Site, list[Path]], children: Callable[[int], list[int]]
) -> None:
    """More than ``max_request_body_size`` in chunks, a dozen times: nobody keeps it."""
    _, site, logs = place
    part = b"10000\r\n" + b" " * 65536 + b"\r\n"
    data = POST % site.prefix.encode() + part * (UPLOAD // 65536) + b"0\r\n\r\n"
    assert answered(site, data, end=False) not in range(500, 600)
    before = sum(map(resident_kb, children(site.master.pid)))
    for _ in range(UPLOADS):
        found = answered(site, data, end=False)
        assert found < 500, found
    grown = sum(map(resident_kb, children(site.master.pid))) - before

    print(f"{place[0]}: grown by {grown} kB after {UPLOADS} uploads of {UPLOAD >> 20} MiB")
    assert grown < GROWTH_KB
    check(site, logs)


@pytest.fixture
def children() -> Callable[[int], list[int]]:
    """Return what names a process and all below it."""

    def below(pid: int) -> list[int]:
        try:
            listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except FileNotFoundError:
            return []
        return [pid, *(each for child in listed for each in below(int(child)))]

    return below


def resident_kb(pid: int) -> int:
    """Return the resident memory of a process, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)

"""Bodies that stall, and bodies of requests that are refused, under each server that we name.

The answer comes before the rest of the body is read, and nothing waits for a rest without a bound of the
server's own.
"""

import contextlib
import http.client
import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.operations.deploy.test_hostile_clients import connected, status
from tests.operations.deploy.test_servers import mod_wsgi_site
from tests.support import deployment
from tests.support.deployment import Site
from tests.support.effort import in_one_process
from tests.support.processes import PATIENCE, public_folder

pytestmark = pytest.mark.deploy

AT_ONCE_S = 4 * PATIENCE
"""More than uWSGI waits for a rest (1 s), less than any server waits for a body."""

MARGIN_S = 20 * PATIENCE
TOKEN = b"X-Auth-Token: admin\r\n"
POST = b"POST %s%s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
STALLED = POST + b"%sContent-Length: 100\r\n\r\n{"
GET = b"GET %s/ HTTP/1.1\r\nHost: h\r\n\r\n"

Serve = Callable[[Path, dict[str, str]], contextlib.AbstractContextManager[Site]]


@dataclass(frozen=True)
class Server:
    """A server, and what it makes of a body that stalls.

    :param threads: requests that it serves at once.
    :param reads_first: it reads a body, or gives it up, before it answers.
    :param drains_s: how long it waits itself for the rest of a body, after the answer.
    :param gives_up_s: how long it waits for a body that the service reads; None: without end.
    :param given_up: what comes of such a request; 0 is a connection that is closed.
    """

    serve: Serve
    threads: int
    reads_first: bool = False
    drains_s: float = 0
    gives_up_s: float | None = None
    given_up: frozenset[int] = frozenset({0, 400, 408})


def library(name: str) -> Serve:
    """Return what serves with one of the servers that are libraries."""
    return lambda folder, environment: deployment.library(folder, environment, name)


def sync(folder: Path, environment: dict[str, str]) -> contextlib.AbstractContextManager[Site]:
    return deployment.gunicorn(
        folder, environment, http=True, worker_class="sync", threads=1, timeout=5
    )


def gthread(folder: Path, environment: dict[str, str]) -> contextlib.AbstractContextManager[Site]:
    return deployment.gunicorn(folder, environment, http=True, workers=1, threads=2)


def uwsgi(folder: Path, environment: dict[str, str]) -> contextlib.AbstractContextManager[Site]:
    return deployment.uwsgi(folder, environment, http=True, processes=1)


def mod_wsgi(folder: Path, environment: dict[str, str]) -> contextlib.AbstractContextManager[Site]:
    text = mod_wsgi_site(folder, processes=1)
    return deployment.apache(folder, environment, text, "wsgi", "alias", "reqtimeout")


def own(folder: Path, environment: dict[str, str]) -> contextlib.AbstractContextManager[Site]:
    return deployment.builtin(folder, environment, "--request-timeout", "5", "--threads", "2")


NAMED = {
    "uwsgi": Server(uwsgi, threads=16, drains_s=1, gives_up_s=10),
    # gunicorn ends a worker that is silent for [timeout], and says 500 for it.
    "gunicorn sync": Server(
        sync, threads=2, drains_s=2, gives_up_s=5, given_up=frozenset({0, 500})
    ),
    "gunicorn gthread": Server(gthread, threads=2, drains_s=5),
    "mod_wsgi": Server(mod_wsgi, threads=8, reads_first=True, drains_s=10, gives_up_s=10),
    "placement-api": Server(own, threads=2, reads_first=True, gives_up_s=5),
    "wsgiref": Server(library("wsgiref"), threads=1),
    "werkzeug": Server(library("werkzeug"), threads=1),
    # Reads a body of a known length before it sends headers, also that of a request that is refused.
    "cheroot": Server(library("cheroot"), threads=2, reads_first=True, drains_s=10, gives_up_s=10),
}


@pytest.fixture(scope="module", params=in_one_process("unread", *NAMED))
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Site]]:
    server = NAMED[request.param]
    with public_folder("placement-unread-") as folder:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        with server.serve(folder, environment) as site:
            yield server, site


def answered(connection: socket.socket, within_s: float) -> int:
    """Return the status of the answer, which begins to arrive in time."""
    assert select.select([connection], [], [], within_s)[0], f"no answer in {within_s} s"
    return status(connection)


def whole_answer(connection: socket.socket) -> tuple[int, bool]:
    """Read an answer to its end; return its status, and whether the connection is to stay open."""
    with contextlib.closing(http.client.HTTPResponse(connection)) as response:
        response.begin()
        response.read()
        return response.status, not response.will_close


@contextlib.contextmanager
def stalling(site: Site, count: int, token: bytes) -> Iterator[list[socket.socket]]:
    """Open that many connections, each of which has sent one byte of a hundred."""
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(connected(site)) for _ in range(count)]
        for connection in connections:
            connection.sendall(STALLED % (site.prefix.encode(), b"/resource_providers", token))
        yield connections


def check_others(site: Site, within_s: float) -> None:
    """A request without a body is served in time."""
    with connected(site) as connection:
        connection.sendall(GET % site.prefix.encode())
        assert answered(connection, within_s) == 200


def test_stalled_bodies_without_a_token(place: tuple[Server, Site]) -> None:
    """As many as the server has threads: refused at once, and the others are served."""
    server, site = place
    with stalling(site, server.threads, b"") as connections:
        if not server.reads_first:
            for connection in connections:
                # Its threads may be at the rests of the first of them.
                assert answered(connection, AT_ONCE_S + server.drains_s) == 401
        check_others(site, AT_ONCE_S + server.drains_s)
        for connection in connections if server.reads_first else []:
            assert server.gives_up_s
            assert answered(connection, server.gives_up_s + MARGIN_S) in server.given_up


def test_stalled_bodies_with_a_token(place: tuple[Server, Site]) -> None:
    """As many as the server has threads hold it for as long as docs/howto/deploy.rst says."""
    server, site = place
    with stalling(site, server.threads, TOKEN) as connections:
        if server.gives_up_s is None:
            assert not select.select(connections, [], [], AT_ONCE_S)[0]
        else:
            for connection in connections:
                assert answered(connection, server.gives_up_s + MARGIN_S) in server.given_up
            check_others(site, MARGIN_S)
    check_others(site, MARGIN_S)


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"%s" + CHUNKED + b"3e8\r\n%s\r\n" % (b" " * 1000) * 20 + b"0\r\n\r\n"
LENGTH = b"%sContent-Length: 20000\r\n\r\n" + b" " * 20_000


@pytest.mark.parametrize("body", [CHUNKS, LENGTH], ids=["chunks", "length"])
def test_a_body_that_was_not_read_is_not_the_next_request(
    place: tuple[Server, Site], body: bytes
) -> None:
    """The next one on the connection is answered, or the connection was closed."""
    _, site = place
    prefix = site.prefix.encode()
    for path, token, refused in (
        (b"/nothing", TOKEN, 404),
        (b"/traits", b"", 401),
        (b"/resource_providers", TOKEN, 400),
    ):
        with connected(site) as connection:
            connection.sendall(POST % (prefix, path) + body % token)
            found, stays_open = whole_answer(connection)
            # Apache wants a length of every body.
            assert found in {refused, 411}
            if stays_open:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(GET % prefix)
                    assert status(connection) in {200, 0}


def test_a_connection_goes_on_after_a_refusal(tmp_path: Path) -> None:
    """cheroot takes the rest of a body in chunks for the next request, unless the service reads it."""
    environment = deployment.prepare(tmp_path, f"sqlite:///{tmp_path}/placement.sqlite")
    with deployment.library(tmp_path, environment, "cheroot") as site:
        for token, path, refused in ((TOKEN, b"/nothing", 404), (b"", b"/traits", 401)):
            with connected(site) as connection:
                for _ in range(3):
                    connection.sendall(POST % (b"", path) + CHUNKS % token)
                    assert whole_answer(connection) == (refused, True)
                connection.sendall(GET % b"")
                assert status(connection) == 200
        with connected(site) as connection:
            connection.sendall(POST % (b"", b"/traits") + CHUNKED + b"no number\r\n")
            assert whole_answer(connection) == (401, True)
            # Where the next request begins is not known.
            assert answered(connection, AT_ONCE_S) == 0
        assert "Traceback" not in site.master.log.read_text()


REFUSALS = (
    (b"/nothing", TOKEN, 200_000, 404),
    (b"/resource_providers", b"", 200_000, 401),
    (b"/resource_providers", b"", 5_000_000, 401),
    (b"/resource_providers", TOKEN, 9_000_000, 413),
)


@pytest.mark.parametrize("name", ["uwsgi", "apache+uwsgi", "nginx+uwsgi", "nginx+gunicorn"])
def test_a_refusal_of_a_large_body_arrives(name: str) -> None:
    """uWSGI hangs up while it is still being sent: Apache would say 503 instead."""
    with public_folder("placement-unread-") as folder:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        with deployment.serving(name, folder, environment) as (site, _):
            for path, token, size, refused in REFUSALS * 5:
                announced = b"%sContent-Length: %d\r\n\r\n" % (token, size)
                with connected(site) as connection:
                    connection.sendall(POST % (site.prefix.encode(), path) + announced)
                    connection.sendall(b" " * size)
                    assert status(connection) == refused, (path, size)


@pytest.mark.parametrize("place", in_one_process("unread", "uwsgi"), indirect=True)
def test_what_uwsgi_reads_of_a_rest_is_bounded(place: tuple[Server, Site]) -> None:
    """In bytes, at twice the largest body, and in time, however steadily it trickles in."""
    _, site = place
    assert 16 << 20 <= taken(site, b" " * 65536, 0, most=64 << 20) < 64 << 20
    began = time.monotonic()
    taken(site, b" ", 0.2, most=1000)
    assert 8 < time.monotonic() - began < 12 + MARGIN_S


def taken(site: Site, piece: bytes, pause_s: float, most: int) -> int:
    """Return how much of an endless body can be sent after the answer, before the connection ends."""
    with connected(site) as connection:
        connection.sendall(POST % (b"", b"/traits") + b"Content-Length: 999999999999\r\n\r\n")
        assert status(connection) == 401
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < most and not select.select([connection], [], [], pause_s)[0]:
                connection.sendall(piece)
                sent += len(piece)
        return sent

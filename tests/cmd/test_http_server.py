"""Idle, trickling and odd connections to placement-api leave the others alone (PROMISE 9)."""

import contextlib
import select
import socket
from collections.abc import Iterator
from pathlib import Path

from tests.cmd.test_api import serving
from tests.support.client import Client
from tests.support.processes import ENDS_S

SLOW = 500
TRICKLE_S = 0.05
BEGUN = b"POST /resource_providers HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n"
WITH_BODY = BEGUN + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"


def read(port: int) -> int:
    """Send a request on a connection of its own and return the status."""
    return Client(port, kept=False).send("GET", "/traits/HW_CPU_X86_VMX").status


@contextlib.contextmanager
def clients(port: int, count: int, sent: list[bytes]) -> Iterator[list[socket.socket]]:
    """Open that many connections, each of which has sent the next of some beginnings."""
    with contextlib.ExitStack() as opened:
        connections = []
        for number in range(count):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), ENDS_S))
            connection.sendall(sent[number % len(sent)])
            connections.append(connection)
        yield connections


def test_reads_go_on_beside_five_hundred_slow_clients(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as server,
        clients(server.port, SLOW, [b"", b"GET", BEGUN, WITH_BODY]) as slow,
    ):
        for connection in slow:
            assert read(server.port) == 204
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"x")


def test_more_connections_than_allowed_take_the_place_of_the_slowest(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--connections", "20") as server,
        clients(server.port, 15, [b"", WITH_BODY]) as first,
        clients(server.port, 50, [b"", WITH_BODY]),
    ):
        assert read(server.port) == 204
        for connection in first:
            assert connection.recv(1) == b""


def test_a_request_that_trickles_in_is_given_up(tmp_path: Path) -> None:
    """However often something arrives."""
    with (
        serving(tmp_path, "--request-timeout", "1") as server,
        clients(server.port, 3, [BEGUN + b"X-Slow: ", WITH_BODY]) as slow,
    ):
        for connection in slow:
            sent = 0
            while not select.select([connection], [], [], TRICKLE_S)[0]:
                connection.sendall(b"x")
                sent += 1
                assert sent < ENDS_S / TRICKLE_S
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1) == b""
        assert read(server.port) == 204


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--idle-timeout", "1") as server,
        clients(server.port, 2, [b"", BEGUN]) as idle,
    ):
        for connection in idle:
            assert connection.recv(1) == b""


ODD_HEADERS = [
    (BEGUN + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    (BEGUN + b"Content-Length: -1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n", 200),
    (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n", 200),
    (BEGUN + b"Content-Length: +0\r\nExpect: 100-continue\r\n\r\n", 400),
    (BEGUN + b"Content-Length: 999999999\r\nExpect: 100-continue\r\n\r\n", 413),
    (BEGUN + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", 100),
]


def test_odd_headers_are_answered(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for sent, status in ODD_HEADERS:
            with clients(server.port, 1, [sent]) as [connection]:
                assert connection.recv(12) == f"HTTP/1.1 {status}".encode(), sent[:200]
